import json
import shutil

import pytest
from sacrebleu.metrics.chrf import CHRF

from evenglot.config import load_config
from evenglot.corpus.prepared import open_prepared
from evenglot.reporting import samples as module
from evenglot.reporting.samples import choose, samples, split_with_translations
from evenglot.runs.run import Run
from evenglot.seals import checksums
from tests.logs import scores_json


def test_best_median_and_worst_by_the_chrf_of_the_sentence():
    references = ["the cat sat on the mat", "a dog barks at night", "it rains again today", "we go home now", "yes"]
    translations = ["the cat sat on the mat", "a dog barks", "it snows", "xyz", "no"]
    found = choose([f"source {i}" for i in range(5)], references, translations)
    scores = [CHRF(word_order=2).sentence_score(t, [r]).score for t, r in zip(translations, references, strict=True)]
    assert found.looked_at == 5
    assert (found.best.source, found.best.score) == ("source 0", pytest.approx(100))
    assert found.median.score == pytest.approx(sorted(scores)[2], abs=1e-9)
    assert (found.worst.source, found.worst.translation) == ("source 3", "xyz")  # as bad as "no", but longer


def test_of_equal_sentences_the_longest_is_shown():
    texts = ["yes", "a longer sentence, word for word", "no"]
    assert choose(texts, texts, texts).best.reference == texts[1]


def test_references_without_text_are_left_out():
    assert choose(["a", "b"], ["", " "], ["x", "y"]) is None
    assert choose(["a", "b"], ["", "good day"], ["x", "y"]).best.source == "b"


def test_a_large_set_is_looked_at_in_part(monkeypatch):
    monkeypatch.setattr(module, "MOST_SENTENCES", 10)
    texts = [f"sentence number {i}" for i in range(1000)]
    found = choose(texts, texts, ["" for _ in texts[:999]] + texts[999:])
    assert found.looked_at == 10
    assert found.best.score == 0  # the last one is not among those: 0, 100, 200, ...


def test_translations_of_other_texts_are_told():
    with pytest.raises(ValueError, match="1 translations .*2 sentences .*2 references.*`evenglot score`"):
        choose(["a", "b"], ["a", "b"], ["a"])


@pytest.fixture
def translated(conf, tmp_path):
    """A run whose translations are its references, but for one line of aa."""
    config = load_config(conf, check_files=False)
    run = Run(tmp_path / "run")
    folder = run.folder / "hypotheses" / "test"
    folder.mkdir(parents=True)
    config.save(run.config_file)
    store = open_prepared(config)
    for name in store.directions:
        lines = store.text(name, "test", "target")
        if name == "aa-en":
            lines[7] = "?"
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
    return run


def test_every_direction_of_a_run_has_samples(translated):
    store = open_prepared(translated.config())
    found = samples(translated, "test").directions
    assert sorted(found) == ["aa-en", "bb-en", "cc-en"]
    worst = found["aa-en"].worst
    assert (worst.translation, worst.score) == ("?", 0)
    assert worst.source == store.text("aa-en", "test", "source")[7]
    assert worst.reference == store.text("aa-en", "test", "target")[7]
    assert found["cc-en"].worst.score == pytest.approx(100)


def flip(file):
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])


@pytest.mark.parametrize(
    ("damage", "is_scored"),
    [
        (lambda file: file.unlink(), True),
        (lambda file: file.unlink(), False),
        (lambda file: file.write_text("one line\n"), False),
        (flip, True),
        (lambda file: shutil.copy(file.with_name("cc-en.en"), file), True),
    ],
)
def test_translations_that_are_missing_or_changed_are_left_out(translated, damage, is_scored):
    folder = translated.folder / "hypotheses" / "test"
    if is_scored:
        scores = json.loads(scores_json()) | {"translations": checksums(folder)}
        (translated.folder / "scores.json").write_text(json.dumps(scores))
    assert samples(translated, "test").left_out == ()
    damage(folder / "bb-en.en")
    found = samples(translated, "test")
    assert (sorted(found.directions), found.left_out) == (["aa-en", "cc-en"], ("bb-en",))


def test_the_test_set_comes_before_other_splits(translated, tmp_path):
    (translated.folder / "hypotheses" / "a-first").mkdir()
    assert split_with_translations(translated) == "test"
    (translated.folder / "hypotheses" / "test").rename(translated.folder / "hypotheses" / "valid")
    assert split_with_translations(translated) == "valid"  # `a-first` is somebody's own
    assert split_with_translations(Run(tmp_path / "nothing")) is None
    (tmp_path / "half" / "hypotheses" / "test.unfinished").mkdir(parents=True)
    assert split_with_translations(Run(tmp_path / "half")) is None
