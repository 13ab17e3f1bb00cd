"""The strategies that answer the losses after every interval: chi-IBR with its presets, and CVaR-IBR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evenglot.balance.balancer import Balancer
from evenglot.balance.baseline import baseline_vector
from evenglot.balance.best_response import ChiSquareResponse, CVaRResponse, Rule, radius_for_upsampling
from evenglot.balance.description import Description, Sampling
from evenglot.balance.groups import Groups
from evenglot.balance.loss_driven import Caps, LossDriven, every_interval
from evenglot.balance.losses import EMA, Estimator, IntervalMean, Start, TokenEMA, TrendlessMean
from evenglot.balance.noise import NoiseAware
from evenglot.balance.options import (
    Alpha,
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
    PresetEstimator,
    PresetFloor,
    PresetName,
    PresetReset,
    PresetStart,
    Radius,
    Reset,
    SignalSplit,
    Warmup,
)
from evenglot.balance.released import ReleasedResponse
from evenglot.balance.static import mixture_of, radius_of, temperature
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
    distance = None if rho is None else radius_of(rho, groups, centre)
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
