"""`load_state_dict` accepts valid states only: anything else is a ValueError and leaves the balancer as it was.

The attack itself is in torture/states.py; `make torture` makes many more cases.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenglot.balance import STRATEGIES
from torture.mutations import KINDS, Mutation
from torture.states import CASES, balancer_of, fault, work

MUTATIONS = st.lists(
    st.builds(Mutation, st.sampled_from(KINDS), st.integers(0, 1 << 12), st.integers(0, 1 << 8)), min_size=1, max_size=3
)


@pytest.fixture(scope="module")
def states():
    found = {}
    for case in CASES:
        balancer = balancer_of(case)
        work(balancer)
        found[case] = balancer.state_dict()
    return found


def test_every_strategy_is_tried():
    assert {case.partition(" ")[0] for case in CASES} == set(STRATEGIES)


@pytest.mark.parametrize("case", CASES)
def test_unchanged_states_load_and_changed_ones_are_refused_or_as_good(states, case):
    def make():
        return balancer_of(case)

    assert fault(make, states[case], []) == (None, "accepted")

    @settings(max_examples=125, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(MUTATIONS)
    def attack(mutations):
        assert fault(make, states[case], mutations)[0] is None

    attack()


@pytest.mark.parametrize("state", [None, [], 3, "state", {}, {1: 2}, {"strategy": ["x"]}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(ValueError, match="^state"):
        balancer_of("chi-ibr").load_state_dict(state)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("intervals", -1),
        ("intervals", True),
        ("intervals", 1.0),
        ("intervals", "1"),
        ("passes", None),
        ("services", None),
        ("services", {"used": "loss_weights", "steps": 0}),
        ("services", {"used": ["everything"], "steps": 0}),
        ("services", {"used": [], "steps": -5}),
        ("moved", 1),
        ("estimator", []),
        ("unheard of", 1),
    ],
)
def test_single_wrong_values_are_refused(states, key, value):
    with pytest.raises(ValueError, match="^state"):
        balancer_of("chi-ibr").load_state_dict({**states["chi-ibr"], key: value})


@pytest.mark.parametrize(
    "change",
    [
        {"por-en": 0.9},  # sums to more than 1
        {"aze-en": -0.1},
        {"nul-en": 0.1},  # has no data
        {"aze-en": "0.1"},
        {"aze-en": True},
        {"aze-en": float("nan")},
        {"aze-en": 10**400},
        {"fra-en": 0.0},
    ],
)
def test_a_q_that_is_no_distribution_is_refused(states, change):
    state = states["chi-ibr"]
    with pytest.raises(ValueError, match="^state: q"):
        balancer_of("chi-ibr").load_state_dict({**state, "q": state["q"] | change})


def test_a_strategy_of_another_author_needs_no_checks_of_its_own(states):
    class Careless(type(balancer_of("proportional"))):
        def _load(self, state):
            super()._load(state)
            self.levels = [entry.upper() for entry in state["levels"]]

    careless = balancer_of("proportional")
    careless.__class__ = Careless
    for levels in (None, [None], 3):
        with pytest.raises(ValueError, match="^state"):
            careless.load_state_dict({**states["proportional"], "levels": levels})
