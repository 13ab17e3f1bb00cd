"""Descriptions of strategies: needs, reach, and that no other module depends on their names or classes."""

import ast
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings

import evenglot
from evenglot.balance import (
    STRATEGIES,
    GradientProbe,
    Needs,
    Sampling,
    Signal,
    check_mixture,
    check_options,
    create,
    describe,
    describe_settings,
    keep_mixture,
)
from tests.balance.test_catalogue import CONFIGURATIONS, SIZES, events, play

# ------------------------------------------------------------------------------------------------------------- needs

NEEDS = {
    "proportional": Needs(),
    "temperature": Needs(),
    "uniform": Needs(),
    "mix": Needs(),
    "fade": Needs(pairs_drawn=True),
    "unimax": Needs(),
    "schedule": Needs(),
    "chi-ibr": Needs(losses=Signal("train", "token")),
    "cvar-ibr": Needs(losses=Signal("train", "token")),
    "group-dro": Needs(losses=Signal("train", "token"), loss_weights=True),
    "chi-pd": Needs(losses=Signal("train", "token"), loss_weights=True),
    "cvar-pd": Needs(losses=Signal("train", "token"), loss_weights=True),
    "fastdro": Needs(example_weights=True),
    "multidds": Needs(gradients=GradientProbe(1000, 8, 1200)),
}
CADENCE = {"fade": "interval", "schedule": "interval", "chi-ibr": "interval", "cvar-ibr": "interval"} | dict.fromkeys(
    ("group-dro", "chi-pd", "cvar-pd", "multidds"), "step"
)


@pytest.mark.parametrize("name", STRATEGIES)
def test_needs_and_cadence_follow_from_name_and_options(name):
    options = CONFIGURATIONS[name][1]
    description = describe(name, **options)
    assert (description.needs, description.cadence) == (NEEDS[name], CADENCE.get(name, "never"))


@pytest.mark.parametrize("name", STRATEGIES)
def test_q_is_sampled_late_if_it_changes_at_every_step_and_is_no_weight(name):
    options = CONFIGURATIONS[name][1]
    assert describe(name, **options).samples_every_step == (name == "multidds")
    assert describe(name, **options).needs_short_intervals == (name in ("multidds", "fade"))
    if NEEDS[name].loss_weights:
        assert describe(name, **{**options, "apply": "resample"}).samples_every_step


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_balancer_is_what_its_description_says(configuration):
    name, options = CONFIGURATIONS[configuration]
    description, balancer = describe(name, **options), create(name, SIZES, **options)
    assert (balancer.needs, balancer.cadence) == (description.needs, description.cadence)
    assert (balancer.mixture.loss is not None) == description.needs.loss_weights
    assert (balancer.losses is not None) == (description.needs.losses is not None)
    assert balancer.signal == description.needs.losses
    assert balancer.needs_gradients == description.needs.gradients
    assert balancer.weighs_examples == description.needs.example_weights


def test_needs_follow_the_options():
    on_characters = describe("cvar-ibr", signal="valid", loss_per="character").needs
    assert on_characters == Needs(losses=Signal("valid", "character"))
    assert on_characters.validation_losses
    assert on_characters.validation_text
    assert not describe("group-dro", apply="resample").needs.loss_weights
    probing = describe("multidds", every=7, probe_tokens=50).needs
    assert probing.gradients == GradientProbe(7, 8, 50)
    assert probing.validation_text
    assert not probing.validation_losses
    assert not describe("chi-ibr").needs.validation_text
    assert describe("schedule", points={0: "data"}).cadence == "never"


def test_released_presets_sample_in_their_own_way():
    assert describe("chi-ibr").sampling == describe("uniform").sampling == Sampling("cycle", 1.5)
    assert describe("chi-ibr", preset="released-wmt").sampling == Sampling("released", 1.0)


def test_the_temperature_of_a_static_run():
    assert describe("proportional").tau == 1
    assert describe("uniform").tau == math.inf
    assert describe("temperature", tau=5).tau == 5
    assert [describe(name).tau for name in ("chi-ibr", "fastdro", "multidds")] == [None] * 3
    assert describe("unimax", passes=3).tau is None


def test_the_balance_section_of_a_log_may_be_of_another_version():
    logged = json.loads('{"strategy": "temperature", "tau": null, "p_unit": "sentences"}')  # JSON has no inf
    assert describe_settings(logged).tau == math.inf
    assert describe_settings({"strategy": "group-dro", "of_long_ago": 3}).needs.loss_weights
    assert describe_settings({"strategy": "chi-ibr", "preset": "of-long-ago"}) is None
    assert describe_settings({"strategy": "of-the-future", "apply": "reweight"}) is None
    assert describe_settings({}) is None
    with pytest.raises(ValueError, match="^name: "):
        describe("of-the-future")


# ------------------------------------------------------------------------------------------------------------- reach

CAPPED = {
    **CONFIGURATIONS,
    "chi-ibr by passes": ("chi-ibr", {"center": "uniform", "rho": 0.5, "max_passes": 12, "intervals": 10}),
    "chi-ibr by ratio": ("chi-ibr", {"center": "uniform", "max_ratio": 2, "floor": 0.5}),
    "cvar-ibr by passes": ("cvar-ibr", {"center": "tau:3", "alpha": 0.6, "max_passes": 15, "intervals": 10}),
    "chi-pd resampling": ("chi-pd", {"rho": 0.3, "step": 0.5, "apply": "resample"}),
    "cvar-pd resampling": ("cvar-pd", {"alpha": 0.3, "apply": "resample"}),
}
UNLIMITED = {"group-dro smoothed", "multidds"}


def sampled(balancer):
    """What is sampled of each group, in the unit of p."""
    groups = balancer.groups
    pairs = groups.vector(balancer.mixture.sample, "sample")
    if groups.unit == "sentences":
        return groups.keyed(pairs)
    tokens = np.divide(pairs * groups.tokens, groups.sizes, out=np.zeros_like(pairs), where=groups.sizes > 0)
    return groups.keyed(tokens / tokens.sum())


@pytest.mark.parametrize("configuration", CAPPED)
@settings(max_examples=25)
@given(history=events)
def test_nothing_that_is_sampled_is_out_of_reach(configuration, history):
    name, options = CAPPED[configuration]
    assume(1 + history.count("update") < options.get("intervals", 99))  # limits on passes hold for the planned run
    balancer = create(name, SIZES, **options)
    reach = {group: balancer.reach(group) for group in SIZES}
    assert (None in reach.values()) == (configuration in UNLIMITED)
    for event in ["update", *history]:
        for group, share in sampled(balancer).items():
            assert reach[group] is None or share <= reach[group] + 1e-9
        play(balancer, event)
    assert {group: balancer.reach(group) for group in SIZES} == reach  # at any time of the run


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("chi-ibr", {"ema": 1.0}),
        ("chi-ibr", {"ema": 1.0, "max_ratio": 3}),
        ("chi-ibr", {"ema": 1.0, "preset": "released-wmt"}),
        ("cvar-ibr", {"ema": 1.0, "alpha": 0.3}),
        ("cvar-pd", {"ema": 1.0, "apply": "resample"}),
    ],
)
def test_a_group_far_behind_gets_all_that_is_in_reach(name, options):
    for group in ("aze-en", "tur-en", "bel-en"):
        balancer = create(name, SIZES, **options)
        balancer.observe({each: 100.0 * (each == group) for each in SIZES}, dict.fromkeys(SIZES, 10))
        balancer.update()
        assert balancer.mixture.sample[group] == pytest.approx(balancer.reach(group), abs=1e-12)
        assert balancer.reach(group) > balancer.groups.keyed(balancer.groups.p)[group]


def test_how_far_strategies_go():
    sizes = {"a": 50, "b": 950}
    assert create("proportional", sizes).reach("a") == pytest.approx(0.05)
    assert create("schedule", sizes, points={0: "data", 9: "uniform"}).reach("a") == pytest.approx(0.5)
    assert create("cvar-ibr", sizes, alpha=0.25).reach("a") == pytest.approx(0.2)
    assert create("chi-ibr", sizes, max_upsample=9, max_ratio=3).reach("a") == pytest.approx(0.15)
    assert create("chi-ibr", sizes, max_passes=3, intervals=2).reach("a") == pytest.approx(0.15)
    assert create("group-dro", sizes).reach("a") == pytest.approx(0.05)  # it reweights
    assert create("group-dro", sizes, apply="resample").reach("a") is None
    assert create("multidds", sizes).reach("a") is None


# ----------------------------------------------------------------------------------- facts behind warnings, and options


def test_facts_behind_warnings():
    assert create("chi-ibr", SIZES, estimator="ema").steadier_estimator == "interval-mean"
    assert create("chi-ibr", SIZES).steadier_estimator is None
    assert create("group-dro", SIZES).steadier_estimator == "token-ema"
    assert create("chi-ibr", SIZES, estimator="token-ema").steadier_estimator is None
    assert create("chi-ibr", SIZES, signal="valid", estimator="ema").steadier_estimator is None
    assert create("uniform", SIZES).steadier_estimator is None
    tiny = {"a": 1, "b": 10**6, "c": 10**5}
    assert create("chi-ibr", tiny).is_faint
    assert not create("chi-ibr", SIZES).is_faint
    assert not create("chi-ibr", tiny, max_upsample=5).is_faint  # explicitly set
    assert not create("chi-ibr", tiny, center="uniform").is_faint


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_options_are_checked_without_data(configuration):
    name, options = CONFIGURATIONS[configuration]
    check_options(name, SIZES, **{key: value for key, value in options.items() if key != "tokens"})


@pytest.mark.parametrize(
    ("name", "options", "argument"),
    [
        ("chi-ibr", {"rho": -1}, "rho"),
        ("chi-ibr", {"center": {"xx-en": 1}}, "center"),
        ("chi-ibr", {"max_passes": 2}, "intervals"),
        ("multidds", {"every": 0}, "every"),
        ("group-dro", {"apply": "somehow"}, "apply"),
        ("temperature", {}, "tau"),
        ("uniform", {"tau": 3}, "tau"),
        ("uniformly", {}, "name"),
    ],
)
def test_what_no_data_would_make_valid_is_refused(name, options, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        check_options(name, SIZES, **options)


def test_a_mixture_is_checked_and_kept():
    check_mixture("tau:5", SIZES, "baseline")
    with pytest.raises(ValueError, match="^baseline: "):
        check_mixture("tau:none", SIZES, "baseline")
    for mixture, tau in (("data", 1), ("tau:5", 5)):
        name, options = keep_mixture(mixture)
        assert describe(name, **options).cadence == "never"
        kept, tempered = create(name, SIZES, **options), create("temperature", SIZES, tau=tau)
        assert kept.mixture.sample == pytest.approx(tempered.mixture.sample)


# ------------------------------------------------------------------------------ no other module depends on strategies

PACKAGE = Path(evenglot.__file__).parent
OUTSIDE = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE / "balance"]
INSIDES = {
    "best_response",
    "examples",
    "gradient",
    "interval_strategies",
    "loss_driven",
    "losses",
    "primal_dual",
    "released",
    "step_strategies",
}
# Names of strategies, and words that are spelled the same, in string literals outside balance/
LITERALS = {
    "comparison/fairness.py": {"schedule"},  # of the learning rate
    "comparison/warnings.py": {"schedule"},
    "config/balance.py": {"fade", "chi-ibr"},  # the default, and the former one
    "demo.py": {"chi-ibr", "fade", "proportional"},
    "reporting/figures/simplex.py": {"uniform", "temperature"},  # labels of a figure
    "reporting/page_summary.py": {"schedule"},  # of the learning rate
}


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_other_module_knows_a_strategy_by_name_or_class(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for module, name in imports(tree):
        if module.startswith("evenglot.balance."):
            assert module.split(".")[2] not in INSIDES
            assert (module, name) == ("evenglot.balance.static", "temperature") or not module.endswith(".static")
        assert module != "evenglot.balance" or name not in INSIDES | {"static"}
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not constants & {1e12}  # a size that is made up
    names = constants & set(STRATEGIES)
    assert names <= LITERALS.get(path.relative_to(PACKAGE).as_posix(), set())
