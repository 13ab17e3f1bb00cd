"""Every strategy trains, and moves the mixture as its mathematics says. Checked from log.jsonl alone."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq

from evenglot.balance import STRATEGIES
from evenglot.config import load_config
from evenglot.robust import ChiSquareBall, CVaR
from evenglot.training.train import train
from tests.tasks import SIZES
from tests.training.helpers import events, store_of, vector

NAMES = [f"{language}-en" for language in sorted(SIZES)]
N = np.array([SIZES[language] for language in sorted(SIZES)], dtype=float)
P = N / N.sum()
RECOMMENDED_RHO = (5 - 1) ** 2 * P.min() / (2 * (1 - P.min()))  # max_upsample: 5
BASELINE = {"aa-en": 1.0, "bb-en": 1.4, "cc-en": 1.3}

LENGTH = {"updates": 15, "log_every": 1}
SHORT = {"interval_pairs": 300}  # pairs in an interval: 3 updates or so


def shares(*numbers):
    return dict(zip(NAMES, numbers, strict=True))


def tempered(tau):
    return N ** (1 / tau) / (N ** (1 / tau)).sum()


@pytest.fixture(scope="module")
def run(conf, tmp_path_factory):
    """The folder of a run: run(strategy, {its options}, batches={...}, ...). The same one is not trained twice."""
    done = {}

    def folder(strategy, options=None, **sections):
        sections = {"batches": SHORT, **sections, "train": {**LENGTH, **sections.get("train", {})}}
        key = json.dumps([strategy, options, sections], sort_keys=True)
        if key not in done:
            balance = {"strategy": strategy, **(options or {})}
            overrides = [f"balance={as_yaml(balance)}"]
            overrides += [f"{name}.{k}={json.dumps(v)}" for name, keys in sections.items() for k, v in keys.items()]
            done[key] = tmp_path_factory.mktemp("run")
            train(load_config(conf, overrides, check_files=False), done[key])
        return done[key]

    return folder


def as_yaml(value):
    """JSON whose keys may be numbers."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {as_yaml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def mixtures(folder, event="interval", key="mixture"):
    return np.array([vector(each[key]) for each in events(folder, event)])


def running_losses(folder, start="first", reset=False, weight=0.1):
    """The moving averages that each `balance` event should have answered, from the losses of single updates."""
    average, seen, found = np.zeros(3), np.zeros(3, dtype=bool), []
    ends = {event["step"] for event in events(folder, "balance")}
    for event in events(folder, "step"):
        losses = np.array([event["losses"][name] for name in NAMES], dtype=float)  # null becomes nan
        here = ~np.isnan(losses)
        first = here & ~seen if start == "first" else np.zeros(3, dtype=bool)
        average = np.where(first, losses, np.where(here, (1 - weight) * average + weight * losses, average))
        seen |= here
        if event["step"] in ends:
            found.append(average)
            if reset:
                average, seen = np.zeros(3), np.zeros(3, dtype=bool)
    return np.array(found)


# --------------------------------------------------------------------------------------------- all of them

EVERY_STRATEGY = {
    "proportional": {},
    "temperature": {"tau": 5},
    "uniform": {},
    "mix": {"alpha": 0.5},
    "fade": {},
    "unimax": {"passes": 2},
    "schedule": {"points": {0: "tau:5", 1: "data"}},
    "chi-ibr": {},
    "cvar-ibr": {"floor": 0.2},
    "group-dro": {"step": 0.5, "apply": "reweight"},
    "chi-pd": {"rho": 0.3, "step": 0.2, "apply": "reweight"},
    "cvar-pd": {"alpha": 0.6, "apply": "reweight"},
    "fastdro": {},
    "multidds": {"every": 4},
}


def test_no_strategy_is_forgotten_here():
    assert set(EVERY_STRATEGY) == set(STRATEGIES)


@pytest.mark.parametrize("strategy", EVERY_STRATEGY)
def test_every_strategy_learns(run, strategy):
    folder = run(strategy, EVERY_STRATEGY[strategy])
    losses = [event["loss"] for event in events(folder, "step")]
    assert np.mean(losses[-3:]) < 0.85 * losses[0]
    validated = [event["pooled"] for event in events(folder, "validation")]
    assert validated[-1] < validated[0] < losses[0]


@pytest.mark.parametrize("strategy", EVERY_STRATEGY)
def test_every_strategy_shows_what_it_says(run, strategy):
    folder = run(strategy, EVERY_STRATEGY[strategy])
    shown, balanced = events(folder, "interval"), events(folder, "balance")
    assert len(shown) >= 4
    drawn = np.zeros(3)
    for event in shown:
        q = vector(event["mixture"])
        assert q.sum() == pytest.approx(1)
        assert vector(event["pairs"]).tolist() == np.ceil(300 * q - 1e-9).tolist()  # algorithms.md 1.3
    for event, answer in zip(shown, balanced, strict=False):
        drawn += vector(event["pairs"])
        assert answer["interval"] == event["interval"]
        assert vector(answer["realised"]) == pytest.approx(vector(event["pairs"]) / vector(event["pairs"]).sum())
        assert vector(answer["passes"]) == pytest.approx(drawn / N)
    for answer, event in zip(balanced, shown[1:], strict=False):
        assert event["mixture"] == answer["mixture"]
        assert answer["changed"] or answer["mixture"] == shown[event["interval"] - 1]["mixture"]


# --------------------------------------------------------------------------------------- static mixtures


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("proportional", [P, P]),
        ("temperature", [tempered(5), tempered(5)]),
        ("uniform", [np.full(3, 1 / 3)] * 2),
        ("unimax", [np.array([400, 300, 100]) / 800] * 2),  # cc and bb twice, the rest of 800 is left to aa
        ("schedule", [tempered(5), P]),
        ("fastdro", [P, P]),
    ],
)
def test_static_mixtures_follow_from_sizes(run, strategy, expected):
    folder = run(strategy, EVERY_STRATEGY[strategy])
    assert mixtures(folder)[:2] == pytest.approx(np.array(expected))
    assert not any("target" in event for event in events(folder, "step"))


def test_an_interval_is_as_long_as_the_data_if_nothing_else_is_said(run):
    folder = run("temperature", {"tau": 5}, batches={}, train={"updates": 2})
    (event,) = events(folder, "interval")
    assert vector(event["pairs"]).tolist() == np.ceil(800 * tempered(5)).tolist()


def test_a_schedule_moves_in_a_straight_line_if_asked_to(run):
    options = {"points": {0: "uniform", 2: "data", 3: shares(0.2, 0.3, 0.5)}, "interpolate": True}
    folder = run("schedule", options, train={"updates": 20})
    uniform, end = np.full(3, 1 / 3), np.array([0.2, 0.3, 0.5])
    assert mixtures(folder)[:5] == pytest.approx(np.array([uniform, (uniform + P) / 2, P, end, end]))


def test_shares_may_count_tokens(run, configure):
    folder = run("uniform", {"p_unit": "tokens"}, train={"updates": 2})
    tokens = vector(store_of(configure()).target_tokens)
    expected = N / tokens  # so many pairs for each token
    assert mixtures(folder)[0] == pytest.approx(expected / expected.sum())
    assert mixtures(folder)[0] != pytest.approx(np.full(3, 1 / 3), abs=1e-4)


# -------------------------------------------------------------------------------------- best responses (IBR)

VALID = {"signal": "valid"}
EXACT = {"noise": "ignore"}  # in intervals of three updates, all differences may be noise
CHI_IBR = {  # options, and the set in which they say the mixture to lie
    "moving average": ({"estimator": "ema"}, ChiSquareBall(P, RECOMMENDED_RHO, 0.2)),
    "baseline": ({"baseline": BASELINE, **EXACT}, ChiSquareBall(P, RECOMMENDED_RHO, 0.2)),
    "paper": ({"preset": "paper", "rho": 0.05}, ChiSquareBall(P, 0.05)),
    "valid": (VALID, ChiSquareBall(P, RECOMMENDED_RHO, 0.2)),
    "characters": ({**VALID, "loss_per": "character"}, ChiSquareBall(P, RECOMMENDED_RHO, 0.2)),
    "max_ratio": ({"rho": 0.3, "max_ratio": 1.3, **EXACT}, ChiSquareBall(P, 0.3, 0.2, 1.3 * P)),
    "center": ({"rho": 0.1, "center": "uniform", **EXACT}, ChiSquareBall(np.full(3, 1 / 3), 0.1, 0.2)),
}


def assert_best_responses(folder, uncertainty):
    balanced = events(folder, "balance")
    assert len(balanced) >= 3
    for event in balanced:
        excess = vector(event["losses"]) - vector(event["baseline"])
        assert vector(event["mixture"]) == pytest.approx(uncertainty.best_response(excess), abs=1e-9)
        assert event["target"] == event["mixture"]
    assert mixtures(folder)[0] == pytest.approx(uncertainty.p)
    assert np.abs(mixtures(folder) - uncertainty.p).max() > 0.02
    assert not any("target" in event for event in events(folder, "step"))


@pytest.mark.parametrize("case", CHI_IBR)
def test_chi_ibr_answers_with_the_worst_mixture_in_the_ball(run, case):
    options, ball = CHI_IBR[case]
    folder = run("chi-ibr", options)
    assert_best_responses(folder, ball)
    used = [event["baseline"] for event in events(folder, "balance")]
    assert used == [options.get("baseline", dict.fromkeys(NAMES, 0.0))] * len(used)


@pytest.mark.parametrize(("case", "start"), [("moving average", "first"), ("paper", "zero")])
def test_it_answers_moving_averages_of_the_losses_of_updates(run, case, start):
    folder = run("chi-ibr", CHI_IBR[case][0])
    assert mixtures(folder, "balance", "losses") == pytest.approx(running_losses(folder, start))


@pytest.mark.parametrize(("case", "key"), [("valid", "loss"), ("characters", "loss_per_character")])
def test_it_answers_validation_losses_if_told_to(run, case, key):
    folder = run("chi-ibr", CHI_IBR[case][0])
    validated = {event["step"]: event[key] for event in events(folder, "validation")}
    for event in events(folder, "balance"):
        assert event["losses"] == pytest.approx(validated[event["step"]])


def test_training_losses_may_be_of_characters(run, configure, conf):
    options = {"rho": 0.05, "loss_per": "character", "estimator": "interval-mean", **EXACT}
    folder = run("chi-ibr", options, batches={}, train={"updates": 8})
    first = events(folder, "balance")[0]  # of an interval that has shown every pair once
    tokens = store_of(configure()).target_tokens
    for name in NAMES:
        text = (conf.parent / f"train.{name}.en").read_text().splitlines()
        characters = sum(len(line) + 1 for line in text)  # a word's piece holds the space before it
        assert first["losses"][name] == pytest.approx(first["interval_losses"][name] * tokens[name] / characters)
    excess = vector(first["losses"])
    assert vector(first["mixture"]) == pytest.approx(ChiSquareBall(P, 0.05, 0.2).best_response(excess), abs=1e-9)


def test_cvar_ibr_answers_with_the_worst_share_of_the_data(run):
    folder = run("cvar-ibr", EVERY_STRATEGY["cvar-ibr"])
    assert_best_responses(folder, CVaR(P, 0.5, 0.2))
    assert mixtures(folder, "balance", "losses") == pytest.approx(running_losses(folder))


def released_ted_response(v, rho=0.05):
    """algorithms.md 2.4: ratios of at least 0.2 inside the search, then no share below the smallest of p."""

    def floored(eta):
        above = np.maximum(v - eta, 0)
        q = P * np.maximum(above / (P @ above), 0.2)
        return q / q.sum()

    top = v.max()
    eta = brentq(lambda e: ChiSquareBall(P, 1).divergence(floored(e)) - rho, top - 1e3, top - 1e-9, xtol=1e-14)
    clamped = np.maximum(floored(eta), P.min())
    return clamped / clamped.sum()


def test_the_released_preset_answers_as_the_released_code(run):
    folder = run("chi-ibr", {"preset": "released-ted"}, batches={}, train={"updates": 26})
    balanced = events(folder, "balance")
    answered = running_losses(folder, "zero", reset=True)
    assert len(balanced) >= 3
    for event, losses in zip(balanced, answered, strict=True):
        assert vector(event["mixture"]) == pytest.approx(released_ted_response(losses), abs=1e-6)
        assert vector(event["losses"]) == pytest.approx(losses)


def test_the_released_preset_draws_as_the_released_code(run):
    folder = run("chi-ibr", {"preset": "released-ted"}, batches={}, train={"updates": 26})
    for event in events(folder, "interval"):
        q, pairs = vector(event["mixture"]), vector(event["pairs"])
        length = math.floor(min(N[0] / q[0], 1.5 * N.sum()) + 1e-9)
        assert pairs.sum() == length
        assert (pairs >= np.floor(length * q + 1e-9)).all()


def test_a_best_response_is_a_schedule_found_on_the_way_and_weighs_no_loss(run):
    """What was learnt is what the same mixtures teach when they are known beforehand."""
    found = run("chi-ibr", EXACT)
    points = {event["interval"]: event["mixture"] for event in events(found, "interval")}
    known = run("schedule", {"points": points})
    losses = [[event["loss"] for event in events(folder, "step")] for folder in (found, known)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_a_warmup_holds_the_mixture_for_as_many_intervals(run):
    folder = run("chi-ibr", {"warmup": 3, **EXACT})
    moved = np.abs(mixtures(folder) - P).max(1) > 1e-6
    assert moved[:4].tolist() == [False, False, False, True]


# ------------------------------------------------------------------------------------------- primal-dual


def exponentiated(q, losses, _):
    tilted = q * np.exp(0.5 * losses)
    return tilted / tilted.sum()


def projected(q, losses, _):
    return ChiSquareBall(P, 0.3).project(q + 0.2 * losses)


def worst_share(_, __, average):
    return CVaR(P, 0.6).best_response(average)


PRIMAL_DUAL = {  # where it starts, and the step it takes from q, the latest losses and their moving average
    "group-dro": (np.full(3, 1 / 3), exponentiated),
    "chi-pd": (P, projected),
    "cvar-pd": (P, worst_share),
}


def follow(folder, start, rule):
    """q after every update, as it should be: losses of groups that an update lacks are their moving averages."""
    q, average, found = start, np.full(3, np.nan), []
    for event in events(folder, "step"):
        losses = np.array([event["losses"][name] for name in NAMES], dtype=float)
        average = np.where(np.isnan(average), losses, np.where(np.isnan(losses), average, 0.9 * average + 0.1 * losses))
        assert not np.isnan(average).any()  # the first update has sentences of all
        q = rule(q, np.where(np.isnan(losses), average, losses), average)
        found.append(q)
    return np.array(found)


@pytest.mark.parametrize("strategy", PRIMAL_DUAL)
@pytest.mark.parametrize("apply", ["reweight", "resample"])
def test_primal_dual_strategies_take_a_step_at_every_update(run, strategy, apply):
    folder = run(strategy, {**EVERY_STRATEGY[strategy], "apply": apply})
    start, rule = PRIMAL_DUAL[strategy]
    q = mixtures(folder, "step", "target")
    assert q == pytest.approx(follow(folder, start, rule), abs=1e-6)
    assert np.abs(q - start).max() > 0.02
    for event in events(folder, "balance"):
        assert vector(event["target"]) == pytest.approx(q[event["step"] - 1], abs=1e-12)


@pytest.mark.parametrize("strategy", PRIMAL_DUAL)
def test_reweighting_leaves_the_data_as_they_are(run, strategy):
    folder = run(strategy, EVERY_STRATEGY[strategy])
    for name in ("interval", "balance"):
        shown = mixtures(folder, name)
        assert shown == pytest.approx(np.tile(P, (len(shown), 1)))


@pytest.mark.parametrize("strategy", PRIMAL_DUAL)
def test_resampling_shows_the_mixture_as_it_stands_when_an_interval_begins(run, strategy):
    folder = run(strategy, {**EVERY_STRATEGY[strategy], "apply": "resample"})
    q = mixtures(folder, "step", "target")
    first, *later = events(folder, "interval")
    assert vector(first["mixture"]) == pytest.approx(PRIMAL_DUAL[strategy][0])
    assert len(later) >= 3
    for event in later:
        assert vector(event["mixture"]) == pytest.approx(q[event["step"] - 1], abs=1e-12)


# ------------------------------------------------------------------------------- groups of several directions


def test_directions_of_a_group_keep_their_proportions_and_events_name_directions(run, configure):
    directions = [{"src": "aa", "tgt": "en", "label": "large"}, {"from": ["bb", "cc"], "to": "en", "label": "small"}]
    data = {"directions": directions, "grouping": "label"}
    folder = run("chi-ibr", {"rho": 0.1, "baseline": {"large": 1.0, "small": 1.5}, **VALID}, data=data)
    store = store_of(configure())
    tokens = np.array([store.corpus(name, "valid").target.lengths.sum() for name in NAMES])
    validated = {event["step"]: vector(event["loss"]) for event in events(folder, "validation")}
    ball = ChiSquareBall([P[0], P[1] + P[2]], 0.1, 0.2)
    for event in events(folder, "balance"):
        losses, mixture = vector(event["losses"]), vector(event["mixture"])
        assert vector(event["baseline"]).tolist() == [1.0, 1.5, 1.5]
        loss = validated[event["step"]]
        assert losses[0] == pytest.approx(loss[0])
        assert losses[1] == losses[2] == pytest.approx(loss[1:] @ tokens[1:] / tokens[1:].sum())
        large, small = ball.best_response(losses[:2] - [1.0, 1.5])
        assert mixture == pytest.approx([large, small * 3 / 4, small / 4])
    for event in events(folder, "interval") + events(folder, "validation") + events(folder, "step"):
        for key in ("mixture", "pairs", "loss", "losses"):
            assert not isinstance(event.get(key), dict) or sorted(event[key]) == NAMES


def test_a_single_group_of_all_directions_is_plain_training(run):
    one, plain = run("chi-ibr", data={"grouping": "target"}), run("proportional")
    assert [e["loss"] for e in events(one, "step")] == [e["loss"] for e in events(plain, "step")]


# ------------------------------------------------------------------------------------ lengths, and warnings


def test_an_interval_may_be_so_many_tokens_long(run):
    folder = run("schedule", {"points": {0: "uniform", 1: shares(1, 0, 0)}}, batches={"interval_tokens": 1500})
    for event in events(folder, "interval"):
        assert event["tokens"] == pytest.approx(1500, rel=0.05)
        assert vector(event["pairs"]).sum() < 400


@pytest.mark.parametrize("updates", [1, 4])
def test_an_interval_may_be_so_many_updates_long(run, updates):
    """Whatever the mixture."""
    points = {0: "uniform", 1: shares(1, 0, 0), 2: "data"}
    folder = run("schedule", {"points": points}, batches={"interval_updates": updates}, train={"updates": 13})
    begun = events(folder, "interval")
    assert [event["updates"] for event in begun] == [updates] * (12 // updates + 1)
    assert vector(begun[1]["mixture"]) == pytest.approx([1, 0, 0])
    ended = events(folder, "balance")
    drawn = np.sum([vector(event["pairs"]) for event in begun[: len(ended)]], axis=0)
    assert vector(ended[-1]["passes"]) == pytest.approx(drawn / N)


@pytest.mark.parametrize(
    ("strategy", "options", "is_late"),
    [
        ("group-dro", {"step": 0.5, "apply": "resample"}, True),
        ("multidds", EVERY_STRATEGY["multidds"], True),
        ("group-dro", EVERY_STRATEGY["group-dro"], False),
        ("chi-ibr", {}, False),
    ],
)
def test_the_lag_of_what_is_sampled_is_logged_where_q_changes_at_every_step(run, strategy, options, is_late):
    for event in events(run(strategy, options), "interval"):
        assert event.get("lag") == (event["updates"] - 1 if is_late else None)


def test_a_run_may_be_so_many_intervals_long(run):
    folder = run("uniform", train={"intervals": 3, "updates": 1000})
    shown = events(folder, "interval")
    assert len(shown) == len(events(folder, "balance")) == 3
    (done,) = events(folder, "done")
    assert done["reason"] == "intervals"
    assert done["step"] == sum(event["updates"] for event in shown)
    assert {event["total_updates"] for event in events(folder, "step") if event["interval"] == 2} == {done["step"]}


def test_too_many_passes_are_warned_of_once(run):
    folder = run("uniform", train={"warn_passes": 3})
    warnings = [event for event in events(folder, "warning") if event["kind"] == "passes"]
    (warning,) = [event for event in warnings if event["direction"] == "cc-en"]
    shown = 0
    for event in events(folder, "interval"):
        shown += event["pairs"]["cc-en"]
        if shown > 3 * 50:
            assert warning["step"] == event["step"]
            break
    assert not any(event["direction"] == "aa-en" for event in warnings)
    assert len(events(folder, "interval")) > 3
