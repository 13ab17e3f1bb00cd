"""Counts of sentences: files bring them back unchanged."""

import contextlib
import gc
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenglot.scoring.sentence_statistics import SentenceStatistics, references_digest


def save_and_load(folder: Path, statistics: SentenceStatistics) -> SentenceStatistics:
    statistics.save(folder / "statistics.npz")
    return SentenceStatistics.load(folder / "statistics.npz")


def some() -> SentenceStatistics:
    random = np.random.default_rng(1)
    counts = {
        name: {
            "bleu": random.integers(0, 200, (40, 10)),
            "chrf": random.integers(0, 70_000, (40, 24)),
            "loss": random.random((40, 2)),
        }
        for name in ("por-en", "zh_Hans-en")
    }
    return SentenceStatistics(counts, {"por-en": "0123", "zh_Hans-en": "4567"})


# ---------------------------------------------------------------------------------------------------- references


def test_a_test_set_is_named_by_its_sentences_and_their_order():
    assert references_digest(["a", "b"]) == references_digest(("a", "b"))
    others = [["b", "a"], ["a"], ["a", "b", ""], ["ab"], ["a", "b "], ["a", "ḃ"]]
    assert len({references_digest(lines) for lines in [["a", "b"], *others]}) == 1 + len(others)


# ---------------------------------------------------------------------------------------------------- files


@given(st.lists(st.lists(st.integers(0, 2**40), min_size=10, max_size=10), min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whole_numbers_come_back_as_they_were(tmp_path, rows):
    counts = np.array(rows, dtype=np.int64).reshape(len(rows), 10)
    found = save_and_load(tmp_path, SentenceStatistics({"por-en": {"bleu": counts}}, {"por-en": "d1"}))
    assert found.counts["por-en"]["bleu"].tolist() == rows
    assert found.counts["por-en"]["bleu"].shape == counts.shape
    assert found.references == {"por-en": "d1"}


def test_all_directions_and_metrics_come_back(tmp_path):
    before = some()
    after = save_and_load(tmp_path, before)
    assert after.references == before.references
    assert {name: set(by_metric) for name, by_metric in after.counts.items()} == {
        name: {"bleu", "chrf", "loss"} for name in before.counts
    }
    for name, by_metric in before.counts.items():
        for metric in ("bleu", "chrf"):
            assert np.array_equal(after.counts[name][metric], by_metric[metric])
        assert after.counts[name]["loss"] == pytest.approx(by_metric["loss"], rel=1e-7)


@pytest.mark.parametrize(("largest", "kind"), [(255, np.uint8), (256, np.uint16), (65_536, np.uint32)])
def test_each_array_has_the_smallest_type_that_holds_it(tmp_path, largest, kind):
    found = save_and_load(tmp_path, SentenceStatistics({"a-b": {"bleu": np.array([[0] * 9 + [largest]])}}, {"a-b": ""}))
    assert found.counts["a-b"]["bleu"].dtype == kind


def test_sums_of_small_types_do_not_overflow(tmp_path):
    """As `compare` sums them."""
    found = save_and_load(tmp_path, SentenceStatistics({"a-b": {"bleu": np.full((1000, 10), 200)}}, {"a-b": ""}))
    assert found.counts["a-b"]["bleu"].sum(axis=0, dtype=float)[0] == 200_000


def test_nothing_else_remains_beside_the_file_and_an_older_one_is_replaced(tmp_path):
    some().save(tmp_path / "statistics.npz")
    save_and_load(tmp_path, SentenceStatistics({"a-b": {"bleu": np.zeros((1, 10), int)}}, {"a-b": ""}))
    assert [file.name for file in tmp_path.iterdir()] == ["statistics.npz"]
    assert list(SentenceStatistics.load(tmp_path / "statistics.npz").counts) == ["a-b"]


class Touches:
    """Unpickling this leaves a file behind."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return (Path.touch, (self.file,))


def pickled_array(file: Path, evidence: Path) -> None:
    with file.open("wb") as out:
        np.savez(out, **{"a-b/bleu": np.array([Touches(evidence)], dtype=object)})


def plain_pickle(file: Path, evidence: Path) -> None:
    file.write_bytes(pickle.dumps(Touches(evidence)))


@pytest.mark.parametrize("write", [pickled_array, plain_pickle])
def test_nothing_is_ever_unpickled(tmp_path, write):
    file, evidence = tmp_path / "statistics.npz", tmp_path / "evidence"
    write(file, evidence)
    with pytest.raises(ValueError, match="statistics.npz: .*`evenglot score`"):
        SentenceStatistics.load(file)
    assert not evidence.exists()


LEAVES_IT_OPEN = pytest.mark.filterwarnings(  # see test_the_file_is_closed_again
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@LEAVES_IT_OPEN
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not really", b"bleu: 30\n", bytes(1000)])
def test_a_file_of_another_kind_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "statistics.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"^[^\n]*statistics.npz: [^\n]*$"):
        SentenceStatistics.load(tmp_path / "statistics.npz")


def test_so_is_one_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="`evenglot score`"):
        SentenceStatistics.load(tmp_path / "statistics.npz")


@LEAVES_IT_OPEN
@given(st.floats(0, 0.999))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_so_is_one_that_was_cut_short(tmp_path, part):
    file = tmp_path / "statistics.npz"
    some().save(file)
    file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])
    with pytest.raises(ValueError, match="`evenglot score`"):
        SentenceStatistics.load(file)


def test_the_file_is_closed_again(tmp_path):
    file = tmp_path / "statistics.npz"
    file.write_bytes(b"PK\x03\x04 not really")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):
            SentenceStatistics.load(file)
        gc.collect()
    assert said == []


@LEAVES_IT_OPEN
def test_so_is_one_with_a_damaged_byte(tmp_path):
    file, damaged = tmp_path / "whole.npz", tmp_path / "statistics.npz"
    some().save(file)
    content = file.read_bytes()
    random = np.random.default_rng(0)
    for place in random.integers(0, len(content), 300):
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            SentenceStatistics.load(damaged)  # a byte that matters to nobody
        except ValueError as error:
            assert "`evenglot score`" in str(error)  # noqa: PT017


def test_so_is_a_single_array(tmp_path):
    with (tmp_path / "statistics.npz").open("wb") as out:
        np.save(out, np.zeros(3))
    with pytest.raises(ValueError, match="`evenglot score`"):
        SentenceStatistics.load(tmp_path / "statistics.npz")


def test_so_is_an_archive_of_something_else(tmp_path):
    np.savez(tmp_path / "statistics.npz", weights=np.zeros(3))
    with pytest.raises(ValueError, match="`evenglot score`"):
        SentenceStatistics.load(tmp_path / "statistics.npz")
