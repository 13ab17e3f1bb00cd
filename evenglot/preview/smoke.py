"""`evenglot doctor --gpu`: short real runs, compared with each other, on the GPUs of this machine.

The same runs at a small size on a CPU are a test of this module.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from evenglot.config import Config, load_config
from evenglot.corpus.prepare import prepare
from evenglot.preview.doctor import Check, attempt
from evenglot.progress import Bars
from evenglot.runs.checkpoint_folder import checkpoints
from evenglot.runs.events import DoneEvent, StepEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.run import Run
from evenglot.wording import last_message

SYLLABLES = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
COMPARED = 10  # updates whose losses must agree; later ones may drift apart, as rounding errors grow
CLOSE = {"float32": 1e-4, "bfloat16": 2e-2, "float16": 2e-2}  # largest relative difference of their losses

CONFIG = """\
data: {directions: [aa-en, bb-en], train: "train.{pair}.{lang}", valid: "valid.{pair}.{lang}"}
clean: {leakage: false}
vocabulary: {size_shared: 200, size_other: 200, character_coverage: 1.0}
balance: {strategy: chi-ibr, noise: ignore}
train: {learning_rate: 1e-3, warmup: 100, schedule: constant, log_every: 1, keep_last: 2}
"""


@dataclass(frozen=True)
class Size:
    """How large the runs are."""

    device: str = "cuda"
    model: str = "base"
    updates: int = 200
    tokens_per_batch: int = 4096
    micro_batches: int = 8
    sentences: int = 20_000
    precisions: Sequence[str] = ("float32", "bfloat16", "float16")


def smoke(processes: int, size: Size | None = None) -> Iterator[Check]:
    """Train in every precision, on one and on all `processes` (GPUs), and after an interruption."""
    with tempfile.TemporaryDirectory(prefix="evenglot-doctor-") as folder:
        runs = Runs(Path(folder), size or Size())
        for precision in runs.size.precisions:
            yield attempt(f"training in {precision}", partial(runs.learns, precision))
        precision = runs.size.precisions[0]
        yield attempt("exact resume", partial(runs.resumes, precision))
        if processes == 1:
            yield Check("several GPUs", "absent", "there is one")
            return
        for mode in ("ddp", "fsdp"):
            yield attempt(f"{processes} processes ({mode})", partial(runs.agrees, precision, mode, processes))


class Runs:
    """Short runs on a small artificial corpus, in a folder that is prepared once."""

    def __init__(self, folder: Path, size: Size) -> None:
        self.folder, self.size = folder, size
        self.conf = folder / "conf.yaml"
        self.conf.write_text(CONFIG)
        _write_corpora(folder, size.sentences)
        prepare(self._config(), Bars())

    def learns(self, precision: str) -> str:
        """The loss falls; speed and memory."""
        run = self._train(precision, [f"train.precision={precision}"])
        return f"{_progress(run)}; {_cost(run)}"

    def resumes(self, precision: str) -> str:
        """A run in two parts and one without an interruption, from the same seed."""
        settings = [f"train.precision={precision}"]
        whole, cut = self._train(precision, settings), self.folder / "cut"
        self._train("cut", [*settings, f"train.updates={self.size.updates // 2}"])
        self._train("cut", settings, resume=True)
        distance = _distance(whole, Run(cut))
        if distance == 0:
            return "bit-identical weights"
        difference = _difference(whole, Run(cut), self.size.updates // 2 + COMPARED)
        if difference > CLOSE[precision]:
            raise ValueError(f"losses differ by {difference:.1e}")
        return f"losses differ by {difference:.1e}, weights by {distance:.1e}: GPU kernels may add in any order"

    def agrees(self, precision: str, mode: str, processes: int) -> str:
        """The losses of several processes and of one."""
        settings = [f"train.precision={precision}", f"train.parallel={mode}"]
        run = self._train(mode, settings, processes)
        difference = _difference(self._train(precision, settings[:1]), run, COMPARED)
        if difference > CLOSE[precision]:
            raise ValueError(f"losses of the first {COMPARED} updates differ by {difference:.1e}")
        return f"losses of the first {COMPARED} updates agree to {difference:.0e}; {_cost(run)}"

    def _train(self, name: str, settings: Sequence[str], processes: int = 1, *, resume: bool = False) -> Run:
        """Train a run, unless it is complete, with the command that users have."""
        run = Run(self.folder / name)
        if run.log_file.exists() and not resume:
            return run
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        options = [word for each in (*self._settings(), *settings) for word in ("--set", each)]
        command = ["-m", "evenglot", "train", str(self.conf), "--out", str(run.folder), "--resume", *options]
        done = subprocess.run(
            [sys.executable, *(start if processes > 1 else []), *command], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(last_message(done.stderr))
        return run

    def _config(self) -> Config:
        return load_config(self.conf, self._settings())

    def _settings(self) -> list[str]:
        size = self.size
        return [
            f"model.size={size.model}",
            f"train.device={size.device}",
            f"train.updates={size.updates}",
            f"batches.tokens_per_batch={size.tokens_per_batch}",
            f"batches.tokens_per_update={size.tokens_per_batch * size.micro_batches}",
        ]


# ------------------------------------------------------------------------------------------------ what runs say


def _losses(run: Run) -> list[float]:
    return [event.loss for event in of_kind(read_log(run.log_file), StepEvent) if event.loss is not None]


def _difference(left: Run, right: Run, updates: int) -> float:
    """The largest relative difference between the losses of the first updates."""
    pairs = zip(_losses(left)[:updates], _losses(right)[:updates], strict=True)
    return max(abs(a - b) / abs(a) for a, b in pairs)


def _distance(left: Run, right: Run) -> float:
    """The largest difference between weights at the end."""
    first, second = (checkpoints(run.checkpoints)[-1].read_model() for run in (left, right))
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def _progress(run: Run) -> str:
    losses = _losses(run)
    few = max(1, len(losses) // 10)
    begin, end = np.mean(losses[:few]), np.mean(losses[-few:])
    if not end < begin:
        raise ValueError(f"the loss does not fall: {begin:.3f} at the start, {end:.3f} at the end")
    return f"loss {begin:.2f} to {end:.2f}"


def _cost(run: Run) -> str:
    """Tokens per second in the second half of a run, and memory."""
    events = read_log(run.log_file)
    speeds = [event.tokens_per_second for event in of_kind(events, StepEvent) if event.tokens_per_second]
    memory = of_kind(events, DoneEvent)[-1].gpu_memory
    speed = f"{np.median(speeds[len(speeds) // 2 :]):,.0f} tokens/s"
    return speed if memory is None else f"{speed}, {memory / 2**30:.1f} GiB of GPU memory"


def _write_corpora(folder: Path, sentences: int) -> None:
    """Two made-up languages whose words are those of a third, written backwards or doubled."""
    random = np.random.default_rng(1)
    words = ["".join(random.choice(SYLLABLES, random.integers(2, 5))) for _ in range(500)]
    changes: dict[str, Callable[[str], str]] = {"aa": lambda word: word[::-1], "bb": lambda word: word + word[:2]}
    for language, change in changes.items():
        for split, count in {"train": sentences, "valid": 50}.items():
            english = [[str(word) for word in random.choice(words, random.integers(4, 25))] for _ in range(count)]
            foreign = [[change(word) for word in sentence] for sentence in english]
            for lang, lines in {"en": english, language: foreign}.items():
                text = "".join(f"{' '.join(line)}\n" for line in lines)
                (folder / f"{split}.{language}-en.{lang}").write_text(text)


def gpu_checks() -> Iterator[Check]:
    """The runs on all GPUs; one check that is absent where there are none."""
    if not torch.cuda.is_available():
        yield Check("GPUs", "absent", "no CUDA device: the tests of `--gpu` are skipped")
        return
    yield from smoke(torch.cuda.device_count())
