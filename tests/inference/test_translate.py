"""Text in, text out."""

import numpy as np
import pytest

import evenglot
from evenglot.corpus.tokenizers import SentencePieceTokenizers
from evenglot.corpus.vocabulary import train_vocabulary
from evenglot.directions import Direction, tag, tag_kind
from evenglot.inference import translate as module
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Translator, load
from evenglot.runs.run import RunError
from tests.tasks import WORDS, cipher

SENTENCES = [" ".join(np.random.default_rng(seed).choice(WORDS, 2 + seed % 5)) for seed in range(24)]


def foreign(language, sentences=SENTENCES):
    return [sentence.translate(cipher(language)) for sentence in sentences]


def accuracy(found):
    """Share of the words of `SENTENCES` that are in their translations."""
    right = [word in line.split() for line, meant in zip(found, SENTENCES, strict=True) for word in meant.split()]
    return sum(right) / len(right)


def test_it_has_learnt_to_translate(translator):
    assert accuracy(translator.translate(foreign("aa"), source="aa", to="en")) > 0.6


def test_the_package_has_it_at_hand(run, translator):
    assert evenglot.load(run).translate(foreign("aa")[:3], source="aa") == translator.translate(
        foreign("aa")[:3], source="aa"
    )


def test_a_language_to_specify_is_named_as_option_and_as_argument(translator):
    with pytest.raises(ValueError, match=r"--from.*`source`"):
        translator.translate(foreign("aa"))


def test_order_and_empty_lines_are_kept_whatever_the_batches(translator, monkeypatch):
    lines = ["", *foreign("aa"), "   ", ""]
    whole = translator.translate(lines, source="aa")
    assert [whole[0], whole[-2], whole[-1]] == ["", "", ""]
    assert whole[1:-2] == [translator.translate([line], source="aa")[0] for line in lines[1:-2]]
    monkeypatch.setattr(module, "WINDOW", 5)
    monkeypatch.setattr(module, "BATCH_PIECES", 40)
    assert translator.translate(lines, source="aa") == whole


def test_a_line_that_is_too_long_is_cut_and_named(translator):
    warnings = []
    long = " ".join(foreign("aa") * 20)
    found = list(translator.stream(["x", long], Direction("aa", "en"), SearchOptions(beam=1), warnings.append))
    assert len(found) == 2
    assert len(warnings) == 1
    assert warnings[0].line == 2
    assert "512" in warnings[0].text


def test_n_best_are_different_and_sorted(translator):
    (found,) = translator.stream(foreign("bb")[:1], Direction("bb", "en"), SearchOptions(beam=6, n_best=4))
    assert len({each.text for each in found}) >= 3
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_lengths_are_limited(translator):
    lines = foreign("aa")
    short = translator.translate(lines, source="aa", max_length=2)
    assert max(len(line) for line in short) < max(len(line) for line in translator.translate(lines, source="aa"))
    assert SearchOptions(max_length=50, max_ratio=1.5).longest([0] * 10) == 15
    assert SearchOptions(max_length=12, max_ratio=1.5).longest([0] * 10) == 12


# --------------------------------------------------------------------------------------------------- directions


def directions(*names):
    """Which direction is meant does not depend on the model."""

    found = [Direction(*name.split("-")) for name in names]
    tags = sorted({tag(direction, tag_kind(found)) for direction in found})
    model = train_vocabulary(["ab ba"], size=len(tags) + 8, tags=tags)
    return Translator(None, SentencePieceTokenizers((model, model), tag_kind(found)), found, 512)


def test_what_is_left_out_is_found_if_there_is_only_one():
    assert directions("aa-en", "bb-en").direction(source="bb").name == "bb-en"
    assert directions("en-aa", "en-bb").direction("bb").name == "en-bb"
    assert directions("aa-en").direction().name == "aa-en"
    assert directions("aa-bb", "cc-bb", "bb-aa").direction("bb").tgt == "bb"  # the tag is that of the target


@pytest.mark.parametrize(
    ("names", "to", "source", "message"),
    [
        (("aa-en", "bb-en"), "en", None, "--from.* aa-en, bb-en$"),
        (("en-aa", "en-bb"), None, "en", "--to.* en-aa, en-bb$"),
        (("aa-en", "bb-en"), "de", "aa", "^aa-de: .* aa-en, bb-en$"),
        (("en-aa", "bb-aa", "en-bb"), "bb", "aa", "^aa-bb: .* en-aa, bb-aa, en-bb; .*--force"),
        (("aa-en", "bb-en"), "en", "xx", "^xx-en: "),
    ],
)
def test_what_it_does_not_know_is_said(names, to, source, message):
    with pytest.raises(ValueError, match=message):
        directions(*names).direction(to, source)


def test_zero_shot_needs_force_and_a_known_tag():
    translator = directions("aa-en", "en-bb", "bb-en")
    with pytest.raises(ValueError, match="^aa-bb: .*--force"):
        translator.direction("bb", "aa")
    assert translator.direction("bb", "aa", force=True).name == "aa-bb"
    with pytest.raises(ValueError, match=r"^xx: not a target language"):
        translator.direction("xx")
    with pytest.raises(ValueError, match=r"^xx: not a source language"):
        translator.direction(source="xx")
    with pytest.raises(ValueError, match="^aa-xx: .*>>xx<<.* bb, en$"):
        translator.direction("xx", "aa", force=True)
    one_target = directions("aa-en", "bb-en")  # its tags name the source, so nothing tells it where to go
    with pytest.raises(ValueError, match=r"^aa-fr: .*\ben\b"):
        one_target.direction("fr", "aa", force=True)


# -------------------------------------------------------------------------------------------------- which model


def test_checkpoints_can_be_chosen(run, translator):
    assert load(run, which="last").translate(foreign("aa")[:2], source="aa")
    assert load(run, which="260").max_positions == 512
    with pytest.raises(RunError, match="'7'.* best, last, .*260"):
        load(run, which="7")


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(RunError, match=f"^{tmp_path}: "):
        load(tmp_path)


@pytest.mark.parametrize("engine", ["ctranslate2", "ctranslate2-int8"])
def test_another_engine_says_the_same_and_is_made_once(run, translator, engine):
    other = load(run, engine=engine)
    mine, theirs = (each.translate(foreign("aa"), source="aa") for each in (translator, other))
    if engine == "ctranslate2":
        assert theirs == mine
    else:  # how many lines change is a matter of the processor's 8-bit instructions; how good they are is not
        assert accuracy(theirs) > 0.9 * accuracy(mine)
    (folder,) = (run / "ctranslate2").glob(f"{'int8' if engine.endswith('int8') else 'float32'}-*")
    made = folder.stat().st_mtime_ns
    load(run, engine=engine)
    assert folder.stat().st_mtime_ns == made
