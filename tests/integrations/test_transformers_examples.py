"""The examples for Hugging Face run and balance; tests/test_examples.py compares them with their pages."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.documents import ROOT

EXAMPLES = ("finetune_seq2seq", "pretrain_causal_lm")


def code(name: str) -> str:
    return (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")


def run(name: str, folder, *arguments: str) -> dict[str, list[float]]:
    """The rows of the table that an example prints: size, share, validation loss."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--out", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    rows = (re.fullmatch(r"(\w+) +(\d+) +([\d.]+)% +([\d.]+)", line) for line in done.stdout.splitlines())
    return {row[1]: [float(number) for number in row.groups()[1:]] for row in rows if row}


@pytest.mark.parametrize("name", EXAMPLES)
def test_balancing_adds_at_most_five_lines(name):
    lines = code(name).splitlines()
    assert 0 < len([line for line in lines if line.endswith("# +")]) <= 5
    for line in lines:
        if re.search(r"^from evenglot|import Counter|create\(|Balanced|balancer=|group_column", line):
            assert line.endswith(("# +", "# ~")), line


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_balances(name, tmp_path):
    rows = run(name, tmp_path / "out", "--steps", "120")
    assert {"por", "tur", "ces", "slk", "glg"} <= set(rows)
    total = sum(size for size, _, _ in rows.values())
    shares = {language: share / 100 for language, (_, share, _) in rows.items()}
    assert sum(shares.values()) == pytest.approx(1, abs=0.005)
    assert max(abs(share - rows[language][0] / total) for language, share in shares.items()) > 0.02
    assert all(loss < 5 for _, _, loss in rows.values()), "of log(256) = 5.5 at the start"
