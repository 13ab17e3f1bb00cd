import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance import UnservedError, create
from evenglot.balance.static import mix, temperature

SIZES = {"aze": 1000, "tur": 30_000, "rus": 69_000}
ENDS = {"data": lambda p: p, "tau:1.5": lambda p: temperature(p, 1.5)}


@given(
    st.lists(st.integers(1, 10**7), min_size=1, max_size=10),
    st.floats(0, 1),
    st.sampled_from(sorted(ENDS)),
    st.floats(0.1, 100),
    st.lists(st.floats(0, 3), max_size=20),
)
def test_it_goes_from_the_start_to_the_end_and_never_beyond(sizes, alpha, end, passes, intervals):
    names = [f"g{k:02}" for k in range(len(sizes))]
    options = {"start": f"mix:{alpha!r}", "end": end, "passes": passes}
    balancer = create("fade", dict(zip(names, sizes, strict=True)), **options)
    p = np.array(sizes) / sum(sizes)
    first, last = mix(sizes, alpha), ENDS[end](p)
    before = np.array(list(balancer.q.values()))
    np.testing.assert_allclose(before, first, atol=1e-12)
    for rounds in intervals:
        balancer.update({name: rounds * sum(sizes) * share for name, share in balancer.mixture.sample.items()})
        q = np.array(list(balancer.q.values()))
        assert q.sum() == pytest.approx(1, abs=1e-9)
        assert (np.abs(q - last) <= np.abs(before - last) + 1e-9).all()
        assert ((q - last) * (first - last) >= -1e-9).all()
        before = q


def test_upsampling_falls_to_one_part_in_e_after_as_many_passes_as_said():
    balancer = create("fade", SIZES, start="mix:0.5", end="data", passes=15)
    start = balancer.q["aze"] - 0.01
    assert balancer.update({"aze": 15_000})
    assert balancer.passes["aze"] == 15
    assert balancer.q["aze"] - 0.01 == pytest.approx(start / np.e)
    assert balancer.q["rus"] < 0.69
    balancer.update({"aze": 1e9})
    assert balancer.q == pytest.approx({"aze": 0.01, "rus": 0.69 - 1 / 60, "tur": 0.3 + 1 / 60})


def test_its_reach_is_its_start():
    balancer = create("fade", SIZES)
    assert balancer.reach("aze") == pytest.approx(0.25 * 0.01 + 0.75 / 3)
    assert balancer.reach("rus") == pytest.approx(0.75 * 0.69 + 0.25 / 3)


def test_it_resumes():
    first = create("fade", SIZES, passes=3)
    first.update({"aze": 2500, "tur": 900})
    second = create("fade", SIZES, passes=3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.q == first.q
    assert second.update({"aze": 10}) == first.update({"aze": 10})
    assert second.state_dict() == first.state_dict()


@pytest.mark.parametrize("passes", [0, -1, float("nan"), "soon"])
def test_bad_settings_are_refused(passes):
    with pytest.raises(ValueError, match="^passes:"):
        create("fade", SIZES, passes=passes)
    with pytest.raises(ValueError, match="^end:"):
        create("fade", SIZES, end="nowhere")
    with pytest.raises(ValueError, match="^drawn:"):
        create("fade", SIZES).update({"aze": -1})


def test_a_loop_that_does_not_say_what_it_drew_is_told():
    with pytest.raises(UnservedError) as told:
        create("fade", SIZES).update()
    assert told.value.missing == ("pairs_drawn",)
    balancer = create("fade", SIZES)
    balancer.serves("pairs_drawn")  # an interval is a pass over the data
    assert balancer.update()
    assert sum(balancer.passes[name] * size for name, size in SIZES.items()) == pytest.approx(sum(SIZES.values()))
