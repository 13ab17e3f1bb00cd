"""Readers on changed files, cheap enough for thousands of cases: python -m torture.readers [--cases 2200] [--seed 1]

Each case changes a well-formed file of the stored example (tests/formats) at one to three places, with valid checksums
where it has one, and reads it in this process. An error of the parser itself (no JSON, no archive) is *shallow*: the
case was not beyond its first check. Other refusals, and what is read all the same, are *deep*.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import shutil
import tempfile
import traceback
import zipfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow
import torch
import zstandard
from starlette.exceptions import HTTPException

import evenglot
from evenglot import yaml12
from evenglot.config import load_config
from evenglot.corpus.artefacts import contents
from evenglot.corpus.read import read_pairs
from evenglot.corpus.store import open_store
from evenglot.inference.ctranslate2.about import read_about
from evenglot.reading import UnreadableError
from evenglot.runs.checkpoint import open_checkpoint
from evenglot.runs.log import read_log
from evenglot.runs.scores import read_scores_file
from evenglot.scoring.sentence_statistics import SentenceStatistics
from evenglot.serve.api import make_job
from evenglot.serve.messages import Limits
from evenglot.text_file import TextFile
from evenglot.training.saved_state import refuse_invalid
from torture.alarm import SECONDS, Hang, alarm, quiet
from torture.changed_files import damage_statistics, sealed_manifest, sealed_meta, sealed_state
from torture.containers import CONTAINERS
from torture.load import example_run
from torture.mutations import at_random, mutated
from torture.page import Rows

SOURCES, TARGETS = ["Olá mundo", "uma casa", "três"] * 5, ["Hello world", "a house", "three"] * 5
Case = Callable[[random.Random], object]  # changes a file and reads it


@dataclass
class Row:
    """How the cases of one kind ended."""

    deep: int = 0
    accepted: int = 0
    shallow: int = 0
    faults: int = 0
    memory: int = 0  # MiB by which the peak grew

    @property
    def tried(self) -> int:
        """All cases."""
        return self.deep + self.shallow + self.faults


def is_shallow(error: BaseException) -> bool:
    """Whether it began in the parser of the file's format."""
    reasons = (
        UnreadableError,
        zipfile.BadZipFile,
        json.JSONDecodeError,
        EOFError,
        gzip.BadGzipFile,
        pyarrow.ArrowException,
    )
    if isinstance(error, HTTPException):
        return error.status_code == 400  # no JSON
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, reasons):
            return True
        each = each.__cause__
    return False


def attack(case: Case, kind: str, cases: int, seed: int) -> tuple[Row, list[str]]:
    """Try so many cases."""
    row, faults, before = Row(), [], _peak()
    for number in range(cases):
        try:
            with alarm(SECONDS), quiet():
                case(random.Random(f"{seed} {kind} {number}"))
            row.accepted += 1
            row.deep += 1
        except (ValueError, OSError, HTTPException) as error:
            row.shallow += is_shallow(error)
            row.deep += not is_shallow(error)
        except (Exception, Hang) as error:
            row.faults += 1
            faults.append(f"{kind} {number}: {''.join(traceback.format_exception(error)[-3:])}")
    row.memory = (_peak() - before) // 1024
    return row, faults


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --------------------------------------------------------------------------------------------------------------- cases


def json_case(file: Path, read: Callable[[], object], seal: Callable[[Any], Any] | None = None) -> Case:
    """A JSON file, sealed again where it has a checksum."""
    content = json.loads(file.read_text(encoding="utf-8"))
    if seal is not None:
        content.pop("checksum")

    def case(chance: random.Random) -> None:
        changed = mutated(content, at_random(chance))
        try:
            changed = changed if seal is None else seal(changed)
        except Exception:  # what cannot be sealed is written as it is
            changed = {**content}
        file.write_text(json.dumps(changed), encoding="utf-8")
        read()

    return case


def log_case(file: Path) -> Case:
    """One event of the log changed, the log read whole."""
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    def case(chance: random.Random) -> None:
        place = chance.choice([0, chance.randrange(len(events))])
        changed = [*events[:place], mutated(events[place], at_random(chance)), *events[place + 1 :]]
        file.write_text("".join(f"{json.dumps(event)}\n" for event in changed), encoding="utf-8")
        for _ in read_log(file):
            pass

    return case


def statistics_case(run: Path) -> Case:
    """Other arrays."""
    scene, file = run.parent / "scene", run / "statistics.npz"
    copy = scene / "runs" / "first" / "statistics.npz"
    copy.parent.mkdir(parents=True)

    def case(chance: random.Random) -> None:
        shutil.copy(file, copy)
        damage_statistics(scene, chance)
        SentenceStatistics.load(copy)

    return case


def config_case(file: Path) -> Case:
    """Other values of settings."""
    content, _ = yaml12.parse(file.read_text(encoding="utf-8"))

    def case(chance: random.Random) -> None:
        file.write_text(json.dumps(mutated(content, at_random(chance))), encoding="utf-8")
        load_config(file, check_files=False, hints=False)

    return case


def _bytes_changed(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                changed[at : at + chance.randrange(9)] = b""
            case 1:
                changed[at:at] = chance.choice([b"\n", b"\r\n", b"\0", b"\xff", b"\xe2\x80\xa8", b"\t", b'"', b"{}\n"])
            case 2:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case _:
                changed[at:at] = chance.randbytes(chance.randrange(50))
    return bytes(changed)


def text_case(folder: Path) -> Case:
    """Text in every form, changed before it is packed, so that the packing is intact; one in five afterwards."""
    rows = list(zip(SOURCES, TARGETS, strict=True))
    tsv = "".join(f"{source}\t{target}\n" for source, target in rows).encode()
    jsonl = "".join(json.dumps({"por": source, "en": target}) + "\n" for source, target in rows).encode()
    plain = "".join(f"{source}\n" for source in SOURCES).encode()
    (folder / "en.txt").write_bytes("".join(f"{target}\n" for target in TARGETS).encode())
    packed: dict[str, Callable[[bytes], bytes]] = {
        "txt": bytes,
        "txt.gz": gzip.compress,
        "txt.zst": zstandard.ZstdCompressor().compress,
    }

    def case(chance: random.Random) -> None:
        ending = chance.choice([*packed, "tsv", "jsonl"])
        content = _bytes_changed({"tsv": tsv, "jsonl": jsonl}.get(ending, plain), chance)
        content = packed.get(ending, bytes)(content)
        if chance.random() < 0.2:
            content = _bytes_changed(content, chance)
        file = folder / f"por.{ending}"
        file.write_bytes(content)
        if ending in packed:
            sides = TextFile(file), TextFile(folder / "en.txt")
        else:
            names: tuple[Any, Any] = (0, 1) if ending == "tsv" else ("por", "en")
            sides = TextFile(file, names[0]), TextFile(file, names[1])
        for _ in read_pairs(*sides):
            pass

    return case


def request_case(run: Path) -> Case:
    """Bodies of requests to `serve`."""
    model, limits = evenglot.load(run, device="cpu"), Limits()
    body = {"sentences": ["Olá", "x"], "text": None, "from": "por", "to": "en", "n_best": 1, "beam": 5}

    def case(chance: random.Random) -> None:
        content = json.dumps(mutated(body, at_random(chance))).encode()
        make_job(_bytes_changed(content, chance) if chance.random() < 0.2 else content, model, limits)

    return case


def scores_case(run: Path) -> Case:
    """Scores."""
    file = run / "scores.json"
    return json_case(file, lambda: read_scores_file(file))


def export_case(run: Path) -> Case:
    """What an export says of itself."""
    folder = run.parent / "export"
    return json_case(folder / "evenglot.json", lambda: read_about(folder))


def checkpoint_case(run: Path) -> Case:
    """The state in a checkpoint."""
    (folder,) = (run / "checkpoints").iterdir()
    return json_case(folder / "state.json", lambda: resume_check(folder), sealed_state)


def manifest_case(run: Path) -> Case:
    """The manifest of the store."""
    store = run.parent / "store"
    return json_case(store / "manifest.json", lambda: open_store(store, verify=False), sealed_manifest)


def meta_case(run: Path) -> Case:
    """The checksums of a part of the store."""
    (part,) = (run.parent / "store").glob("scan.*")
    return json_case(part / "meta.json", lambda: contents(part), sealed_meta)


KINDS: dict[str, Callable[[Path], Case]] = {
    "requests to serve": request_case,
    "text": text_case,
    "log": lambda run: log_case(run / "log.jsonl"),
    "statistics": statistics_case,
    "config": lambda run: config_case(run / "config.yaml"),
    "scores": scores_case,
    "export": export_case,
    "checkpoint and state": checkpoint_case,
    "manifest": manifest_case,
    "meta": meta_case,
    **CONTAINERS,
}


def resume_check(folder: Path) -> None:
    """What is checked before anything is restored from a checkpoint."""
    found = open_checkpoint(folder)
    refuse_invalid(found.read_state(), found, ["glg-en", "por-en"])


def rows_of(kind: str, cases: int, seed: int) -> tuple[Row, list[str]]:
    """One kind, on an example of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return attack(KINDS[kind](example_run(Path(folder))), kind, cases, seed)


def main() -> None:
    """Attack, and write the figures."""
    options = argparse.ArgumentParser(prog="torture.readers")
    options.add_argument("--cases", type=int, default=2_200, help="of each kind")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--of", nargs="*", choices=list(KINDS), help="only these rows of the table")
    given = options.parse_args()
    torch.set_num_threads(1)
    head = "| changed | seed | tried | beyond the parser | of these, read all the same | failed | memory grew by |"
    rows = Rows("readers", head, list(KINDS))
    with ProcessPoolExecutor(2) as pool:
        kinds = rows.chosen(given.of)
        found = pool.map(rows_of, kinds, repeat(given.cases), repeat(given.seed))
        for kind, (row, faults) in zip(kinds, found, strict=True):
            memory = f"{row.memory} MiB"
            rows.add(kind, (given.seed, row.tried, row.deep, row.accepted, row.faults, memory))
            print(*faults[:20], sep="\n", end="\n" if faults else "", flush=True)


if __name__ == "__main__":
    main()
