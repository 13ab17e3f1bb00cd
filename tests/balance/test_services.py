"""A loop that does not provide what a strategy needs is told so; one that does is left alone."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenglot.balance import Balancer, Groups, Mixture, Needs, OptionError, UnservedError, create

SIZES = {"a": 100, "b": 300, "c": 600}
UNSERVED = {  # by the loop of the README
    "group-dro": ("group-dro", {}, "loss_weights"),
    "chi-pd": ("chi-pd", {}, "loss_weights"),
    "cvar-pd": ("cvar-pd", {}, "loss_weights"),
    "fastdro": ("fastdro", {}, "example_weights"),
    "multidds": ("multidds", {}, "gradients"),
    "chi-ibr valid": ("chi-ibr", {"signal": "valid"}, "validation_losses"),
    "cvar-ibr valid": ("cvar-ibr", {"signal": "valid"}, "validation_losses"),
    "fade": ("fade", {}, "pairs_drawn"),
}
OF_INTERVALS = ("validation_losses", "pairs_drawn")  # may be served at the end of an interval
CONTENT = [
    ("proportional", {}),
    ("uniform", {}),
    ("chi-ibr", {}),
    ("cvar-ibr", {}),
    ("group-dro", {"apply": "resample"}),
    ("chi-pd", {"apply": "resample"}),
    ("cvar-pd", {"apply": "resample"}),
]


def readme_interval(balancer, steps):
    """An interval of the README's loop."""
    assert sum(balancer.mixture.sample.values()) == pytest.approx(1)
    for _ in range(steps):
        balancer.observe({"a": 30.0, "b": 20.0, "c": 10.0}, dict.fromkeys(SIZES, 10))
    return balancer.update()


def serve(balancer, service):
    """What the error asks for, once."""
    if service == "loss_weights":
        return balancer.mixture.loss
    if service == "example_weights":
        return balancer.example_weights([1.0, 2.0], ["a", "b"])
    if service == "gradients":
        return balancer.reward({"a": 0.3, "b": 0.2, "c": 0.1})
    if service == "pairs_drawn":
        return balancer.serves(service)  # an interval is a pass over the data
    return balancer.observe({"a": 3.0, "b": 2.0, "c": 1.0}, dict.fromkeys(SIZES, 1), split="valid")


@pytest.mark.parametrize("case", UNSERVED)
@given(steps=st.integers(0, 150))
def test_the_loop_of_the_readme_is_told_what_is_missing(case, steps):
    name, options, service = UNSERVED[case]
    balancer = create(name, SIZES, **options)
    with pytest.raises(ValueError, match=name) as told:
        readme_interval(balancer, steps)
    assert isinstance(told.value, UnservedError)
    assert told.value.missing == (service,)
    assert balancer.intervals == 0
    assert balancer.services.steps == (steps if service in OF_INTERVALS else min(steps, 99))


@pytest.mark.parametrize("case", UNSERVED)
@settings(max_examples=8)
@example(before=99, after=1)
@example(before=99, after=0)
@given(before=st.integers(0, 99), after=st.integers(0, 60))
def test_a_loop_that_serves_it_by_then_is_left_alone(case, before, after):
    name, options, service = UNSERVED[case]
    balancer = create(name, SIZES, **options)
    for step in range(before + after):
        if step == before:
            serve(balancer, service)
        balancer.observe({"a": 30.0, "b": 20.0, "c": 10.0}, dict.fromkeys(SIZES, 10))
    if after == 0:
        serve(balancer, service)
    balancer.update()
    readme_interval(balancer, 150)
    assert balancer.intervals == 2


@pytest.mark.parametrize("case", UNSERVED)
def test_serving_something_else_does_not_help(case):
    name, options, service = UNSERVED[case]
    balancer = create(name, SIZES, **options)
    for other in {"loss_weights", "example_weights", "gradients", "validation_losses", "pairs_drawn"} - {service}:
        serve(balancer, other)
    with pytest.raises(UnservedError):
        balancer.update()


@pytest.mark.parametrize("case", UNSERVED)
def test_a_loop_can_declare_what_it_will_serve_later(case):
    name, options, service = UNSERVED[case]
    balancer = create(name, SIZES, **options)
    balancer.serves(service)
    readme_interval(balancer, 150)
    assert balancer.intervals == 1
    with pytest.raises(OptionError):
        balancer.serves("coffee")


@pytest.mark.parametrize(("name", "options"), CONTENT)
def test_the_others_need_nothing_but_the_loop_of_the_readme(name, options):
    balancer = create(name, SIZES, **options)
    for _ in range(3):
        readme_interval(balancer, 120)
    assert balancer.intervals == 3


def test_validation_may_wait_for_the_end_of_an_interval():
    balancer = create("chi-ibr", SIZES, signal="valid")
    for _ in range(200):
        balancer.observe({"a": 30.0}, {"a": 10})
    serve(balancer, "validation_losses")
    assert balancer.update()


@pytest.mark.parametrize("case", UNSERVED)
@pytest.mark.parametrize("served", [True, False])
def test_a_restored_balancer_knows_what_was_served(case, served):
    name, options, service = UNSERVED[case]
    original, restored = create(name, SIZES, **options), create(name, SIZES, **options)
    for _ in range(60):
        original.observe({"a": 30.0, "b": 20.0, "c": 10.0}, dict.fromkeys(SIZES, 10))
    if served:
        serve(original, service)
    restored.load_state_dict(json.loads(json.dumps(original.state_dict())))
    if served:
        readme_interval(restored, 150)
        assert restored.intervals == 1
    else:
        with pytest.raises(UnservedError):
            readme_interval(restored, 40)
        assert restored.services.steps == (100 if service in OF_INTERVALS else 99)


@pytest.mark.parametrize("case", UNSERVED)
def test_states_of_earlier_versions_load_and_their_loops_are_trusted(case):
    name, options, _ = UNSERVED[case]
    state = create(name, SIZES, **options).state_dict()
    del state["services"]
    balancer = create(name, SIZES, **options)
    balancer.load_state_dict(state)
    readme_interval(balancer, 150)
    assert balancer.intervals == 1


# ------------------------------------------------------------------------------------------- strategies of one's own


class Own(Balancer):
    """Overrides everything, and calls the base class or not."""

    strategy = "own"
    needs = Needs(loss_weights=True)

    @property
    def mixture(self):
        return Mixture(self.q, dict.fromkeys(self.q, 1.0))

    def observe(self, loss_sums, counts, split="train"):
        super().observe(loss_sums, counts, split)


class Heir(Own):
    def observe(self, loss_sums, counts, split="train"):
        super().observe(loss_sums, counts, split)

    def update(self, drawn=None):
        return super().update(drawn)


@pytest.mark.parametrize("cls", [Own, Heir])
def test_strategies_of_ones_own_are_watched_too(cls):
    balancer = cls(Groups.of(SIZES))
    with pytest.raises(UnservedError):
        readme_interval(balancer, 120)
    assert balancer.services.steps == 99  # a step is counted once, however many classes pass it on
    assert balancer.mixture.loss == dict.fromkeys(SIZES, 1.0)
    readme_interval(balancer, 120)
    assert balancer.intervals == 1


# ------------------------------------------------------------------------------------------------------- the mixture


def test_looking_at_a_mixture_is_not_reading_its_weights():
    balancer = create("group-dro", SIZES)
    mixture = balancer.mixture
    other = pickle.loads(pickle.dumps(mixture))
    assert mixture == other == copy.deepcopy(mixture)
    assert "loss={'a'" in repr(mixture) == repr(other)
    assert balancer.services.used == set()
    assert other.loss == copy.copy(mixture).loss
    assert balancer.services.used == set()  # a copy is of no balancer
    assert mixture.loss == other.loss
    assert balancer.services.used == {"loss_weights"}


@given(st.lists(st.floats(0, 9), min_size=3, max_size=3), st.none() | st.lists(st.floats(0, 9), min_size=3, max_size=3))
def test_mixtures_are_equal_if_their_numbers_are(sample, loss):
    def mixture(extra=0.0):
        weights = None if loss is None else dict(zip("abc", np.add(loss, extra).tolist(), strict=True))
        return Mixture(dict(zip("abc", sample, strict=True)), weights)

    assert mixture() == mixture()
    assert eval(repr(mixture())) == mixture()
    assert (mixture() == mixture(extra=1.0)) == (loss is None)
    with pytest.raises(AttributeError):
        mixture().loss = {}
