"""AdamW and learning rate schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from evenglot.config import TrainSettings
from evenglot.training.parallel_modes import divided_like, whole

Schedule = Callable[[int], float]


def learning_rate(settings: TrainSettings) -> Schedule:
    """The learning rate as a function of the number of updates done: linear warm-up, then the chosen schedule."""
    peak, warmup = settings.learning_rate, settings.warmup
    fall = FALLS[settings.schedule](settings)

    def rate(done: int) -> float:
        if done < warmup:
            return settings.warmup_start + (peak - settings.warmup_start) * done / warmup
        return peak * fall(done)

    return rate


def inverse_sqrt(settings: TrainSettings) -> Schedule:
    """Decay with the inverse square root of the number of updates."""
    return lambda done: (max(settings.warmup, 1) / max(done, 1)) ** 0.5


def step_decay(settings: TrainSettings) -> Schedule:
    """Multiply by `decay` every `decay_every` updates, counted from update 0 (the paper's schedule for chi-IBR)."""
    return lambda done: settings.decay ** (done // settings.decay_every)


def linear(settings: TrainSettings) -> Schedule:
    """Decay linearly to 0 at the end of the run."""
    length = max(settings.updates - settings.warmup, 1)
    return lambda done: max(settings.updates - done, 0) / length


def constant(settings: TrainSettings) -> Schedule:
    """Constant, then a linear decay to 0 over the last `cooldown` updates."""
    return lambda done: min(1.0, max(settings.updates - done, 0) / settings.cooldown) if settings.cooldown else 1.0


FALLS: Mapping[str, Callable[[TrainSettings], Schedule]] = {
    "inverse-sqrt": inverse_sqrt,
    "step": step_decay,
    "linear": linear,
    "constant": constant,
}


def create_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """AdamW with decoupled weight decay on all parameters that are trained, like fairseq's Adam."""
    return torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )


MOMENTS = ("exp_avg", "exp_avg_sq")  # of AdamW, for each weight; with `step`, the whole state


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer state, keyed by parameter name: 'encoder.norm.weight/exp_avg'."""
    return {
        f"{name}/{key}": whole(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore a saved optimizer state; ValueError if it is not one of this model, which could end the process."""
    parameters = dict(model.named_parameters())
    saved = {name.rpartition("/")[0] for name in tensors} & parameters.keys()  # not frozen or unused parameters
    moments = {f"{name}/{key}": parameters[name].shape for name in saved for key in MOMENTS}
    expected = {**moments, **{f"{name}/step": torch.Size() for name in saved}}
    if {name: value.shape for name, value in tensors.items() if value.dtype == torch.float32} != expected:
        raise ValueError("optimizer state: does not fit the model; the checkpoint is damaged or of another run")
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        parameter = parameters[name]
        is_whole = value.shape != parameter.shape  # the number of updates
        optimizer.state[parameter][key] = value.to(parameter.device) if is_whole else divided_like(value, parameter)
