import numpy as np
import pytest

from evenglot.balance import create

SIZES = {"a": 100, "b": 300, "c": 600}


def test_the_scorer_starts_at_the_data_and_asks_for_gradients():
    balancer = create("multidds", SIZES, every=500)
    assert balancer.q == pytest.approx({"a": 0.1, "b": 0.3, "c": 0.6})
    assert balancer.needs_gradients.every == 500
    assert create("chi-ibr", SIZES).needs_gradients is None


def test_the_scorer_takes_the_same_steps_as_adam_in_torch():
    torch = pytest.importorskip("torch")
    rewards = [{"a": 0.9, "b": 0.2, "c": 0.4}, {"a": -0.1, "b": 0.3, "c": 0.8}]
    balancer = create("multidds", SIZES, learning_rate=1e-2)
    logits = torch.log(torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64)).requires_grad_()
    adam = torch.optim.Adam([logits], lr=1e-2)
    for reward in rewards:
        balancer.reward(reward)
        for _ in range(200):
            adam.zero_grad()
            target = torch.tensor([reward[name] for name in "abc"], dtype=torch.float64)
            (-(target * torch.log_softmax(logits, 0)).sum()).backward()
            adam.step()
        expected = torch.softmax(logits, 0).detach().numpy()
        np.testing.assert_allclose([balancer.q[name] for name in "abc"], expected, rtol=1e-9)


def test_positive_rewards_lead_towards_proportional_shares():
    balancer = create("multidds", SIZES, learning_rate=0.05)
    for _ in range(20):
        balancer.reward({"a": 0.6, "b": 0.3, "c": 0.1})
    assert balancer.q == pytest.approx({"a": 0.6, "b": 0.3, "c": 0.1}, abs=0.01)


def test_the_mixture_has_moved_since_a_probe_only():
    balancer = create("multidds", SIZES)
    balancer.reward({"a": 0.5, "b": 0.5, "c": 0.0})
    assert balancer.update()
    assert not balancer.update()


@pytest.mark.parametrize("option", ["every", "probe_sentences", "probe_tokens"])
def test_a_probe_needs_something_to_look_at(option):
    with pytest.raises(ValueError, match=f"^{option}: .*1.*0"):
        create("multidds", SIZES, **{option: 0})


def test_an_empty_corpus_needs_no_reward_and_a_full_one_does():
    balancer = create("multidds", {**SIZES, "empty": 0})
    balancer.reward({"a": 0.1, "b": 0.2, "c": 0.3})
    assert balancer.q["empty"] == 0
    assert sum(balancer.q.values()) == pytest.approx(1)
    with pytest.raises(ValueError, match=r"^rewards: .*\bc$"):
        balancer.reward({"a": 0.1, "b": 0.2})
