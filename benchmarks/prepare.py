"""Time and memory of `evenglot prepare` on generated text: `python -m benchmarks.prepare` writes results/prepare.md.

The text is made of invented words with Zipf-like frequencies, so that SentencePiece finds realistic word statistics:
`--pairs` of them in `--directions` to English, of which the first has half of the pairs. It is deleted afterwards. With
`--old FOLDER`, a checkout of another version is measured on the same text too.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RESULT = Path(__file__).parent / "results" / "prepare.md"
CASES = [(100_000, 8), (1_000_000, 8), (5_000_000, 8), (10_000_000, 8), (1_000_000, 100), (1_000_000, 1000)]
WORDS = 30_000
CHUNK = 100_000
HELD_OUT = 500  # pairs of each validation set
LETTERS = "abcdefghij"


def invent_words(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    syllables = [c + v for c in "bcdfghklmnprstvz" for v in "aeiou"]
    return np.array(["".join(rng.choice(syllables, rng.integers(1, 5))) for _ in range(WORDS)])


def write_side(path: Path, words: np.ndarray, pairs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, pairs, CHUNK):
            count = min(CHUNK, pairs - start)
            lengths = rng.integers(4, 16, size=count)
            ranks = np.minimum(rng.zipf(1.3, size=lengths.sum()), WORDS) - 1
            chosen = iter(words[ranks].tolist())
            file.writelines(" ".join(next(chosen) for _ in range(length)) + "\n" for length in lengths)


def write_corpus(root: Path, pairs: int, directions: int) -> None:
    """The first direction has half of the pairs, the others share the rest; there are ten invented vocabularies."""
    languages = [f"x{LETTERS[i // 100]}{LETTERS[i // 10 % 10]}{LETTERS[i % 10]}" for i in range(directions)]
    vocabularies = [invent_words(seed) for seed in range(11)]
    for number, language in enumerate(languages):
        train = pairs // 2 if number == 0 else pairs // 2 // (directions - 1)
        for side, words in ((language, vocabularies[number % 10]), ("en", vocabularies[10])):
            for split, count in (("train", train), ("valid", HELD_OUT)):
                seed = 4 * number + 2 * (side == "en") + (split == "valid")
                write_side(root / f"{split}.{language}-en.{side}", words, count, seed)
    (root / "conf.yaml").write_text(
        f"data:\n  directions: {{from: [{', '.join(languages)}], to: en}}\n"
        "  train: train.{pair}.{lang}\n  valid: valid.{pair}.{lang}\n"
        "clean: {duplicates: true, wrong_script: true}\n"
    )


@dataclass(frozen=True)
class Measured:
    """What one call of `evenglot prepare` took; memory of all its processes together, in MB."""

    wall: float
    cpu: float
    memory: float
    files: int
    fingerprint: str


def measure(root: Path, code: Path, store: Path) -> Measured:
    wall, cpu, peak = cost(["prepare", str(root / "conf.yaml"), "--set", f"store.folder={store}"], root, code)
    program = f"from evenglot.corpus.store import open_store; print(open_store({str(store)!r}).fingerprint)"
    look = [sys.executable, "-c", program]
    done = subprocess.run(look, cwd=root, env=with_code(code), capture_output=True, text=True, check=True)
    files = sum(path.is_file() for path in store.rglob("*"))
    return Measured(wall, cpu, peak, files, done.stdout.strip())


def cost(words: list[str], root: Path, code: Path) -> tuple[float, float, float]:
    """Wall and CPU time in seconds, and peak memory in MB, of a command of evenglot with all its processes."""
    before, started = os.times(), time.monotonic()
    command = [sys.executable, "-m", "evenglot", *words]
    process = subprocess.Popen(command, cwd=root, env=with_code(code), stdout=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, memory_of(process.pid))
        time.sleep(0.05)
    wall, after = time.monotonic() - started, os.times()
    assert process.returncode == 0
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu, peak


def with_code(code: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(code)}


def memory_of(pid: int) -> float:
    """Proportional set size of a process and its descendants, in MB: shared pages count once."""
    total = 0.0
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(memory_of(int(child)) for child in (task / "children").read_text().split())
    except (OSError, ValueError):  # it has ended
        return total
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--directions", type=int, default=8)
    parser.add_argument("--old", type=Path)
    arguments = parser.parse_args()
    cases = [(arguments.pairs, arguments.directions)] if arguments.pairs else CASES
    versions = {"this version": Path(__file__).parents[1], **({"before": arguments.old} if arguments.old else {})}
    rows = []
    for pairs, directions in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            write_corpus(root, pairs, directions)
            size = sum(path.stat().st_size for path in root.iterdir()) / 1e6
            measured = {
                name: measure(root, code, root / f"store{i}") for i, (name, code) in enumerate(versions.items())
            }
            assert len({each.fingerprint for each in measured.values()}) == 1
            for name, each in measured.items():
                rows.append(
                    f"| {pairs:,} | {directions:,} | {size:,.0f} MB | {name} | {each.cpu:.1f} s | {each.wall:.1f} s "
                    f"| {each.memory:,.0f} MB | {each.files:,} |"
                )
                print(rows[-1], flush=True)
    if not arguments.pairs:
        RESULT.write_text("\n".join([*HEADER, *rows]) + "\n", encoding="utf-8")


HEADER = [
    "# Time and memory of `evenglot prepare`",
    "",
    f"Made by `python -m benchmarks.prepare` on {os.cpu_count()} cores ({platform.machine()}), Python "
    f"{platform.python_version()}.",
    "CPU time and memory are those of all processes together (proportional set size, sampled 20 times a second).",
    "",
    "| pairs | directions | text | version | CPU | wall | peak memory | files |",
    "|---:|---:|---:|---|---:|---:|---:|---:|",
]


if __name__ == "__main__":
    main()
