"""A folder in which the commands of the documentation are true, and how they are run there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.paper.ted import RELATED
from evenglot.paper.wmt import WMT4
from tests.documents import ROOT
from tests.paper.downloads import ted_archive, wmt_folder
from tests.patience import PATIENCE
from tests.tasks import ALPHABET, CONFIG, WORDS

# What takes longer, or needs a process of its own: run by `make test-all`.
SLOW = r"torchrun |python |curl |evenglot (serve|export|grid) |.*--engine ctranslate2"

SIZES = {"por": 300, "tur": 100, "aze": 40}  # ciphers of one language, as in tasks.py, under the names of the pages
GRID = """\
base: conf.yaml
out: runs/grid
seeds: [1]
strategies:
  erm: {balance: {strategy: proportional}}
  chi-ibr: {balance: {strategy: chi-ibr, baseline: erm}}
reference: erm
beam: 1
"""


def write_texts(folder: Path) -> None:
    """corpora/por-en/train.por and so on; all.por is what the others could be cut from."""
    random = np.random.default_rng(3)
    for turn, (language, size) in enumerate(SIZES.items(), 3):
        cipher = str.maketrans(ALPHABET, ALPHABET[turn:] + ALPHABET[:turn])
        place = folder / "corpora" / f"{language}-en"
        place.mkdir(parents=True)
        for split, count in {"train": size, "valid": 8, "test": 8, "all": 1600}.items():
            english = "".join(" ".join(random.choice(WORDS, random.integers(2, 6))) + "\n" for _ in range(count))
            (place / f"{split}.en").write_text(english)
            (place / f"{split}.{language}").write_text(english.translate(cipher))


def configuration(corpora: str) -> str:
    """That of the synthetic task, with the files of the pages, and a little shorter."""
    text = CONFIG.replace("[aa, bb, cc]", "[por, tur, aze]").replace("strategy: proportional", "strategy: chi-ibr")
    for split in ("train", "valid", "test"):
        text = text.replace(f"{split}.{{pair}}.{{lang}}", f"{corpora}/{{pair}}/{split}.{{lang}}")
    return text.replace("updates: 24", "updates: 8").replace("warmup: 10", "warmup: 4")


def furnish(folder: Path) -> None:
    """Text, configuration, store, and four runs that are scored."""
    write_texts(folder)
    (folder / "conf.yaml").write_text(configuration("corpora"))
    (folder / "grid.yaml").write_text(GRID)
    recipe = folder / "evenglot" / "recipes" / "tiny-webui.yaml"  # the real one trains for minutes: test_a_page_...
    recipe.parent.mkdir(parents=True)
    recipe.write_text(configuration("../../corpora") + "store: {folder: ../../store}\n")
    (folder / "in.txt").write_text((folder / "corpora/por-en/test.por").read_text())
    for language in SIZES:
        (folder / f"text.{language}").write_text((folder / f"corpora/{language}-en/test.{language}").read_text())
    ted_archive(folder / "ted_talks.tar.gz", RELATED, dict.fromkeys(RELATED, 3))
    wmt_folder(folder / "downloads", dict.fromkeys(WMT4, 3))
    for command in (
        "evenglot prepare conf.yaml",
        "evenglot train conf.yaml --out runs/first",
        "evenglot train conf.yaml --out runs/erm --set balance='{strategy: proportional}'",
        "evenglot train conf.yaml --out runs/tau --set balance='{strategy: temperature, tau: 1.5}'",
        "evenglot baseline runs/erm",
        "evenglot train conf.yaml --out runs/chi --set balance.baseline=runs/erm/baseline.json",
        *(f"evenglot score runs/{name} --beam 1" for name in ("first", "erm", "tau", "chi")),
    ):
        in_process(command, folder)


def perform(command: str, folder: Path, run: Callable[[str, Path], str] | None = None) -> None:
    """Do as the docs say: in this process if that is possible, unless it is said how."""
    words = shlex.split(command)
    if "train" in words and "--resume" not in words and "--out" in words:  # a new run wants an empty place
        shutil.rmtree(folder / words[words.index("--out") + 1], ignore_errors=True)
    is_ours = words[0] == "evenglot" and not re.match(SLOW, command)
    (run or (in_process if is_ours else in_a_shell))(command, folder)


def in_process(command: str, folder: Path) -> str:
    """Run `evenglot ... < FILE > FILE` in this process, since importing torch takes seconds. What does it print?"""
    words = shlex.split(command)
    files = {}
    for sign in "<>":
        if sign in words:
            at = words.index(sign)
            files[sign] = folder / words[at + 1]
            del words[at : at + 2]
    before = Path.cwd()
    os.chdir(folder)
    try:
        given = files["<"].read_bytes() if "<" in files else None
        result = CliRunner().invoke(app, words[1:], input=given)
    finally:
        os.chdir(before)
    if result.exit_code != 0:
        raise AssertionError(f"{command}\n{result.output}\n{result.exception!r}") from result.exception
    if ">" in files:
        files[">"].write_bytes(result.stdout_bytes)
    return str(result.stdout)


def in_a_shell(command: str, folder: Path) -> str:
    """Run anything, with the programs of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
