"""One update, against gradients written out sentence by sentence."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from evenglot.balance import create
from evenglot.balance.examples import FastDRO
from evenglot.balance.groups import Groups
from evenglot.batches.draw import all_pairs
from evenglot.batches.load import collate, load
from evenglot.directions import GroupMap
from evenglot.robust import chi_square_weights, cvar_weights
from evenglot.symbols import PAD
from evenglot.training.step import Observed, TrainingError
from tests.training.helpers import NO_DROPOUT, gradient_of, random_corpora, step_of, token_losses, weights_of

SIZES = {"aa-en": 12, "bb-en": 7, "cc-en": 4}
CORPORA = random_corpora(SIZES)
OWN_GROUPS = GroupMap({name: name for name in SIZES})
TWO_GROUPS = GroupMap({"aa-en": "large", "bb-en": "small", "cc-en": "small"})
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def whole_corpus(budget=40):
    """An update of every pair once, so that groups have exactly the corpus' shares of its tokens."""
    loader = load(CORPORA, all_pairs(SIZES), budget=budget, pad=PAD, micro_batches=1000)
    assert len(loader) == 1
    return loader.update(0)


def do(step, balancer, groups=OWN_GROUPS, batches=None):
    """Do an update: how it moved the weights, what was seen, and the norm of the gradient."""
    batches = batches or whole_corpus()
    tokens = sum(int(batch.target_lengths.sum()) for batch in batches if batch.weight)
    before = weights_of(step.model)
    seen, norm = step.train(1, batches, tokens, balancer, groups)
    return before - weights_of(step.model), seen, norm


def by_sentence(model, names=SIZES):
    """The token losses of each sentence of these directions."""
    return [token_losses(model, CORPORA[name], pair) for name in sorted(names) for pair in range(SIZES[name])]


def stand_in():
    """What a process runs that has nothing left to do."""
    return collate(list(CORPORA.values()), np.array([0], dtype=np.int32), np.array([3]), PAD, weight=0.0)


def fastdro_gradient(model, weigh, baseline=0.0):
    """sum_j q_j grad(mean loss of sentence j), where q weighs the losses of all sentences."""
    means = torch.stack([losses.mean() for losses in by_sentence(model)])
    q = torch.from_numpy(weigh(means.detach().numpy() - baseline))
    return gradient_of(model, (q * means).sum())


# ------------------------------------------------------------------------------------------------ gradients


@pytest.mark.parametrize("budget", [20, 40, 10_000])
def test_plain_training_follows_the_mean_over_all_tokens_of_all_micro_batches(budget):
    step = step_of(SIZES)
    expected = gradient_of(step.model, torch.cat(by_sentence(step.model)).mean())
    moved, _, norm = do(step, create("proportional", SIZES), batches=whole_corpus(budget))
    torch.testing.assert_close(moved, expected, **CLOSE)
    assert norm == pytest.approx(float(expected.norm()), rel=1e-5)


@pytest.mark.parametrize("groups", [OWN_GROUPS, TWO_GROUPS], ids=["by pair", "by label"])
def test_loss_weights_make_it_the_mixture_of_the_token_means_of_the_groups(groups):
    step = step_of(SIZES)
    members, sizes = groups.members(SIZES), groups.sum(SIZES)
    tokens = {group: sum(int(CORPORA[n].target.lengths.sum()) for n in names) for group, names in members.items()}
    q = dict(zip(sorted(sizes), [0.2, 0.7, 0.1] if len(sizes) == 3 else [0.4, 0.6], strict=True))
    mixture = sum(q[group] * torch.cat(by_sentence(step.model, names)).mean() for group, names in members.items())
    expected = gradient_of(step.model, mixture)
    moved, _, _ = do(step, create("group-dro", sizes, tokens=tokens, start=q), groups)
    torch.testing.assert_close(moved, expected, **CLOSE)


@pytest.mark.parametrize("budget", [20, 10_000])
def test_fastdro_weighs_the_means_of_all_sentences_however_they_are_batched(budget):
    step = step_of(SIZES)
    expected = fastdro_gradient(step.model, lambda losses: chi_square_weights(losses, 0.7))
    moved, _, _ = do(step, create("fastdro", SIZES, rho=0.7), batches=whole_corpus(budget))
    torch.testing.assert_close(moved, expected, **CLOSE)


def test_fastdro_takes_off_the_baseline_of_the_group_and_knows_cvar():
    step = step_of(SIZES)
    baseline = {"large": 1.0, "small": 1.5}
    own = np.repeat([baseline[TWO_GROUPS[name]] for name in sorted(SIZES)], [SIZES[name] for name in sorted(SIZES)])
    expected = fastdro_gradient(step.model, lambda excess: cvar_weights(excess, 0.3), own)
    balancer = create("fastdro", {"large": 12, "small": 11}, alpha=0.3, baseline=baseline)
    moved, _, _ = do(step, balancer, TWO_GROUPS)
    torch.testing.assert_close(moved, expected, **CLOSE)


class Witness(FastDRO):
    """Remembers which losses it was asked to weigh."""

    def example_weights(self, losses, names):
        self.asked = np.array(losses), list(names)
        return super().example_weights(losses, names)


def test_fastdro_weighs_the_very_losses_it_trains_on_dropout_included():
    witness = Witness(Groups.of(SIZES))
    step = step_of(SIZES, **dict.fromkeys(NO_DROPOUT, 0.3))
    batches = whole_corpus()
    _, seen, _ = do(step, witness, batches=batches)
    losses, names = witness.asked
    sums = losses * torch.cat([batch.target_lengths for batch in batches]).numpy()
    for position, name in enumerate(step.names):
        assert sums[np.array(names) == name].sum() == pytest.approx(seen.losses[position], rel=1e-12)
    without = step_of(SIZES)
    assert not np.allclose(seen.losses, do(without, witness)[1].losses)


@pytest.mark.parametrize("strategy", ["proportional", "fastdro"])
def test_a_stand_in_changes_nothing(strategy):
    plain, with_stand_in = (
        do(step_of(SIZES), create(strategy, SIZES), batches=[*whole_corpus(), *more]) for more in ([], [stand_in()])
    )
    torch.testing.assert_close(with_stand_in[0], plain[0])
    assert with_stand_in[1].rows() == plain[1].rows()


@pytest.mark.parametrize("strategy", ["proportional", "fastdro"])
def test_the_dropout_of_an_update_depends_on_its_number_and_nothing_else(strategy):
    def weights_after(number, noise):
        step = step_of(SIZES, **dict.fromkeys(NO_DROPOUT, 0.3))
        torch.rand(noise)
        step.train(number, whole_corpus(), 100, create(strategy, SIZES), OWN_GROUPS)
        return weights_of(step.model)

    assert torch.equal(weights_after(5, 0), weights_after(5, 17))
    assert not torch.equal(weights_after(5, 0), weights_after(6, 0))


def test_clipping_shortens_the_update_and_reports_the_gradient_as_it_was():
    free, clipped = (do(step_of(SIZES, clip=clip), create("proportional", SIZES)) for clip in (None, 0.1))
    assert free[2] == clipped[2] > 0.1
    torch.testing.assert_close(clipped[0], free[0] * 0.1 / free[2], **CLOSE)


# --------------------------------------------------------------------------------------------- what was seen


def seen_in(model):
    """Losses, tokens and characters of each direction, counted one sentence at a time."""
    rows = []
    for name in sorted(SIZES):
        losses = torch.cat(by_sentence(model, [name])).detach()
        rows.append([float(losses.sum()), len(losses), int((CORPORA[name].target.ids % 5).sum())])
    return np.array(rows).T


def test_an_update_and_an_evaluation_see_the_sums_of_each_direction():
    step = step_of(SIZES)
    expected = seen_in(step.model)
    evaluated = step.evaluate(whole_corpus())
    np.testing.assert_allclose(evaluated.rows(), expected, rtol=1e-6)
    assert not step.model.training
    _, trained, _ = do(step, create("proportional", SIZES))
    np.testing.assert_allclose(trained.rows(), expected, rtol=1e-6)


def test_an_evaluation_is_without_dropout_and_changes_nothing():
    step = step_of(SIZES, **dict.fromkeys(NO_DROPOUT, 0.3))
    before = weights_of(step.model)
    np.testing.assert_allclose(step.evaluate(whole_corpus()).rows(), seen_in(step.model.eval()), rtol=1e-6)
    assert torch.equal(weights_of(step.model), before)


def test_sums_add_up_and_means_are_none_where_nothing_was_seen():
    one, two = Observed.of([[6.0, 0.0], [3, 0], [12, 0]]), Observed.of([[2.0, 0.0], [1, 0], [4, 0]])
    both = one + two
    assert both.means(["aa-en", "bb-en"]) == {"aa-en": 2.0, "bb-en": None}
    assert both.means(["aa-en", "bb-en"], "character") == {"aa-en": 0.5, "bb-en": None}
    assert both.mean == 2.0
    assert Observed.of(both.rows()).rows() == both.rows() == (both + Observed.nothing(2)).rows()


def test_the_gradient_of_a_batch_is_that_of_its_token_mean_and_leaves_no_trace():
    step = step_of(SIZES)
    before = weights_of(step.model)
    (batch,) = whole_corpus(10_000)
    expected = gradient_of(step.model, torch.cat(by_sentence(step.model)).mean())
    torch.testing.assert_close(step.gradient(4, batch), expected, **CLOSE)
    assert torch.equal(weights_of(step.model), before)
    assert all(weights.grad is None for weights in step.model.parameters())


# -------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("strategy", ["proportional", "fastdro"])
def test_a_loss_that_is_not_finite_names_its_direction_and_spares_the_model(strategy):
    step = step_of(SIZES)
    poison = 49  # a source piece that the other directions do not use
    batches = []
    for batch in whole_corpus():
        clean = torch.where(batch.source == poison, poison - 1, batch.source)
        clean[batch.direction == 1, 0] = poison
        batches.append(replace(batch, source=clean))
    with torch.no_grad():
        step.model.source_embedding.weight[poison] = torch.nan
    before = weights_of(step.model)
    with pytest.raises(TrainingError, match=r"^update 1: .*bb-en") as error:
        do(step, create(strategy, SIZES), batches=batches)
    assert "train.learning_rate" in str(error.value)
    assert not any(name in str(error.value) for name in ("aa-en", "cc-en"))
    torch.testing.assert_close(weights_of(step.model), before, rtol=0, atol=0, equal_nan=True)
