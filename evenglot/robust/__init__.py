"""The mathematics of worst cases: uncertainty sets over groups, and weights inside a batch. NumPy only."""

from evenglot.robust.batch import chi_square_weights, cvar_weights, penalised_chi_square_weights
from evenglot.robust.sets import ChiSquareBall, CVaR, KLBall, Simplex, Singleton, UncertaintySet

__all__ = [
    "CVaR",
    "ChiSquareBall",
    "KLBall",
    "Simplex",
    "Singleton",
    "UncertaintySet",
    "chi_square_weights",
    "cvar_weights",
    "penalised_chi_square_weights",
]
