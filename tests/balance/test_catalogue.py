import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenglot.balance import STRATEGIES, create

SIZES = {"aze-en": 5946, "tur-en": 182470, "bel-en": 4509, "none-en": 0}
# every strategy, and those options that add state or branches
CONFIGURATIONS = {
    "proportional": ("proportional", {}),
    "temperature": ("temperature", {"tau": 5}),
    "uniform": ("uniform", {}),
    "mix": ("mix", {"alpha": 0.5}),
    "fade": ("fade", {}),
    "unimax": ("unimax", {"passes": 4}),
    "schedule": ("schedule", {"points": {0: "tau:5", 3: "data"}, "interpolate": True}),
    "chi-ibr": ("chi-ibr", {"rho": 0.05, "baseline": dict.fromkeys(SIZES, 2.0)}),
    "chi-ibr paper": ("chi-ibr", {"rho": 0.05, "preset": "paper"}),
    "chi-ibr released-ted": ("chi-ibr", {"preset": "released-ted"}),
    "chi-ibr released-wmt": ("chi-ibr", {"preset": "released-wmt"}),
    "chi-ibr bias-corrected": ("chi-ibr", {"start": "bias-corrected", "reset": True}),
    "chi-ibr interval mean": ("chi-ibr", {"estimator": "interval-mean", "warmup": 2}),
    "chi-ibr noise-aware": ("chi-ibr", {"preset": "paper", "rho": 0.2, "estimator": "interval-mean", "noise": "aware"}),
    "chi-ibr capped": ("chi-ibr", {"center": "tau:3", "max_ratio": 8, "max_passes": 40, "intervals": 10}),
    "chi-ibr in tokens": ("chi-ibr", {"tokens": {k: 20 * n for k, n in SIZES.items()}, "p_unit": "tokens"}),
    "cvar-ibr": ("cvar-ibr", {"alpha": 0.4}),
    "group-dro": ("group-dro", {"step": 0.1}),
    "group-dro smoothed": ("group-dro", {"smoothing": 0.2, "apply": "resample"}),
    "chi-pd": ("chi-pd", {"rho": 0.1, "step": 0.01}),
    "chi-pd by tokens": ("chi-pd", {"estimator": "token-ema", "step": 0.01}),
    "cvar-pd": ("cvar-pd", {}),
    "fastdro": ("fastdro", {"rho": 0.5}),
    "multidds": ("multidds", {}),
}

losses = st.fixed_dictionaries({}, optional={name: st.floats(-100, 100) for name in SIZES})
events = st.lists(st.one_of(st.just("update"), losses), max_size=25)


def play(balancer, event):
    balancer.serves("loss_weights", "example_weights", "gradients", "validation_losses", "pairs_drawn")
    if event == "update":
        return balancer.update()
    if balancer.needs_gradients is not None:
        return balancer.reward({name: event.get(name, 0.0) for name in SIZES})
    return balancer.observe(event, dict.fromkeys(event, 7))


def test_all_strategies_are_tried_here():
    assert {name for name, _ in CONFIGURATIONS.values()} == set(STRATEGIES)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@settings(max_examples=25)
@given(before=events, after=events)
def test_a_balancer_saved_anywhere_goes_on_exactly(configuration, before, after):
    name, options = CONFIGURATIONS[configuration]
    original, restored = create(name, SIZES, **options), create(name, SIZES, **options)
    for event in before:
        play(original, event)
    restored.load_state_dict(json.loads(json.dumps(original.state_dict(), allow_nan=False)))
    assert restored.mixture == original.mixture
    for event in after:
        assert play(restored, event) == play(original, event)
        assert restored.mixture == original.mixture
    assert restored.state_dict() == original.state_dict()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@settings(max_examples=25)
@given(history=events)
def test_the_mixture_is_always_a_distribution_over_groups_with_data(configuration, history):
    name, options = CONFIGURATIONS[configuration]
    balancer = create(name, SIZES, **options)
    for event in history:
        play(balancer, event)
        sample = balancer.mixture.sample
        assert set(sample) == set(SIZES)
        assert sum(sample.values()) == pytest.approx(1, abs=1e-12)
        assert min(sample.values()) >= 0
        assert sample["none-en"] == 0
        weights = balancer.mixture.loss
        assert weights is None or all(np.isfinite(w) and w >= 0 for w in weights.values())


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_one_language_alone_is_always_shown(configuration):
    name, options = CONFIGURATIONS[configuration]
    if "tokens" in options:
        options = {**options, "tokens": {"aze-en": 1000}}
    balancer = create(name, {"aze-en": 100}, **options)
    play(balancer, {"aze-en": 3.0} if balancer.needs_gradients is None else "update")
    balancer.update()
    assert balancer.mixture.sample == {"aze-en": 1.0}


def test_state_of_another_balancer_or_of_other_groups_is_refused():
    state = create("chi-ibr", SIZES, estimator="ema").state_dict()
    with pytest.raises(ValueError, match="^state: .*'chi-ibr'.*'multidds'"):
        create("multidds", SIZES).load_state_dict(state)
    for other in ("cvar-ibr", "cvar-pd"):
        with pytest.raises(ValueError, match=f"^state: .*'chi-ibr'.*'{other}'"):
            create(other, SIZES).load_state_dict(state)
    with pytest.raises(ValueError, match="^state: .*average, steps"):
        create("chi-ibr", SIZES, estimator="interval-mean").load_state_dict(state)
    with pytest.raises(ValueError, match="^state: q: .*'bel-en'"):
        create("chi-ibr", {"aze-en": 5946}).load_state_dict(state)


@pytest.mark.parametrize("estimator", ["ema", "interval-mean"])
def test_a_state_that_does_not_fit_changes_nothing(estimator):
    saved = create("chi-ibr", SIZES, estimator=estimator, baseline=dict.fromkeys(SIZES, 1.0))
    play(saved, {"aze-en": 3.0, "tur-en": 2.0})
    saved.update()
    other = create("chi-ibr", SIZES, estimator=estimator)
    before = other.state_dict()
    with pytest.raises(ValueError, match="^baseline: "):
        other.load_state_dict(saved.state_dict())
    assert other.state_dict() == before
    with pytest.raises(ValueError, match="^state: .*'intervals'"):
        other.load_state_dict({"strategy": "chi-ibr"})
    play(other, {"aze-en": 3.0, "tur-en": 2.0})
    other.update()  # continues as if no state had been loaded
    fresh = create("chi-ibr", SIZES, estimator=estimator)
    play(fresh, {"aze-en": 3.0, "tur-en": 2.0})
    fresh.update()
    assert other.state_dict() == fresh.state_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval_size": -10}, "interval_size: "),
        ({"intervals": 0}, "intervals: "),
        ({"estimator": "interval-mean", "ema": 5}, "ema: "),
        ({"center": {"aze-en": 1, "none-en": 1}}, "center: .*'none-en'"),
    ],
)
def test_options_are_checked_though_nothing_may_come_of_them(options, message):
    sizes = {"aze-en": 5946, "none-en": 0}
    with pytest.raises(ValueError, match=f"^{message}"):
        create("chi-ibr", sizes, **options)


def test_names_and_options_are_checked_and_the_nearest_is_offered():
    with pytest.raises(ValueError, match="^name: .*'chi-irb'.*'chi-ibr'"):
        create("chi-irb", SIZES)
    with pytest.raises(ValueError, match="^roh: .*'chi-ibr'.*'rho'"):
        create("chi-ibr", SIZES, roh=0.1)
    with pytest.raises(ValueError, match="^tau: .*'temperature'"):
        create("temperature", SIZES)


@pytest.mark.parametrize(
    ("sums", "counts", "message"),
    [
        ({"aze-en": float("nan")}, {"aze-en": 1}, "loss_sums: .*'aze-en'.*nan"),
        ({"aze-en": 1.0}, {"aze-en": -1}, "counts: .*'aze-en'.*-1"),
        ({"xyz": 1.0}, {"xyz": 1}, "loss_sums: .*'xyz'"),
        ({}, {"aze-en": 2}, "loss_sums: .*'aze-en'.* 2"),
        ({"aze-en": 1.0}, {}, "counts: .*'aze-en'"),
        ({name: [1.0] for name in SIZES}, dict.fromkeys(SIZES, 1), "loss_sums: .*'aze-en'"),
    ],
)
def test_bad_observations_are_refused_and_leave_no_trace(sums, counts, message):
    balancer = create("chi-ibr", SIZES)
    before = balancer.state_dict()
    with pytest.raises(ValueError, match=f"^{message}"):
        balancer.observe(sums, counts)
    assert balancer.state_dict() == before


def test_only_train_and_valid_are_observed():
    with pytest.raises(ValueError, match="^split: .*'train'.*'valid'.*'test'"):
        create("chi-ibr", SIZES).observe({"aze-en": 1.0}, {"aze-en": 1}, split="test")


def test_the_contract_example_works():
    b = create("chi-ibr", sizes={"aze-en": 5946, "tur-en": 182470}, rho=0.05, baseline={"aze-en": 2.1, "tur-en": 2.4})
    assert sum(b.mixture.sample.values()) == pytest.approx(1)
    assert b.mixture.loss is None
    b.observe({"aze-en": 40.0, "tur-en": 300.0}, {"aze-en": 10, "tur-en": 120})
    assert b.update() is True
    assert b.mixture.sample["aze-en"] > 5946 / (5946 + 182470)
