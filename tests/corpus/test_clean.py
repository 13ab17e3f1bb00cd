import pickle
import unicodedata
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus.clean import (
    REASONS,
    HeldOut,
    Judge,
    Limits,
    combine,
    foreign,
    is_foreign,
    keys_of,
    main_scripts,
    normalized,
    repeated,
    unusual,
)

LATIN, CYRILLIC = frozenset({"LATIN"}), frozenset({"CYRILLIC"})
SCRIPTS = {"rus": CYRILLIC, "en": LATIN}


def look(pairs, held_out=None, max_ratio=3.0, block=1000):
    """Scan pairs, in blocks of so many; None for one that is not UTF-8."""
    judge = Judge(held_out or HeldOut(), SCRIPTS, Limits(max_words=5, max_ratio=max_ratio))
    judged = []
    for start in range(0, max(len(pairs), 1), block):
        part = pairs[start : start + block]
        sources, targets = ([pair[side] if pair else "" for pair in part] for side in (0, 1))
        invalid = [i for i, pair in enumerate(part) if pair is None]
        judged.append(judge.judge(sources, targets, ("rus", "en"), invalid, start))
    return combine(judged, max_ratio)


def held(**sentences):
    """Held-out sentences by language."""
    held_out = HeldOut()
    for language, each in sentences.items():
        held_out.add(language, keys_of(each))
    return held_out


def reasons(result, position):
    return [reason for i, reason in enumerate(REASONS) if result.flags[position] >> i & 1]


def test_every_rule_flags_what_it_is_about_and_nothing_else():
    held_out = held(en=["The  Secret sentence"], rus=["yes"])
    typical = ("обычное предложение", "a usual sentence")
    cases = {
        "clean": typical,
        "empty": ("", "not empty"),
        "identical": ("OK", "OK"),
        "too_long": ("раз два три четыре пять шесть", "one two three four five"),
        "ratio": ("да", "incomprehensibly long translations"),
        "wrong_script": ("latin here instead", "a latin sentence"),
        "leakage": ("тайное предложение", "the secret  SENTENCE"),
    }
    result = look([*cases.values(), typical, None], held_out, max_ratio=2.5)
    found = {name: reasons(result, i) for i, name in enumerate(cases)}
    assert found.pop("clean") == []
    assert found.pop("identical") == ["identical", "wrong_script"]
    assert found == {name: [name] for name in found}
    assert reasons(result, len(cases)) == ["duplicate"]
    assert reasons(result, len(cases) + 1) == ["invalid_utf8"]


def test_a_held_out_sentence_counts_in_its_own_language_only():
    held_out = held(en=["Taxi", ""])
    assert reasons(look([("такси", "taxi")], held_out), 0) == ["leakage"]
    assert "leakage" not in reasons(look([("Taxi", "a cab")], held_out), 0)
    assert "leakage" not in reasons(look([("", "")], held_out), 0)


def test_removal_counts_each_pair_once_by_the_first_rule_it_breaks():
    result = look([("", ""), ("", ""), ("OK", "OK"), ("да", "yes")])
    assert result.count("empty") == 2
    assert result.count("duplicate") == 1
    removed = result.removed(["duplicate", "empty", "identical"])
    assert removed == {"empty": 2, "identical": 1, "duplicate": 0}
    assert result.kept(["empty", "identical"]).tolist() == [False, False, False, True]
    assert result.kept([]).all()


pairs = st.lists(st.one_of(st.none(), st.tuples(st.text("аб a.", max_size=8), st.text("ab \u0431", max_size=8))))


@given(pairs, st.sets(st.sampled_from(sorted(REASONS))))
def test_what_is_removed_and_what_is_kept_make_up_the_corpus(pairs, rules):
    result = look(pairs)
    assert len(result) == len(pairs)
    assert result.kept(rules).sum() + sum(result.removed(rules).values()) == len(pairs)


@given(st.lists(st.integers(0, 5)))
def test_repeated_marks_all_but_the_first(values):
    expected = [value in values[:i] for i, value in enumerate(values)]
    assert repeated(np.array(values, dtype=np.uint64)).tolist() == expected


def test_a_ratio_is_unusual_against_the_corpus_not_against_one():
    ratios = np.array([3.0] * 50 + [1.0, 9.5, 0.0], dtype=np.float32)
    assert np.flatnonzero(unusual(ratios, 2.9)).tolist() == [50, 51]
    assert not unusual(np.zeros(3, dtype=np.float32), 2).any()


def test_scripts_are_measured_and_mixed_ones_are_all_kept():
    assert main_scripts(Counter("Привет, OK добрый день")) == CYRILLIC
    assert main_scripts(Counter("Zdravo svete Здраво свете")) == {"LATIN", "CYRILLIC"}
    assert main_scripts(Counter("日本語のテキスト カタカナ")) == {"CJK"}
    assert main_scripts(Counter("123 !?")) == frozenset()
    assert is_foreign("hello", CYRILLIC)
    assert not is_foreign("Windows XP установка программы", CYRILLIC)
    assert not is_foreign("123", CYRILLIC)
    assert not is_foreign("anything", frozenset())


lines = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12), max_size=6)


@given(lines)
def test_many_sentences_are_normalised_like_each_alone(sentences):
    alone = [" ".join(unicodedata.normalize("NFKC", sentence).casefold().split()) for sentence in sentences]
    assert normalized(sentences) == alone


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20))
def test_case_and_spaces_do_not_hide_a_held_out_sentence(text):
    variants = [text, f"  {text}\t", text.casefold(), f"{text}!"]
    assert held(en=[text]).contains("en", variants).tolist() == [bool(text.split())] * 3 + [False]


@given(lines, st.sampled_from([LATIN, CYRILLIC, LATIN | CYRILLIC, frozenset()]))
def test_foreign_sentences_are_found_among_many(sentences, scripts):
    assert foreign(sentences, scripts).tolist() == [is_foreign(sentence, scripts) for sentence in sentences]


@given(pairs, st.integers(1, 5))
def test_flags_do_not_depend_on_how_the_text_is_cut_into_blocks(pairs, block):
    held_out = held(en=["ab"], rus=["аб а"])
    whole, cut = look(pairs, held_out), look(pairs, held_out, block=block)
    assert cut.flags.tolist() == whole.flags.tolist()
    assert cut.characters == whole.characters


def test_fingerprints_follow_the_content():
    one, same, other = held(en=["a", "b"]), held(en=["b", "a"]), held(en=["a", "c"], rus=["a"])
    assert one.fingerprint("en") == same.fingerprint("en") != other.fingerprint("en")
    assert one.fingerprint("rus") != other.fingerprint("rus")
    assert one.fingerprint("en", "rus") == pickle.loads(pickle.dumps(one)).fingerprint("en", "rus")
