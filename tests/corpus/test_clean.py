import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus.clean import (
    REASONS,
    HeldOut,
    Limits,
    is_foreign,
    main_scripts,
    repeated,
    scan,
    sentence_key,
    unusual,
)

LATIN, CYRILLIC = frozenset({"LATIN"}), frozenset({"CYRILLIC"})
SCRIPTS = {"rus": CYRILLIC, "en": LATIN}


def look(pairs, held_out=None, max_ratio=3.0):
    limits = Limits(max_words=5, max_ratio=max_ratio)
    return scan(pairs, ("rus", "en"), held_out or HeldOut(), SCRIPTS, limits)


def reasons(result, position):
    return [reason for i, reason in enumerate(REASONS) if result.flags[position] >> i & 1]


def test_every_rule_flags_what_it_is_about_and_nothing_else():
    held_out = HeldOut()
    held_out.add("en", "The  Secret sentence")
    held_out.add("rus", "yes")
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
    held_out = HeldOut()
    held_out.add("en", "Taxi")
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
    assert main_scripts(["Привет, OK", "добрый день"]) == CYRILLIC
    assert main_scripts(["Zdravo svete", "Здраво свете"]) == {"LATIN", "CYRILLIC"}
    assert main_scripts(["日本語のテキスト", "カタカナ"]) == {"CJK"}
    assert main_scripts(["123 !?"]) == frozenset()
    assert is_foreign("hello", CYRILLIC)
    assert not is_foreign("Windows XP установка программы", CYRILLIC)
    assert not is_foreign("123", CYRILLIC)
    assert not is_foreign("anything", frozenset())


@given(st.text(max_size=20))
def test_the_key_ignores_case_and_spaces(text):
    assert sentence_key(text) == sentence_key(f"  {text}\t") == sentence_key(text.casefold())


def test_fingerprints_follow_the_content():
    one, same, other = HeldOut(), HeldOut(), HeldOut()
    for held_out, sentences in ((one, "ab"), (same, "ba"), (other, "ac")):
        for sentence in sentences:
            held_out.add("en", sentence)
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
