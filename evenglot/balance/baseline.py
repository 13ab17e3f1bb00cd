"""Reference losses b_i, one per group: the losses of a reference model, subtracted from the observed losses.

Only differences between groups matter: adding a constant to all b_i does not change a best response.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenglot.balance.groups import Groups
from evenglot.files import write_text
from evenglot.reading import read_json
from evenglot.robust.validate import OptionError, Vector

Baseline = Mapping[str, float] | str | os.PathLike[str] | None


def baseline_vector(baseline: Baseline, groups: Groups) -> Vector:
    """b in the order of the groups: zeros for None, otherwise from a mapping or a file; a missing group is an error.

    Additional groups are ignored, so that one reference run can serve experiments on a subset of its languages.
    """
    if baseline is None:
        return np.zeros(len(groups.names))
    if not isinstance(baseline, Mapping | str | os.PathLike):
        raise OptionError("baseline", f"expected losses by group or the path of a file, got {baseline!r}")
    losses = baseline if isinstance(baseline, Mapping) else load_baseline(baseline)
    missing = [name for name, share in zip(groups.names, groups.p, strict=True) if share > 0 and name not in losses]
    if missing:
        known = ", ".join(sorted(losses))
        raise OptionError("baseline", f"no reference loss for {', '.join(missing)}; available: {known}")
    ours = {name: losses[name] for name in groups.names if name in losses}
    return groups.vector(ours, "baseline", default=0.0)  # default: a group without data, never sampled


def mean_losses(loss_sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
    """Mean loss per token of each group, from loss sums and token counts; a group without tokens is an error."""
    empty = [name for name in loss_sums if not counts.get(name, 0) > 0]
    if empty:
        raise OptionError("counts", f"no tokens for {', '.join(empty)}")
    return {name: loss_sums[name] / counts[name] for name in loss_sums}


def ideal(*baselines: Mapping[str, float]) -> dict[str, float]:
    """The lowest loss of each group over several reference runs."""
    common = set.intersection(*(set(baseline) for baseline in baselines))
    return {name: min(baseline[name] for baseline in baselines) for name in sorted(common)}


def save_baseline(path: str | os.PathLike[str], losses: Mapping[str, float], **about: Any) -> None:
    """Write reference losses as JSON, with metadata `about` their origin (model, data, settings)."""
    numbers = {name: float(loss) for name, loss in losses.items()}
    for name, loss in numbers.items():
        if not math.isfinite(loss):
            raise OptionError("losses", f"the value for {name!r} must be finite, got {loss}")
    write_text(Path(path), json.dumps({"losses": numbers, "about": about}, indent=2) + "\n")


def baseline_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata of a baseline file; empty if it has none, as in a file written by hand."""
    load_baseline(path)
    about = read_json(Path(path)).get("about")
    return about if isinstance(about, dict) else {}


def load_baseline(path: str | os.PathLike[str]) -> dict[str, float]:
    """Read reference losses by group from a file written by `save_baseline`."""
    try:
        return {str(name): float(loss) for name, loss in read_json(Path(path))["losses"].items()}
    except OSError as error:
        raise OptionError("baseline", f"cannot read {os.fspath(path)}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(
            "baseline", f'{os.fspath(path)} is not a baseline file; expected {{"losses": {{"tur-en": 2.392, ...}}}}'
        ) from error
