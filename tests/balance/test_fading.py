import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance import create
from evenglot.balance.static import mix

SIZES = {"aze": 1000, "tur": 30_000, "rus": 69_000}


@given(
    st.lists(st.integers(1, 10**7), min_size=1, max_size=10),
    st.floats(0, 1),
    st.floats(0.1, 100),
    st.lists(st.floats(0, 3), max_size=20),
)
def test_it_goes_from_mix_to_proportional_and_small_groups_never_fall_below_their_share(sizes, alpha, fade, intervals):
    balancer = create("mix", {f"g{k:02}": size for k, size in enumerate(sizes)}, alpha=alpha, fade=fade)
    p, full = np.array(sizes) / sum(sizes), mix(sizes, alpha)
    before = np.array(list(balancer.q.values()))
    np.testing.assert_allclose(before, full, atol=1e-12)
    for passes in intervals:
        balancer.update({name: passes * sum(sizes) * share for name, share in balancer.mixture.sample.items()})
        q = np.array(list(balancer.q.values()))
        assert q.sum() == pytest.approx(1, abs=1e-9)
        assert (np.abs(q - p) <= np.abs(before - p) + 1e-9).all()
        assert ((q - p) * (full - p) >= -1e-9).all()
        before = q


def test_upsampling_falls_to_one_part_in_e_after_as_many_passes_as_said():
    balancer = create("mix", SIZES, alpha=0.5, fade=15)
    start = balancer.q["aze"] - 0.01
    assert balancer.update({"aze": 15_000})
    assert balancer.passes["aze"] == 15
    assert balancer.q["aze"] - 0.01 == pytest.approx(start / np.e)
    assert balancer.q["rus"] < 0.69
    balancer.update({"aze": 1e9})
    assert balancer.q == pytest.approx({"aze": 0.01, "rus": 0.69 - 1 / 60, "tur": 0.3 + 1 / 60})


def test_it_resumes():
    first = create("mix", SIZES, alpha=0.5, fade=3)
    first.update({"aze": 2500, "tur": 900})
    second = create("mix", SIZES, alpha=0.5, fade=3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.q == first.q
    assert second.update({"aze": 10}) == first.update({"aze": 10})
    assert second.state_dict() == first.state_dict()


@pytest.mark.parametrize("fade", [0, -1, float("nan"), "soon"])
def test_bad_settings_are_refused(fade):
    with pytest.raises(ValueError, match="^fade:"):
        create("mix", SIZES, alpha=0.5, fade=fade)
    with pytest.raises(ValueError, match="^drawn:"):
        create("mix", SIZES, alpha=0.5, fade=1).update({"aze": -1})
