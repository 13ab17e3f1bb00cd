"""The strategies that change the mixture after every step: Group DRO, chi-square primal-dual, and the CVaR hybrid."""

from __future__ import annotations

from typing import Annotated

from evenglot.balance.balancer import Balancer
from evenglot.balance.baseline import Baseline, baseline_vector
from evenglot.balance.best_response import CVaRResponse, Rule
from evenglot.balance.groups import Groups
from evenglot.balance.loss_driven import Apply, LossDriven, every_step
from evenglot.balance.losses import EMA, Estimator, LatestBatch, TokenEMA
from evenglot.balance.options import (
    Alpha,
    ApplyBy,
    BaselineLosses,
    Center,
    EmaWeight,
    Floor,
    Option,
    Step,
    StepEstimator,
)
from evenglot.balance.primal_dual import ExponentiatedGradient, ProjectedGradient
from evenglot.balance.static import MixtureSpec, mixture_of, radius_of
from evenglot.robust.validate import OptionError


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
    rule = ProjectedGradient(centre, radius_of(rho, groups, centre), step, floor)
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
