"""A few kills of runs; all of them by `make torture`."""

import pytest

from evenglot.balance.catalogue import STRATEGIES
from torture import kills

FIXED = {"proportional", "temperature", "uniform", "mix", "unimax"}  # their state only counts


def test_every_strategy_whose_mixture_may_move_is_killed():
    assert {balance["strategy"] for balance in kills.STRATEGIES.values()} == STRATEGIES.keys() - FIXED


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return kills.Scene(tmp_path_factory.mktemp("kills"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "processes"), [("chi-ibr on validation losses", 1), ("multidds", 2), ("fastdro", 3)])
def test_killed_again_and_again_it_ends_the_same(scene, name, processes):
    outcomes, faults = kills.again_and_again(scene, name, processes, kills=4, seed=1)
    assert faults == []
    assert outcomes.total() == 4


@pytest.mark.slow
@pytest.mark.parametrize("order", kills.ORDERS)
def test_with_other_numbers_of_processes_too(scene, order):
    outcomes, faults = kills.with_others(scene, "group-dro by sampling", order, seed=1)
    assert faults == []
    assert outcomes.total() == 2
