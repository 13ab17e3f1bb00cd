"""The folder of a run's checkpoints: which there are, the newest, the best, and which are deleted."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from evenglot.files import REPLACED, UNFINISHED, remove_folder, restore
from evenglot.runs.checkpoint import (
    MODEL,
    OTHER_NAME,
    STATE,
    STEP_NAME,
    Checkpoint,
    Content,
    DamagedCheckpointError,
    open_checkpoint,
)


def checkpoints(root: Path) -> list[Checkpoint]:
    """The checkpoints of the steps of a run, oldest first, except those with a damaged state.json. Reads no weights."""
    return _opened(_step_folders(root))


def latest(root: Path, warn: Callable[[str], object]) -> tuple[Checkpoint, Content] | None:
    """The newest intact checkpoint with its content; None if there are no checkpoints. Warns of damaged ones.

    Of those that are older, only the state is looked at.
    """
    found, folders = None, _step_folders(root)
    for folder in reversed(folders):
        try:
            checkpoint = open_checkpoint(folder)
            found = found or (checkpoint, checkpoint.read())
        except DamagedCheckpointError as error:
            warn(f"{error}; skipping this checkpoint")
    if folders and found is None:
        raise DamagedCheckpointError(f"{root}: all checkpoints are damaged; restore a backup or start a new run")
    return found


def find(root: Path, which: str) -> Checkpoint | None:
    """The checkpoint with this name: best, last, average, or a number of updates; None if there is none.

    Another never takes its place: DamagedCheckpointError if it is damaged, or if one that might be the best is.
    """
    if which == "best":
        _refuse_damaged(root)
        return best(root)
    by_name = {folder.name: folder for folder in _other_folders(root)}
    for folder in _step_folders(root):
        by_name[str(int(folder.name.removeprefix("step-")))] = by_name["last"] = folder
    return open_checkpoint(by_name[which]) if which in by_name else None


def _refuse_damaged(root: Path) -> None:
    for folder in (*_step_folders(root), *_other_folders(root)):
        try:
            open_checkpoint(folder)
        except DamagedCheckpointError as error:
            if folder.is_dir():  # else a running training has just deleted it
                raise DamagedCheckpointError(
                    f"{error}; this may be the best checkpoint: choose another with --which, or delete its folder to "
                    "use the best of the others"
                ) from error


def best(root: Path) -> Checkpoint | None:
    """The checkpoint with the lowest score, including averages (ties: the earliest); without scores, the newest one.

    Those with a damaged state.json are left out.
    """
    steps, others = checkpoints(root), _opened(_other_folders(root))
    return next(iter(_by_score([*steps, *others])), None) or max(steps or others, key=lambda c: c.step, default=None)


def _by_score(found: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Best first (ties: earliest first), without those that have no finite score."""
    scored = [(c.score, c.step, c) for c in found if c.score is not None and math.isfinite(c.score)]
    return [checkpoint for *_, checkpoint in sorted(scored, key=lambda entry: entry[:2])]


def _step_folders(root: Path) -> list[Path]:
    named = ((STEP_NAME.fullmatch(folder.name), folder) for folder in _folders(root))
    return [folder for _, folder in sorted((int(name[1]), folder) for name, folder in named if name)]


def _other_folders(root: Path) -> list[Path]:
    """Folders of averages, intact or damaged; not those that somebody else put there."""
    named = (folder for folder in _folders(root) if OTHER_NAME.fullmatch(folder.name))
    return [folder for folder in named if (folder / STATE).exists() or (folder / MODEL).exists()]


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _opened(folders: Iterable[Path]) -> list[Checkpoint]:
    found = []
    for folder in folders:
        try:
            found.append(open_checkpoint(folder))
        except DamagedCheckpointError:  # `latest` warns of it, `read` raises
            continue
    return found


def prune(root: Path, keep_last: int, keep_best: int, superseded: Iterable[int] = ()) -> None:
    """Delete all step checkpoints except the `keep_last` newest and the `keep_best` best, and unfinished folders.

    The `superseded` steps are deleted in any case. Checkpoints with other names and those whose state.json cannot be
    read are kept, so that they can be inspected.
    """
    if keep_last < 0 or keep_best < 0:
        raise ValueError(f"keep_last, keep_best: must not be negative, got {keep_last} and {keep_best}")
    tidy(root)
    steps = set(superseded)
    every = checkpoints(root)
    found = [checkpoint for checkpoint in every if checkpoint.step not in steps]
    newest = found[len(found) - min(keep_last, len(found)) :]
    keep = {checkpoint.folder for checkpoint in (*newest, *_by_score(found)[:keep_best])}
    for checkpoint in every:
        if checkpoint.folder not in keep:
            remove_folder(checkpoint.folder)


def tidy(root: Path) -> None:
    """Put right what a process left that was killed while writing: no checkpoint is lost, nothing unfinished stays."""
    for folder in _folders(root):
        if folder.name.endswith(REPLACED):
            restore(folder.with_name(folder.name.removesuffix(REPLACED)))
    for folder in _folders(root):
        if folder.name.endswith(UNFINISHED):
            shutil.rmtree(folder, ignore_errors=True)
