"""Keys of earlier versions are read as their successors, with a hint; contradictions are errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenglot.config import load_config, renamed

DATA = "data: {directions: [no-en, tur-en], train: 'train.{pair}.{lang}'}\n"
OLD = "balance: {max_passes: 20, intervals: 7, interval_size: 500.0}\nbatches: {epoch_size: 500}\n"
NEW = "balance: {max_passes: 20}\nbatches: {interval_pairs: 500}\ntrain: {intervals: 7}\n"


@pytest.fixture(autouse=True)
def unhinted(monkeypatch):
    monkeypatch.setattr(renamed, "_hinted", set())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        ("batches: {epoch_size: 500}", "batches: {interval_pairs: 500}"),
        ("batches: {epoch_size: null}", ""),
        (
            "balance: {intervals: null, interval_size: null}\nbatches: {epoch_size: 500}",
            "batches: {interval_pairs: 500}",
        ),
        ("balance: {interval_size: 500.0}\nbatches: {epoch_size: null}", "batches: {interval_pairs: 500}"),
        ("balance: {intervals: 7}\ntrain:", "train: {intervals: 7}"),
        ("balance: {intervals: 7}\ntrain: {intervals: 7}", "train: {intervals: 7}"),
    ],
)
def test_old_keys_mean_the_same_as_new_ones(conf, old, new):
    assert conf.load(DATA + old) == conf.load(DATA + new)
    assert "epoch_size" not in conf.load(DATA + old).to_yaml()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("balance: {interval_size: 500}\nbatches: {interval_pairs: 600}", (2, 3)),
        ("balance: {interval_size: 500}\nbatches: {epoch_size: 600}", (2, 3)),
        ("batches:\n  epoch_size: 500\n  interval_pairs: 600", (3, 4)),
        ("train: {intervals: 3}\nbalance: {intervals: 7}", (3, 2)),
    ],
)
def test_contradicting_values_are_an_error_that_names_both_lines(conf, text, lines):
    (error,) = conf.errors(DATA + text)
    assert error.startswith(f"conf.yaml:{lines[0]}: ")
    assert f"(conf.yaml:{lines[1]})" in error


def test_an_error_in_an_old_key_has_its_line(conf):
    (error,) = conf.errors(DATA + "seed: 2\nbatches:\n  epoch_size: -5")
    assert error.startswith("conf.yaml:4: batches.interval_pairs: ")
    (error,) = conf.errors(DATA + "balance:\n  intervals: many")
    assert error.startswith("conf.yaml:3: train.intervals: ")


@pytest.mark.parametrize(
    "text", ["", "batches: {epoch_size: 9}", "batches: {interval_pairs: 9}", "balance: {interval_size: 9}"]
)
@pytest.mark.parametrize("key", ["batches.epoch_size", "batches.interval_pairs", "balance.interval_size"])
def test_an_override_wins_whichever_name_it_or_the_file_uses(conf, text, key):
    assert conf.load(DATA + text, f"{key}=500").batches.interval_pairs == 500


def test_a_section_that_is_replaced_takes_its_old_keys_with_it(conf):
    config = conf.load(DATA + OLD, "balance={strategy: proportional}")
    assert config.train.intervals is None


def test_each_old_key_is_hinted_at_once(conf, capsys):
    for _ in range(2):
        conf.load(DATA + "batches: {epoch_size: 500}", "balance.intervals=7")
    lines = capsys.readouterr().err.replace(f"{conf.folder}/", "").splitlines()
    assert len(lines) == 2
    assert re.match("evenglot: conf.yaml:2: batches.epoch_size .*batches.interval_pairs", lines[0])
    assert re.match("evenglot: --set balance.intervals: balance.intervals .*train.intervals", lines[1])


def test_new_keys_and_files_that_evenglot_wrote_are_not_hinted_at(conf, capsys):
    conf.load(DATA + NEW)
    load_config(_written(conf.folder, DATA + OLD), check_files=False, hints=False)
    assert capsys.readouterr().err == ""


def _written(folder: Path, text: str) -> Path:
    (folder / "config.yaml").write_text(text)
    return folder / "config.yaml"


def test_the_hint_goes_to_standard_error(tmp_path):
    _written(tmp_path, "data: {directions: [xx-en], train: '{lang}'}\nbatches: {epoch_size: 500}\n")
    command = [sys.executable, "-m", "evenglot", "check", str(tmp_path / "config.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "batches.epoch_size" in done.stderr
    assert "batches.interval_pairs" in done.stderr
    assert "epoch_size" not in done.stdout
