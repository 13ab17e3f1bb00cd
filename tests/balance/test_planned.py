"""Passes of a run whose mixture follows from what was drawn."""

import pytest

from evenglot.balance import create, passes_of_run

SIZES = {"large": 9000, "small": 1000}


def test_it_is_what_a_run_would_draw_and_leaves_the_balancer_alone():
    balancer = create("fade", SIZES)
    before = balancer.state_dict()
    planned = passes_of_run(balancer, 200_000, 40)
    assert balancer.state_dict() == before
    for _ in range(40):
        balancer.update({name: 5000 * share for name, share in balancer.mixture.sample.items()})
    assert planned == pytest.approx(balancer.passes)
    assert sum(planned[name] * size for name, size in SIZES.items()) == pytest.approx(200_000)


def test_one_interval_has_the_first_mixture():
    balancer = create("fade", SIZES)
    planned = passes_of_run(balancer, 1000, 0.3)
    assert planned == pytest.approx(
        {name: 1000 * share / SIZES[name] for name, share in balancer.mixture.sample.items()}
    )


@pytest.mark.parametrize("strategy", ["proportional", "chi-ibr"])
def test_others_are_not_known_or_not_planned(strategy):
    assert passes_of_run(create(strategy, SIZES), 1000, 10) is None
