"""The names and arguments of balancing that code outside this repository relies on, each used once as it is written
down: `create`, balancers, and the integrations."""

import json
from collections import Counter

import pytest
import torch
from lightning.pytorch import Callback

from evenglot.balance import create
from evenglot.integrations.lightning import BalancingCallback
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss
from evenglot.integrations.transformers import BalancedSeq2SeqTrainer, BalancedTrainer
from tests.integrations.trainers import new_trainer

SIZES = {"aze-en": 5946, "tur-en": 182470}
BASELINE = {"aze-en": 2.1, "tur-en": 1.7}
SERVED = [  # by a loop that samples, observes and updates
    ("proportional", {}),
    ("temperature", {"tau": 5}),
    ("uniform", {}),
    ("unimax", {"passes": 4}),
    ("mix", {"alpha": 0.5}),
    ("chi-ibr", {"rho": 0.05, "baseline": BASELINE}),
    ("chi-ibr", {"rho": 0.05, "floor": 0.1, "ema": 0.1}),
    ("cvar-ibr", {"alpha": 0.5}),
]
UNSERVED = [
    ("group-dro", {"step": 0.01}),
    ("chi-pd", {"rho": 0.05, "step": 0.01}),
    ("cvar-pd", {"alpha": 0.5}),
    ("multidds", {}),
    ("chi-ibr", {"signal": "valid"}),
]


def observed(balancer, steps):
    for _ in range(steps):
        balancer.observe({"aze-en": 30.0, "tur-en": 20.0}, {"aze-en": 10, "tur-en": 10})


@pytest.mark.parametrize(("name", "options"), SERVED)
def test_a_balancer_observes_updates_and_is_restored(name, options):
    balancer = create(name, sizes=SIZES, **options)
    assert balancer.mixture.loss is None
    observed(balancer, 3)
    assert isinstance(balancer.update(), bool)
    assert set(balancer.mixture.sample) == set(SIZES)
    assert sum(balancer.mixture.sample.values()) == pytest.approx(1)
    other = create(name, sizes=SIZES, **options)
    other.load_state_dict(json.loads(json.dumps(balancer.state_dict())))
    assert other.mixture.sample == balancer.mixture.sample


def test_the_shares_of_mix_are_halfway_to_uniform_ones():
    total = sum(SIZES.values())
    expected = {name: 0.75 * size / total + 0.25 / 2 for name, size in SIZES.items()}
    assert create("mix", sizes=SIZES, alpha=0.25).mixture.sample == pytest.approx(expected)


@pytest.mark.parametrize(("name", "options"), UNSERVED)
def test_a_strategy_that_is_not_served_raises_by_its_first_update(name, options):
    balancer = create(name, sizes=SIZES, **options)
    observed(balancer, 3)
    with pytest.raises(ValueError, match=name):
        balancer.update()


@pytest.mark.parametrize(("name", "options"), UNSERVED[:-1])
def test_a_strategy_that_is_not_served_raises_by_its_hundredth_step(name, options):
    """Validation losses are asked for when an interval ends: many loops validate only then."""
    balancer = create(name, sizes=SIZES, **options)
    observed(balancer, 99)
    with pytest.raises(ValueError, match=name):
        observed(balancer, 1)


def test_the_sampler_takes_its_arguments_by_name_or_place():
    groups = ["aze"] * 20 + ["tur"] * 80
    balancer = create("chi-ibr", sizes=Counter(groups))
    sampler = BalancedBatchSampler(groups, balancer, batch_size=32, interval_updates=100, seed=0)
    batches = list(sampler)
    assert [len(batch) for batch in batches] == [32] * len(sampler)
    by_place = BalancedBatchSampler(groups, create("chi-ibr", sizes=Counter(groups)), 32, 100, 0)
    assert list(by_place) == batches
    second = BalancedBatchSampler(groups, create("chi-ibr", sizes=Counter(groups)), batch_size=16, rank=1, world=2)
    assert len(next(iter(second))) == 16
    tokens = BalancedBatchSampler(groups, create("chi-ibr", sizes=Counter(groups)), lengths=[100] * 100, tokens=4096)
    assert all(len(batch) * 100 <= 4096 for batch in tokens)
    loss = GroupLoss(sampler)
    values = torch.ones(32, requires_grad=True)
    loss(values, ["aze"] * 32).backward()
    assert loss.step() == {"aze": 1.0}
    by_place.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert by_place.state_dict() == sampler.state_dict()


def test_the_trainers_and_the_callback_take_their_arguments(tmp_path):
    for kind, expected in (("m2m100", BalancedSeq2SeqTrainer), ("bert", BalancedTrainer)):
        trainer = new_trainer(tmp_path, kind, max_steps=1)  # model=, args=, train_dataset=, balancer=, group_column=
        assert type(trainer) is expected
        trainer.train()
        assert trainer.state.global_step == 1
    groups = ["aze"] * 20 + ["tur"] * 80
    sampler = BalancedBatchSampler(groups, create("chi-ibr", sizes=Counter(groups)))
    assert isinstance(BalancingCallback(sampler), Callback)
