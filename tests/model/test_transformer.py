import dataclasses
import json
import math

import pytest
import torch

from evenglot.corpus import vocabulary
from evenglot.model.shape import Shape
from evenglot.model.sizes import SIZES
from evenglot.model.transformer import Transformer, is_real, sinusoids, unpadded
from evenglot.symbols import EOS, PAD
from tests.model.cases import all_logits, random_batch, small_model, small_shape

SOURCE_LENGTHS, TARGET_LENGTHS = [7, 3, 12, 1, 12], [9, 10, 2, 1, 6]


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module")
def batch(model):
    return random_batch(model.shape, SOURCE_LENGTHS, TARGET_LENGTHS)


def step_by_step(model, target, memory):
    """Hidden states of whole sentences, computed one subword at a time."""
    cache, hidden = model.start(memory), []
    for piece in seen_by_decoder(target).T:
        state, cache = model.step(piece[:, None], memory, cache)
        hidden.append(state[:, 0])
    assert cache.length == target.size(1)
    return torch.stack(hidden, 1)


def seen_by_decoder(target):
    return torch.cat([torch.full_like(target[:, :1], EOS), target[:, :-1]], 1)


def test_special_pieces_are_those_of_the_vocabularies():
    assert (EOS, PAD) == (vocabulary.EOS, vocabulary.PAD)


def test_hidden_states_are_those_of_the_real_target_pieces_sentence_by_sentence(model, batch):
    hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
    whole = model.decode(seen_by_decoder(batch.target), model.encode(batch.source, batch.source_lengths))
    assert hidden.shape == (sum(TARGET_LENGTHS), model.shape.dim)
    torch.testing.assert_close(hidden, whole[batch.target != PAD])


@pytest.mark.parametrize("pieces", [PAD, 7])
def test_a_sentence_does_not_depend_on_its_batch_nor_on_what_the_padding_is(model, batch, pieces):
    logits = all_logits(model, batch).split(TARGET_LENGTHS)
    source = batch.source.masked_fill(batch.source == PAD, pieces)
    for row, (s, t) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        alone = dataclasses.replace(
            batch,
            source=source[row : row + 1, :s],
            target=batch.target[row : row + 1, :t],
            source_lengths=batch.source_lengths[row : row + 1],
            target_lengths=batch.target_lengths[row : row + 1],
        )
        torch.testing.assert_close(all_logits(model, alone), logits[row], atol=1e-5, rtol=1e-5)
    again = dataclasses.replace(batch, source=source)
    torch.testing.assert_close(all_logits(model, again), torch.cat(logits), atol=1e-5, rtol=1e-5)


def test_a_mask_is_made_only_where_there_is_padding(model, batch):
    assert model.encode(batch.source, batch.source_lengths).mask is not None
    full = batch.source_lengths == batch.source.size(1)
    assert full.sum() == 2
    assert model.encode(batch.source[full], batch.source_lengths[full]).mask is None


def test_a_piece_depends_on_those_before_it_and_on_the_whole_source(model, batch):
    def changed(side, column):
        ids = getattr(batch, side).clone()
        ids[2, column] = 3 + (ids[2, column] - 2) % 30
        return all_logits(model, dataclasses.replace(batch, **{side: ids})) - all_logits(model, batch)

    sentence = torch.repeat_interleave(torch.arange(5), batch.target_lengths)
    by_source = changed("source", 11).abs().amax(1)
    assert (by_source[sentence == 2] > 1e-3).all()
    assert (by_source[sentence != 2] < 1e-5).all()
    by_target = changed("target", 0).abs().amax(1)[sentence == 2]
    assert by_target[0] < 1e-5
    assert by_target[1] > 1e-3


def test_decoding_piece_by_piece_equals_decoding_at_once(model, batch):
    memory = model.encode(batch.source, batch.source_lengths)
    stepwise = unpadded(step_by_step(model, batch.target, memory), batch.target_lengths)
    at_once = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
    torch.testing.assert_close(stepwise, at_once, atol=1e-5, rtol=1e-5)


def test_sentences_can_be_reordered_repeated_and_dropped_midway(model, batch):
    memory = model.encode(batch.source, batch.source_lengths)
    whole = model.decode(seen_by_decoder(batch.target), memory)
    seen, cache = seen_by_decoder(batch.target), model.start(memory)
    rows = torch.arange(5)
    for column, choice in enumerate([[0, 1, 2, 3, 4], [4, 0, 0, 1], [3, 1, 2], [2, 2], [1]]):
        rows, chosen = rows[choice], torch.tensor(choice)
        memory, cache = memory.select(chosen), cache.select(chosen)
        hidden, cache = model.step(seen[rows, column, None], memory, cache)
        torch.testing.assert_close(hidden[:, 0], whole[rows, column], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("compact_at", [10, 20, 1000])
def test_hypotheses_of_a_sentence_can_be_continued_several_times_and_dropped(model, batch, compact_at):
    generator = torch.Generator().manual_seed(5)
    memory = model.encode(batch.source, batch.source_lengths)
    cache = dataclasses.replace(model.start(memory), compact_at=compact_at)
    said = torch.full((5, 1, 1), EOS)
    columns = []
    for width in (4, 4, 3, 6, 4, 4, 4, 4, 2):
        hidden, cache = model.step(said[:, :, -1], memory, cache)
        for hypothesis in range(said.size(1)):
            alone = model.decode(said[:, hypothesis], memory)[:, -1]
            torch.testing.assert_close(hidden[:, hypothesis], alone, atol=1e-5, rtol=1e-5)
        columns.append(cache.hidden.size(2))
        parents = torch.randint(said.size(1), (5, width), generator=generator)
        pieces = torch.randint(PAD + 1, model.shape.target_pieces, (5, width, 1), generator=generator)
        said = torch.cat([said.gather(1, parents[:, :, None].expand(-1, -1, said.size(2))), pieces], 2)
        cache = cache.follow(parents)
    assert cache.length == 9
    assert (max(columns) == 1 + 4 + 4 + 3 + 6 + 4 + 4 + 4 + 4) == (compact_at > 100)


def test_dropout_follows_the_seed_and_rests_in_evaluation(batch):
    model = small_model().train()

    def run(seed):
        torch.manual_seed(seed)
        return all_logits(model, batch)

    assert torch.equal(run(1), run(1))
    assert not torch.allclose(run(1), run(2))
    model.eval()
    assert torch.equal(run(1), run(2))


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_does_something_in_training(batch, kind):
    none = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    without, dropping = small_model(**none).train(), small_model(**{**none, kind: 0.3}).train()
    torch.testing.assert_close(all_logits(without, batch), all_logits(without.eval(), batch))
    assert not torch.allclose(all_logits(dropping, batch), all_logits(without, batch), atol=1e-2)


def test_starting_weights_follow_the_seed_and_have_the_sizes_training_needs():
    def start(seed):
        torch.manual_seed(seed)
        return Transformer(small_shape(source_pieces=500, dim=64)).state_dict()

    weights = start(5)
    assert all(torch.equal(value, weights[name]) for name, value in start(5).items())
    assert not torch.equal(start(6)["source_embedding.weight"], weights["source_embedding.weight"])
    for side in ("source", "target"):
        embedding = weights[f"{side}_embedding.weight"]
        assert (embedding[PAD] == 0).all()
        assert embedding.std() == pytest.approx(64**-0.5, rel=0.1)
    qkv = weights["decoder.layers.0.self_attention.qkv.weight"]
    kv = weights["decoder.layers.0.cross_attention.kv.weight"]
    for part in (*qkv.split(64), *kv.split(64)):
        assert part.abs().max() == pytest.approx(math.sqrt(6 / 128) / math.sqrt(2), rel=0.01)
    assert (weights["encoder.layers.1.feed_forward.expand.bias"] == 0).all()


def test_state_dict_has_readable_names_no_sinusoids_and_no_weight_twice():
    names = set(small_model().state_dict())
    assert "encoder.layers.0.self_attention.qkv.weight" in names
    assert "decoder.layers.2.cross_attention.kv.bias" in names
    assert not any("positions" in name for name in names)
    shared = small_model(source_pieces=40, share_embeddings=True)
    assert names - set(shared.state_dict()) == {"source_embedding.weight"}
    pointers = [value.data_ptr() for value in shared.state_dict().values()]
    assert len(set(pointers)) == len(pointers)


def test_sinusoids_are_those_of_fairseq():
    table = sinusoids(100, 6)
    for position in (0, 1, 99):
        angles = [position / 10_000 ** (k / 2) for k in range(3)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert table[position].tolist() == pytest.approx(expected, abs=1e-6)


def test_longest_sentences_fit_and_longer_ones_are_refused(model):
    fits = random_batch(model.shape, [64, 2], [64, 64])
    assert all_logits(model, fits).isfinite().all()
    with pytest.raises(ValueError, match="^source: .*65.*64"):
        all_logits(model, random_batch(model.shape, [65, 2], [3, 3]))
    with pytest.raises(ValueError, match="^target: .*66.*64"):
        all_logits(model, random_batch(model.shape, [6, 2], [3, 66]))
    memory = model.encode(fits.source, fits.source_lengths)
    cache = model.start(memory)
    piece = torch.tensor([[5], [5]])
    for _ in range(64):
        _, cache = model.step(piece, memory, cache)
    with pytest.raises(ValueError, match="^target: .*65.*64"):
        model.step(piece, memory, cache)


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_shapes_that_survive_json(size):
    shape = Shape(source_pieces=30, target_pieces=20, **SIZES[size])
    assert Shape(**json.loads(json.dumps(dataclasses.asdict(shape)))) == shape


def test_base_has_the_parameters_of_the_papers_shape():
    """Counted by hand from section 8.4: 44.1 million in 6 + 6 layers, and the embeddings."""
    with torch.device("meta"):
        model = Transformer(Shape(source_pieces=10, target_pieces=10, **SIZES["base"]))
    attention, feed_forward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 512 + 2048, 2 * 512
    encoder = 6 * (attention + feed_forward + 2 * norm) + 2 * norm
    decoder = 6 * (2 * attention + feed_forward + 3 * norm) + 2 * norm
    assert sum(weights.numel() for weights in model.parameters()) == encoder + decoder + 20 * 512


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "^heads: .*32.*5"),
        ({"heads": 0}, "^heads: .*1.*0"),
        ({"dim": 33, "heads": 3}, "^dim: .*33"),
        ({"dim": 2, "heads": 1}, "^dim: .*4.*2"),
        ({"target_pieces": 2}, "^target_pieces: .*3.*2"),
        ({"encoder_layers": 0}, "^encoder_layers: .*1.*0"),
        ({"max_positions": 0}, "^max_positions: .*1.*0"),
        ({"dropout": 1.0}, "^dropout: .*1\\.0"),
        ({"attention_dropout": -0.1}, "^attention_dropout: "),
        ({"activation_dropout": math.nan}, "^activation_dropout: "),
        ({"share_embeddings": True}, "^share_embeddings: .*source_pieces.*50.*target_pieces.*40"),
    ],
)
def test_impossible_shapes_are_refused_with_the_argument_named(change, message):
    with pytest.raises(ValueError, match=message):
        small_shape(**change)


def test_real_places_and_what_stands_in_them():
    lengths = torch.tensor([2, 0, 3])
    assert is_real(lengths, 3).tolist() == [[True, True, False], [False] * 3, [True] * 3]
    assert unpadded(torch.arange(9).view(3, 3), lengths).tolist() == [0, 1, 6, 7, 8]


def test_biases_that_do_nothing_are_not_trained(model, batch):
    model(batch.source, batch.source_lengths, batch.target, batch.target_lengths).square().sum().backward()
    dim = model.shape.dim
    for name, parameter in model.named_parameters():
        if name.endswith(("qkv.bias", "kv.bias")):
            rows = parameter.grad.view(-1, dim)
            assert not rows[-2].any()  # keys
            assert rows[-1].any()  # values
            assert len(rows) == 2 or rows[0].any()  # queries
