"""Gradient checkpointing changes memory, and nothing else."""

import pytest
import torch
from safetensors.torch import load_file
from torch.autograd.graph import saved_tensors_hooks

from evenglot.model.loss import batch_loss
from evenglot.model.pretrained import load_pretrained
from evenglot.training.train import train
from tests.checkpoints import CODES, save_checkpoint
from tests.model.cases import padded, random_batch, small_model
from tests.training.pretrained_task import configured

DROPOUT = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.2)


def measured(model, batch):
    """The loss sums, the gradients by name, and the bytes that the forward pass keeps for the backward pass."""
    kept: dict[int, int] = {}  # by address: views of one tensor count once

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    model.train()
    model.zero_grad()
    torch.manual_seed(5)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = batch_loss(model, batch, torch.ones(len(batch.source)), 0.1)
    size = sum(size for address, size in kept.items() if address not in own)
    loss.objective.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return loss.sums, {name: gradient.clone() for name, gradient in gradients.items()}, size


def compare(model, batch, most):
    """The same bits, with at most this share of the memory."""
    sums, gradients, size = measured(model, batch)
    model.recompute_layers()
    again, recomputed, smaller = measured(model, batch)
    assert torch.equal(sums, again)
    assert gradients.keys() == recomputed.keys()
    assert all(torch.equal(gradients[name], recomputed[name]) for name in gradients)
    assert smaller < most * size


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_our_own_model(precision):
    model = small_model(**DROPOUT, encoder_layers=4, decoder_layers=4)
    batch = random_batch(model.shape, [9, 30, 21, 5], [12, 25, 3, 18])
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        compare(model, batch, most=0.4)


@pytest.mark.parametrize("lora", [None, {"rank": 2, "alpha": 4.0, "dropout": 0.1, "layers": "all"}])
@pytest.mark.parametrize("kind", CODES)
def test_pretrained_models(kind, lora, tmp_path):
    model = load_pretrained(save_checkpoint(kind, tmp_path / "init"), lora=lora)
    ids, eos = torch.randint(5, 100, (3, 20), generator=torch.Generator().manual_seed(2)).tolist(), model.symbols.eos
    source, source_lengths = padded([[*ids[0], eos], [*ids[1][:7], eos]])
    target, target_lengths = padded([[*ids[2][:9], eos], [*ids[2], eos]])
    batch = random_batch(small_model().shape, [3, 3], [3, 3])
    compare(
        model,
        type(batch)(source, target, source_lengths, target_lengths, batch.direction),
        most=0.7,
    )


def test_it_may_be_switched_on_when_a_run_is_resumed(prepared, tmp_path):
    train(configured(prepared("nllb"), "train.updates=4"), tmp_path / "without")
    train(configured(prepared("nllb"), "train.updates=2"), tmp_path / "with")
    on = configured(prepared("nllb"), "train.updates=4", "train.gradient_checkpointing=true")
    train(on, tmp_path / "with", resume=True)
    without, switched = (
        load_file(tmp_path / run / "checkpoints/step-00000004/model.safetensors") for run in ("without", "with")
    )
    assert all(torch.equal(without[name], switched[name]) for name in without)


def test_our_own_run_is_the_same_to_the_last_bit(configure, tmp_path):
    for name, on in {"without": False, "with": True}.items():
        train(configure(train={"updates": 3, "gradient_checkpointing": on}), tmp_path / name)
    without, switched = (
        load_file(tmp_path / run / "checkpoints/step-00000003/model.safetensors") for run in ("without", "with")
    )
    assert all(torch.equal(without[name], switched[name]) for name in without)
