"""Write the folder of an export: complete, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import get_args

import sentencepiece
import torch

from evenglot.export.ctranslate2.agreement import Report, compare, refuse_disagreement
from evenglot.export.ctranslate2.handout import readme, script
from evenglot.export.sample import tagged_sentences
from evenglot.files import finished_folder
from evenglot.inference.ctranslate2.about import ABOUT, read_about
from evenglot.inference.ctranslate2.convert import Quantization, write_model
from evenglot.inference.ctranslate2.engine import CTranslate2Engine
from evenglot.inference.ctranslate2.package import package
from evenglot.inference.vocabularies import read_vocabularies
from evenglot.model.transformer import Transformer
from evenglot.runs.model import load_model
from evenglot.runs.run import Run
from evenglot.symbols import EOS

SAMPLE = 50  # number of sentences used to verify an export
WRITTEN = {ABOUT, "README.md", "translate.py", "source.model", "target.model", "model.bin", "config.json"} | {
    f"{side}_vocabulary.json" for side in ("source", "target", "shared")
}


def export(
    run: Run,
    folder: Path,
    quantization: Quantization = "float32",
    sentences: Mapping[str, Sequence[str]] | None = None,
    which: str = "best",
) -> Report:
    """Export a checkpoint of a run, its vocabularies and an example script to a folder.

    Validation sentences of the run's store are first translated with torch and CTranslate2; without a store,
    `sentences` (by direction name). In float32 both must agree, otherwise ValueError is raised and nothing is written.
    With other quantizations the report states the agreement. `which`: best, last, average, or a number of updates.
    """
    package()  # fail early if CTranslate2 is not installed
    if quantization not in get_args(Quantization):
        raise ValueError(f"quantization: expected one of {', '.join(get_args(Quantization))}, got {quantization!r}")
    folder = folder.resolve()
    _refuse_if_taken(folder)
    config, chosen = run.config(), run.choose(which)
    model = load_model(chosen, config.model.init)
    if not isinstance(model, Transformer):
        raise ValueError(
            f"{run.folder}: fine-tuned from a pretrained model; export it with --to huggingface, and convert that with "
            "ct2-transformers-converter"
        )
    source = read_vocabularies(run, chosen)["source"].pieces
    sample = list(islice(tagged_sentences(config, sentences), SAMPLE))
    sources = [_encode(source, piece, text, model.shape.max_positions) for piece, text in sample]
    with finished_folder(folder) as unfinished:
        about = write_model(run, config, chosen, model, quantization, unfinished)
        report = compare(model, CTranslate2Engine(unfinished, torch.get_num_threads()), sources)
        if quantization == "float32":
            refuse_disagreement(report, folder)
        (unfinished / "translate.py").write_text(script(about), encoding="utf-8")
        (unfinished / "README.md").write_text(readme(about, report), encoding="utf-8")
    return report


def _refuse_if_taken(folder: Path) -> None:
    """Raise ValueError unless the folder is absent, empty or an earlier export."""
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        if not names or (names <= WRITTEN and read_about(folder) is not None):
            return
    elif not folder.exists():
        return
    raise ValueError(f"{folder}: contains files that no export wrote; choose another folder")


def _encode(vocabulary: sentencepiece.SentencePieceProcessor, piece: str, text: str, longest: int) -> list[int]:
    """Ids with tag and </s>, truncated to the model's maximum length."""
    first = vocabulary.piece_to_id(piece)
    if first == vocabulary.unk_id():
        raise ValueError(f"{piece}: not a tag of this model")
    return [first, *vocabulary.encode(text)[: longest - 2], EOS]
