"""Small models and random batches."""

import torch

from evenglot.batches.load import Batch
from evenglot.model.shape import Shape
from evenglot.model.transformer import Transformer
from evenglot.symbols import EOS, PAD


def small_shape(**changes):
    values = {"source_pieces": 50, "target_pieces": 40, "dim": 32, "ffn": 48, "heads": 4}
    return Shape(**{**values, "encoder_layers": 2, "decoder_layers": 3, "max_positions": 64, **changes})


def small_model(seed=1, *, spread=3.0, **changes):
    """A model in evaluation mode, with larger weights than at initialisation, so that every part affects the output."""
    torch.manual_seed(seed)
    model = Transformer(small_shape(**changes)).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                weights += 0.2 * torch.randn_like(weights)
            elif "embedding" not in name:
                weights *= spread
    return model


def random_batch(shape, source_lengths, target_lengths, seed=1):
    """Random sentences that end with </s>, padded on the right; groups 0, 1, 2, 0, 1, ..."""
    generator = torch.Generator().manual_seed(seed)

    def side(lengths, pieces):
        rows = [torch.randint(PAD + 1, pieces, (length - 1,), generator=generator) for length in lengths]
        return padded([[*row.tolist(), EOS] for row in rows])

    source, source_lengths = side(source_lengths, shape.source_pieces)
    target, target_lengths = side(target_lengths, shape.target_pieces)
    return Batch(source, target, source_lengths, target_lengths, torch.arange(len(source)) % 3)


def padded(sentences):
    width = max(map(len, sentences))
    ids = torch.tensor([sentence + [PAD] * (width - len(sentence)) for sentence in sentences])
    return ids, torch.tensor([len(sentence) for sentence in sentences])


def all_logits(model, batch):
    """Logits of the target subwords without padding."""
    hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
    return hidden @ model.output_embedding.T
