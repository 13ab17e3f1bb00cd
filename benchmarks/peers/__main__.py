"""Training speed beside other toolkits: `python -m benchmarks.peers`, or `make bench-peers`.

Every toolkit trains a model of the same shape on the same subwords, in its own training loop and its own environment,
in one thread. Runs are separate processes, in turn: ours, peer A, ours, peer B, ... (docs/benchmarks.md).

    python -m benchmarks.peers --peers eole sockeye --size tiny mini --corpus PATH --repeats 5
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import evenglot
from benchmarks.peers.data import export
from benchmarks.peers.environments import PEERS, environment, version
from benchmarks.peers.results import OURS, Run, merged, replaced, table
from benchmarks.workload import CACHE, DROPOUT, RATE, SMOOTHING, TOKENS, prepared
from evenglot.batches.draw import draw
from evenglot.batches.load import load
from evenglot.corpus.store import Store
from evenglot.files import write_text
from evenglot.model.sizes import SIZES
from evenglot.symbols import PAD

ROOT = Path(__file__).parents[2]
RUNNERS = Path(__file__).parent / "runners"
RESULT = ROOT / "benchmarks" / "results" / "peers.json"
PAGE = ROOT / "docs" / "benchmarks.md"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
QUIET = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


class RunFailedError(RuntimeError):
    """A training process failed; the message is its last line."""


def main() -> None:
    options = arguments()
    pythons = {name: environment(PEERS[name], options.cache) for name in options.peers}
    if options.setup:
        return
    cases = []
    for corpus in options.corpus:
        for size in options.size:
            cases.append(measure(corpus, size, pythons, options))
            print("\n" + table(cases[-1]) + "\n", flush=True)
            if options.save:
                save([cases[-1]])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description="Training speed beside other toolkits.")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="NAME")
    parser.add_argument("--corpus", nargs="+", default=["tiny_webui"], help="folders, or tiny_webui (embedded)")
    parser.add_argument("--size", nargs="+", choices=list(SIZES), default=["tiny"], metavar="SIZE")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"token budget of an update, {TOKENS} unless set")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--updates", type=int, default=40, help="measured updates of a run")
    parser.add_argument("--warmup", type=int, default=10, help="updates before them")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of evenglot only")
    parser.add_argument("--cache", type=Path, default=CACHE, help="environments, corpora and runs")
    parser.add_argument("--setup", action="store_true", help="only set up the environments")
    parser.add_argument("--no-save", dest="save", action="store_false", help="only print")
    options = parser.parse_args()
    options.cache = options.cache.resolve()
    return options


# ------------------------------------------------------------------------------------------------------------ measure


@dataclass(frozen=True)
class Trainer:
    """Starts training processes of one case."""

    job: Mapping[str, Any]
    pythons: Mapping[str, Path]
    folder: Path
    warmup: int

    def train(self, name: str, seed: int) -> Run:
        """Train with a toolkit; the folder of the run is removed again."""
        folder = self.folder / name
        result = folder / "result.json"
        self._start(name, folder, {"action": "train", "seed": seed, "result": str(result)})
        run = Run.of(json.loads(result.read_text(encoding="utf-8")), self.warmup)
        shutil.rmtree(folder)
        print(f"  {name:12} {run.tokens_per_second:8,.0f} target tokens per CPU second", flush=True)
        return run

    def prepare(self, name: str) -> None:
        """Do what the toolkit does between text and training."""
        done = Path(self.job["data"], name)
        if PEERS[name].prepares and not done.exists():
            try:
                self._start(name, self.folder / name, {"action": "prepare"})
            except RunFailedError:
                shutil.rmtree(done, ignore_errors=True)
                raise

    def _start(self, name: str, folder: Path, more: Mapping[str, Any]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_text(folder / "job.json", json.dumps({**self.job, **more, "folder": str(folder)}))
        command = [self.pythons[name], RUNNERS / f"run_{name}.py", folder / "job.json"]
        variables = {**os.environ, **ONE_THREAD, **QUIET}
        variables.pop("PYTHONPATH", None)
        log = folder / "output.txt"
        with log.open("w", encoding="utf-8") as output:
            done = subprocess.run(command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT)
        if done.returncode:
            lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
            kept = self.folder / f"{name}.failed.txt"
            shutil.copy(log, kept)
            raise RunFailedError(f"{lines[-1].strip() if lines else done.returncode} (see {kept})")


def measure(corpus: str, size: str, pythons: Mapping[str, Path], options: argparse.Namespace) -> dict[str, Any]:
    """Train with all toolkits in turn. Those that fail, or do not offer the precision, are listed with the reason."""
    config, store = prepared(corpus, options.tokens, cache=options.cache)
    home = Path(config.store.folder).parent
    data = home / f"peers-{store.manifest['vocabulary']['artefact'].rpartition('.')[2]}"
    if not data.exists():
        export(store, home / "unfinished")
        (home / "unfinished").rename(data)
    job = {
        "data": str(data),
        "config": str(home / "conf.yaml"),
        "size": size,
        "shape": SIZES[size],
        "pieces": store.manifest["vocabulary"]["pieces"],
        "tokens": options.tokens,
        "pairs": pairs_per_update(store, options.tokens),
        "updates": options.warmup + options.updates,
        "precision": options.precision,
        "dropout": DROPOUT,
        "smoothing": SMOOTHING,
        "rate": RATE,
        "set": options.set,
    }
    pythons = {OURS: Path(sys.executable), **pythons}
    name = Path(corpus).name
    print(f"{name}, {size}, {options.precision}", flush=True)
    trainer = Trainer(job, pythons, options.cache / "runs" / f"{name}-{size}-{options.precision}", options.warmup)
    runs, relative, failures = interleaved(trainer, options)
    versions = {OURS: evenglot.__version__}
    versions |= {peer: version(pythons[peer], PEERS[peer].distribution) for peer in options.peers}
    toolkits = [
        {
            "title": OURS if toolkit == OURS else PEERS[toolkit].title,
            "version": versions[toolkit],
            "failure": failures.get(toolkit),
            "runs": [asdict(run) for run in runs[toolkit]],
            "ratios": relative[toolkit],
        }
        for toolkit in runs
    ]
    return {
        "corpus": name,
        "size": size,
        "precision": options.precision,
        "date": date.today().isoformat(),
        "commit": commit(),
        "hardware": hardware(),
        "python": platform.python_version(),
        "torch": version(pythons[OURS], "torch"),
        "tokens": options.tokens,
        "updates": options.updates,
        "warmup": options.warmup,
        "repeats": options.repeats,
        "set": options.set,
        "toolkits": toolkits,
    }


Runs = dict[str, list[Run]]


def interleaved(trainer: Trainer, options: argparse.Namespace) -> tuple[Runs, dict[str, list[float]], dict[str, str]]:
    """The runs of each toolkit; for each peer our speed over its, next to it in time; what failed, and why."""
    runs: Runs = {name: [] for name in (OURS, *options.peers)}
    relative: dict[str, list[float]] = {name: [] for name in runs}
    failures: dict[str, str] = {}

    def attempt(name: str, seed: int) -> Run | None:
        if name in failures:
            return None
        try:
            runs[name].append(trainer.train(name, seed))
        except RunFailedError as error:
            print(f"  {name}: {error}", flush=True)
            failures[name] = f"fails: {error}"
            return None
        return runs[name][-1]

    for name in options.peers:
        if options.precision not in PEERS[name].precisions:
            failures[name] = f"no {options.precision} on a CPU"
            continue
        try:
            trainer.prepare(name)
        except RunFailedError as error:
            failures[name] = f"fails: {error}"
    for seed in range(1, options.repeats + 1):  # other batches each time, or their lengths would bias all ratios alike
        for name in options.peers:
            if name in failures:
                continue
            ours, theirs = attempt(OURS, seed), attempt(name, seed)
            if ours and theirs:
                relative[name].append(ours.tokens_per_second / theirs.tokens_per_second)
    return runs, relative, failures


def pairs_per_update(store: Store, tokens: int) -> int:
    """Our mean number of sentence pairs in an update, for toolkits that count sentences."""
    corpora = {name: store.corpus(name, "train") for name in store.directions}
    interval = draw(store.sizes, store.sizes, seed=1, interval=0)
    plan = load(corpora, interval, budget=tokens, pad=PAD, micro_batches=1).plan
    return round(len(interval) / len(plan))


# --------------------------------------------------------------------------------------------------------------- save


def save(cases: list[dict[str, Any]]) -> None:
    """Add the cases to peers.json, and its tables to the documentation."""
    saved = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else []
    every = merged(saved, cases)
    write_text(RESULT, json.dumps(every, indent=1) + "\n")
    page = PAGE.read_text(encoding="utf-8")
    write_text(PAGE, replaced(page, "\n\n".join(map(table, every))))


def commit() -> str:
    ask = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    name = ask(["git", "rev-parse", "--short", "HEAD"]).stdout.strip()
    changed = ask(["git", "status", "--porcelain", "--", "evenglot"]).stdout.strip()
    return name + ("+" if changed else "")


def hardware() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return f"{', '.join(sorted(names))} ({os.cpu_count()} cores)"


if __name__ == "__main__":
    main()
