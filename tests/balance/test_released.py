import numpy as np
import pytest

from evenglot.balance import PRESETS, Sampling, create
from evenglot.balance.released import ReleasedResponse
from evenglot.robust import ChiSquareBall
from tests.golden_cases import golden


@pytest.mark.parametrize("case", golden("released_q_update"))
def test_golden_updates_through_the_whole_balancer(case):
    sizes = dict(zip(case["languages"], case["p"], strict=True))
    preset = "released-ted" if case["clamp_to_min_p"] else "released-wmt"
    balancer = create(
        "chi-ibr",
        sizes,
        preset=preset,
        rho=case["rho"],
        floor=case["ratio_floor"],
        baseline=dict(zip(case["languages"], case["baselines"], strict=True)),
        ema=1.0,
    )
    balancer.observe(dict(zip(case["languages"], case["losses"], strict=True)), dict.fromkeys(sizes, 1))
    balancer.update()
    expected = dict(zip(case["languages"], case["expected"]["q"], strict=True))
    for name, share in balancer.q.items():
        assert share == pytest.approx(expected[name], abs=case["tolerance"]["q_atol"])


@pytest.mark.parametrize("values", [[1, 1, 1], [0, 0, -1], [2, 1, 1]])
@pytest.mark.parametrize("rho", [0.0, 0.3, 100.0])
def test_where_the_released_code_returns_nan_there_is_an_answer(values, rho):
    p = np.array([0.2, 0.3, 0.5])
    q = ReleasedResponse(p, rho).respond(p, np.array(values, dtype=float), None)
    assert q.sum() == pytest.approx(1)
    assert (q > 0).all()
    assert ChiSquareBall(p, rho).divergence(q) <= rho + 1e-9


def test_the_presets_differ_as_documented(ted):
    losses, counts = {name: 20.0 + i for i, name in enumerate(ted)}, dict.fromkeys(ted, 10)
    averages = {}
    for preset in PRESETS:
        balancer = create("chi-ibr", ted, preset=preset, max_upsample=5)
        balancer.observe(losses, counts)
        averages[preset] = balancer.losses["bel"]
        balancer.update()
        kept = balancer.losses["bel"]
        assert (kept is None) == (preset == "released-ted")  # only TED resets its averages
    assert averages["recommended"] == pytest.approx(2.0)
    assert averages["paper"] == averages["released-ted"] == averages["released-wmt"] == pytest.approx(0.2)
    assert PRESETS["released-ted"].sampling == Sampling("released", max_scale_up=1.5)
    assert PRESETS["released-wmt"].sampling == Sampling("released", max_scale_up=1.0)
