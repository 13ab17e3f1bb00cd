"""A few crash points and full disks of every command; all of them by `make torture`."""

import pytest

from torture import crash_points


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return crash_points.Scene(tmp_path_factory.mktemp("crashes"))


@pytest.mark.slow
@pytest.mark.parametrize("name", crash_points.WORKS)
def test_a_command_that_is_killed_and_started_again_ends_the_same(scene, name):
    is_long = crash_points.WORKS[name].forks
    outcomes, faults = crash_points.crash(scene, name, seed=1, cases=1 if is_long else 4, torn=0 if is_long else 2)
    assert faults == []
    assert outcomes["killed before"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", crash_points.WORKS)
def test_a_command_without_room_to_write_says_where(scene, name):
    outcomes, faults = crash_points.starve(scene, name, seed=1, cases=1)
    assert faults == []
    assert outcomes["named"] > 0
