"""A new strategy is a file of its own and an entry in the catalogue: everything else works with it as it is."""

import numpy as np
import pytest

from evenglot.balance import STRATEGIES, Balancer, Description, Mixture, Needs, OptionError, Signal, Strategy
from evenglot.config import ConfigError, load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.prepared import open_prepared
from evenglot.preview.check import check
from evenglot.preview.dry_run import dry_run
from evenglot.progress import Bars
from evenglot.reporting.page_data import run_data
from evenglot.runs.run import Run
from evenglot.training.train import train
from tests.corpus.conftest import configure, corpus
from tests.logs import json_events

__all__ = ["configure", "corpus"]  # fixtures

# ------------------------------------------------------------------------------------------------- what would be a file


def describe_favourite(*, signal, **others):
    return Description(Needs(losses=Signal(signal), loss_weights=True), cadence="interval")


class Favourite(Balancer):
    """Sampling stays; each interval, the group with the largest loss weighs `factor` times as much."""

    def __init__(self, groups, *, factor: float = 2.0, signal: str = "valid"):
        if factor < 1:
            raise OptionError("factor", f"expected 1 or more, got {factor}")
        super().__init__(groups)
        self.factor = factor
        description = describe_favourite(signal=signal)
        self.needs, self.cadence = description.needs, description.cadence
        self._losses = groups.keyed(np.zeros(len(groups.names)))

    @property
    def losses(self):
        return dict(self._losses)

    @property
    def mixture(self):
        data = self.groups.p
        weights = self.groups.loss_weights(self._q, data)
        return Mixture(self.groups.keyed(data), self.groups.keyed(weights))

    def extremes(self, group):
        return [self.groups.p]

    def observe(self, loss_sums, counts, split="train"):
        if split == self.needs.losses.split:
            self._losses |= {name: loss_sums[name] / counts[name] for name in loss_sums if counts[name]}

    def update(self, drawn=None):
        super().update(drawn)
        before, worst = self._q, self.groups.names.index(max(self._losses, key=self._losses.get))
        raised = self.groups.p * np.where(np.arange(len(self.groups.names)) == worst, self.factor, 1)
        self._q = raised / raised.sum()
        return not np.array_equal(before, self._q)


# -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(monkeypatch):
    """Overrides that choose the new strategy, which stands in the catalogue."""
    monkeypatch.setitem(STRATEGIES, "favourite", Strategy(Favourite, describe_favourite))
    return ["balance={strategy: favourite, factor: 3}"]


def test_it_is_configured_and_checked(settings, configure, corpus):
    config = configure(*settings)
    assert config.balance.options == {"factor": 3, "signal": "valid"}
    assert load_config(corpus / "conf.yaml", settings) == config
    for override, key in (("balance.factor=0.5", "balance.factor"), ("data.valid=null", "balance.signal")):
        with pytest.raises(ConfigError) as refused:
            configure(*settings, override)
        assert f" {key}: " in str(refused.value)
    assert [row.most_passes for row in check(config, Bars()).rows] == pytest.approx([1, 1, 1])


def test_it_is_simulated_trained_and_reported(settings, configure, tmp_path):
    small = [
        "model.dim=16",
        "model.heads=2",
        "model.ffn=32",
        "train.updates=6",
        "train.log_every=1",
        "train.device=cpu",
        "batches.tokens_per_batch=512",
        "batches.tokens_per_update=512",
        "batches.epoch_size=60",
    ]
    config = configure(*settings, *small)
    prepare(config, Bars())
    store, groups = open_prepared(config), config.data.groups
    simulated = dry_run(config, groups.sum(store.sizes), groups.sum(store.target_tokens), 4)
    assert simulated.simulation.mixtures[-1] != simulated.simulation.mixtures[0]
    assert train(config, tmp_path / "run") == "updates"
    log = json_events(tmp_path / "run" / "log.jsonl")
    assert max(event["step"] for event in log) == 6
    answered = [event for event in log if event["event"] == "balance"]
    assert answered
    for event in answered:
        validated = [each for each in log if each["event"] == "validation" and each["step"] == event["step"]]
        worst = max(validated[0]["loss"], key=validated[0]["loss"].get)
        ratio = {name: event["target"][name] / event["mixture"][name] for name in event["target"]}
        assert max(ratio, key=ratio.get) == worst
        assert max(ratio.values()) / min(ratio.values()) == pytest.approx(3)
    reported = run_data(Run(tmp_path / "run"), "favourite")
    assert reported["reweights"]
    assert "running" in reported["series"]
