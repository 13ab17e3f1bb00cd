"""The mixtures of a run from its log, and those of a real run."""

from __future__ import annotations

import pytest

from evenglot.runs.history import LogNotStartedError
from evenglot.runs.log import read_log
from evenglot.runs.mixtures import stages_of
from evenglot.runs.run import Run
from evenglot.stages import average
from evenglot.training.train import train
from tests.logs import event

FACTS = {"a": {"pairs": 100, "p": 0.5, "target_tokens": 1000}, "b": {"pairs": 100, "p": 0.5, "target_tokens": 3000}}
SAMPLES = {"strategy": "chi-ibr", "rho": 0.1}
REWEIGHTS = {"strategy": "group-dro", "apply": "reweight"}


def begin(balance: dict) -> list:
    about = {"config": {"balance": balance}, "strategy": balance["strategy"], "directions": FACTS}
    return [event("config", 0, **about)]


def test_shares_are_those_of_the_pairs_drawn_and_lengths_those_that_were_done():
    events = [
        *begin(SAMPLES),
        event("interval", 0, mixture={"a": 0.5, "b": 0.5}, pairs={"a": 30, "b": 10}, updates=4),
        event("interval", 4, mixture={"a": 0.5, "b": 0.5}, pairs={"a": 10, "b": 10}, updates=4),
        event("step", 7),
    ]
    first, second = stages_of(events)
    assert (first.shares, first.pairs) == ({"a": 0.75, "b": 0.25}, 40)
    assert (second.shares, second.pairs) == ({"a": 0.5, "b": 0.5}, 15)  # 3 of 4 updates


def test_an_interval_without_updates_does_not_count():
    events = [
        *begin(SAMPLES),
        event("interval", 0, pairs={"a": 30, "b": 10}, updates=4),
        event("step", 4),
        event("interval", 4, pairs={"a": 10, "b": 10}, updates=4),
    ]
    assert len(stages_of(events)) == 1


@pytest.mark.parametrize("amounts", [{"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 0, "b": 0}, {}])
@pytest.mark.parametrize("balance", [SAMPLES, REWEIGHTS])
def test_shares_that_are_not_those_of_the_directions_are_refused(amounts, balance):
    shares = {"pairs": amounts} if balance is SAMPLES else {"pairs": {"a": 1, "b": 1}, "target": amounts}
    events = [*begin(balance), event("interval", 0, updates=4, **shares), event("step", 4)]
    with pytest.raises(ValueError, match="interval"):
        stages_of(events)


def test_q_of_a_strategy_that_weights_losses_is_averaged_over_updates_and_counts_tokens():
    events = [
        *begin(REWEIGHTS),
        event("interval", 0, target={"a": 0.5, "b": 0.5}, pairs={"a": 20, "b": 20}, updates=4),
        event("step", 1, target={"a": 0.9, "b": 0.1}),
        event("step", 2),  # unchanged
        event("step", 4, target={"a": 1.0, "b": 0.0}),
    ]
    (stage,) = stages_of(events)
    q_a = (0.5 + 3 * 0.9) / 4
    assert stage.shares["a"] == pytest.approx(q_a / 10 / (q_a / 10 + (1 - q_a) / 30))
    assert stage.pairs == 40


@pytest.mark.parametrize("events", [[], begin(SAMPLES), [*begin(SAMPLES), event("interval", 0, pairs={"a": 1})]])
def test_a_run_without_updates_has_no_mixture(events):
    with pytest.raises(LogNotStartedError):
        stages_of(events)


def test_the_average_of_a_real_run_is_what_its_log_says_was_sampled(configure, tmp_path):
    """`passes` of the last `balance` event counts every pair drawn in the intervals so far."""
    config = configure(
        balance={"strategy": "chi-ibr", "rho": 0.5, "noise": "ignore"},
        batches={"interval_pairs": 90},
        train={"updates": 100, "intervals": 4},
    )
    train(config, tmp_path / "run")
    log = Run(tmp_path / "run").log_file
    events = read_log(log)
    stages = stages_of(events)
    assert len(stages) == 4
    assert len({tuple(stage.shares.values()) for stage in stages}) > 1
    balance = [each for each in events if type(each).__name__ == "BalanceEvent"][-1]
    drawn = {name: passes * events[0].directions[name].pairs for name, passes in balance.passes.items()}
    total = sum(drawn.values())
    assert average(stages) == pytest.approx({name: count / total for name, count in drawn.items()})
    assert sum(stage.pairs for stage in stages) == pytest.approx(total)
