"""Numbers with their nouns, where one of a kind is likely."""

import json
import re

import pytest

from evenglot.comparison.tables import verdict
from evenglot.config import load_config
from evenglot.config.doubts import Length, doubts_about
from evenglot.preview.check import Check
from evenglot.preview.tables import check_summary
from evenglot.reporting.page_data import run_data
from evenglot.training.warnings import LESS_OFTEN, against_overfitting
from evenglot.wording import counted, duration, listed
from tests.reporting.synthetic import comparison, write_run


def test_nouns_agree_with_their_numbers():
    assert [counted(number, "pass", "passes") for number in (0, 1, 2)] == ["0 passes", "1 pass", "2 passes"]
    assert counted(1200, "run") == "1,200 runs"
    assert [listed(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 s"), (61, "1 min"), (3600, "1 h 0 min"), (172_800, "2 days 0 h")]
)
def test_times_have_units_without_a_plural(seconds, words):
    assert duration(seconds) == words


def test_a_pass_of_a_minute(monkeypatch):
    monkeypatch.setattr(Check, "epoch_seconds", 62.0)
    assert " 1 min for a tiny model" in check_summary(Check([], [], []))


def test_a_comparison_of_one_direction():
    several = comparison(8, 6)
    assert "of 8 directions" in verdict(several)[0]
    one = {**several, "directions": {"aaa-en": several["directions"]["aaa-en"]}}
    assert re.search("of 1 direction[ .]", verdict(one)[0])


def test_a_run_of_one_update(tmp_path):
    run = write_run(tmp_path / "run", directions=2)
    events = [json.loads(line) for line in run.log_file.read_text().splitlines()]
    few = [event for event in events if event["step"] == 0] + [{"event": "done", "step": 1, "reason": "stopped"}]
    run.log_file.write_text("".join(json.dumps(event) + "\n" for event in few))
    (text,) = [warning["text"] for warning in run_data(run, "run")["warnings"] if warning["kind"] == "unfinished"]
    assert "after 1 update;" in text


def test_one_batch_per_update(tmp_path):
    conf = tmp_path / "conf.yaml"
    conf.write_text(
        "data: {directions: [aa-en, bb-en], train: '{pair}.{lang}'}\n"
        "balance: {strategy: chi-ibr, estimator: ema}\n"
        "batches: {tokens_per_batch: 4096, tokens_per_update: 4096}\n"
    )
    config = load_config(conf, check_files=False)
    balancer = config.balancer({"aa-en": 1000, "bb-en": 9000}, {"aa-en": 10000, "bb-en": 90000})
    messages = dict(doubts_about(config, balancer, Length(1000, 10, 1000), True))
    assert "with 1 batch per update" in messages["estimator"]


@pytest.mark.parametrize(
    ("updates", "told"), [(60, "never updated"), (200, "only 1 time "), (201, "only 2 times "), (4000, None)]
)
def test_how_often_a_run_updates_its_mixture(updates, told, tmp_path):
    conf = tmp_path / "conf.yaml"
    conf.write_text("data: {directions: [aa-en, bb-en], train: '{pair}.{lang}'}\nbalance: {strategy: chi-ibr}\n")
    config = load_config(conf, check_files=False)
    balancer = config.balancer({"aa-en": 1000, "bb-en": 9000}, {"aa-en": 10000, "bb-en": 90000})
    message = dict(doubts_about(config, balancer, Length(updates, 200, 10000), True)).get("intervals")
    assert (message and told in message) if told else message is None


@pytest.mark.parametrize(
    "strategy", ["{strategy: proportional}", "{strategy: fade}", "{strategy: chi-ibr}", "{strategy: cvar-ibr}"]
)
def test_advice_names_only_options_of_the_strategy(strategy, tmp_path):
    conf = tmp_path / "conf.yaml"
    conf.write_text("data: {directions: [aa-en, bb-en], train: '{pair}.{lang}'}\nbalance: " + strategy + "\n")
    config = load_config(conf, check_files=False)
    advice = against_overfitting(config)
    assert {key for key in LESS_OFTEN if LESS_OFTEN[key] in advice} == set(LESS_OFTEN) & set(config.balance.options)
    assert ("less often" in advice) == (strategy != "{strategy: proportional}")
    assert "lower alpha" not in advice, "a lower alpha of CVaR samples the worst languages more"
