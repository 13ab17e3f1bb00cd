"""Convert the model of a checkpoint to CTranslate2's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from evenglot.config import Config
from evenglot.directions import SIDES
from evenglot.files import finished_folder, write_json
from evenglot.inference.ctranslate2.about import ABOUT, describe, pieces_of, verified_about
from evenglot.inference.ctranslate2.weights import convert
from evenglot.inference.vocabularies import read_vocabularies
from evenglot.model.transformer import Transformer
from evenglot.runs.checkpoint import Checkpoint, fingerprint
from evenglot.runs.run import Run
from evenglot.seals import checksums, sealed

Quantization = Literal["float32", "float16", "bfloat16", "int16", "int8"]


def converted(run: Run, chosen: Checkpoint, model: Transformer, quantization: Quantization = "float32") -> Path:
    """The folder of the converted model of a checkpoint, created on first use inside the run folder.

    It can be made at any time, so that a damaged one is replaced.
    """
    folder = run.folder / "ctranslate2" / f"{quantization}-{fingerprint(chosen)}"
    if not _is_intact(folder):
        folder.parent.mkdir(exist_ok=True)
        with finished_folder(folder) as unfinished:
            write_model(run, run.config(), chosen, model, quantization, unfinished)
    return folder


def write_model(
    run: Run, config: Config, chosen: Checkpoint, model: Transformer, quantization: Quantization, folder: Path
) -> dict[str, Any]:
    """Write the model, its vocabularies and its metadata; return the metadata."""
    vocabularies = read_vocabularies(run, chosen)
    source, target = (pieces_of(vocabularies[side].pieces) for side in SIDES)
    convert(model, source, target, folder, quantization)
    for side, vocabulary in vocabularies.items():
        (folder / f"{side}.model").write_bytes(vocabulary.content)
    about = describe(
        config.data.directions, model.shape.max_positions, quantization, run.folder.resolve().name, chosen.step
    )
    about["files"] = checksums(folder)
    write_json(folder / ABOUT, sealed(about))
    return about


def _is_intact(folder: Path) -> bool:
    try:
        return bool(verified_about(folder))
    except (OSError, ValueError):
        return False
