"""What tests of training share: logs read back, and losses and gradients computed the slow, plain way."""

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from evenglot.batches.load import collate
from evenglot.corpus.store import open_store
from evenglot.sequences import ParallelSequences, Sequences
from evenglot.symbols import EOS, PAD
from evenglot.training.parallel import Processes
from evenglot.training.step import Step
from tests.logs import json_events
from tests.model.cases import small_model

NO_DROPOUT = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)


def events(folder, name):
    return [event for event in json_events(folder / "log.jsonl") if event["event"] == name]


def vector(by_name):
    """Values in the order of their names."""
    return np.array([by_name[name] for name in sorted(by_name)], dtype=np.float64)


def store_of(config):
    return open_store(config.store.folder)


# ------------------------------------------------------------------------------------- losses the plain way


def token_losses(model, corpus, pair, smoothing=0.1):
    """Of each target piece of one sentence pair, alone in its batch, without padding. Gradients flow."""
    source, target = (torch.from_numpy(side[pair].astype(np.int64))[None] for side in (corpus.source, corpus.target))
    lengths = (torch.tensor([side.size(1)]) for side in (source, target))
    hidden = model(source, next(lengths), target, next(lengths))
    return F.cross_entropy(hidden @ model.output_embedding.T, target[0], label_smoothing=smoothing, reduction="none")


def total_loss(model, corpus, smoothing=0.1):
    """Summed over all target pieces of a corpus, one sentence after the other; and how many pieces there are."""
    with torch.no_grad():
        losses = torch.cat([token_losses(model, corpus, pair, smoothing) for pair in range(len(corpus))])
    return float(losses.double().sum()), len(losses)


def mean_loss(model, corpora, smoothing=0.1):
    """Of a target piece of all these corpora together; gradients flow."""
    losses = []
    for corpus in corpora:
        batch = collate([corpus], np.zeros(len(corpus), dtype=np.int32), np.arange(len(corpus)), PAD)
        hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
        real = batch.target[batch.target != PAD]
        logits = hidden @ model.output_embedding.T
        losses.append(F.cross_entropy(logits, real, label_smoothing=smoothing, reduction="none"))
    return torch.cat(losses).mean()


def gradient_of(model, loss):
    """With respect to all weights, as one vector."""
    return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(model.parameters()))])


# ----------------------------------------------------------------------------------------- a step in isolation


def random_corpora(sizes, seed=1):
    """Sentences of 2 to 12 random pieces, shorter in later corpora, for `small_model`."""
    random = np.random.default_rng(seed)

    def side(count, pieces, longest):
        sentences = [[*random.integers(PAD + 1, pieces, random.integers(1, longest)), EOS] for _ in range(count)]
        offsets = np.cumsum([0, *map(len, sentences)])
        return Sequences(np.concatenate(sentences).astype(np.uint16), offsets)

    return {
        name: ParallelSequences(side(size, 50, 12), side(size, 40, 12 - 3 * position))
        for position, (name, size) in enumerate(sizes.items())
    }


def step_of(names, *, kind=Step, clip=None, **changes):
    """A step whose updates are w <- w - gradient, in double precision, so that gradients can be read off."""
    torch.set_num_threads(1)  # for tensors as small as these, more only wait for each other
    model = small_model(**{**NO_DROPOUT, "encoder_layers": 1, "decoder_layers": 1, **changes}).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    characters = torch.arange(model.shape.target_pieces) % 5
    characters[PAD] = 0  # as in any vocabulary
    return kind(
        model, optimizer, Processes(), characters=characters, names=sorted(names), smoothing=0.1, clip=clip, seed=3
    )


def weights_of(model):
    return torch.cat([weights.detach().reshape(-1) for weights in model.parameters()]).clone()
