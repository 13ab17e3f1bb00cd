from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus.scripts import foreign, is_foreign, main_scripts
from tests.corpus.sentences import CYRILLIC, LATIN, lines


def test_scripts_are_measured_and_mixed_ones_are_all_kept():
    assert main_scripts(Counter("Привет, OK добрый день")) == CYRILLIC
    assert main_scripts(Counter("Zdravo svete Здраво свете")) == {"LATIN", "CYRILLIC"}
    assert main_scripts(Counter("日本語のテキスト カタカナ")) == {"CJK"}
    assert main_scripts(Counter("123 !?")) == frozenset()
    assert is_foreign("hello", CYRILLIC)
    assert not is_foreign("Windows XP установка программы", CYRILLIC)
    assert not is_foreign("123", CYRILLIC)
    assert not is_foreign("anything", frozenset())


@given(lines, st.sampled_from([LATIN, CYRILLIC, LATIN | CYRILLIC, frozenset()]))
def test_foreign_sentences_are_found_among_many(sentences, scripts):
    assert foreign(sentences, scripts).tolist() == [is_foreign(sentence, scripts) for sentence in sentences]
