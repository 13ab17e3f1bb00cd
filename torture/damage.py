"""Every file of a run, a store, an export and a grid's results: truncated, flipped, zeroed, swapped, deleted, a pipe.

Every command that reads them must name the file or its folder, in an error or a warning, or end as with intact ones.
What reports show of the log and the configuration of a run is counted apart (`SHOWN`).
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from evenglot.cli import app
from torture.alarm import Hang, alarm
from torture.crash_points import Scene, content, differences, training

KINDS = ("truncate", "flip", "zero", "swap", "delete")
PIPE = b"a pipe"  # instead of the file: whoever waits for its other end waits for ever
SECONDS = 300  # after which a command counts as hanging: the slowest needs few
DIGITS = re.compile(r"\d+")
LOCKS = (".lock", ".grid.lock")  # always empty


@dataclass(frozen=True)
class Reader:
    """A command, whose words that begin with @ are paths in the scene; its result is what it prints, or a folder."""

    command: tuple[str, ...]
    writes: str | None = None


def _reader(command: str, writes: str | None = None) -> Reader:
    return Reader(tuple(command.split()), writes)


READERS: dict[str, tuple[Reader, ...]] = {
    "scored": (
        _reader("translate @scored --to en --from aa --input @in.txt --beam 1 --format tsv"),
        Reader(training("scored", updates=6), "scored"),
        _reader("score @scored --beam 1", "scored"),
        _reader("compare @scored @other --reference scored --format json"),
        _reader("report @scored --out @page.html", "page.html"),
    ),
    "store": (
        _reader("prepare @conf.yaml", "store"),
        Reader(training("new", updates=1, average=None), "new"),
        _reader("score @run --beam 1", "run"),
    ),
    "export": (_reader("python @export/translate.py aa"),),
    "grid/kept": (
        _reader("compare @grid/kept/erm/seed-1 @grid/kept/chi-ibr/seed-1 --format json"),
        _reader("report @grid/kept/erm/seed-1 --out @page.html", "page.html"),
    ),
}
# What is taken as it is written: of a run that no grid has stored, nothing tells a changed digit from another result.
SHOWN = {"report": ("config.yaml", "log.jsonl"), "compare": ("log.jsonl",), "python": ("translate.py",)}
NAMES = {"scored": "a run", "store": "a store", "export": "an export", "grid/kept": "results of a grid"}


def furnish(scene: Scene) -> None:
    """What only damage needs: a second scored run, the results of a grid, a text."""
    shutil.copytree(scene.live / "scored", scene.live / "other")
    scene.finish(training("learnt", updates=80, save_every=80, average=None))  # else all models translate the same
    scene.finish(("export", "@learnt", "--to", "ctranslate2", "--out", "@export"))
    scene.finish(("grid", "@grid.yaml", "--keep", "@grid/kept"), forks=True)
    shutil.copy(scene.live / "test.aa-en.aa", scene.live / "in.txt")
    shutil.rmtree(scene.pristine)
    shutil.copytree(scene.live, scene.pristine)


def attack(scene: Scene, tree: str, seed: int, share: float = 1.0) -> tuple[Counter[str], list[str]]:
    """Damage every file of a folder (or a share) in every way: how often each outcome, and what was at fault."""
    chance, outcomes, faults = random.Random(f"{seed} {tree}"), Counter[str](), []
    expected = {reader: _outcome(scene, tree, reader) for reader in READERS[tree]}
    if bad := [reader.command[0] for reader, (_, failed, _) in expected.items() if failed]:
        raise AssertionError(f"{tree}: undamaged, but refused by {bad}")
    files = [path for path in sorted((scene.pristine / tree).rglob("*")) if path.is_file() and path.name not in LOCKS]
    kinds = KINDS if tree == "export" else (*KINDS, "pipe")  # an export is read by a script of a few lines
    for file in files:
        for kind in kinds:
            if chance.random() >= share:
                continue
            name = file.relative_to(scene.pristine)
            spoilt = _damaged(kind, file, files, chance)
            seen = set()
            for reader in READERS[tree]:
                outcome, fault = _judge(scene, tree, reader, name, spoilt, expected[reader])
                seen.add(outcome)
                if fault:
                    faults.append(f"{kind} {name}: {fault}")
            outcomes[next(each for each in ("failed", "shown", "named", "harmless") if each in seen)] += 1
    _restore(scene, tree)
    return outcomes, faults


def _damaged(kind: str, file: Path, files: list[Path], chance: random.Random) -> bytes | None:
    """The new content of a file; None: it is deleted."""
    old = file.read_bytes()
    place = chance.randrange(max(1, len(old)))
    match kind:
        case "truncate":
            return old[:place]
        case "flip":
            return old[:place] + bytes([old[place] ^ (1 << chance.randrange(8))]) + old[place + 1 :] if old else b"\1"
        case "zero":
            length = min(len(old) - place, 512)
            return old[:place] + bytes(length) + old[place + length :]
        case "swap":  # with one of the same name, if possible
            others = [each for each in files if each.read_bytes() != old]
            alike = [each for each in others if each.name == file.name] or [
                each for each in others if each.suffix == file.suffix
            ]
            return chance.choice(alike or others).read_bytes()
        case "pipe":
            return PIPE
    return None


Outcome = tuple[object, bool, str]  # the result; was it refused? what was said


def _judge(
    scene: Scene, tree: str, reader: Reader, name: Path, spoilt: bytes | None, expected: Outcome
) -> tuple[str, str | None]:
    """'named', 'harmless', 'shown' or 'failed', and how."""
    result, failed, said = _outcome(scene, tree, reader, (name, spoilt))
    is_named = _names(_new_lines(said, expected[2]), scene.live, name)  # many name their folder when all is well
    if failed is None or (failed and not is_named):
        return "failed", f"{reader.command[0]}: {said[-300:]!r}"
    if is_named:
        return "named", None
    if result == expected[0]:
        return "harmless", None
    if name.name in SHOWN.get(reader.command[0], ()) and tree != "grid/kept":
        return "shown", None
    other: list[str] = []
    if isinstance(result, dict) and isinstance(expected[0], dict):  # of the damaged file itself, any content is right
        other = [each for each in differences(result, expected[0]) if Path(reader.writes or "", each) != name]
        if not other:
            return "harmless", None
    return "failed", f"{reader.command[0]}: another result, silently {other}"


def _new_lines(said: str, usual: str) -> str:
    """What is not said when nothing is damaged, whatever the numbers."""
    known = {DIGITS.sub("", line) for line in usual.splitlines()}
    return "\n".join(line for line in said.splitlines() if DIGITS.sub("", line) not in known)


def _names(said: str, root: Path, name: Path) -> bool:
    """Is the file or a folder that it is in named, below the scene?"""
    text = said.replace("\n", "")
    return any(str(root / part) in text for part in (name, *list(name.parents)[:-1]))


def _restore(scene: Scene, tree: str) -> None:
    for folder in {tree.partition("/")[0], "new", "run", "page.html"}:
        scene.restore(folder)


def _outcome(scene: Scene, tree: str, reader: Reader, damage: tuple[Path, bytes | None] | None = None) -> Outcome:
    """Run a command on a folder as it was, or damaged."""
    _restore(scene, tree)
    if damage is not None:
        file = scene.live / damage[0]
        _put(file, damage[1])
    words = scene.words(reader.command)
    if words[0] == "python":
        return _of_python(scene, words)
    try:
        with alarm(SECONDS):
            done = CliRunner().invoke(app, words)
    except Hang:
        return None, None, f"hangs: {SECONDS} s"  # type: ignore[return-value]
    said = f"{done.output}{done.exception or ''}"
    if done.exit_code and not isinstance(done.exception, ValueError | OSError | SystemExit):
        return None, None, repr(done.exception)  # type: ignore[return-value]
    if reader.writes is None:
        return done.stdout, bool(done.exit_code), said
    return content(scene.live / reader.writes), bool(done.exit_code), said


def _put(file: Path, spoilt: bytes | None) -> None:
    if spoilt is not None and spoilt is not PIPE:
        file.write_bytes(spoilt)
        return
    file.unlink()
    if spoilt is PIPE:
        os.mkfifo(file)


def _of_python(scene: Scene, words: list[str]) -> Outcome:
    """A program that stands alone."""
    with (scene.live / "in.txt").open("rb") as text:
        done = subprocess.run(
            [sys.executable, *words[1:]], stdin=text, capture_output=True, timeout=SECONDS, check=False
        )
    return done.stdout, bool(done.returncode), os.fsdecode(done.stderr)
