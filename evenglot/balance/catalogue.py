"""The catalogue of strategies: names, options and builders. The only module that selects a strategy by name."""

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
from evenglot.balance.fading import Fading, describe_fade
from evenglot.balance.gradient import MultiDDS, describe_multidds
from evenglot.balance.groups import Groups, Unit
from evenglot.balance.loss_driven import Apply, Caps, LossDriven, every_interval, every_step
from evenglot.balance.losses import EMA, Estimator, IntervalMean, LatestBatch, Start, TokenEMA, TrendlessMean
from evenglot.balance.noise import NoiseAware
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
    Noise,
    Option,
    PresetEstimator,
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
    mix,
    mixture_of,
    temperature,
    unimax,
)
from evenglot.robust.solvers import chi_square_divergence
from evenglot.robust.validate import OptionError, Vector
from evenglot.wording import did_you_mean

FAINT_TAU = 1.2  # a temperature whose mixture is close to proportional


@dataclass(frozen=True)
class Preset:
    """A named set of chi-IBR settings (docs/methods.md). Options given to `create` override it."""

    floor: float
    start: Start
    reset: bool = False
    rho: float | None = None
    max_upsample: float | None = None
    # use the q-update of the released code, which drops the baselines when all excess losses are negative:
    released: bool = False
    is_noise_aware: bool = False  # and use an estimator that has standard errors
    clamp_to_min_p: bool = False
    sampling: Sampling = field(default_factory=Sampling)


PRESETS: Mapping[str, Preset] = {
    "recommended": Preset(max_upsample=5.0, floor=0.2, start="first", is_noise_aware=True),
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
    end: Annotated[MixtureSpec, Option("Mixture that is approached, specified like start.")] = "data",
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
    estimator: PresetEstimator = None,
    noise: Noise = None,
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
        raise OptionError("preset", f"{preset!r} does not support max_ratio and max_passes; use 'recommended'")
    centre = mixture_of(center, groups, "center")
    distance = None if rho is None else _distance(rho, groups, centre)
    radius = _radius(base, distance, max_upsample, centre)
    least = base.floor if floor is None else floor
    left_open = preset == "recommended" and center == "data" and rho is None and max_upsample is None
    if estimator is None and base.is_noise_aware and start is None and reset is None:
        estimator = "interval-mean"
    running = _estimator(groups, estimator, ema, start or base.start, reset, base.reset, signal)
    is_aware = _is_noise_aware(noise, base, running, signal)
    if is_aware:
        running = TrendlessMean(len(groups.names))
    exact = ChiSquareResponse(centre, radius, least)
    rule: Rule = exact
    if base.released:
        rule = ReleasedResponse(centre, radius, least, base.clamp_to_min_p)
    return LossDriven(
        groups,
        rule=rule,
        estimator=running,
        baseline=baseline_vector(baseline, groups),
        description=every_interval(signal=signal, loss_per=loss_per),
        caps=caps,
        warmup=warmup,
        noise=NoiseAware(exact) if is_aware else None,
        drop_negative_baseline=base.released,
        is_faint=left_open and radius < chi_square_divergence(temperature(groups.p, FAINT_TAU), groups.p),
    )


def _is_noise_aware(noise: str | None, preset: Preset, estimator: Estimator, signal: str) -> bool:
    """Whether chi-IBR weighs noise; a validation is a single observation, whose noise is unknown."""
    can = estimator.standard_errors is not None and signal == "train" and not preset.released
    if noise is None:
        return preset.is_noise_aware and can
    if noise not in ("aware", "ignore"):
        raise OptionError("noise", f"expected 'aware' or 'ignore', got {noise!r}")
    if noise == "aware" and not can:
        raise OptionError(
            "noise", "requires estimator 'interval-mean' on training losses and no preset of the released code"
        )
    return noise == "aware"


def describe_chi_ibr(*, preset: PresetName, **others: Any) -> Description:
    """As `every_interval`; the presets of the released code also set the sampling of intervals."""
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
    """The radius, given as a number or as a mixture on the surface of the ball."""
    return chi_square_divergence(mixture_of(rho, groups, "rho"), centre) if isinstance(rho, str) else rho


def _radius(preset: Preset, rho: float | None, max_upsample: float | None, centre: Vector) -> float:
    if rho is not None and max_upsample is not None:
        raise OptionError("max_upsample", "give rho or max_upsample, not both: each determines the radius")
    if rho is None and max_upsample is None:
        rho, max_upsample = preset.rho, preset.max_upsample
    if rho is not None:
        return rho
    if max_upsample is None:
        raise OptionError(
            "rho", "required by this preset (the paper: 0.05 for TED, 0.3 for WMT), unless max_upsample is given"
        )
    return radius_for_upsampling(centre, max_upsample)


def _estimator(
    groups: Groups, name: str | None, ema: float, start: Start, reset: bool | None, preset_reset: bool, signal: str
) -> Estimator:
    """A moving average over steps, or the interval mean (default for validation losses, which are few and large)."""
    size = len(groups.names)
    if name is None:
        name = "interval-mean" if signal == "valid" else "ema"
    average = EMA(size, ema, start, preset_reset if reset is None else reset)  # validates ema and start in any case
    if name == "ema":
        return average
    if name not in ("token-ema", "interval-mean"):
        raise OptionError("estimator", f"expected 'ema', 'token-ema' or 'interval-mean', got {name!r}")
    if reset:
        raise OptionError("reset", f"only available with estimator 'ema', not with {name!r}; remove it")
    return TokenEMA(size, ema) if name == "token-ema" else IntervalMean(size)


# -------------------------------------------------------------------------------------------- primal-dual


def group_dro(
    groups: Groups,
    *,
    step: Step = 0.01,
    smoothing: Annotated[float | None, Option("Smoothing constant of the CTC-DRO variant; null: none.", gt=0)] = None,
    start: Annotated[MixtureSpec, Option("Initial mixture; specified as for center.")] = "uniform",
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
    """Estimator for rules that update the mixture after every step: latest batch or moving average."""
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
