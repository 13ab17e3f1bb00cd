"""Sentences for the tests of cleaning: languages of two scripts, and held-out ones."""

from hypothesis import strategies as st

from evenglot.corpus.held_out import HeldOut
from evenglot.corpus.sentence_keys import keys_of

LATIN, CYRILLIC = frozenset({"LATIN"}), frozenset({"CYRILLIC"})
lines = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12), max_size=6)


def held(**sentences):
    """Held-out sentences by language."""
    held_out = HeldOut()
    for language, each in sentences.items():
        held_out.add(language, keys_of(each))
    return held_out
