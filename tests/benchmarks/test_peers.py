"""The parts of `python -m benchmarks.peers` that need no other toolkit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.data import export
from benchmarks.peers.environments import PEERS
from benchmarks.peers.results import END, START, Run, merged, replaced, table
from benchmarks.peers.runners.meter import Meter, cpu_seconds, memory_bytes, tokens
from evenglot.config import load_config
from evenglot.corpus.prepared import open_prepared
from tests.documents import ROOT

CASES = json.loads((ROOT / "benchmarks" / "results" / "peers.json").read_text(encoding="utf-8"))
KEYS = ("corpus", "size", "precision", "hardware")
PAGE = ROOT / "docs" / "benchmarks.md"

# ------------------------------------------------------------------------------------------------- stamps to numbers


def result(*updates: tuple[float, int, int, int, int]) -> dict:
    """The file of a meter, for updates of (CPU seconds, source, target, padded source, padded target); 2 s before."""
    seconds, stamps = 2.0, []
    for spent, *counts in updates:
        stamps.append({"cpu": seconds, **tokens(*counts)})
        seconds += spent
    return {"stamps": [*stamps, {"cpu": seconds, **tokens(9, 9, 9, 9)}], "memory": 7_000_000}


def test_a_run_is_what_came_after_the_warm_up():
    run = Run.of(result((9.0, 5, 5, 99, 99), (2.0, 10, 20, 20, 20), (3.0, 20, 25, 30, 30)), warmup=1)
    assert run == Run(
        tokens_per_second=45 / 5,
        tokens_per_update=22.5,
        padding=0.25,
        start_up=2.0,
        memory=7.0,
        source_per_target=30 / 45,
    )


def test_a_run_must_be_longer_than_its_warm_up():
    with pytest.raises(ValueError, match="warmup"):
        Run.of(result((1.0, 1, 1, 1, 1)), warmup=1)


@given(st.integers(0, 4), st.lists(st.integers(1, 999), min_size=5, max_size=9), st.floats(0.001, 10))
def test_at_a_constant_rate_neither_batches_nor_warm_up_matter(warmup, targets, seconds):
    updates = [(count * seconds, 1, count, 1, count) for count in targets]
    assert Run.of(result(*updates), warmup).tokens_per_second == pytest.approx(1 / seconds)


# ------------------------------------------------------------------------------------------------------------- meter


def test_a_meter_stamps_each_batch_and_writes_when_the_last_whole_update_is_done(tmp_path):
    file = tmp_path / "result.json"
    step = Meter(str(file), updates=2).around(lambda batch: batch + 1, lambda batch: tokens(batch, 1, batch, 2))
    assert [step(1), step(2)] == [2, 3]
    assert not file.exists()
    assert [step(3), step(4)] == [4, 5]
    stamps = json.loads(file.read_text())["stamps"]
    assert [stamp["source"] for stamp in stamps] == [1, 2, 3]
    assert sorted(stamps, key=lambda stamp: stamp["cpu"]) == stamps


def test_worker_processes_count_while_they_live_and_after():
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before, small = cpu_seconds(), memory_bytes()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        worker.stdout.readline()
        assert cpu_seconds() - before > 0.25
        assert memory_bytes() > small
        worker.communicate(b"\n")
    assert cpu_seconds() - before > 0.25


# -------------------------------------------------------------------------------------------------------------- data


def test_the_exported_text_has_the_subwords_of_the_store(conf, tmp_path):
    store = open_prepared(load_config(conf))
    export(store, tmp_path)
    pieces = store.manifest["vocabulary"]["pieces"]
    lines = {side: (tmp_path / f"train.{side}").read_text().splitlines() for side in ("source", "target")}
    for side in lines:
        vocabulary = (tmp_path / f"vocabulary.{side}").read_text().split()
        assert len(vocabulary) == len(set(vocabulary)) == pieces[side] - 3
        assert {word for line in lines[side] for word in line.split()} <= {*vocabulary, "t1"}
        assert len(lines[side]) == sum(store.sizes.values())
    ended = (tmp_path / "train.source-with-end").read_text().splitlines()
    assert ended == [f"{line} t0" for line in lines["source"]]
    with_ends = sum(len(line.split()) + 1 for line in lines["target"])
    assert with_ends == sum(store.target_tokens.values())
    pairs = set()
    for name in store.directions:
        corpus = store.corpus(name, "train")
        first = [side.ids[: side.offsets[1] - 1].tolist() for side in (corpus.source, corpus.target)]
        pairs.add(tuple(" ".join(f"t{number}" for number in ids) for ids in first))
    assert pairs <= set(zip(lines["source"], lines["target"], strict=True))


# ------------------------------------------------------------------------------------------------------------ tables


def case(corpus: str, size: str = "tiny", precision: str = "float32", **more: object) -> dict:
    toolkits = [{"title": "evenglot"}, {"title": "eole"}]
    return {
        "corpus": corpus,
        "size": size,
        "precision": precision,
        "hardware": "here",
        "toolkits": toolkits,
        **more,
    }


def test_new_results_replace_those_of_the_same_case_only():
    saved = [case("a", tokens=1), case("a", "mini", tokens=1), case("a", precision="bfloat16", tokens=1)]
    every = merged(saved, [case("a", tokens=2), case("b", tokens=2)])
    assert [(each["corpus"], each["size"], each["tokens"]) for each in every] == [
        ("a", "mini", 1),
        ("a", "tiny", 2),
        ("b", "tiny", 2),
        ("a", "tiny", 1),
    ]


def test_results_of_other_hardware_are_kept_beside_the_new_ones():
    every = merged([case("a", hardware="there", tokens=1)], [case("a", tokens=2)])
    assert [(each["hardware"], each["tokens"]) for each in every] == [("here", 2), ("there", 1)]


def test_results_of_other_toolkits_are_kept_beside_the_new_ones():
    other = [{"title": "evenglot"}, {"title": "JoeyNMT"}]
    every = merged([case("a", tokens=1)], [case("a", toolkits=other, tokens=2)])
    assert [each["tokens"] for each in every] == [1, 2]
    assert merged(every, [case("a", toolkits=[*other, {"title": "eole"}], tokens=3)])[0]["tokens"] == 3
    assert len(merged(every, [case("a", toolkits=[*other, {"title": "eole"}])])) == 1


def test_tables_go_between_the_marks_however_often():
    page = f"before\n{START}\nold\n{END}\nafter\n"
    once = replaced(page, "new")
    assert once == replaced(once, "new") == f"before\n{START}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="marks"):
        replaced("no marks", "new")


@pytest.mark.parametrize("saved", CASES, ids=lambda each: "-".join(each[key] for key in KEYS))
def test_the_page_has_the_tables_of_the_saved_results(saved):
    text = table(saved)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {9}
    assert len(rows) == 2 + len(saved["toolkits"])
    assert text in PAGE.read_text(encoding="utf-8")


def test_every_peer_has_a_runner():
    runners = {path.stem for path in (ROOT / "benchmarks" / "peers" / "runners").glob("run_*.py")}
    assert runners == {"run_evenglot", *(f"run_{name}" for name in PEERS)}
