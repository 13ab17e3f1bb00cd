"""Names of strategies and what they are made of. The only place where a strategy is chosen by a string."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from evenglot.balance.balancer import Balancer, Signal, Split
from evenglot.balance.baseline import Baseline, baseline_vector
from evenglot.balance.best_response import ChiSquareResponse, CVaRResponse, Rule, radius_for_upsampling
from evenglot.balance.examples import FastDRO
from evenglot.balance.gradient import MultiDDS
from evenglot.balance.groups import Groups, Unit
from evenglot.balance.loss_driven import Caps, LossDriven
from evenglot.balance.losses import EMA, Estimator, IntervalMean, LatestBatch, Start, TokenEMA
from evenglot.balance.primal_dual import ExponentiatedGradient, ProjectedGradient
from evenglot.balance.released import ReleasedResponse
from evenglot.balance.static import MixtureSpec, Schedule, mixture_of, temperature, unimax
from evenglot.robust.solvers import chi_square_divergence
from evenglot.robust.validate import OptionError, Vector
from evenglot.wording import did_you_mean

Apply = Literal["resample", "reweight"]
IntervalEstimator = Literal["ema", "token-ema", "interval-mean"]
StepEstimator = Literal["latest", "ema", "token-ema"]


@dataclass(frozen=True)
class Preset:
    """Settings of chi-IBR that belong together (docs/methods.md). An option given to `create` wins over its preset."""

    floor: float
    start: Start
    reset: bool = False
    rho: float | None = None
    max_upsample: float | None = None
    released: bool = (
        False  # the q-update of the released code, and its drop of baselines when all excesses are negative
    )
    clamp_to_min_p: bool = False
    draw: Mapping[str, Any] = field(default_factory=lambda: {"epoch_size": "n", "oversample": "cycle"})


RELEASED_DRAW = {"epoch_size": "released", "oversample": "released"}

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
        draw={**RELEASED_DRAW, "max_scale_up": 1.5},
    ),
    "released-wmt": Preset(
        rho=0.3, floor=0.2, start="zero", released=True, draw={**RELEASED_DRAW, "max_scale_up": 1.0}
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
    build = STRATEGIES.get(name)
    if build is None:
        raise OptionError("name", f"unknown strategy {name!r}; {did_you_mean(name, STRATEGIES)}")
    _, *known = inspect.signature(build).parameters.values()  # the first is the groups
    for option in options:
        if option not in [parameter.name for parameter in known]:
            hint = did_you_mean(option, [parameter.name for parameter in known]) if known else "it has none"
            raise OptionError(option, f"unknown option of {name!r}; {hint}")
    for parameter in known:
        if parameter.default is parameter.empty and parameter.name not in options:
            raise OptionError(parameter.name, f"{name!r} cannot do without it")
    made = build(Groups.of(sizes, tokens, p_unit), **options)
    made.strategy = name
    return made


# ---------------------------------------------------------------------------------------------------- static


def proportional(groups: Groups) -> Balancer:
    """The data as they are (ERM)."""
    return Schedule(groups, {0: groups.p})


def tempered(groups: Groups, tau: float) -> Balancer:
    """Shares proportional to size^(1/tau)."""
    return Schedule(groups, {0: temperature(groups.p, tau)})


def uniform(groups: Groups) -> Balancer:
    """Every group that has data equally often."""
    return Schedule(groups, {0: temperature(groups.p, np.inf)})


def unimax_balancer(groups: Groups, passes: float, budget: float | None = None) -> Balancer:
    """As uniform as a cap on passes allows; `budget` in the unit of the sizes, default one epoch."""
    amounts = groups.tokens if groups.unit == "tokens" and groups.tokens is not None else groups.sizes
    return Schedule(groups, {0: unimax(amounts, passes, budget)})


def schedule(groups: Groups, points: Mapping[int, MixtureSpec], interpolate: bool = False) -> Balancer:
    """Mixtures by interval. Cooldown in one line: points={0: "tau:5", 20: "data"}, interpolate=True."""
    if not isinstance(points, Mapping):
        raise OptionError(
            "points", f"expected mixtures by interval, such as {{0: 'tau:5', 20: 'data'}}, got {points!r}"
        )
    return Schedule(groups, {time: mixture_of(spec, groups, "points") for time, spec in points.items()}, interpolate)


# ------------------------------------------------------------------------------------- best responses (IBR)


def chi_ibr(
    groups: Groups,
    *,
    preset: str = "recommended",
    rho: float | str | None = None,
    max_upsample: float | None = None,
    floor: float | None = None,
    center: MixtureSpec = "data",
    baseline: Baseline = None,
    estimator: IntervalEstimator | None = None,
    ema: float = 0.1,
    start: Start | None = None,
    reset: bool | None = None,
    signal: Split = "train",
    loss_per: Literal["token", "character"] = "token",
    warmup: int = 0,
    max_ratio: float | None = None,
    max_passes: float | None = None,
    intervals: int | None = None,
    interval_size: float | None = None,
) -> Balancer:
    """Each interval, the worst mixture in a chi-square ball around the centre. The method of the paper.

    Radius: `rho`, a number or the distance of a mixture ("tau:1.5"); or `max_upsample` = R, the factor by which the
    ball can raise its rarest group. `center`: what the ball lies around. `floor`: q >= floor * centre. `warmup`:
    intervals before the mixture first moves.
    """
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
    rule: Rule = ChiSquareResponse(centre, radius, least)
    if base.released:
        rule = ReleasedResponse(centre, radius, least, base.clamp_to_min_p)
    return LossDriven(
        groups,
        rule=rule,
        estimator=_estimator(groups, estimator, ema, start or base.start, reset, base.reset, signal),
        baseline=baseline_vector(baseline, groups),
        signal=Signal(signal, loss_per),
        caps=caps,
        warmup=warmup,
        drop_negative_baseline=base.released,
    )


def cvar_ibr(
    groups: Groups,
    *,
    alpha: float = 0.5,
    floor: float = 0.0,
    center: MixtureSpec = "data",
    baseline: Baseline = None,
    estimator: IntervalEstimator | None = None,
    ema: float = 0.1,
    start: Start = "first",
    reset: bool | None = None,
    signal: Split = "train",
    loss_per: Literal["token", "character"] = "token",
    warmup: int = 0,
    max_ratio: float | None = None,
    max_passes: float | None = None,
    intervals: int | None = None,
    interval_size: float | None = None,
) -> Balancer:
    """Each interval, the worst share alpha of the data: the groups with the largest excess, at most 1/alpha-fold."""
    return LossDriven(
        groups,
        rule=CVaRResponse(mixture_of(center, groups, "center"), alpha, floor),
        estimator=_estimator(groups, estimator, ema, start, reset, False, signal),
        baseline=baseline_vector(baseline, groups),
        signal=Signal(signal, loss_per),
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
    step: float = 0.01,
    smoothing: float | None = None,
    start: MixtureSpec = "uniform",
    baseline: Baseline = None,
    estimator: StepEstimator = "latest",
    ema: float = 0.1,
    apply: Apply = "reweight",
) -> Balancer:
    """After every step, exponentiated gradient over the whole simplex; `smoothing` for the CTC-DRO variant."""
    rule = ExponentiatedGradient(mixture_of(start, groups, "start"), step, smoothing)
    return _every_step(groups, rule, _step_estimator(groups, estimator, ema), baseline, apply)


def chi_pd(
    groups: Groups,
    *,
    rho: float | str = 0.1,
    step: float = 1e-3,
    floor: float = 0.0,
    center: MixtureSpec = "data",
    baseline: Baseline = None,
    estimator: StepEstimator = "latest",
    ema: float = 0.1,
    apply: Apply = "reweight",
) -> Balancer:
    """After every step, projected gradient on the chi-square ball."""
    centre = mixture_of(center, groups, "center")
    rule = ProjectedGradient(centre, _distance(rho, groups, centre), step, floor)
    return _every_step(groups, rule, _step_estimator(groups, estimator, ema), baseline, apply)


def cvar_pd(
    groups: Groups,
    *,
    alpha: float = 0.5,
    floor: float = 0.0,
    baseline: Baseline = None,
    estimator: StepEstimator = "ema",
    ema: float = 0.1,
    apply: Apply = "reweight",
) -> Balancer:
    """After every step, the CVaR best response to running losses: the paper's hybrid."""
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
    return LossDriven(groups, rule=rule, estimator=estimator, baseline=reference, cadence="step", apply=apply)


STRATEGIES: Mapping[str, Callable[..., Balancer]] = {
    "proportional": proportional,
    "temperature": tempered,
    "uniform": uniform,
    "unimax": unimax_balancer,
    "schedule": schedule,
    "chi-ibr": chi_ibr,
    "cvar-ibr": cvar_ibr,
    "group-dro": group_dro,
    "chi-pd": chi_pd,
    "cvar-pd": cvar_pd,
    "fastdro": FastDRO,
    "multidds": MultiDDS,
}
