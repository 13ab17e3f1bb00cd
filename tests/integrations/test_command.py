"""`evenglot mixture`."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from evenglot.corpus.prepared import open_prepared
from evenglot.runs.log import read_log
from evenglot.runs.mixtures import stages_of
from evenglot.stages import average, merge
from tests.reporting.synthetic import write_run
from tests.workplace import in_process


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A folder with a run of 20 intervals."""
    folder = tmp_path_factory.mktemp("mixture")
    write_run(folder / "run", directions=4)
    return folder


def mixture(work: Path, arguments: str) -> str:
    return in_process(f"evenglot mixture {arguments}", work)


def test_average_final_and_stages_are_those_of_the_log(work):
    stages = stages_of(read_log(work / "run/log.jsonl"))
    assert len(stages) == 20
    content = json.loads(mixture(work, "run --to json"))
    assert content.pop("mixture") == pytest.approx(average(stages))
    assert content == {"strategy": "chi-ibr", "which": "average", "unit": "pairs"}
    final = json.loads(mixture(work, "run --to json --which final"))
    assert final["mixture"] == pytest.approx(stages[-1].shares)
    for tolerance, merged in {"": merge(stages, 0.01), "--tolerance 0.2": merge(stages, 0.2)}.items():
        written = json.loads(mixture(work, f"run --to json --which stages {tolerance}"))["stages"]
        assert [stage["pairs"] for stage in written] == pytest.approx([stage.pairs for stage in merged])


def test_every_format_has_the_same_shares(work):
    shares = average(stages_of(read_log(work / "run/log.jsonl")))
    listed = json.loads(mixture(work, "run --to interleave --paths corpora/{src}.jsonl"))
    assert dict(zip(listed["directions"], listed["probabilities"], strict=True)) == pytest.approx(shares)
    assert listed["paths"] == [f"corpora/{name.partition('-')[0]}.jsonl" for name in shares]
    blend = mixture(work, "run --to megatron --unit pairs").split()
    assert dict(zip(blend[1::2], map(float, blend[::2]), strict=True)) == pytest.approx(shares)
    lines = mixture(work, "run --to opustrainer --which average --batch-size 1000").splitlines()
    weights = [line.split()[1:] for line in lines if line.startswith("  - ") and line.split()[1] in shares]
    assert {name: float(weight) for name, weight in weights} == pytest.approx(shares, abs=0.001)
    assert any(line.endswith(" inf") for line in lines)


def test_a_strategy_that_needs_no_training_is_written_from_its_config(conf):
    text = mixture(conf.parent, f"{conf.name} --to json --set balance.strategy=temperature --set balance.tau=2")
    store_sizes = open_prepared_sizes(conf)
    roots = {name: math.sqrt(size) for name, size in store_sizes.items()}
    assert json.loads(text)["mixture"] == pytest.approx({name: r / sum(roots.values()) for name, r in roots.items()})


def test_shares_of_tokens_differ_from_those_of_pairs_by_the_length_of_sentences(conf):
    sizes, tokens = open_prepared_sizes(conf), open_prepared_sizes(conf, "target_tokens")
    text = mixture(conf.parent, f"{conf.name} --to megatron")  # proportional
    words = text.split()
    found = dict(zip(words[1::2], map(float, words[::2]), strict=True))
    assert found == pytest.approx({name: tokens[name] / sum(tokens.values()) for name in sizes})


def open_prepared_sizes(conf: Path, what: str = "sizes") -> dict[str, int]:
    from evenglot.config import load_config

    return dict(getattr(open_prepared(load_config(conf, check_files=False)), what))


def test_the_output_file_is_what_would_be_printed(work):
    printed = mixture(work, "run --to opustrainer")
    mixture(work, "run --to opustrainer --out stages.yaml")
    assert (work / "stages.yaml").read_text() == printed


@pytest.mark.parametrize(
    "arguments",
    [
        "run --to megatron",  # this log has no tokens
        "run --to megatron --which stages",
        "run --to json --paths x",
        "run --to json --batch-size 10",
        "run --to json --set seed=3",
        "run --to opustrainer --unit tokens",
        "run --to opustrainer --batch-size 3",
        "run --to interleave --paths corpora",
        "run --to interleave --paths '{pair}'",
        "run --to nemo",
        "run --to megatron --unit pairs --paths 'a {direction}'",
        "run --to json --out missing/file",
        ". --to json",
        "nothing.yaml --to json",
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(work, arguments):
    before = set(work.rglob("*"))
    command = [sys.executable, "-m", "evenglot", "mixture", *shlex.split(arguments)]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert set(work.rglob("*")) == before
