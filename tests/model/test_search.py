from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenglot.model import search
from evenglot.model.loss import batch_loss
from evenglot.model.search import beam_search, force, greedy, next_logits
from evenglot.model.transformer import Transformer
from evenglot.symbols import EOS, PAD
from tests.model.cases import padded, random_batch, small_model, small_shape


@pytest.fixture(scope="module")
def model():
    """An untrained model with a raised probability of </s>, so that sentences have many different lengths."""
    model = small_model(seed=4)
    with torch.no_grad():
        model.target_embedding.weight[EOS] *= 4
    return model


@pytest.fixture(scope="module")
def batch(model):
    lengths = [1, 2, 3, 5, 8, 13, 21, 4, 6, 7, 9, 10]
    return random_batch(model.shape, lengths, lengths)


@pytest.fixture(scope="module")
def toy():
    """A model whose output subwords are 1, 3 and 4: few enough to enumerate all translations of four subwords."""
    model = small_model(seed=2, target_pieces=5)
    source = random_batch(model.shape, [6, 3, 9], [1, 1, 1])
    return model, source.source, source.source_lengths


def best_pieces(found):
    return [hypotheses[0].pieces for hypotheses in found]


def all_hypotheses(model, source, length, max_length):
    """Log-probabilities of all possible translations of one sentence, each from one forward pass."""
    says = [piece for piece in range(model.shape.target_pieces) if piece not in (EOS, PAD)]
    longest = list(product(says, repeat=max_length))
    rows = torch.zeros(len(longest), dtype=torch.int64)
    with torch.no_grad():
        memory = model.encode(source[None, :length], length[None]).select(rows)
        logits = (
            model.decode(torch.tensor([[EOS, *pieces[:-1]] for pieces in longest]), memory) @ model.output_embedding.T
        )
    logits[:, :, PAD] = -torch.inf
    log_p = logits.double().log_softmax(2)
    found = {}
    for pieces, row in zip(longest, log_p, strict=True):
        before = [0.0, *row[range(max_length), pieces].cumsum(0).tolist()]
        found[pieces] = before[-1]
        found |= {(*pieces[:k], EOS): before[k] + float(row[k, EOS]) for k in range(max_length)}
    return found


def with_end(hypothesis):
    return (*hypothesis.pieces, EOS) if hypothesis.ended else tuple(hypothesis.pieces)


def recomputed(model, source, max_length):
    """Greedy search for one sentence without a cache: decodes the whole prefix for each subword."""
    memory = model.encode(source[None], torch.tensor([len(source)]))
    pieces = [EOS]
    while len(pieces) <= max_length:
        logits = model.decode(torch.tensor([pieces]), memory)[0, -1] @ model.output_embedding.T
        logits[PAD] = -torch.inf
        if logits.argmax() == EOS:
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
    assert len(lengths) > 3, f"this test needs sentences of different lengths, got {lengths}"
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
        rows.append(pieces.numel())
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
    with pytest.raises(ValueError, match="^max_length: .*1.*0"):
        greedy(model, batch.source, batch.source_lengths, 0)


def test_a_sentence_may_fill_all_positions(batch):
    model = small_model(max_positions=21)
    with torch.no_grad():
        model.target_embedding.weight[EOS] = 0  # logit 0 is below the best of 40: the sentence never ends
    found = greedy(model, batch.source, batch.source_lengths, 1000)
    assert {len(sentence) for sentence in found} == {21}


def test_padding_is_never_predicted_however_much_the_model_likes_it(batch):
    model = small_model(seed=4)
    with torch.no_grad():
        model.target_embedding.weight[PAD] = 3 * model.target_embedding.weight[7]
    inputs = batch.source, batch.source_lengths
    found = beam_search(model, *inputs, n_best=5, max_length=20)
    assert all(PAD not in hypothesis.pieces for hypotheses in found for hypothesis in hypotheses)
    assert all(PAD not in pieces for pieces in greedy(model, *inputs, 20))
    assert force(model, batch.source[:1], batch.source_lengths[:1], [[4, PAD]]) == [-torch.inf]


def test_next_logits_rule_padding_out(model, batch):
    with torch.no_grad():
        memory = model.encode(batch.source, batch.source_lengths)
        logits, cache = next_logits(model, torch.full((12, 1), EOS), memory, model.start(memory))
    assert cache.length == 1
    assert (logits[:, 0, PAD] == -torch.inf).all()
    assert logits[:, 0, [0, 1, 3]].isfinite().all()


@given(
    sentences=st.integers(1, 3),
    width=st.integers(1, 4),
    pieces=st.integers(PAD + 1, 120),
    number=st.integers(1, 30),
    seed=st.integers(0, 10**6),
)
def test_best_continuations_are_the_largest_sums(sentences, width, pieces, number, seed):
    generator = torch.Generator().manual_seed(seed)
    before = -torch.rand(sentences, width, dtype=torch.float64, generator=generator)
    log_p = torch.randn(sentences, width, pieces, generator=generator).index_fill(2, torch.tensor([PAD]), -torch.inf)
    found, parent, piece = search._best(before, log_p, number, PAD)
    sums = before[:, :, None] + log_p
    assert found.tolist() == sums.flatten(1).topk(min(number, width * pieces)).values.tolist()
    assert sums[torch.arange(sentences)[:, None], parent, piece].tolist() == found.tolist()
    for row in range(sentences):
        places = [place for place in zip(parent[row].tolist(), piece[row].tolist(), strict=True) if place[1] != PAD]
        assert len(set(places)) == len(places)


def test_beam_1_equals_greedy(model, batch):
    expected = greedy(model, batch.source, batch.source_lengths, 30)
    for length_penalty in (0.0, 1.0):
        found = beam_search(
            model, batch.source, batch.source_lengths, beam=1, length_penalty=length_penalty, max_length=30
        )
        assert best_pieces(found) == expected


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_log_probability_is_that_of_forced_decoding_and_score_is_normalised(model, batch, length_penalty):
    inputs = batch.source, batch.source_lengths
    found = beam_search(model, *inputs, length_penalty=length_penalty, max_length=30, n_best=5)
    ended = 0
    for rank in range(5):
        forced = force(model, *inputs, [hypotheses[rank].pieces for hypotheses in found])
        for hypotheses, log_p in zip(found, forced, strict=True):
            hypothesis = hypotheses[rank]
            ended += hypothesis.ended
            length = len(hypothesis.pieces) + hypothesis.ended
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / length**length_penalty, abs=1e-12)
            if hypothesis.ended:
                assert hypothesis.log_probability == pytest.approx(log_p, abs=1e-5)
            else:
                assert length == 30
                assert hypothesis.log_probability > log_p
    assert ended > 30


def slow_beam_search(model, source, beam, length_penalty, max_length, patience):
    """Beam search for one sentence with lists and without a cache: decodes the whole prefix for each subword."""
    memory = model.encode(source[None], torch.tensor([len(source)]))
    live, finished = [(0.0, [EOS])], []
    while len(finished) < beam * patience and len(live[0][1]) <= max_length:
        candidates = []
        for log_p, said in live:
            logits = model.decode(torch.tensor([said]), memory)[0, -1] @ model.output_embedding.T
            logits[PAD] = -torch.inf
            continued = (log_p + logits.double().log_softmax(0)).tolist()
            candidates += [(value, [*said, piece]) for piece, value in enumerate(continued)]
        candidates = sorted(candidates, reverse=True)[: 2 * beam]
        last = len(live[0][1]) == max_length
        finished += [(value, said) for value, said in candidates[:beam] if said[-1] == EOS or last]
        live = [(value, said) for value, said in candidates if said[-1] != EOS][:beam]
    best = sorted(((value / (len(said) - 1) ** length_penalty, said) for value, said in finished), reverse=True)
    return [(score, said[1:-1] if said[-1] == EOS else said[1:]) for score, said in best[:beam]]


@pytest.mark.parametrize(("beam", "length_penalty", "patience"), [(2, 1.0, 1), (5, 1.0, 1), (5, 0.6, 2)])
def test_beam_search_equals_recomputation_sentence_by_sentence(model, batch, beam, length_penalty, patience):
    options = {"beam": beam, "length_penalty": length_penalty, "max_length": 12, "patience": patience}
    found = beam_search(model, batch.source, batch.source_lengths, n_best=beam, **options)
    for hypotheses, source, length in zip(found, batch.source, batch.source_lengths, strict=True):
        with torch.no_grad():
            expected = slow_beam_search(model, source[:length], **options)
        assert [hypothesis.pieces for hypothesis in hypotheses] == [pieces for _, pieces in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([s for s, _ in expected], abs=1e-5)


@pytest.mark.parametrize("length_penalty", [0.0, 0.5, 1.0, 2.0])
def test_a_beam_of_full_width_finds_the_best_of_all(toy, length_penalty):
    model, source, lengths = toy
    # At most 3 ** 3 live hypotheses with 4 continuations each; with a beam of 121, all possible translations finish.
    options = {"beam": 121, "length_penalty": length_penalty, "max_length": 4}
    first = beam_search(model, source, lengths, **options)
    every = beam_search(model, source, lengths, n_best=121, **options)
    for row, hypotheses in enumerate(every):
        log_p = all_hypotheses(model, source[row], lengths[row], 4)
        scores = {said: value / len(said) ** length_penalty for said, value in log_p.items()}
        expected = sorted(scores, key=scores.__getitem__, reverse=True)
        assert with_end(first[row][0]) == expected[0]
        assert first[row][0].score == pytest.approx(scores[expected[0]], abs=1e-5)
        assert {with_end(hypothesis) for hypothesis in hypotheses} == set(expected)
        assert [h.log_probability for h in hypotheses] == pytest.approx(
            [log_p[with_end(h)] for h in hypotheses], abs=1e-5
        )


def test_when_the_search_is_over(model, batch, monkeypatch):
    steps = []
    step = model.step
    monkeypatch.setattr(model, "step", lambda *inputs: steps.append(1) or step(*inputs))

    def best_and_steps(row, **options):
        steps.clear()
        found = beam_search(model, batch.source[row, None], batch.source_lengths[row, None], **options)
        return found[0][0], len(steps)

    shorter = longer = 0
    for row in range(12):
        best, until_best = best_and_steps(row, length_penalty=0.0)
        same, until_five = best_and_steps(row, length_penalty=1e-9)
        _, until_ten = best_and_steps(row, length_penalty=1e-9, patience=2)
        # Without a length penalty, stop when the best of all candidates has ended: no better one can follow.
        assert best.log_probability >= same.log_probability
        assert until_five <= until_ten
        shorter += until_best < until_five
        longer += until_five < until_ten
    assert min(shorter, longer) > 2


def test_n_best_is_sorted_distinct_and_begins_with_the_best(model, batch):
    inputs = batch.source, batch.source_lengths
    for length_penalty in (0.6, 1.0):
        first = beam_search(model, *inputs, length_penalty=length_penalty, max_length=20)
        found = beam_search(model, *inputs, length_penalty=length_penalty, max_length=20, n_best=5)
        assert [hypotheses[0] for hypotheses in found] == [hypotheses[0] for hypotheses in first]
        for hypotheses in found:
            assert len({tuple(hypothesis.pieces) for hypothesis in hypotheses}) == 5
            assert all(better.score >= worse.score for better, worse in pairwise(hypotheses))


def test_length_penalty_makes_long_translations_better(model, batch):
    short, long = (
        beam_search(model, batch.source, batch.source_lengths, length_penalty=penalty, max_length=30)
        for penalty in (0.0, 1.0)
    )
    assert sum(map(len, best_pieces(short))) < sum(map(len, best_pieces(long)))
    assert all(hypotheses[0].score == hypotheses[0].log_probability for hypotheses in short)


def test_order_and_company_do_not_matter_to_a_beam(model, batch):
    found = beam_search(model, batch.source, batch.source_lengths, max_length=30, n_best=3)
    for order in ([7, 0, 11, 3], [4], list(range(11, -1, -1))):
        again = beam_search(model, batch.source[order], batch.source_lengths[order], max_length=30, n_best=3)
        for hypotheses, row in zip(again, order, strict=True):
            assert [h.pieces for h in hypotheses] == [h.pieces for h in found[row]]
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in found[row]], abs=1e-5)


def test_sentences_whose_search_is_over_leave_the_batch(model, batch, monkeypatch):
    rows = []
    step = model.step

    def watched(pieces, memory, cache):
        assert len(pieces) == len(memory.states) == len(cache.layers[0][0])
        rows.append(pieces.numel())
        return step(pieces, memory, cache)

    monkeypatch.setattr(model, "step", watched)
    steps = []
    for row in range(12):
        beam_search(model, batch.source[row, None], batch.source_lengths[row, None], max_length=30)
        steps.append(len(rows))
        rows.clear()
    beam_search(model, batch.source, batch.source_lengths, max_length=30)
    assert len(set(steps)) > 3
    assert rows == [12, *(5 * sum(n > k for n in steps) for k in range(1, max(steps)))]


# Second case: ten hypotheses of ten sentences in the first step, then ten hypotheses of two sentences.
@pytest.mark.parametrize("limits", [list(range(1, 13)), [1] * 8 + [9] * 2])
def test_each_sentence_has_its_own_max_length(model, batch, limits):
    inputs = batch.source[: len(limits)], batch.source_lengths[: len(limits)]
    together = beam_search(model, *inputs, max_length=torch.tensor(limits), n_best=5)
    for row, limit in enumerate(limits):
        alone = beam_search(model, *(each[row, None] for each in inputs), max_length=limit, n_best=5)
        assert [h.pieces for h in together[row]] == [h.pieces for h in alone[0]]
        for hypothesis in together[row]:
            length = len(hypothesis.pieces)
            assert length < limit if hypothesis.ended else length == limit
    assert {h.ended for hypotheses in together for h in hypotheses} == {True, False}


def test_forced_decoding_is_the_same_in_a_batch_one_by_one_and_in_chunks(model, batch, monkeypatch):
    targets = [row[: length - 1].tolist() for row, length in zip(batch.target, batch.target_lengths, strict=True)]
    together = force(model, batch.source, batch.source_lengths, targets)
    alone = [
        force(model, batch.source[row, None, :length], length[None], [targets[row]])[0]
        for row, length in enumerate(batch.source_lengths)
    ]
    assert together == pytest.approx(alone, abs=1e-5)
    monkeypatch.setattr(search, "CHUNK_LOGITS", 3 * model.shape.target_pieces)
    assert force(model, batch.source, batch.source_lengths, targets) == pytest.approx(together, abs=1e-5)


def test_forced_decoding_equals_a_sum_over_whole_sentences(toy):
    model, source, lengths = toy
    targets = [[3, 4, 1], [], [4, 4]]
    expected = [
        all_hypotheses(model, *row, 4)[(*said, EOS)] for *row, said in zip(source, lengths, targets, strict=True)
    ]
    assert force(model, source, lengths, targets) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="^targets: .*3.*2"):
        force(model, source, lengths, targets[:2])


@pytest.mark.parametrize(("beam", "n_best"), [(2, 3), (0, 0), (5, 0)])
def test_there_are_as_many_hypotheses_as_the_beam_is_wide(model, batch, beam, n_best):
    with pytest.raises(ValueError, match=f"^n_best: .*{n_best}.*{beam}"):
        beam_search(model, batch.source, batch.source_lengths, beam=beam, n_best=n_best)
    with pytest.raises(ValueError, match=r"^patience: .*0\.5"):
        beam_search(model, batch.source, batch.source_lengths, patience=0.5)


@pytest.mark.parametrize("share_embeddings", [False, True])
def test_a_small_model_learns_to_reverse_sentences_and_says_them(share_embeddings):
    torch.manual_seed(1)
    sentences = [[3, 4, 5, 6], [6, 5, 9], [7], [8, 3, 8, 3, 9, 9], [5, 5, 4], [9, 8, 7, 6, 5, 4, 3]]
    sentences = [[piece + 10 * k for piece in row] for k in range(2) for row in sentences]
    source, source_lengths = padded([[*row, EOS] for row in sentences])
    target, target_lengths = padded([[*row[::-1], EOS] for row in sentences])
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
    expected = [row[::-1] for row in sentences]
    assert greedy(model.eval(), source, source_lengths, 20) == expected
    assert best_pieces(beam_search(model, source, source_lengths, max_length=20, patience=2)) == expected
    likely = force(model, source, source_lengths, expected)
    assert min(likely) > -2
    assert sum(likely) - sum(force(model, source, source_lengths, sentences)) > 100
