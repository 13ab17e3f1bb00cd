import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance import Groups

SIZES = {"tur": 300, "aze": 100}


def test_order_of_the_mapping_does_not_matter():
    one, other = Groups.of(SIZES), Groups.of(dict(reversed(SIZES.items())))
    assert one.names == other.names == ("aze", "tur")
    assert one.keyed(one.p) == {"aze": 0.25, "tur": 0.75}


def test_shares_may_count_tokens_and_are_translated_to_sentences():
    groups = Groups.of(SIZES, tokens={"aze": 1000, "tur": 1000}, unit="tokens")
    assert groups.p.tolist() == [0.5, 0.5]
    assert groups.sentence_shares(groups.p).tolist() == pytest.approx([0.25, 0.75])  # proportional sampling


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 60), st.integers(1, 100)), min_size=1, max_size=8))
def test_drawing_translated_shares_gives_the_wanted_shares_of_tokens(rows):
    names = [f"g{i}" for i in range(len(rows))]
    sizes = {name: size for name, (size, _, _) in zip(names, rows, strict=True)}
    tokens = {name: size * length for name, (size, length, _) in zip(names, rows, strict=True)}
    groups = Groups.of(sizes, tokens, "tokens")
    q = groups.vector({name: weight for name, (_, _, weight) in zip(names, rows, strict=True)}, "q")
    q = q / q.sum()
    drawn = groups.sentence_shares(q)
    drawn_tokens = drawn * groups.tokens / groups.sizes
    np.testing.assert_allclose(drawn_tokens / drawn_tokens.sum(), q, rtol=1e-12)


def test_weighted_token_loss_of_proportional_batches_has_the_expectation_of_q():
    groups = Groups.of({"a": 100, "b": 300, "c": 600}, tokens={"a": 1000, "b": 9000, "c": 3000})
    q, loss = np.array([0.5, 0.3, 0.2]), np.array([4.0, 3.0, 2.0])
    weights = groups.loss_weights(q, groups.p)
    tokens = groups.tokens / groups.tokens.sum()  # shares in a batch drawn from the data
    assert tokens @ (weights * loss) == pytest.approx(q @ loss, rel=1e-12)


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ({}, {}, "sizes"),
        ([1, 2], {}, "sizes"),
        ({"a": -1}, {}, "sizes: 'a'"),
        ({"a": float("nan")}, {}, "sizes: 'a'"),
        ({"a": "many"}, {}, "sizes: 'a'"),
        ({"a": 0, "b": 0}, {}, "sizes"),
        ({"a": 1e300, "b": 5e-324}, {}, "sizes: 'b'"),
        ({"a": 1}, {"unit": "words"}, "p_unit"),
        ({"a": 1}, {"unit": "tokens"}, "tokens"),
        ({"a": 1}, {"tokens": {"b": 1}}, "tokens"),
        ({"a": 1, "b": 1}, {"tokens": {"a": 1, "b": 0}}, "tokens"),
    ],
)
def test_bad_sizes_are_refused_by_name(sizes, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Groups.of(sizes, **options)


def test_values_must_be_for_the_groups():
    groups = Groups.of(SIZES)
    with pytest.raises(ValueError, match="^losses: .*'bel'"):
        groups.vector({"bel": 1.0}, "losses", default=0.0)
    with pytest.raises(ValueError, match="^losses: .*tur$"):
        groups.vector({"aze": 1.0}, "losses")
    with pytest.raises(ValueError, match="^losses: .*'aze'.*nan"):
        groups.vector({"aze": float("nan"), "tur": 1.0}, "losses")
