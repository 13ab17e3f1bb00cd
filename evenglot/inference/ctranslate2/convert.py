"""Convert the model of a checkpoint to CTranslate2's format."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

from evenglot.config import Config
from evenglot.directions import SIDES
from evenglot.files import finished_folder, write_json
from evenglot.inference.ctranslate2.about import ABOUT, describe, pieces_of, read_about, vocabulary
from evenglot.inference.ctranslate2.weights import convert
from evenglot.model.transformer import Transformer
from evenglot.runs.checkpoint import Checkpoint, fingerprint
from evenglot.runs.run import Run

Quantization = Literal["float32", "float16", "bfloat16", "int16", "int8"]


def converted(run: Run, chosen: Checkpoint, model: Transformer, quantization: Quantization = "float32") -> Path:
    """The folder of the converted model of a checkpoint, created on first use inside the run folder."""
    folder = run.folder / "ctranslate2" / f"{quantization}-{fingerprint(chosen)}"
    if read_about(folder) is None:
        folder.parent.mkdir(exist_ok=True)
        with finished_folder(folder) as unfinished:
            write_model(run, run.config(), chosen, model, quantization, unfinished)
    return folder


def write_model(
    run: Run, config: Config, chosen: Checkpoint, model: Transformer, quantization: Quantization, folder: Path
) -> dict[str, Any]:
    """Write the model, its vocabularies and its metadata; return the metadata."""
    source, target = (vocabulary(run.vocabulary, side) for side in SIDES)
    convert(model, pieces_of(source), pieces_of(target), folder, quantization)
    for side in SIDES:
        shutil.copy(run.vocabulary / f"{side}.model", folder)
    about = describe(
        config.data.directions, model.shape.max_positions, quantization, run.folder.resolve().name, chosen.step
    )
    write_json(folder / ABOUT, about)
    return about
