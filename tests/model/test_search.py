import pytest
import torch

from evenglot.model.loss import batch_loss
from evenglot.model.search import greedy, next_logits
from evenglot.model.transformer import END, PAD, Transformer
from tests.model.cases import padded, random_batch, small_model, small_shape


@pytest.fixture(scope="module")
def model():
    """Untrained, with a liking for </s> that makes sentences of many lengths."""
    model = small_model(seed=4)
    with torch.no_grad():
        model.target_embedding.weight[END] *= 4
    return model


@pytest.fixture(scope="module")
def batch(model):
    lengths = [1, 2, 3, 5, 8, 13, 21, 4, 6, 7, 9, 10]
    return random_batch(model.shape, lengths, lengths)


def recomputed(model, source, max_length):
    """Greedy search for one sentence that decodes everything anew for each piece."""
    memory = model.encode(source[None], torch.tensor([len(source)]))
    pieces = [END]
    while len(pieces) <= max_length:
        logits = model.decode(torch.tensor([pieces]), memory)[0, -1] @ model.output_embedding.T
        logits[PAD] = -torch.inf
        if logits.argmax() == END:
            break
        pieces.append(int(logits.argmax()))
    return pieces[1:]


def test_greedy_equals_recomputation_sentence_by_sentence(model, batch):
    found = greedy(model, batch.source, batch.source_lengths, 30)
    with torch.no_grad():
        expected = [
            recomputed(model, row[:length], 30) for row, length in zip(batch.source, batch.source_lengths, strict=True)
        ]
    assert found == expected
    lengths = {len(sentence) for sentence in found}
    assert len(lengths) > 3, f"sentences that end at different times are the point of this test, not {lengths}"
    assert any(length < 30 for length in lengths)


def test_order_and_company_do_not_matter(model, batch):
    found = greedy(model, batch.source, batch.source_lengths, 30)
    order = torch.tensor([7, 0, 11, 3])
    assert greedy(model, batch.source[order], batch.source_lengths[order], 30) == [found[k] for k in order]


def test_finished_sentences_leave_the_batch(model, batch, monkeypatch):
    rows = []
    step = model.step

    def watched(pieces, memory, cache):
        assert len(pieces) == len(memory.states) == len(cache.layers[0][0])
        rows.append(len(pieces))
        return step(pieces, memory, cache)

    monkeypatch.setattr(model, "step", watched)
    found = greedy(model, batch.source, batch.source_lengths, 30)
    steps = [min(len(sentence) + 1, 30) for sentence in found]
    assert rows == [sum(n > k for n in steps) for k in range(max(steps))]


def test_max_length_for_all_for_each_and_for_the_model(model, batch):
    free = greedy(model, batch.source, batch.source_lengths, 1000)
    assert max(map(len, free)) <= model.shape.max_positions
    assert greedy(model, batch.source, batch.source_lengths, 4) == [sentence[:4] for sentence in free]
    limits = torch.arange(1, 13)
    each = greedy(model, batch.source, batch.source_lengths, limits)
    assert each == [sentence[:limit] for sentence, limit in zip(free, limits, strict=True)]
    with pytest.raises(ValueError, match="max_length: expected at least 1, got 0"):
        greedy(model, batch.source, batch.source_lengths, 0)


def test_a_sentence_may_fill_all_positions(batch):
    model = small_model(max_positions=21)
    with torch.no_grad():
        model.target_embedding.weight[END] = 0  # logit 0 is below the best of 40: the sentence never ends
    found = greedy(model, batch.source, batch.source_lengths, 1000)
    assert {len(sentence) for sentence in found} == {21}


def test_padding_is_never_predicted(model, batch):
    with torch.no_grad():
        memory = model.encode(batch.source, batch.source_lengths)
        logits, cache = next_logits(model, torch.full((12,), END), memory, model.start(memory))
    assert cache.length == 1
    assert (logits[:, PAD] == -torch.inf).all()
    assert logits[:, [0, 1, 3]].isfinite().all()


@pytest.mark.parametrize("share_embeddings", [False, True])
def test_a_small_model_learns_to_reverse_sentences_and_says_them(share_embeddings):
    torch.manual_seed(1)
    sentences = [[3, 4, 5, 6], [6, 5, 9], [7], [8, 3, 8, 3, 9, 9], [5, 5, 4], [9, 8, 7, 6, 5, 4, 3]]
    sentences = [[piece + 10 * k for piece in row] for k in range(2) for row in sentences]
    source, source_lengths = padded([[*row, END] for row in sentences])
    target, target_lengths = padded([[*row[::-1], END] for row in sentences])
    batch = random_batch(small_shape(), [1], [1])
    batch = type(batch)(source, target, source_lengths, target_lengths, torch.zeros(len(source), dtype=torch.int64))
    none = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = Transformer(small_shape(source_pieces=40, dim=64, ffn=128, share_embeddings=share_embeddings, **none))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    weights = torch.full((len(source),), 1 / int(target_lengths.sum()))
    for _ in range(150):
        optimizer.zero_grad()
        batch_loss(model, batch, weights, 0.1).objective.backward()
        optimizer.step()
    assert greedy(model.eval(), source, source_lengths, 20) == [row[::-1] for row in sentences]
