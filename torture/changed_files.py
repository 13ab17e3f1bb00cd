"""Changes of the files of a scene, at random, with valid checksums where a file has one."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from torture.mutations import at_random, mutated


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
