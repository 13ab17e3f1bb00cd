"""Peak memory and time of `evenglot prepare` on generated text: python -m benchmarks.prepare [--pairs 5000000]

The text is made of invented words with Zipf-like frequencies, in two languages of unequal size, so that
SentencePiece finds realistic word statistics. The text is deleted afterwards.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESULT = Path(__file__).parent / "results" / "prepare.md"
WORDS = 30_000
CHUNK = 100_000


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number, (language, share) in enumerate((("aaa", 0.9), ("bbb", 0.1))):
            for side, seed in ((language, 10 + number), ("en", 20)):
                for split, count in (("train", int(share * pairs)), ("valid", 1000)):
                    path = root / f"{split}.{language}-en.{side}"
                    write_side(path, invent_words(seed), count, seed + 100 * number + len(split))
        (root / "conf.yaml").write_text(
            "data:\n  directions: {from: [aaa, bbb], to: en}\n"
            "  train: train.{pair}.{lang}\n  valid: valid.{pair}.{lang}\n"
            "clean: {duplicates: true, wrong_script: true}\n"
        )
        size = sum(path.stat().st_size for path in root.iterdir()) / 1e6
        print(f"{pairs:,} pairs, {size:,.0f} MB of text", flush=True)
        started = time.monotonic()
        subprocess.run([sys.executable, "-m", "evenglot", "prepare", str(root / "conf.yaml")], check=True)
        seconds = time.monotonic() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        stored = sum(path.stat().st_size for path in (root / "store").rglob("*") if path.is_file()) / 1e6
    report = (
        "# Memory and time of `evenglot prepare`\n\n"
        f"Made by `python -m benchmarks.prepare --pairs {pairs}` on {platform.machine()}, Python "
        f"{platform.python_version()}.\n\n"
        "| pairs | text | store | time | peak memory | goal |\n|---:|---:|---:|---:|---:|---:|\n"
        f"| {pairs:,} | {size:,.0f} MB | {stored:,.0f} MB | {seconds:,.0f} s | {peak:,.0f} MB | 1,000 MB |\n"
    )
    print(report)
    RESULT.write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
