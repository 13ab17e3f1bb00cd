"""Files that are well-formed but wrong: changed at random, with valid checksums where the file has one.

Every reader must refuse them with a ValueError (or OSError), or get on with them; anything else is a fault.
"""

from __future__ import annotations

import io
import json
import random
import signal
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torture.mutations import at_random, mutated
from torture.scene import Scene

SECONDS = 60  # after which a reader counts as hanging: the slowest needs less than one


@dataclass(frozen=True)
class Target:
    """A kind of file: how to write a changed version into a scene, and what reads it."""

    name: str
    damage: Callable[[Path, random.Random], object]
    read: Callable[[Path], object]
    touched: tuple[str, ...] = ("runs/first",)  # the folders to restore afterwards


class Hang(BaseException):
    """A reader does not come back."""


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Raise Hang after so many seconds."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(target: Target, scene: Path) -> tuple[str, BaseException | None]:
    """Read a damaged scene: 'accepted', 'refused' or 'fault', and the error."""
    try:
        with alarm(SECONDS):
            target.read(scene)
    except (ValueError, OSError) as error:
        return "refused", error
    except (Exception, Hang) as error:
        return "fault", error
    return "accepted", None


# ------------------------------------------------------------------------------------------------------------ damage


def text_of(value: Any) -> str:
    """JSON that Python would write, including NaN; lone surrogates escaped."""
    return json.dumps(value)


def damage_log(scene: Path, chance: random.Random) -> None:
    """Change one event, duplicate, drop or move one."""
    file = scene / "runs/first/log.jsonl"
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    place = chance.choice([0, chance.randrange(len(events))])
    match chance.randrange(8):
        case 0:
            events = mutated(events, at_random(chance))
        case 1:
            events.insert(chance.randrange(len(events)), events[place])
        case 2:
            del events[place]
        case _:
            events[place] = mutated(events[place], at_random(chance))
    lines = events if isinstance(events, list) else [events]
    file.write_text("".join(f"{text_of(event)}\n" for event in lines), encoding="utf-8")


def json_damage(path: str, seal: Callable[[Any], Any] | None = None) -> Callable[[Path, random.Random], None]:
    """Change a JSON file, and seal it again so that its checksum holds."""

    def damage(scene: Path, chance: random.Random) -> None:
        (file,) = scene.glob(path)
        content = json.loads(file.read_text(encoding="utf-8"))
        if seal is not None:
            content.pop("checksum")
        content = mutated(content, at_random(chance))
        with suppress(Exception):  # what cannot be sealed is written as it is
            content = content if seal is None else seal(content)
        file.write_text(text_of(content), encoding="utf-8")

    return damage


def sealed_state(content: dict[str, Any]) -> dict[str, Any]:
    """state.json with the checksum of its content."""
    from evenglot.runs.checkpoint import _digest_of

    return {**content, "checksum": _digest_of(content)}


def sealed_manifest(content: dict[str, Any]) -> dict[str, Any]:
    """manifest.json with the checksum of its content."""
    from evenglot.corpus.artefacts import key_of

    return {**content, "checksum": key_of(content)}


def sealed_meta(content: dict[str, Any]) -> dict[str, Any]:
    """meta.json with the checksum of its content."""
    from evenglot.corpus.artefacts import key_of

    return {**content, "checksum": key_of(content["about"], content["files"])}


def sealed_content(content: dict[str, Any]) -> dict[str, Any]:
    """Other JSON with the checksum of its content."""
    from evenglot.seals import sealed

    return sealed(content)


def damage_weights(scene: Path, chance: random.Random) -> None:
    """Change the header of model.safetensors, with size and checksum to match in state.json."""
    from zlib import crc32

    folder = scene / "runs/first/checkpoints/step-00000008"
    name = chance.choice(["model.safetensors", "optimizer.safetensors"])
    content = (folder / name).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    if chance.randrange(4):
        tensors = chance.sample(sorted(header), 2)
        match chance.randrange(3):
            case 0:
                header[tensors[0]], header[tensors[1]] = header[tensors[1]], header[tensors[0]]
            case 1:
                header[tensors[0]]["shape"] = [*header[tensors[0]]["shape"], 1]
            case _:
                header[f"{tensors[0]}x"] = header.pop(tensors[0])
    else:
        header = mutated(header, at_random(chance))
    text = text_of(header).encode()
    content = len(text).to_bytes(8, "little") + text + content[8 + size :]
    (folder / name).write_bytes(content)
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    state.pop("checksum")
    state["files"][name] = [len(content), crc32(content)]
    (folder / "state.json").write_text(text_of(sealed_state(state)), encoding="utf-8")


def damage_statistics(scene: Path, chance: random.Random) -> None:
    """Other arrays in statistics.npz: shapes, types, names, forged headers."""
    file = scene / "runs/first/statistics.npz"
    with np.load(file) as archive:
        arrays = {key: archive[key] for key in archive.files}
    for _ in range(chance.randint(1, 3)):
        key = chance.choice(sorted(arrays))
        _damage_array(arrays, key, chance)
        if not arrays:
            break
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        for key, array in arrays.items():
            written = io.BytesIO()
            np.save(written, array, allow_pickle=array.dtype.hasobject)
            content = written.getvalue()
            if chance.random() < 0.1:
                content = _forged(content, chance)
            out.writestr(f"{key}.npy", content)


def _damage_array(arrays: dict[str, Any], key: str, chance: random.Random) -> None:
    array = arrays[key]
    match chance.randrange(10):
        case 0:
            del arrays[key]
        case 1:
            arrays[key] = array.reshape(-1)
        case 2:
            arrays[key] = array[..., None]
        case 3:
            arrays[key] = array[:0] if array.ndim else array
        case 4:
            arrays[key] = array[..., :1] if array.ndim else np.zeros((2, 2))
        case 5:
            kind = chance.choice([bool, complex, "U5", "S3", "M8[s]", object, np.float16, np.int64])
            arrays[key] = np.zeros(array.shape, dtype=kind)
        case 6:
            arrays[key] = np.full(array.shape, chance.choice([np.nan, np.inf, -np.inf, -1.0, 1e308]))
        case 7:
            arrays[f"{key}x"] = arrays.pop(key)
        case 8:
            arrays[key] = np.concatenate([array, array]) if array.ndim else array
        case _:
            arrays[chance.choice(["", "/", "a/b/c", "nowhere-en/chrf", "por-en/loss"])] = array


def _forged(content: bytes, chance: random.Random) -> bytes:
    """An array whose header promises more than there is."""
    shape = chance.choice([(10**12, 24), (2**40,), (-1, 3), (10**30, 2), (0, 10**15)])
    written = io.BytesIO()
    np.lib.format.write_array_header_1_0(written, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return written.getvalue() + content[-64:]


def damage_config(scene: Path, chance: random.Random) -> None:
    """Other values in config.yaml of a run."""
    from evenglot import yaml12

    file = scene / "runs/first/config.yaml"
    content, _ = yaml12.parse(file.read_text(encoding="utf-8"))
    file.write_text("# Written by evenglot\n" + text_of(mutated(content, at_random(chance))), encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------- readers


def read_report(scene: Path) -> None:
    """Everything that `report`, `compare` and `mixture` read of a run."""
    from evenglot.comparison.compare import compare
    from evenglot.comparison.scored_run import read_scored_run
    from evenglot.reporting.page import write_report
    from evenglot.runs.log import last_step, read_log
    from evenglot.runs.mixtures import stages_of
    from evenglot.runs.run import Run

    errors: list[Exception] = []
    run, other = Run(scene / "runs/first"), Run(scene / "runs/erm")
    last_step(run.log_file)

    def comparison() -> None:
        compare([read_scored_run(each, each.folder.name, "test") for each in (other, run)], "erm", "test").as_json()

    readers: list[Callable[[], object]] = [
        lambda: write_report([run], scene / "report.html"),
        comparison,
        lambda: stages_of(read_log(run.log_file)),
        lambda: run.frame("step"),
        run.refuse_if_emptied,
    ]
    for read in readers:
        try:
            read()
        except (ValueError, OSError) as error:
            errors.append(error)
    if errors:
        raise errors[0]


def read_model(scene: Path) -> None:
    """Load the model and its vocabularies, as `translate`, `score`, `serve` and `export` do."""
    import evenglot

    evenglot.load(scene / "runs/first").translate(["ba de"], source="por", to="en", beam=1, max_length=3)


def read_resume(scene: Path) -> None:
    """Resume the run for one more update."""
    from evenglot.config import load_config
    from evenglot.training.train import train

    config = load_config(scene / "runs/first/config.yaml", ["train.updates=9"], check_files=False)
    train(config, scene / "runs/first", resume=True)


def read_store(scene: Path) -> None:
    """Open the store, verify it, and read every sentence."""
    from evenglot.corpus.store import open_store

    store = open_store(scene / "store")
    store.fingerprint, store.warnings, store.sizes, store.target_tokens  # noqa: B018
    for direction in store.directions:
        for split in store.splits(direction):
            corpus = store.corpus(direction, split)
            len(corpus), [corpus.source[i] for i in range(len(corpus.source))]
            if split != "train":
                store.text(direction, split, "target")


def read_config(scene: Path) -> None:
    """The configuration of a run."""
    from evenglot.runs.run import Run

    config = Run(scene / "runs/first").config()
    Run(scene / "runs/erm").changes(config)
    config.balancer(dict.fromkeys(config.data.groups.names, 100), None, config.balance)


def read_baseline(scene: Path) -> None:
    """Reference losses."""
    from evenglot.balance import create
    from evenglot.balance.baseline import baseline_about

    file = scene / "runs/erm/baseline.json"
    baseline_about(file)
    create("chi-ibr", sizes={"aze-en": 1, "por-en": 9, "tur-en": 5}, baseline=file)


def read_export(scene: Path) -> None:
    """Open an exported folder."""
    from evenglot.inference.ctranslate2 import CTranslate2Engine

    CTranslate2Engine(scene / "export", 1)


STATE = "runs/first/checkpoints/step-00000008/state.json"
TARGETS = {
    target.name: target
    for target in (
        Target("log", damage_log, read_report),
        Target("scores", json_damage("runs/first/scores.json", sealed_content), read_report),
        Target("statistics", damage_statistics, read_report),
        Target("baseline", json_damage("runs/erm/baseline.json"), read_baseline, ("runs/erm",)),
        Target("config", damage_config, read_config),
        Target("state", json_damage(STATE, sealed_state), read_model),
        Target("weights", damage_weights, read_model),
        Target("manifest", json_damage("store/manifest.json", sealed_manifest), read_store, ("store",)),
        Target("meta", json_damage("store/held_out.*/meta.json", sealed_meta), read_store, ("store",)),
        Target("export", json_damage("export/evenglot.json", sealed_content), read_export, ("export",)),
        Target("state, resumed", json_damage(STATE, sealed_state), read_resume),
        Target("weights, resumed", damage_weights, read_resume),
    )
}


def attack(scene: Scene, name: str, cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Try so many damaged files of a kind: how often each outcome, and what was at fault."""
    target, outcomes, faults = TARGETS[name], Counter[str](), []
    scene.restore(*target.touched)
    with quiet():
        before, error = attempt(target, scene.live)
    if before != "accepted":
        raise AssertionError(f"{name}: the undamaged file was {before}: {error!r}")
    for case in range(cases):
        scene.restore(*target.touched)
        target.damage(scene.live, random.Random(f"{seed} {name} {case}"))
        with quiet():
            outcome, error = attempt(target, scene.live)
        outcomes[outcome] += 1
        if outcome == "fault":
            faults.append(f"{name} {case}: {''.join(traceback.format_exception(error)[-3:])}")
    scene.restore(*target.touched)
    return outcomes, faults


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what readers print to themselves."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield
