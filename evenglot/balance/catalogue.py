"""The catalogue of strategies: names, options and builders. The only module that selects a strategy by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from evenglot.balance.balancer import Balancer
from evenglot.balance.description import Describe, Description, fixed_mixture
from evenglot.balance.examples import FastDRO, describe_fastdro
from evenglot.balance.fading import Fading, describe_fade
from evenglot.balance.gradient import MultiDDS, describe_multidds
from evenglot.balance.groups import Groups, Unit
from evenglot.balance.interval_strategies import chi_ibr, cvar_ibr, describe_chi_ibr
from evenglot.balance.loss_driven import every_interval, every_step
from evenglot.balance.options import Option
from evenglot.balance.static import (
    MixtureSpec,
    Schedule,
    describe_schedule,
    describe_temperature,
    mix,
    mixture_of,
    temperature,
    unimax,
)
from evenglot.balance.step_strategies import chi_pd, cvar_pd, group_dro
from evenglot.robust.validate import OptionError
from evenglot.wording import did_you_mean


def create(
    name: str,
    sizes: Mapping[str, float],
    *,
    tokens: Mapping[str, float] | None = None,
    p_unit: Unit = "sentences",
    **options: Any,
) -> Balancer:
    """Create a balancer by name, for groups of these sizes in sentence pairs (strategies: docs/methods.md).

    With `p_unit="tokens"`, the shares p and q count target tokens, given in `tokens`.
    """
    strategy = _checked(name, options)
    return strategy.balancer(name, Groups.of(sizes, tokens, p_unit), options)


def describe(name: str, **options: Any) -> Description:
    """Describe a strategy with these options without any data; omitted options have their defaults.

    Does not check values (see `check_options`) and ignores unknown options.
    """
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise _unknown(name)
    known = {option: value for option, value in options.items() if option in strategy.options}
    return strategy.describe(**{**strategy.defaults, **known})


def describe_settings(settings: Mapping[str, Any]) -> Description | None:
    """As `describe`, for the `balance` section of an event log; None if the strategy or its options are unknown."""
    options = dict(settings)
    name = options.pop("strategy", None)
    try:
        return describe(name, **options) if name in STRATEGIES else None
    except (KeyError, TypeError, ValueError):  # written by a version with other options
        return None


def check_options(name: str, names: Iterable[str], *, p_unit: Unit = "sentences", **options: Any) -> None:
    """Raise the error that `create` would raise for groups of these names, whatever their sizes."""
    strategy = _checked(name, options)
    strategy.balancer(name, Groups.nominal(names, p_unit), options)


def check_mixture(mixture: MixtureSpec, names: Iterable[str], argument: str) -> None:
    """Raise OptionError, naming the argument, if this is not a valid mixture for groups of these names."""
    mixture_of(mixture, Groups.nominal(names), argument)


def keep_mixture(mixture: str) -> tuple[str, dict[str, Any]]:
    """Name and options of the strategy that samples from a fixed mixture ('data', 'tau:5', ...) for the whole run."""
    return ("proportional", {}) if mixture == "data" else ("schedule", {"points": {0: mixture}})


@dataclass(frozen=True)
class Strategy:
    """An entry of the catalogue: builds the balancer, and describes it from its options alone.

    `build` takes the groups, then the options as keywords; its signature defines the names, types, defaults and
    meanings of the options.
    """

    build: Callable[..., Balancer]
    describe: Describe = fixed_mixture

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options by name, with resolved annotations."""
        _, *options = inspect.signature(self.build, eval_str=True).parameters.values()  # the first is the groups
        return {option.name: option for option in options}

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults, for options that have one."""
        return {name: option.default for name, option in self.options.items() if option.default is not option.empty}

    def balancer(self, name: str, groups: Groups, options: Mapping[str, Any]) -> Balancer:
        """Build the balancer and set its strategy name."""
        made = self.build(groups, **options)
        made.strategy = name
        return made


def _checked(name: str, options: Mapping[str, Any]) -> Strategy:
    """The strategy of this name; raise if an option is unknown or a required one is missing."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise _unknown(name)
    known = strategy.options
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known) if known else "it has no options"
            raise OptionError(option, f"unknown option of {name!r}; {hint}")
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in options:
            raise OptionError(option, f"required by {name!r}")
    return strategy


def _unknown(name: str) -> OptionError:
    return OptionError("name", f"unknown strategy {name!r}; {did_you_mean(name, STRATEGIES)}")


# ---------------------------------------------------------------------- mixtures that follow from sizes and time


def proportional(groups: Groups) -> Balancer:
    """Sample in proportion to corpus size (empirical risk minimization)."""
    return Schedule(groups, {0: groups.p})


def tempered(
    groups: Groups,
    tau: Annotated[float, Option("Temperature: 1 is proportional sampling, .inf is uniform.", gt=0)],
) -> Balancer:
    """Sample in proportion to size^(1/tau)."""
    return Schedule(groups, {0: temperature(groups.p, tau)})


def uniform(groups: Groups) -> Balancer:
    """Sample every group that has data equally often."""
    return Schedule(groups, {0: temperature(groups.p, np.inf)})


def mixed(
    groups: Groups,
    alpha: Annotated[
        float, Option("Weight of the uniform mixture: 0 is proportional sampling, 1 is uniform.", ge=0, le=1)
    ],
) -> Balancer:
    """Sample with shares between proportional and uniform, (1 - alpha) p + alpha / N."""
    return Schedule(groups, {0: mix(groups.p, alpha)})


def faded(
    groups: Groups,
    passes: Annotated[float, Option("Passes over a corpus in which its upsampling falls to 1/e.", gt=0)] = 15.0,
    start: Annotated[
        MixtureSpec, Option("Mixture at the start: data, uniform, tau:3, mix:0.5, unimax:20, or shares.")
    ] = "mix:0.75",
    end: Annotated[MixtureSpec, Option("Mixture that is approached, specified like start.")] = "mix:0.25",
) -> Balancer:
    """Upsample small corpora while they are new: the upsampling of each fades as it is repeated."""
    return Fading(groups, mixture_of(start, groups, "start"), mixture_of(end, groups, "end"), passes)


def unimax_balancer(
    groups: Groups,
    passes: Annotated[float, Option("Upper bound on passes over any corpus while the budget is drawn.", ge=0)],
    budget: Annotated[
        float | None,
        Option("Amount of data to distribute, in the unit of p_unit; null: one pass over all data.", ge=0),
    ] = None,
) -> Balancer:
    """Sample as uniformly as an upper bound on passes over each corpus allows (UniMax)."""
    amounts = groups.tokens if groups.unit == "tokens" and groups.tokens is not None else groups.sizes
    return Schedule(groups, {0: unimax(amounts, passes, budget)})


def schedule(
    groups: Groups,
    points: Annotated[
        Mapping[int, MixtureSpec],
        Option("Mixtures by first interval, such as {0: tau:5, 20: data}; specified as for center."),
    ],
    interpolate: Annotated[bool, Option("Interpolate linearly between the given mixtures.")] = False,
) -> Balancer:
    """Change the mixture at given intervals, at once or gradually."""
    if not isinstance(points, Mapping):
        raise OptionError(
            "points", f"expected mixtures by interval, such as {{0: 'tau:5', 20: 'data'}}, got {points!r}"
        )
    return Schedule(groups, {time: mixture_of(spec, groups, "points") for time, spec in points.items()}, interpolate)


STRATEGIES: dict[str, Strategy] = {
    "proportional": Strategy(proportional, lambda: describe_temperature(tau=1.0)),
    "temperature": Strategy(tempered, describe_temperature),
    "uniform": Strategy(uniform, lambda: describe_temperature(tau=np.inf)),
    "mix": Strategy(mixed),
    "fade": Strategy(faded, describe_fade),
    "unimax": Strategy(unimax_balancer),
    "schedule": Strategy(schedule, describe_schedule),
    "chi-ibr": Strategy(chi_ibr, describe_chi_ibr),
    "cvar-ibr": Strategy(cvar_ibr, every_interval),
    "group-dro": Strategy(group_dro, every_step),
    "chi-pd": Strategy(chi_pd, every_step),
    "cvar-pd": Strategy(cvar_pd, every_step),
    "fastdro": Strategy(FastDRO, describe_fastdro),
    "multidds": Strategy(MultiDDS, describe_multidds),
}
