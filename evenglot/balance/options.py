"""Types and descriptions of strategy options, used in the signatures of their builders.

`evenglot example`, the configuration reference and the JSON schema are generated from them. To add an option, annotate
it in the signature of its builder: `Annotated[float, Option("What it does.", ge=0)]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from evenglot.balance.baseline import Baseline
from evenglot.balance.description import Split
from evenglot.balance.losses import Start
from evenglot.balance.static import MixtureSpec


@dataclass(frozen=True)
class Option:
    """Description and range of an option. The range is for documentation; the builder enforces it."""

    meaning: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    from_run: bool = False  # not a configuration key: filled in from other sections

    @property
    def limits(self) -> dict[str, float]:
        """The range as JSON Schema keywords."""
        named = {"minimum": self.ge, "exclusiveMinimum": self.gt, "maximum": self.le}
        return {name: limit for name, limit in named.items() if limit is not None}


# ------------------------------------------------------------------------------------------------ uncertainty sets

PresetName = Annotated[
    Literal["recommended", "paper", "released-ted", "released-wmt"], Option("Preset for options that are null.")
]
Radius = Annotated[
    float | str | None,
    Option(
        "Radius of the chi-square ball: a number (the paper: 0.05 for TED, 0.3 for WMT), or a mixture on its surface, "
        "such as tau:1.5. null: as in the preset.",
        ge=0,
    ),
]
MaxUpsample = Annotated[
    float | None,
    Option(
        "Alternative to rho: maximum upsampling factor of the smallest group. null: as in the preset (recommended: 5), "
        "unless rho is set.",
        ge=1,
    ),
]
Alpha = Annotated[float, Option("Share of the data to focus on; the maximum upsampling factor is 1/alpha.", ge=0, le=1)]
Floor = Annotated[
    float, Option("Lower bound on each group's share, as a fraction of its share at the centre.", ge=0, le=1)
]
PresetFloor = Annotated[
    float | None,
    Option(
        "Lower bound on each group's share, as a fraction of its share at the centre. null: as in the preset "
        "(recommended: 0.2).",
        ge=0,
        le=1,
    ),
]
Center = Annotated[
    MixtureSpec,
    Option(
        "Centre of the uncertainty set: data (proportional), uniform, tau:3, mix:0.5, unimax:20, or shares by group."
    ),
]

# --------------------------------------------------------------------------------------------- losses and baselines

BaselineLosses = Annotated[
    Baseline,
    Option(
        "Reference losses to subtract: a file written by `evenglot baseline`, losses by group, or auto to first train "
        "a reference model with proportional sampling, which doubles the cost (reference_run can change its settings). "
        "auto:tau:100 uses another mixture (any that center accepts). init: the losses of the pretrained model "
        "(model.init) at the start."
    ),
]
IntervalEstimator = Annotated[
    Literal["ema", "token-ema", "interval-mean"] | None,
    Option(
        "Running loss: ema (of update means), token-ema (every token has the same weight), or interval-mean. "
        "null: interval-mean if signal is valid, otherwise ema."
    ),
]
PresetEstimator = Annotated[
    Literal["ema", "token-ema", "interval-mean"] | None,
    Option(
        "Running loss: ema (of update means), token-ema (every token has the same weight), or interval-mean. "
        "null: as in the preset (recommended: interval-mean, unless start or reset is set; the others: ema), and "
        "interval-mean if signal is valid."
    ),
]
Noise = Annotated[
    Literal["aware", "ignore"] | None,
    Option(
        "aware: shrink the radius and damp the response by the share of the differences between losses that is noise; "
        "requires interval-mean. ignore: respond to any difference. null: as in the preset (recommended: aware), and "
        "ignore if signal is valid or with another estimator."
    ),
]
StepEstimator = Annotated[
    Literal["latest", "ema", "token-ema"],
    Option("Running loss: latest (batch), ema (of update means), or token-ema (every token has the same weight)."),
]
EmaWeight = Annotated[float, Option("Weight of the latest update in moving averages.", gt=0, le=1)]
EmaStart = Annotated[Start, Option("Initial value of the moving average: first (loss), zero, or bias-corrected.")]
PresetStart = Annotated[
    Start | None,
    Option(
        "Initial value of the moving average: first (loss), zero, or bias-corrected. null: as in the preset "
        "(recommended: first)."
    ),
]
Reset = Annotated[bool | None, Option("Reset running losses after each interval; null: no.")]
PresetReset = Annotated[
    bool | None, Option("Reset running losses after each interval. null: as in the preset (recommended: false).")
]
SignalSplit = Annotated[Split, Option("Split whose losses drive the mixture: train or valid.")]
LossUnit = Annotated[
    Literal["token", "character"],
    Option("Unit of the mean loss: token or character; per-token losses are not comparable across target languages."),
]

# ------------------------------------------------------------------------------------------------ timing and limits

Warmup = Annotated[int, Option("Number of intervals before the mixture first changes.", ge=0)]
MaxRatio = Annotated[
    float | None, Option("Upper bound on each group's share, as a multiple of its share of the data.", ge=1)
]
MaxPasses = Annotated[
    float | None,
    Option("Upper bound on passes over any corpus in the whole run; requires train.intervals.", ge=0),
]
Intervals = Annotated[int | None, Option("Number of intervals of the run, for max_passes.", ge=1, from_run=True)]
IntervalSize = Annotated[
    float | None,
    Option("Number of sentence pairs per interval, for max_passes; None: the size of the data.", gt=0, from_run=True),
]

# ----------------------------------------------------------------------------------------------- updates every step

Step = Annotated[float, Option("Step size of the mixture update.", ge=0)]
ApplyBy = Annotated[
    Literal["resample", "reweight"],
    Option("resample: sample from the mixture; reweight: sample proportionally and weight the losses."),
]
