"""Every operation on files of a command as a crash point: killed before it and started again, the command must end as
if nothing had happened: the same content under the same names, so without leftovers.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evenglot.files import UNFINISHED
from evenglot.runs.results import CHECKSUMS
from tests.tasks import CONFIG, write_corpora
from tests.training.commands import FORKS, LAST_WORDS, Command, finish, overrides, story
from torture.operations import NEVER, Count, drop_privileges, fill_at, fork_commands, kill_before, kill_within

SIZES = {"aa": 200, "bb": 60, "cc": 40}
CHI_IBR = {"strategy": "chi-ibr", "noise": "ignore"}  # so that its mixture moves in a few updates
KEYS = {"updates": 5, "save_every": 2, "keep_last": 2, "keep_best": 1, "average": 2, "log_every": 1}
WRITTEN = re.compile(r'"written":"[^"]*"')  # when, in a report
GRID = """\
base: conf.yaml
out: grid
seeds: [1]
beam: 1
strategies:
  erm: {balance: {strategy: proportional}, train: {updates: 2}}
  chi-ibr: {balance: {strategy: chi-ibr, baseline: erm}, train: {updates: 2}}
"""
FORKS.set_forkserver_preload(["__main__", "torch._dynamo", "torture.preload"])  # unless it has started already


@dataclass(frozen=True)
class Work:
    """A command, whose words that begin with @ are paths in the scene, and the folder that it changes."""

    command: tuple[str, ...]
    folder: str
    replaces: bool = False  # at any time, each file is the old one or the new one
    forks: bool = False  # it starts other commands


def training(folder: str, balance: dict[str, Any] = CHI_IBR, **keys: object) -> tuple[str, ...]:
    """The command that trains in a folder or resumes there."""
    settings = overrides(balance, batches={"interval_tokens": 1400}, train={**KEYS, **keys})
    words = [word for text in settings for word in ("--set", text)]
    return ("train", "@conf.yaml", "--out", f"@{folder}", "--resume", *words)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORKS = {
    "prepare": Work(_words("prepare @own.yaml"), "own-store"),
    "prepare, changed": Work(_words("prepare @conf.yaml --set store.valid_cap=3"), "store"),
    "train": Work(training("new"), "new"),
    "train, with a reference run": Work(
        training("new", {"strategy": "chi-ibr", "baseline": "auto"}, updates=2, average=None), "new"
    ),
    "train, resumed": Work(training("begun"), "begun"),
    "baseline": Work(_words("baseline @run"), "run", replaces=True),
    "score": Work(_words("score @run --beam 1"), "run", replaces=True),
    "score, again": Work(_words("score @scored --beam 2"), "scored", replaces=True),
    "export to huggingface": Work(_words("export @run --to huggingface --out @new"), "new", replaces=True),
    "export to ctranslate2": Work(_words("export @run --to ctranslate2 --out @new"), "new", replaces=True),
    "export, again": Work(_words("export @run --to ctranslate2 --which 4 --out @export"), "export", replaces=True),
    "grid": Work(_words("grid @grid.yaml --keep @grid/kept"), "grid", forks=True),
}


class Scene:
    """A folder in which the commands work, and a copy of it as they find it."""

    def __init__(self, folder: Path) -> None:
        self.live, self.pristine, self.output = folder / "live", folder / "pristine", folder / "output"
        self.live.mkdir(parents=True)
        write_corpora(self.live, SIZES)
        for name, store in (("conf", "store"), ("own", "own-store")):
            (self.live / f"{name}.yaml").write_text(f"{CONFIG}store: {{folder: {store}}}\n")
        (self.live / "grid.yaml").write_text(GRID)
        self.finish(_words("prepare @conf.yaml"))
        self.finish(training("run"))
        self.finish(training("begun", updates=3))
        self.finish(_words("export @run --to ctranslate2 --out @export"))
        shutil.copytree(self.live / "run", self.live / "scored")
        self.finish(_words("score @scored --beam 1"))
        shutil.copytree(self.live, self.pristine)

    def words(self, command: Iterable[str]) -> list[str]:
        """Of a command, with real paths."""
        return [str(self.live / word[1:]) if word.startswith("@") else word for word in command]

    def restore(self, folder: str) -> None:
        """Undo what was done to a folder."""
        shutil.rmtree(self.live / folder, ignore_errors=True)
        if (self.pristine / folder).exists():
            shutil.copytree(self.pristine / folder, self.live / folder)

    def finish(self, command: Iterable[str], forks: bool = False) -> None:
        """Run a command to a good end."""
        finish(*self.words(command), output=self.output, before=fork_commands if forks else None)

    def operations(self, work: Work) -> int:
        """How many a command does, in a folder as it was."""
        self.restore(work.folder)
        self.kill(work, NEVER)
        counter = Count(self.counter)
        self.counter.unlink()
        return counter.add()

    @property
    def counter(self) -> Path:
        """The file of the count, outside the folder that is watched."""
        return self.output.with_name("count")

    def kill(self, work: Work, operation: int | None = None, size: int | None = None) -> bool:
        """Run a command that dies before an operation, or within a write. Did it? Else it must end well."""
        self.counter.unlink(missing_ok=True)
        if operation is not None:
            deadly = partial(_die_before, operation, self.counter, self.live, work.forks)
        else:
            deadly = partial(kill_within, size)
        with Command(*self.words(work.command), output=self.output, before=deadly) as command:
            code = command.wait()
        if code not in (0, -signal.SIGKILL, -signal.SIGXFSZ):
            raise AssertionError(f"exit code {code}: {self.output.read_text()}")
        return code != 0


def _die_before(operation: int, counter: Path, root: Path, forks: bool) -> None:
    if forks:
        fork_commands()
    kill_before(operation, counter, root)


def content(folder: Path) -> dict[str, str]:
    """What all files of a folder say, without times and without how often the work was interrupted."""
    files = [file for file in sorted(folder.rglob("*")) if not file.is_dir()] or ([folder] if folder.is_file() else [])
    return {str(file.relative_to(folder)): _print(file) for file in files}


def _print(file: Path) -> str:
    if not file.is_file():
        return "not a regular file"
    try:
        return _said(file)
    except ValueError:  # half of a file
        return hashlib.sha256(file.read_bytes()).hexdigest()


def _said(file: Path) -> str:
    if file.name in (".lock", ".grid.lock", "output.txt"):  # locks, and what the commands of a grid have said
        return ""
    if file.name == "log.jsonl":
        return json.dumps(story(file.parent))
    if file.name in ("comparison.md", "comparison.tex"):  # tables of comparison.json, with seconds
        return ""
    if file.name == CHECKSUMS:  # of files with times
        return json.dumps(sorted(json.loads(file.read_text())["files"]))
    if file.name == "state.json":  # of a checkpoint: with the size of the log, and seconds
        about = json.loads(file.read_text())
        del about["checksum"]
        about["state"].pop("record", None)
        return json.dumps(about)
    if file.suffix == ".json":
        return json.dumps(_without_costs(json.loads(file.read_text())))
    if file.suffix == ".html":
        return WRITTEN.sub("", file.read_text())
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _without_costs(value: Any) -> Any:
    """JSON without seconds, which each start measures anew."""
    if isinstance(value, dict):
        return {key: _without_costs(each) for key, each in value.items() if not key.endswith("seconds")}
    return [_without_costs(each) for each in value] if isinstance(value, list) else value


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """The names of files that are missing, left over or other ones."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def crash(
    scene: Scene, name: str, seed: int, cases: int | None = None, torn: int = 0
) -> tuple[Counter[str], list[str]]:
    """Kill a command before each of its operations (or `cases`, evenly spread), and `torn` times within a write.

    Of points that leave the same behind, one is started again; a quarter of these are killed a second time. How often
    each outcome, and what was at fault.
    """
    work, chance = WORKS[name], random.Random(f"{seed} {name}")
    total = scene.operations(work)
    before, expected = content(scene.pristine / work.folder), content(scene.live / work.folder)
    largest = max(file.stat().st_size for file in (scene.live / work.folder).rglob("*"))
    tried = total if cases is None else min(cases, total)
    points: list[tuple[int | None, int | None]] = [((2 * i + 1) * total // (2 * tried), None) for i in range(tried)]
    points += [(None, round(largest ** chance.random())) for _ in range(torn)]
    outcomes, faults, seen = Counter[str](operations=total), [], set()
    for operation, size in points:
        scene.restore(work.folder)
        where = f"{name}: operation {operation}" if size is None else f"{name}: byte {size}"
        try:
            how = "killed before" if size is None else "killed within"
            outcomes[how if scene.kill(work, operation, size) else "ended"] += 1
            left = content(scene.live / work.folder)
            if work.replaces and (half := _neither(left, before, expected)):
                faults.append(f"{where}: neither old nor new: {half}")
            if (state := frozenset(left.items())) in seen:
                continue
            seen.add(state)
            if chance.random() < 0.25:
                outcomes["killed twice"] += scene.kill(work, chance.randrange(total))
            scene.finish(work.command, work.forks)
            outcomes["started again"] += 1
            if wrong := differences(content(scene.live / work.folder), expected):
                faults.append(f"{where}: {wrong}")
        except AssertionError as error:
            faults.append(f"{where}: {error}")
    scene.restore(work.folder)
    return outcomes, faults


def _neither(found: dict[str, str], old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Files that are neither as before nor as at the end, without those that are being written or deleted."""
    return [
        name for name, each in found.items() if UNFINISHED not in name and each not in (old.get(name), new.get(name))
    ]


def _starved(size: int | None, forks: bool) -> None:
    if forks:
        fork_commands()
    if size is None:
        drop_privileges()
    else:
        fill_at(size)


OUTPUT = 8_000  # bytes that a command may say, since its output is a file, too


def starve(scene: Scene, name: str, seed: int, cases: int) -> tuple[Counter[str], list[str]]:
    """Run a command where the disk becomes full, `cases` times, and once where its folder is read-only.

    It must end with code 2 and lines that name a path, and with the same result when there is room again.
    """
    work, chance = WORKS[name], random.Random(f"{seed} {name} starve")
    scene.operations(work)
    expected = content(scene.live / work.folder)
    largest = max(file.stat().st_size for file in (scene.live / work.folder).rglob("*"))
    sizes = [round(OUTPUT * (max(largest, OUTPUT) / OUTPUT) ** chance.random()) for _ in range(cases)]
    outcomes, faults = Counter[str](), []
    for size in (*sizes, None):
        scene.restore(work.folder)
        place = scene.live / work.folder if (scene.live / work.folder).exists() else scene.live
        folders = [place, *(path for path in place.rglob("*") if path.is_dir() and size is None)]
        if size is None:
            for folder in folders:
                folder.chmod(0o500)
        before = partial(_starved, size, work.forks)
        with Command(*scene.words(work.command), output=scene.output, before=before) as command:
            code, said = command.wait(), command.said
        for folder in folders:
            folder.chmod(0o755)
        where = f"{name}: {'read-only' if size is None else f'full at {size}'}"
        lines = [spoken[1] for spoken in map(LAST_WORDS.fullmatch, said.splitlines()) if spoken]
        if code == 0:
            outcomes["ended"] += 1
        elif code == 2 and any(str(scene.live) in line for line in lines) and "Traceback" not in said:
            outcomes["named"] += 1
        else:
            faults.append(f"{where}: exit code {code}: {said[-400:]}")
        try:
            scene.finish(work.command, work.forks)
            if wrong := differences(content(scene.live / work.folder), expected):
                faults.append(f"{where}: {wrong}")
        except AssertionError as error:
            faults.append(f"{where}: {error}")
    scene.restore(work.folder)
    return outcomes, faults
