"""Write the mixtures of a run as a configuration of OpusTrainer, which feeds a trainer in stages.

Two properties of OpusTrainer determine what can be written:

- It takes int(batch size × weight) lines of each dataset, and its batch size is an option of its command line. A weight
  below 1 / batch size means no lines at all. So weights are written for a given batch size, as whole numbers of lines.
- A stage lasts until one of its datasets has been read a whole number of times. So a stage ends with the dataset and
  the number of passes that come closest to the end of the stage in the run; what it is too long or too short by, the
  next one makes up for. Stages that are too short to be written are merged with the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenglot import yaml12
from evenglot.integrations.mixtures import normalised
from evenglot.robust.validate import OptionError
from evenglot.stages import Stage, average

BATCH_SIZE = 10_000  # lines; shares are then exact to 0.01 %
Lines = Mapping[str, int]  # of each dataset in a batch


@dataclass(frozen=True)
class PlannedStage:
    """A stage of OpusTrainer: its length is `passes` over `until` (None: no end)."""

    lines: Lines
    until: str
    passes: int | None
    pairs: float  # the length in lines of all datasets


def opustrainer(
    stages: Sequence[Stage],
    sizes: Mapping[str, int],
    paths: Mapping[str, str],
    *,
    batch_size: int = BATCH_SIZE,
    seed: int = 1,
) -> str:
    """The configuration of OpusTrainer for these stages, to be run with `--batch-size` as given here.

    `sizes` are the numbers of lines of the datasets, which determine how long a pass is. OpusTrainer resolves relative
    paths from the folder of the configuration.
    """
    planned = plan(stages, sizes, batch_size)
    used = [name for name in stages[0].shares if any(stage.lines.get(name) for stage in planned)]
    for name in used:
        if name.split() != [name]:
            raise OptionError("stages", f"{name!r} cannot be the name of a dataset in OpusTrainer; it has white space")
        if not paths.get(name):
            raise OptionError("paths", f"no path for {name!r}")
    names = [f"stage-{number}" for number in range(1, len(planned) + 1)]
    text = [f"# Run with: opustrainer-train --batch-size {batch_size} --config THIS-FILE TRAINER ...", "datasets:"]
    text += [f"  {_scalar(name)}: {_scalar(_argument(paths[name]))}" for name in used]
    text += ["stages:", *(f"  - {name}" for name in names)]
    for name, stage in zip(names, planned, strict=True):
        shares = [f"{each} {_weight(lines, batch_size)!r}" for each, lines in stage.lines.items()]
        until = f"until {stage.until} {'inf' if stage.passes is None else stage.passes}"
        text += [f"{name}:", *(f"  - {_scalar(item)}" for item in (*shares, until))]
    return "\n".join([*text, f"seed: {seed}", ""])


def plan(stages: Sequence[Stage], sizes: Mapping[str, int], batch_size: int = BATCH_SIZE) -> list[PlannedStage]:
    """Stages that OpusTrainer can do, each as close as possible to the end of those it stands for.

    It ends there within half a pass over the dataset that it reads fastest; the last one can be off by more if it had
    to take in stages that are too short. A run shorter than a pass becomes one pass.
    """
    planned: list[tuple[PlannedStage, list[Stage]]] = []
    waiting: list[Stage] = []
    end = done = 0.0
    for stage in stages:
        waiting.append(stage)
        end += stage.pairs
        found = _planned(waiting, sizes, batch_size, end - done)
        if abs(found.pairs - (end - done)) < end - done or found.passes is None:  # nearer than leaving it out
            planned.append((found, waiting))
            done += found.pairs
            waiting = []
    if waiting:  # the last stages are too short
        last, members = planned.pop() if planned else (None, [])
        done -= last.pairs if last else 0.0
        members = [*members, *waiting]
        planned.append((_planned(members, sizes, batch_size, end - done), members))
    return [stage for stage, _ in planned]


def _planned(stages: Sequence[Stage], sizes: Mapping[str, int], batch_size: int, wanted: float) -> PlannedStage:
    """One stage with the average shares of these; its length is as near to `wanted` as whole passes allow."""
    lines = batch_lines(average(stages), batch_size)
    passes = {}
    for name, number in lines.items():
        if not sizes.get(name):
            raise OptionError("sizes", f"the number of lines of {name!r} is unknown")
        passes[name] = sizes[name] * batch_size / number  # length of a pass over this dataset
    if math.isinf(wanted):
        return PlannedStage(lines, max(lines, key=lambda name: lines[name]), None, math.inf)
    counts = {name: max(1, round(wanted / length)) for name, length in passes.items()}
    until = min(lines, key=lambda name: (abs(counts[name] * passes[name] - wanted), counts[name]))
    return PlannedStage(lines, until, counts[until], counts[until] * passes[until])


def batch_lines(shares: Mapping[str, float], batch_size: int) -> dict[str, int]:
    """Whole lines of a batch for each direction that is sampled, at least one; rounded by largest remainders."""
    exact = {name: share * batch_size for name, share in normalised(shares).items() if share > 0}
    if len(exact) > batch_size:
        raise OptionError("batch_size", f"{batch_size} lines are too few for {len(exact)} directions; increase it")
    lines = {name: max(1, math.floor(number)) for name, number in exact.items()}
    missing = batch_size - sum(lines.values())
    for _ in range(abs(missing)):
        step = 1 if missing > 0 else -1  # too many only if some have one line instead of less
        able = [name for name in lines if lines[name] + step > 0]
        furthest = max(able, key=lambda name: step * (exact[name] - lines[name]))
        lines[furthest] += step
    return lines


def _weight(lines: int, batch_size: int) -> float:
    """A weight of which OpusTrainer makes exactly these lines: int(100 * 0.29) would be 28."""
    weight = lines / batch_size
    while int(batch_size * weight) < lines:
        weight = math.nextafter(weight, math.inf)
    return weight


def _argument(path: str) -> str:
    """OpusTrainer passes paths to a program of its own, for which a leading hyphen would be an option."""
    return f"./{path}" if path.startswith("-") else path


def _scalar(text: str) -> str:
    return yaml12.dump_line(text)
