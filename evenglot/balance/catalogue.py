"""Names of strategies and what they are made of. The only place where a strategy is chosen by a string."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from evenglot.balance.balancer import Balancer
from evenglot.balance.baseline import Baseline, baseline_vector
from evenglot.balance.best_response import ChiSquareResponse, CVaRResponse, Rule, radius_for_upsampling
from evenglot.balance.description import Describe, Description, Sampling, fixed_mixture
from evenglot.balance.examples import FastDRO, describe_fastdro
from evenglot.balance.gradient import MultiDDS, describe_multidds
from evenglot.balance.groups import Groups, Unit
from evenglot.balance.loss_driven import Apply, Caps, LossDriven, every_interval, every_step
from evenglot.balance.losses import EMA, Estimator, IntervalMean, LatestBatch, Start, TokenEMA
from evenglot.balance.options import (
    Alpha,
    ApplyBy,
    BaselineLosses,
    Center,
    EmaStart,
    EmaWeight,
    Floor,
    IntervalEstimator,
    Intervals,
    IntervalSize,
    LossUnit,
    MaxPasses,
    MaxRatio,
    MaxUpsample,
    Option,
    PresetFloor,
    PresetName,
    PresetReset,
    PresetStart,
    Radius,
    Reset,
    SignalSplit,
    Step,
    StepEstimator,
    Warmup,
)
from evenglot.balance.primal_dual import ExponentiatedGradient, ProjectedGradient
from evenglot.balance.released import ReleasedResponse
from evenglot.balance.static import (
    MixtureSpec,
    Schedule,
    describe_schedule,
    describe_temperature,
    mixture_of,
    temperature,
    unimax,
)
from evenglot.robust.solvers import chi_square_divergence
from evenglot.robust.validate import OptionError, Vector
from evenglot.wording import did_you_mean

FAINT_TAU = 1.2  # a temperature that hardly changes anything


@dataclass(frozen=True)
class Preset:
    """Settings of chi-IBR that belong together (docs/methods.md). An option given to `create` wins over its preset."""

    floor: float
    start: Start
    reset: bool = False
    rho: float | None = None
    max_upsample: float | None = None
    # the q-update of the released code, and its drop of baselines when all excesses are negative:
    released: bool = False
    clamp_to_min_p: bool = False
    sampling: Sampling = field(default_factory=Sampling)


PRESETS: Mapping[str, Preset] = {
    "recommended": Preset(max_upsample=5.0, floor=0.2, start="first"),
    "paper": Preset(floor=0.0, start="zero"),
    "released-ted": Preset(
        rho=0.05,
        floor=0.2,
        start="zero",
        reset=True,
        released=True,
        clamp_to_min_p=True,
        sampling=Sampling("released", max_scale_up=1.5),
    ),
    "released-wmt": Preset(
        rho=0.3, floor=0.2, start="zero", released=True, sampling=Sampling("released", max_scale_up=1.0)
    ),
}


def create(
    name: str,
    sizes: Mapping[str, float],
    *,
    tokens: Mapping[str, float] | None = None,
    p_unit: Unit = "sentences",
    **options: Any,
) -> Balancer:
    """A balancer by name, for groups with these sizes in sentence pairs. docs/methods.md explains every strategy.

    `p_unit="tokens"` counts the shares p and q in target tokens, given in `tokens`.
    """
    strategy = _checked(name, options)
    return strategy.balancer(name, Groups.of(sizes, tokens, p_unit), options)


def describe(name: str, **options: Any) -> Description:
    """The facts about a strategy with these options, before there are data; options that are left out are defaults.

    It checks no values (see `check_options`), and ignores options that the strategy does not have.
    """
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise _unknown(name)
    known = {option: value for option, value in options.items() if option in strategy.options}
    return strategy.describe(**{**strategy.defaults, **known})


def describe_settings(settings: Mapping[str, Any]) -> Description | None:
    """As `describe`, of the `balance` section of any log; None for a strategy that the catalogue does not have."""
    options = dict(settings)
    name = options.pop("strategy", None)
    try:
        return describe(name, **options) if name in STRATEGIES else None
    except (KeyError, TypeError, ValueError):  # of a version whose options are not ours
        return None


def check_options(name: str, names: Iterable[str], *, p_unit: Unit = "sentences", **options: Any) -> None:
    """Raise what `create` would raise for groups of these names, whatever the sizes of their corpora."""
    strategy = _checked(name, options)
    strategy.balancer(name, Groups.nominal(names, p_unit), options)


def check_mixture(mixture: MixtureSpec, names: Iterable[str], argument: str) -> None:
    """Raise ValueError, naming the argument, if this is no mixture for groups of these names."""
    mixture_of(mixture, Groups.nominal(names), argument)


def keep_mixture(mixture: str) -> tuple[str, dict[str, Any]]:
    """Name and options of the strategy that keeps a mixture ('data', 'tau:5', ...) for the whole run."""
    return ("proportional", {}) if mixture == "data" else ("schedule", {"points": {0: mixture}})


@dataclass(frozen=True)
class Strategy:
    """An entry of the catalogue: what builds the balancer, and what describes it by its options alone.

    `build` takes the groups, then the options as keywords; names, types and defaults of the options are those of its
    signature, their meaning is its docstring.
    """

    build: Callable[..., Balancer]
    describe: Describe = fixed_mixture

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options by name, their annotations resolved."""
        _, *options = inspect.signature(self.build, eval_str=True).parameters.values()  # the first is the groups
        return {option.name: option for option in options}

    @property
    def defaults(self) -> dict[str, Any]:
        """Of the options that have one."""
        return {name: option.default for name, option in self.options.items() if option.default is not option.empty}

    def balancer(self, name: str, groups: Groups, options: Mapping[str, Any]) -> Balancer:
        """A balancer that knows the name of its strategy."""
        made = self.build(groups, **options)
        made.strategy = name
        return made


def _checked(name: str, options: Mapping[str, Any]) -> Strategy:
    """The strategy of that name, if it has these options and needs no others."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise _unknown(name)
    known = strategy.options
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known) if known else "it has none"
            raise OptionError(option, f"unknown option of {name!r}; {hint}")
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in options:
            raise OptionError(option, f"required by {name!r}")
    return strategy


def _unknown(name: str) -> OptionError:
    return OptionError("name", f"unknown strategy {name!r}; {did_you_mean(name, STRATEGIES)}")


# ---------------------------------------------------------------------------------------------------- static


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
        Option("Mixtures by the interval in which they start, such as {0: tau:5, 20: data}; as for center."),
    ],
    interpolate: Annotated[bool, Option("Interpolate linearly between the given mixtures.")] = False,
) -> Balancer:
    """Change the mixture at given intervals, at once or gradually."""
    if not isinstance(points, Mapping):
        raise OptionError(
            "points", f"expected mixtures by interval, such as {{0: 'tau:5', 20: 'data'}}, got {points!r}"
        )
    return Schedule(groups, {time: mixture_of(spec, groups, "points") for time, spec in points.items()}, interpolate)


# ------------------------------------------------------------------------------------- best responses (IBR)


def chi_ibr(
    groups: Groups,
    *,
    preset: PresetName = "recommended",
    rho: Radius = None,
    max_upsample: MaxUpsample = None,
    floor: PresetFloor = None,
    center: Center = "data",
    baseline: BaselineLosses = None,
    estimator: IntervalEstimator = None,
    ema: EmaWeight = 0.1,
    start: PresetStart = None,
    reset: PresetReset = None,
    signal: SignalSplit = "train",
    loss_per: LossUnit = "token",
    warmup: Warmup = 0,
    max_ratio: MaxRatio = None,
    max_passes: MaxPasses = None,
    intervals: Intervals = None,
    interval_size: IntervalSize = None,
) -> Balancer:
    """After each interval, take the worst-case mixture in a chi-square ball: the paper's method."""
    if preset not in PRESETS:
        raise OptionError("preset", f"unknown preset {preset!r}; {did_you_mean(str(preset), PRESETS)}")
    base = PRESETS[preset]
    caps = Caps(max_ratio, max_passes, intervals, interval_size)
    if base.released and (caps.max_ratio is not None or caps.max_passes is not None):
        raise OptionError("preset", f"{preset!r} reproduces code that knows no caps; use 'recommended' with max_ratio")
    centre = mixture_of(center, groups, "center")
    distance = None if rho is None else _distance(rho, groups, centre)
    radius = _radius(base, distance, max_upsample, centre)
    least = base.floor if floor is None else floor
    left_open = preset == "recommended" and center == "data" and rho is None and max_upsample is None
    rule: Rule = ChiSquareResponse(centre, radius, least)
    if base.released:
        rule = ReleasedResponse(centre, radius, least, base.clamp_to_min_p)
    return LossDriven(
        groups,
        rule=rule,
        estimator=_estimator(groups, estimator, ema, start or base.start, reset, base.reset, signal),
        baseline=baseline_vector(baseline, groups),
        description=every_interval(signal=signal, loss_per=loss_per),
        caps=caps,
        warmup=warmup,
        drop_negative_baseline=base.released,
        is_faint=left_open and radius < chi_square_divergence(temperature(groups.p, FAINT_TAU), groups.p),
    )


def describe_chi_ibr(*, preset: PresetName, **others: Any) -> Description:
    """The presets of the released code sample intervals in its way, too."""
    return replace(every_interval(**others), sampling=PRESETS[preset].sampling)


def cvar_ibr(
    groups: Groups,
    *,
    alpha: Alpha = 0.5,
    floor: Floor = 0.0,
    center: Center = "data",
    baseline: BaselineLosses = None,
    estimator: IntervalEstimator = None,
    ema: EmaWeight = 0.1,
    start: EmaStart = "first",
    reset: Reset = None,
    signal: SignalSplit = "train",
    loss_per: LossUnit = "token",
    warmup: Warmup = 0,
    max_ratio: MaxRatio = None,
    max_passes: MaxPasses = None,
    intervals: Intervals = None,
    interval_size: IntervalSize = None,
) -> Balancer:
    """After each interval, focus on the share alpha of the data with the largest excess losses."""
    return LossDriven(
        groups,
        rule=CVaRResponse(mixture_of(center, groups, "center"), alpha, floor),
        estimator=_estimator(groups, estimator, ema, start, reset, False, signal),
        baseline=baseline_vector(baseline, groups),
        description=every_interval(signal=signal, loss_per=loss_per),
        caps=Caps(max_ratio, max_passes, intervals, interval_size),
        warmup=warmup,
    )


def _distance(rho: float | str, groups: Groups, centre: Vector) -> float:
    """A radius that is given as a number, or by a mixture that lies on the surface of the ball."""
    return chi_square_divergence(mixture_of(rho, groups, "rho"), centre) if isinstance(rho, str) else rho


def _radius(preset: Preset, rho: float | None, max_upsample: float | None, centre: Vector) -> float:
    if rho is not None and max_upsample is not None:
        raise OptionError("max_upsample", "give rho or max_upsample, not both: each of them determines the radius")
    if rho is None and max_upsample is None:
        rho, max_upsample = preset.rho, preset.max_upsample
    if rho is not None:
        return rho
    if max_upsample is None:
        raise OptionError(
            "rho", "this preset leaves it open (the paper took 0.05 for TED, 0.3 for WMT); or max_upsample=5"
        )
    return radius_for_upsampling(centre, max_upsample)


def _estimator(
    groups: Groups, name: str | None, ema: float, start: Start, reset: bool | None, preset_reset: bool, signal: str
) -> Estimator:
    """A moving average over steps, or the mean of the interval, which is what few and large validations call for."""
    size = len(groups.names)
    if name is None:
        name = "interval-mean" if signal == "valid" else "ema"
    average = EMA(size, ema, start, preset_reset if reset is None else reset)  # refuses what is no weight, no start
    if name == "ema":
        return average
    if name not in ("token-ema", "interval-mean"):
        raise OptionError("estimator", f"expected 'ema', 'token-ema' or 'interval-mean', got {name!r}")
    if reset:
        raise OptionError("reset", f"goes with the estimator 'ema' only, not with {name!r}; leave this out")
    return TokenEMA(size, ema) if name == "token-ema" else IntervalMean(size)


# -------------------------------------------------------------------------------------------- primal-dual


def group_dro(
    groups: Groups,
    *,
    step: Step = 0.01,
    smoothing: Annotated[float | None, Option("Smoothing constant of the CTC-DRO variant; null: none.", gt=0)] = None,
    start: Annotated[MixtureSpec, Option("Initial mixture; as for center.")] = "uniform",
    baseline: BaselineLosses = None,
    estimator: StepEstimator = "latest",
    ema: EmaWeight = 0.1,
    apply: ApplyBy = "reweight",
) -> Balancer:
    """After every update, take an exponentiated-gradient step over all mixtures (Group DRO)."""
    rule = ExponentiatedGradient(mixture_of(start, groups, "start"), step, smoothing)
    return _every_step(groups, rule, _step_estimator(groups, estimator, ema), baseline, apply)


def chi_pd(
    groups: Groups,
    *,
    rho: Annotated[
        float | str, Option("Radius of the chi-square ball: a number, or a mixture such as tau:1.5.", ge=0)
    ] = 0.1,
    step: Step = 1e-3,
    floor: Floor = 0.0,
    center: Center = "data",
    baseline: BaselineLosses = None,
    estimator: StepEstimator = "latest",
    ema: EmaWeight = 0.1,
    apply: ApplyBy = "reweight",
) -> Balancer:
    """After every update, take a projected-gradient step in a chi-square ball (primal-dual)."""
    centre = mixture_of(center, groups, "center")
    rule = ProjectedGradient(centre, _distance(rho, groups, centre), step, floor)
    return _every_step(groups, rule, _step_estimator(groups, estimator, ema), baseline, apply)


def cvar_pd(
    groups: Groups,
    *,
    alpha: Alpha = 0.5,
    floor: Floor = 0.0,
    baseline: BaselineLosses = None,
    estimator: StepEstimator = "ema",
    ema: EmaWeight = 0.1,
    apply: ApplyBy = "reweight",
) -> Balancer:
    """After every update, take the CVaR best response to the running losses: the paper's hybrid."""
    rule = CVaRResponse(groups.p, alpha, floor)
    return _every_step(groups, rule, _step_estimator(groups, estimator, ema), baseline, apply)


def _step_estimator(groups: Groups, name: str, ema: float) -> Estimator:
    """What a rule goes by that answers every step: the latest batch, or a moving average."""
    size = len(groups.names)
    if name == "token-ema":
        return TokenEMA(size, ema)
    if name not in ("latest", "ema"):
        raise OptionError("estimator", f"expected 'latest', 'ema' or 'token-ema', got {name!r}")
    return LatestBatch(size, ema) if name == "latest" else EMA(size, ema)


def _every_step(groups: Groups, rule: Rule, estimator: Estimator, baseline: Baseline, apply: Apply) -> Balancer:
    reference = baseline_vector(baseline, groups)
    description = every_step(apply=apply)
    return LossDriven(groups, rule=rule, estimator=estimator, baseline=reference, description=description)


STRATEGIES: dict[str, Strategy] = {
    "proportional": Strategy(proportional, lambda: describe_temperature(tau=1.0)),
    "temperature": Strategy(tempered, describe_temperature),
    "uniform": Strategy(uniform, lambda: describe_temperature(tau=np.inf)),
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
