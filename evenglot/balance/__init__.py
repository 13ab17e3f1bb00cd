"""Balancing strategies: compute the next mixture from observed losses. One interface for all; NumPy only."""

from evenglot.balance.balancer import Balancer, Mixture
from evenglot.balance.baseline import ideal, load_baseline, mean_losses, save_baseline
from evenglot.balance.catalogue import (
    STRATEGIES,
    Strategy,
    check_mixture,
    check_options,
    create,
    describe,
    describe_settings,
    keep_mixture,
)
from evenglot.balance.description import Description, GradientProbe, Needs, Sampling, Signal, Split
from evenglot.balance.groups import Groups
from evenglot.balance.interval_strategies import FAINT_TAU, PRESETS, Preset
from evenglot.balance.planned import passes_of_run
from evenglot.balance.services import UnservedError
from evenglot.robust.validate import OptionError

__all__ = [
    "FAINT_TAU",
    "PRESETS",
    "STRATEGIES",
    "Balancer",
    "Description",
    "GradientProbe",
    "Groups",
    "Mixture",
    "Needs",
    "OptionError",
    "Preset",
    "Sampling",
    "Signal",
    "Split",
    "Strategy",
    "UnservedError",
    "check_mixture",
    "check_options",
    "create",
    "describe",
    "describe_settings",
    "ideal",
    "keep_mixture",
    "load_baseline",
    "mean_losses",
    "passes_of_run",
    "save_baseline",
]
