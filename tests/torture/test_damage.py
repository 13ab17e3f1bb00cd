"""Some damaged files of what the commands write; all of them by `make torture`."""

import pytest

from torture import damage
from torture.crash_points import Scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("damage"))
    damage.furnish(scene)
    return scene


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["export", "grid/kept"])
def test_damaged_files_are_named_or_do_not_matter(scene, tree):
    outcomes, faults = damage.attack(scene, tree, seed=1, share=0.15)
    assert faults == []
    assert outcomes["named"] > 0
