from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.step_profile import Lengths, training_flops
from evenglot.batches.load import Batch
from evenglot.model.shape import Shape

SHAPE = Shape(source_pieces=50, target_pieces=30, dim=4, ffn=8, encoder_layers=1, decoder_layers=1, heads=2)
BATCH = Batch(
    source=torch.zeros(2, 3, dtype=torch.int64),
    target=torch.zeros(2, 5, dtype=torch.int64),
    source_lengths=torch.tensor([3, 1]),
    target_lengths=torch.tensor([5, 2]),
    direction=torch.tensor([0, 0]),
)


def test_lengths_are_summed_without_and_with_padding():
    assert Lengths.of([BATCH], padded=False) == Lengths(4, 7, 10, 29, 17, predicted=7)
    assert Lengths.of([BATCH, BATCH], padded=True) == Lengths(12, 20, 36, 100, 60, predicted=14)


def test_flops_are_those_of_every_matrix_product():
    one = Lengths(source=1, target=1, source_pairs=1, target_pairs=1, cross_pairs=1, predicted=1)
    projections = 4 * 4 * (4 + 4 + 4)  # in self-attention of both sides and cross-attention: query, key, value, output
    feed_forward = 2 * (4 * 8 + 8 * 4)
    attention = 3 * 2 * 4  # logits and weighted sums
    assert training_flops(SHAPE, one) == 3 * 2 * (projections + feed_forward + attention + 4 * 30)


@pytest.mark.parametrize("key", ["encoder_layers", "decoder_layers"])
def test_flops_grow_by_the_same_with_every_layer(key):
    lengths = Lengths.of([BATCH], padded=False)
    one, two, three = (training_flops(replace(SHAPE, **{key: layers}), lengths) for layers in (1, 2, 3))
    assert three - two == two - one > 0
