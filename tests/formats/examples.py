"""Makes `examples.tar.xz`: a store, a run and an export in each version of the formats, and what they gave then.

The examples in the archive are never made again. When a format changes, one is added with

    python -m tests.formats.examples NAME

Its text is from the demo corpus. Its model is as small as can be, and so sure of the lines in expected.json that
rounding does not change them: with weights that are changed by a thousandth, it gives the same.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.inference.translate import translator_of
from evenglot.paper.recipes import demo_corpus
from evenglot.progress import Bars
from evenglot.runs import checkpoint_folder
from evenglot.runs.events import StepEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.model import load_model
from evenglot.runs.run import Run
from evenglot.training.train import train
from tests.workplace import in_process

ARCHIVE = Path(__file__).with_name("examples.tar.xz")
PLACE = Path("/tmp/evenglot-example")  # written into configurations, which have absolute paths
SAVED, FURTHER = 400, 4  # updates of the run, and after it was resumed
LINES = 6
LONGEST = 20  # subwords of a translation
NOISE, NEIGHBOURS = 1e-3, 6  # relative changes of the weights, and how many models
LANGUAGES = ("por", "glg")
SIZES = {"train": 120, "valid": 20, "test": 20}

CONFIG = f"""
data:
  directions: {{from: [{", ".join(LANGUAGES)}], to: en}}
  train: text/train.{{pair}}.{{lang}}
  valid: text/valid.{{pair}}.{{lang}}
  test: text/test.{{pair}}.{{lang}}
vocabulary: {{kind: joint, size_joint: 110}}
clean: {{max_words: 6}}
store: {{valid_cap: 10, folder: store}}
batches: {{tokens_per_batch: 256, tokens_per_update: 256, interval_updates: 40}}
balance: {{strategy: chi-ibr}}
model: {{size: tiny, dim: 8, heads: 2, ffn: 8, encoder_layers: 1, decoder_layers: 1, dropout: 0}}
train:
  {{updates: {SAVED}, device: cpu, threads: 1, learning_rate: 1e-2, warmup: 10, validate_every: 200, log_every: 40}}
seed: 1
"""


def make(folder: Path) -> None:
    """An example in an empty folder."""
    (folder / "text").mkdir(parents=True)
    for language in LANGUAGES:
        for split, size in SIZES.items():
            for side in (language, "en"):
                name = f"{split}.{language}-en.{side}"
                lines = gzip.decompress((demo_corpus() / f"{name}.gz").read_bytes()).split(b"\n")
                (folder / "text" / name).write_bytes(b"\n".join(lines[:size]) + b"\n")
    (folder / "conf.yaml").write_text(CONFIG)
    prepare(load_config(folder / "conf.yaml"), Bars())
    config = load_config(folder / "conf.yaml", check_files=False)
    run = Run(folder / "run")
    train(config, run.folder)
    for each in checkpoint_folder.checkpoints(run.checkpoints)[:-1]:
        shutil.rmtree(each.folder)
    in_process("evenglot baseline run", folder)
    in_process("evenglot score run --beam 1", folder)
    in_process("evenglot export run --to ctranslate2 --out export", folder)
    expected = expectations(folder)
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1), encoding="utf-8")


def expectations(folder: Path) -> dict[str, Any]:
    """What the example gives: translations, losses of further updates, scores."""
    source = (folder / "text/train.por-en.por").read_text(encoding="utf-8").split("\n")
    translations = sure_translations(Run(folder / "run"), [line for line in dict.fromkeys(source) if line])
    if len(translations) < LINES or len(set(translations.values())) < LINES:
        raise SystemExit(f"the model is sure of {len(translations)} lines only")
    return {
        "translations": dict(list(translations.items())[:LINES]),
        "losses": further_losses(folder),
        "macro": json.loads((folder / "run/scores.json").read_text(encoding="utf-8"))["macro"],
    }


def sure_translations(run: Run, lines: list[str]) -> dict[str, str]:
    """Translations that do not change when the weights are changed a little; of lines that become the same, one."""
    chosen = run.best()
    found = []
    for seed in range(NEIGHBOURS):
        model = load_model(chosen)
        noise = torch.Generator().manual_seed(seed)
        for weight in model.parameters():
            weight.data *= 1 + NOISE * torch.randn(weight.shape, generator=noise) * (seed > 0)
        translator = translator_of(run, run.config().data, chosen, model, "cpu", "torch")
        found.append(translator.translate(lines, source="por", beam=1, max_length=LONGEST))
    sure = {each[0]: line for line, *each in zip(lines, *found, strict=True) if len(set(each)) == 1}
    return {line: translation for translation, line in sure.items()}


def further_losses(folder: Path) -> list[float]:
    """Losses of the updates after the run is resumed, in a copy of it."""
    copy = folder.with_name(f"{folder.name}-resumed")
    shutil.copytree(folder / "run", copy)
    overrides = [f"train.updates={SAVED + FURTHER}", f"store.folder={folder / 'store'}", "train.log_every=1"]
    train(load_config(copy / "config.yaml", overrides, check_files=False), copy, resume=True)
    found = [each.loss for each in of_kind(read_log(copy / "log.jsonl"), StepEvent) if each.step > SAVED]
    shutil.rmtree(copy)
    return [loss for loss in found if loss is not None]


def add(name: str) -> None:
    """Make an example and add it to the archive, without the text."""
    shutil.rmtree(PLACE, ignore_errors=True)
    make(PLACE)
    shutil.rmtree(PLACE / "text")
    with TemporaryDirectory() as folder:
        if ARCHIVE.exists():
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(folder, filter="data")
        shutil.move(PLACE, Path(folder) / name)
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for each in sorted(Path(folder).iterdir()):
                archive.add(each, each.name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    add(sys.argv[1])
