import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus.clean import REASONS, Judge, Limits, combine, unusual
from evenglot.corpus.held_out import HeldOut
from tests.corpus.sentences import CYRILLIC, LATIN, held

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


def test_a_ratio_is_unusual_against_the_corpus_not_against_one():
    ratios = np.array([3.0] * 50 + [1.0, 9.5, 0.0], dtype=np.float32)
    assert np.flatnonzero(unusual(ratios, 2.9)).tolist() == [50, 51]
    assert not unusual(np.zeros(3, dtype=np.float32), 2).any()


@given(pairs, st.integers(1, 5))
def test_flags_do_not_depend_on_how_the_text_is_cut_into_blocks(pairs, block):
    held_out = held(en=["ab"], rus=["аб а"])
    whole, cut = look(pairs, held_out), look(pairs, held_out, block=block)
    assert cut.flags.tolist() == whole.flags.tolist()
    assert cut.characters == whole.characters
