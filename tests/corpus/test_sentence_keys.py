import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus.sentence_keys import normalized, repeated
from tests.corpus.sentences import lines


@given(st.lists(st.integers(0, 5)))
def test_repeated_marks_all_but_the_first(values):
    expected = [value in values[:i] for i, value in enumerate(values)]
    assert repeated(np.array(values, dtype=np.uint64)).tolist() == expected


@given(lines)
def test_many_sentences_are_normalised_like_each_alone(sentences):
    alone = [" ".join(unicodedata.normalize("NFKC", sentence).casefold().split()) for sentence in sentences]
    assert normalized(sentences) == alone
