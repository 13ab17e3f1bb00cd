"""Whether the training loop provides what a strategy needs.

Without the loss weights, example weights, rewards or validation losses it needs, a strategy would keep the data
proportions and nobody would notice. So every balancer notes which of them the loop uses, and raises `UnservedError` if
one is missing. `watch` adds this to the methods of every class of balancers, whether or not they call the base class.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shortened
from typing import Any, Literal, get_args

from evenglot.balance.description import Needs, Split
from evenglot.balance.saved import SavedState
from evenglot.robust.validate import OptionError

Service = Literal["loss_weights", "example_weights", "gradients", "validation_losses", "pairs_drawn"]  # as in `Needs`

PATIENCE = 100  # number of observed steps by which every need of a step must have been served

HOW_TO: Mapping[Service, str] = {
    "loss_weights": "balancer.mixture.loss was never read; in every step, multiply the token losses of each group by "
    "it: `loss = sum(balancer.mixture.loss[group] * loss_sums[group] for group in loss_sums) / tokens`",
    "example_weights": "balancer.example_weights was never called; in every step, minimize the weighted losses of the "
    "examples: `loss = (weights * losses).sum()`, with `weights = balancer.example_weights(losses, groups)`",
    "gradients": "balancer.reward was never called; after the first step and then every balancer.needs.gradients.every "
    "steps, compare gradients (GradientProbe): `balancer.reward(mean_cosines)`",
    "validation_losses": "no validation losses were observed; before every update, validate: "
    '`balancer.observe(loss_sums, counts, split="valid")`',
    "pairs_drawn": "the number of sentence pairs drawn in the interval is unknown; give it for each group: "
    "`balancer.update(drawn)`, with `drawn` such as {'aze-en': 120, 'tur-en': 1080}, or, if every interval is one pass "
    'over the data, `balancer.serves("pairs_drawn")`',
}


class UnservedError(ValueError):
    """The training loop does not provide what the strategy needs: `missing` are the names in `Needs`."""

    def __init__(self, strategy: str, missing: Sequence[Service]) -> None:
        super().__init__(strategy, missing)  # both, so that it can be pickled
        self.strategy, self.missing = strategy, tuple(missing)

    def __str__(self) -> str:
        told = "; ".join(HOW_TO[name] for name in self.missing)
        declare = ", ".join(f'"{name}"' for name in self.missing)
        return f"{self.strategy}: {told}. If the loop does so later, declare it: `balancer.serves({declare})`"


@dataclass
class Services:
    """What the loop has used or declared, and the number of observed training steps."""

    used: set[str] = field(default_factory=set)
    steps: int = 0

    def declare(self, names: Sequence[str]) -> None:
        """Count these as used."""
        for name in names:
            if name not in get_args(Service):
                raise OptionError("serves", f"expected {', '.join(get_args(Service))}, got {name!r}")
        self.used.update(names)

    def check_update(self, strategy: str, needs: Needs, is_drawn_known: bool = False) -> None:
        """Raise if a need is unserved at the end of an interval; the pairs drawn are needed in each."""
        names: tuple[Service, ...] = get_args(Service)
        self._check(strategy, needs, [name for name in names if not (name == "pairs_drawn" and is_drawn_known)])

    def check_step(self, strategy: str, needs: Needs) -> None:
        """Raise if a need of every step is unserved in step `PATIENCE`. Validation may wait until the interval ends."""
        if self.steps + 1 >= PATIENCE:
            self._check(strategy, needs, ("loss_weights", "example_weights", "gradients"))

    def _check(self, strategy: str, needs: Needs, names: Sequence[Service]) -> None:
        missing = [name for name in names if getattr(needs, name) and name not in self.used]
        if missing:
            raise UnservedError(strategy, missing)

    def state(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"used": sorted(self.used), "steps": self.steps}

    @staticmethod
    def of_state(state: SavedState | None) -> Services:
        """Restore; a state of an earlier version has none, and its loop is trusted."""
        if state is None:
            return Services(set(get_args(Service)))
        used, known = state["used"], get_args(Service)
        if not isinstance(used, list) or not all(name in known for name in used):
            raise OptionError("state: services: used", f"expected some of {', '.join(known)}; got {shortened(used)}")
        return Services(set(used), state.count("steps"))


# ------------------------------------------------------------------------------------------------------- noting use


def watch(cls: type) -> None:
    """Let the methods that this class of balancers defines itself note their use."""
    for name, noting in _NOTING.items():
        if name in vars(cls):
            setattr(cls, name, noting(vars(cls)[name]))


def _update(method: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(method)
    def noted(self: Any, drawn: Mapping[str, float] | None = None) -> bool:
        if type(self).update is noted:  # not if called by the method of a subclass, which has checked already
            self.services.check_update(self.strategy, self.needs, is_drawn_known=drawn is not None)
        return method(self, drawn)

    return noted


def _observe(method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(method)
    def noted(self: Any, loss_sums: Any, counts: Any, split: Split = "train") -> None:
        is_outermost = type(self).observe is noted
        if is_outermost and split == "train":
            self.services.check_step(self.strategy, self.needs)
        method(self, loss_sums, counts, split)
        if split == "valid":
            self.services.used.add("validation_losses")
        elif is_outermost:
            self.services.steps += 1

    return noted


def _call(service: Service) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def noted(self: Any, *args: Any, **options: Any) -> Any:
            result = method(self, *args, **options)
            self.services.used.add(service)
            return result

        return noted

    return noting


def _mixture(method: property) -> property:
    getter = method.fget
    assert getter is not None

    @functools.wraps(getter)
    def noted(self: Any) -> Any:
        return getter(self).noting(self.services)

    return property(noted)


_NOTING: Mapping[str, Callable[[Any], Any]] = {
    "mixture": _mixture,
    "observe": _observe,
    "reward": _call("gradients"),
    "example_weights": _call("example_weights"),
    "update": _update,
}
