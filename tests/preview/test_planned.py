"""Mixtures that need no training."""

import math

import pytest

from evenglot.batches.draw import draw
from evenglot.config import load_config
from evenglot.corpus.prepared import open_prepared
from evenglot.preview.planned import planned

SCHEDULE = "balance={strategy: schedule, points: {0: uniform, 2: data}}"


def stages(config):
    store = open_prepared(config)
    return store, planned(config, store.sizes, store.target_tokens)


def test_a_static_strategy_has_one_stage_without_end(configure):
    store, (stage,) = stages(configure(balance={"strategy": "temperature", "tau": 2}))
    roots = {name: math.sqrt(size) for name, size in store.sizes.items()}
    assert stage.shares == pytest.approx({name: root / sum(roots.values()) for name, root in roots.items()})
    assert stage.pairs == math.inf


@pytest.mark.parametrize("batches", [[], ["batches.interval_pairs=70"], ["batches.oversample=released"]])
def test_a_schedule_has_a_stage_per_interval_as_long_as_what_is_drawn(conf, batches):
    config = load_config(conf, [SCHEDULE, "train.intervals=3", *batches], check_files=False)
    store, found = stages(config)
    assert len(found) == 3
    for stage in found[:2]:
        assert stage.shares == pytest.approx(dict.fromkeys(store.sizes, 1 / 3))
    assert found[2].shares == pytest.approx({name: n / sum(store.sizes.values()) for name, n in store.sizes.items()})
    for number, stage in enumerate(found):
        drawn = draw(store.sizes, stage.shares, seed=1, interval=number, **config.draw_options)
        assert stage.pairs == pytest.approx(len(drawn), abs=len(store.sizes))  # whole pairs of each


def test_a_schedule_needs_the_number_of_intervals(conf):
    with pytest.raises(ValueError, match="train.intervals"):
        stages(load_config(conf, [SCHEDULE], check_files=False))


@pytest.mark.parametrize("strategy", ["chi-ibr", "group-dro", "multidds"])
def test_a_strategy_that_needs_training_is_refused(configure, strategy):
    with pytest.raises(ValueError, match="balance.strategy"):
        stages(configure(balance={"strategy": strategy}))
