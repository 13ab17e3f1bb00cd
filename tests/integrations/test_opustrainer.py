"""OpusTrainer reads our stages, and samples from them what the stages say."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evenglot.integrations.mixtures import paths_of
from evenglot.integrations.opustrainer import batch_lines, opustrainer, plan
from evenglot.robust.validate import OptionError
from evenglot.stages import Stage

trainer = pytest.importorskip("opustrainer.trainer", reason="scripts/setup installs it")

NAMES = ("aze-en", "por-en", "tur-en")
word = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1).filter(
    lambda text: text.split() == [text]
)
any_path = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def read(text: str, folder: str = "") -> trainer.Curriculum:
    """As `opustrainer-train --config` does."""
    return trainer.CurriculumLoader().load(yaml.safe_load(text), basepath=folder)


@st.composite
def mixtures(draw, names: st.SearchStrategy[str]) -> dict[str, float]:
    amounts = draw(st.dictionaries(names, st.integers(0, 10_000), min_size=1))
    total = sum(amounts.values())
    return {name: amount / total if total else 1 / len(amounts) for name, amount in amounts.items()}


# ------------------------------------------------------------------------------------------------------ as it is read


@given(st.data(), mixtures(word), st.sampled_from([100, 1000, 9999]))
def test_names_paths_and_lines_are_read_as_they_were_written(data, shares, batch_size):
    paths = {name: data.draw(any_path) for name in shares}
    text = opustrainer([Stage(shares, math.inf)], dict.fromkeys(shares, 10), paths, batch_size=batch_size)
    curriculum = read(text)
    lines = batch_lines(shares, batch_size)
    (stage,) = curriculum.stages.values()
    assert {dataset.name: int(batch_size * weight) for dataset, weight in stage.datasets} == lines
    for name in lines:
        (path,) = curriculum.datasets[name].files
        assert not path.startswith("-")  # it would be an option of the program that shuffles
        assert path == paths[name] or (paths[name].startswith("-") and path == f"./{paths[name]}")
    assert set(curriculum.datasets) == set(lines)


@given(mixtures(st.sampled_from(NAMES)), st.integers(3, 20_000))
def test_lines_are_whole_and_nearest_to_the_shares(shares, batch_size):
    lines = batch_lines(shares, batch_size)
    assert sum(lines.values()) == batch_size
    assert set(lines) == {name for name, share in shares.items() if share > 0}
    assert min(lines.values()) >= 1
    for name, number in lines.items():
        assert abs(number - shares[name] * batch_size) < len(lines)


def test_a_batch_that_is_too_small_a_strange_name_and_unknown_sizes_are_refused():
    stage = Stage({"a": 0.5, "b": 0.5}, 10)
    for option, arguments in {
        "batch_size": ([stage], {"a": 1, "b": 1}, {"a": "a", "b": "b"}, 1),
        "sizes": ([stage], {"a": 1}, {"a": "a", "b": "b"}, 10),
        "paths": ([stage], {"a": 1, "b": 1}, {"a": "a"}, 10),
        "stages": ([Stage({"a b": 1.0}, 10)], {"a b": 1}, {"a b": "x"}, 10),
    }.items():
        stages, sizes, paths, batch_size = arguments
        with pytest.raises(OptionError) as failure:
            opustrainer(stages, sizes, paths, batch_size=batch_size)
        assert failure.value.option == option


# ----------------------------------------------------------------------------------------------------- how long it is


@given(
    st.lists(st.tuples(st.lists(st.integers(1, 100), min_size=3, max_size=3), st.integers(1, 20_000)), min_size=1),
    st.lists(st.integers(10, 5000), min_size=3, max_size=3),
)
def test_stages_end_within_half_a_pass_of_where_they_should(run, lines):
    sizes = dict(zip(NAMES, lines, strict=True))
    stages = [
        Stage({name: amount / sum(amounts) for name, amount in zip(NAMES, amounts, strict=True)}, pairs)
        for amounts, pairs in run
    ]
    planned = plan(stages, sizes)
    ends = [sum(stage.pairs for stage in stages[: number + 1]) for number in range(len(stages))]
    end = 0.0
    for stage in planned[:-1]:
        end += stage.pairs
        fastest = min(sizes[name] * 10_000 / number for name, number in stage.lines.items())
        assert min(abs(end - each) for each in ends) <= fastest / 2 + 1e-6
    assert all(stage.passes >= 1 for stage in planned)
    assert [stage.pairs for stage in planned] == pytest.approx(
        [stage.passes * sizes[stage.until] * 10_000 / stage.lines[stage.until] for stage in planned]
    )


def test_a_stage_that_is_shorter_than_any_pass_is_averaged_with_the_next():
    sizes = {"a": 1000, "b": 1000}
    short, long = Stage({"a": 0.9, "b": 0.1}, 100), Stage({"a": 0.5, "b": 0.5}, 1900)
    (only,) = plan([short, long], sizes)
    assert only.lines == {"a": 5200, "b": 4800}
    assert (only.until, only.passes) == ("a", 1)
    assert plan([long, short], sizes) == [only]


def test_a_mixture_without_end_has_no_last_pass():
    (stage,) = read(
        opustrainer([Stage({"a": 0.1, "b": 0.9}, math.inf)], {"a": 5, "b": 7}, {"a": "a", "b": "b"})
    ).stages.values()
    assert (stage.until_dataset, stage.until_epoch) == ("b", None)


# --------------------------------------------------------------------------------------------------- what it samples


def test_opustrainer_samples_the_mixtures_of_the_stages_for_as_long_as_planned(tmp_path: Path):
    sizes = {"aze-en": 200, "por-en": 1500, "tur-en": 700}
    for name, lines in sizes.items():
        (tmp_path / f"it's {name}.tsv").write_text("".join(f"{name}\tline {n}\n" for n in range(lines)))
    stages = [
        Stage({"aze-en": 0.09, "por-en": 0.61, "tur-en": 0.3}, 2000),
        Stage({"aze-en": 0.29, "por-en": 0.42, "tur-en": 0.29}, 3000),
        Stage({"aze-en": 0.0, "por-en": 0.5, "tur-en": 0.5}, 1500),
    ]
    text = opustrainer(stages, sizes, paths_of("it's {direction}.tsv", sizes), batch_size=100)
    planned = plan(stages, sizes, 100)
    assert len(planned) == 3
    before = random.getstate()
    feeder = trainer.Trainer(read(text, str(tmp_path)), tmpdir=str(tmp_path))
    try:
        counts = [Counter() for _ in planned]
        for batch in feeder.run(batch_size=100):
            number = int(feeder.stage.name.removeprefix("stage-")) - 1
            counts[number].update(line.split("\t")[0] for line in batch)
    finally:
        feeder.close()
        random.setstate(before)
    for stage, wanted, sampled in zip(planned, stages, counts, strict=True):
        batches = sampled.total() / 100
        assert sampled == {name: batches * lines for name, lines in stage.lines.items()}
        assert sampled.total() == pytest.approx(stage.pairs, abs=100)  # whole batches
        assert sampled.total() == pytest.approx(wanted.pairs, rel=0.15)
        for name, share in wanted.shares.items():
            assert sampled[name] / sampled.total() == pytest.approx(share, abs=0.005)
