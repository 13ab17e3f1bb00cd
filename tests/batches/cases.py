"""Random corpora and mixtures for the laws of batches/."""

from hypothesis import strategies as st

SEEDS = st.integers(0, 2**40)
LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=120)


@st.composite
def corpora(draw, largest=60):
    """Sizes of up to five corpora by name, and a mixture of them."""
    names = draw(st.lists(st.text("abcxyz-", min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
    return {name: draw(st.integers(1, largest)) for name in names}, draw(mixtures(names))


def mixtures(names):
    """Shares by name; some may be 0, not all."""
    shares = st.lists(st.integers(0, 20), min_size=len(names), max_size=len(names)).filter(any)
    return shares.map(lambda values: {name: value / sum(values) for name, value in zip(names, values, strict=True)})
