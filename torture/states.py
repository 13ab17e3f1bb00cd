"""Saved states of every strategy, changed at random: refused with a ValueError, or as good as the original."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from evenglot.balance import Balancer, create
from torture.mutations import Mutation, mutated

SIZES = {"aze-en": 5_946, "bel-en": 4_509, "nul-en": 0, "por-en": 184_755, "tur-en": 182_470}
TOKENS = {"aze-en": 70_000, "bel-en": 60_000, "nul-en": 0, "por-en": 2_000_000, "tur-en": 2_500_000}
BASELINE = {"aze-en": 2.1, "bel-en": 2.3, "nul-en": 0.0, "por-en": 1.2, "tur-en": 1.3}
CASES: dict[str, dict[str, object]] = {
    "proportional": {},
    "temperature": {"tau": 5},
    "uniform": {},
    "mix": {"alpha": 0.5},
    "fade": {},
    "unimax": {"passes": 20},
    "schedule": {"points": {0: "tau:5", 3: "data"}, "interpolate": True},
    "chi-ibr": {"baseline": BASELINE},
    "chi-ibr ema": {"preset": "paper", "rho": 0.05, "estimator": "ema", "start": "bias-corrected"},
    "chi-ibr capped": {"rho": 0.3, "max_passes": 50, "intervals": 9, "max_ratio": 8, "estimator": "token-ema"},
    "chi-ibr tokens": {"rho": 0.3, "p_unit": "tokens", "estimator": "interval-mean", "noise": "ignore"},
    "cvar-ibr": {"alpha": 0.3},
    "group-dro": {"smoothing": 0.5},
    "chi-pd": {},
    "cvar-pd": {},
    "fastdro": {},
    "multidds": {"adam_steps": 3},
}


def balancer_of(case: str) -> Balancer:
    """A new balancer."""
    return create(case.partition(" ")[0], sizes=SIZES, tokens=TOKENS, **CASES[case])


def work(balancer: Balancer, steps: int = 4) -> None:
    """Train for two intervals with plausible losses."""
    balancer.serves("loss_weights", "example_weights", "gradients", "validation_losses", "pairs_drawn")
    chance = np.random.default_rng(0)
    names = [name for name, size in SIZES.items() if size]
    for _ in range(2):
        for _ in range(steps):
            counts = {name: int(chance.integers(0, 50)) for name in names}
            balancer.observe({name: count * chance.uniform(1, 4) for name, count in counts.items()}, counts)
        balancer.reward({name: chance.uniform(-0.2, 1) for name in names})
        balancer.example_weights(chance.uniform(1, 4, 6), [str(name) for name in chance.choice(names, 6)])
        balancer.update()


def fault(make: Callable[[], Balancer], state: object, mutations: Iterable[Mutation]) -> tuple[str | None, str]:
    """What a changed state does that it must not (None: nothing), and whether it was refused or accepted."""
    balancer = make()
    before = balancer.state_dict()
    changed = mutated(state, mutations)
    try:
        balancer.load_state_dict(changed)
    except ValueError:
        return (None if balancer.state_dict() == before else "was refused, but changed the balancer"), "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}", "failed"
    if not is_distribution(balancer):
        return "was accepted with a mixture that is no distribution", "accepted"
    try:
        with np.errstate(all="raise", under="ignore"):
            work(balancer)
    except Exception as error:
        return f"was accepted, and then {type(error).__name__}: {error}", "accepted"
    return (None if is_distribution(balancer) else "led to a mixture that is no distribution"), "accepted"


def is_distribution(balancer: Balancer) -> bool:
    """Are q and the sampling shares distributions, with nothing for groups without data?"""
    return all(
        shares.keys() == SIZES.keys()
        and all(share >= 0 for share in shares.values())
        and shares["nul-en"] == 0
        and math.isclose(sum(shares.values()), 1, rel_tol=1e-6)
        for shares in (balancer.q, balancer.mixture.sample)
    )
