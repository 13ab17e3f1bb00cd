"""Learning rates, and an optimizer that can be saved."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenglot.config import TrainSettings
from evenglot.training.optimizer import create_optimizer, learning_rate, load_optimizer_tensors, optimizer_tensors
from tests.golden_cases import golden


@pytest.mark.parametrize("case", golden("lr_schedules"))
def test_golden_schedules(case):
    settings = TrainSettings(
        learning_rate=case["peak"],
        schedule=case["schedule"].replace("_", "-"),
        warmup=case["warmup"],
        warmup_start=case["warmup_init"],
        decay=case.get("decay", 0.5),
        decay_every=case.get("decay_every", 100_000),
    )
    rate = learning_rate(settings)
    assert [rate(done) for done in case["steps"]] == pytest.approx(case["expected"], rel=case["tolerance"]["rtol"])


def test_linear_and_cooldown_reach_zero_at_the_end():
    linear = learning_rate(TrainSettings(updates=1000, warmup=100, schedule="linear", learning_rate=1.0))
    assert [linear(100), linear(550), linear(1000), linear(2000)] == pytest.approx([1, 0.5, 0, 0])
    cooled = learning_rate(
        TrainSettings(updates=1000, warmup=100, schedule="constant", cooldown=200, learning_rate=1.0)
    )
    assert [cooled(100), cooled(800), cooled(900), cooled(1000)] == pytest.approx([1, 1, 0.5, 0])
    assert learning_rate(TrainSettings(schedule="constant", warmup=0, learning_rate=1.0))(10**6) == 1


@given(
    schedule=st.sampled_from(["inverse-sqrt", "step", "linear", "constant"]),
    warmup=st.integers(0, 500),
    cooldown=st.integers(0, 500),
    done=st.integers(0, 1100),
)
def test_a_rate_is_never_negative_nor_above_its_peak_and_rises_in_the_warmup_only(schedule, warmup, cooldown, done):
    rate = learning_rate(TrainSettings(updates=1000, schedule=schedule, warmup=warmup, cooldown=cooldown))
    assert 0 <= rate(done) <= 2e-4 * (1 + 1e-12)
    assert (rate(done + 1) > rate(done)) <= (done < warmup)


def test_a_saved_optimizer_goes_on_exactly():
    torch.manual_seed(0)
    settings = TrainSettings(learning_rate=0.01)
    original = torch.nn.Linear(3, 2)
    optimizer = create_optimizer(original, settings)
    inputs = torch.randn(4, 8, 3)

    def train(model, optimizer, batches):
        for batch in batches:
            optimizer.zero_grad()
            model(batch).square().sum().backward()
            optimizer.step()

    train(original, optimizer, inputs[:2])
    restored = torch.nn.Linear(3, 2)
    restored.load_state_dict(original.state_dict())
    second = create_optimizer(restored, settings)
    saved = {name: value.clone() for name, value in optimizer_tensors(optimizer, original).items()}
    assert set(saved) == {f"{p}/{k}" for p in ("weight", "bias") for k in ("step", "exp_avg", "exp_avg_sq")}
    load_optimizer_tensors(second, restored, saved)
    for model, which in ((original, optimizer), (restored, second)):
        train(model, which, inputs[2:])
    assert torch.equal(original.weight, restored.weight)
    assert torch.equal(original.bias, restored.bias)
