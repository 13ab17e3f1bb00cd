import pickle

from hypothesis import given
from hypothesis import strategies as st

from tests.corpus.sentences import held


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20))
def test_case_and_spaces_do_not_hide_a_held_out_sentence(text):
    variants = [text, f"  {text}\t", text.casefold(), f"{text}!"]
    assert held(en=[text]).contains("en", variants).tolist() == [bool(text.split())] * 3 + [False]


def test_fingerprints_follow_the_content():
    one, same, other = held(en=["a", "b"]), held(en=["b", "a"]), held(en=["a", "c"], rus=["a"])
    assert one.fingerprint("en") == same.fingerprint("en") != other.fingerprint("en")
    assert one.fingerprint("rus") != other.fingerprint("rus")
    assert one.fingerprint("en", "rus") == pickle.loads(pickle.dumps(one)).fingerprint("en", "rus")
