"""The same weights in Hugging Face's MBart give the same logits and the same gradients."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from transformers import MBartConfig, MBartForConditionalGeneration

from evenglot.model.loss import batch_loss
from evenglot.symbols import EOS, PAD
from tests.model.cases import all_logits, random_batch, small_model

OFFSET = 2  # MBart's position 0 is row 2 of its table
LAYER = {
    "self_attention.output": "self_attn.out_proj",
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward.expand": "fc1",
    "feed_forward.contract": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
FUSED = {
    "self_attention.qkv": [f"self_attn.{part}_proj" for part in "qkv"],
    "cross_attention.kv": [f"encoder_attn.{part}_proj" for part in "kv"],
}
STACK = {"embedding_norm": "layernorm_embedding", "final_norm": "layer_norm"}


def names_in_mbart(ours):
    """The MBart parameters that are stacked along the rows of one of our parameters."""
    if ours == "source_embedding.weight":
        return ["model.encoder.embed_tokens.weight"]
    if ours == "target_embedding.weight":
        return ["model.decoder.embed_tokens.weight"]
    stack, rest = ours.split(".", 1)
    part, kind = rest.rsplit(".", 1)
    if part in STACK:
        return [f"model.{stack}.{STACK[part]}.{kind}"]
    _, number, part = part.split(".", 2)
    theirs = FUSED[part] if part in FUSED else [LAYER[part]]
    return [f"model.{stack}.layers.{number}.{name}.{kind}" for name in theirs]


def as_mbart(model):
    shape = model.shape
    config = MBartConfig(
        vocab_size=max(shape.source_pieces, shape.target_pieces),
        d_model=shape.dim,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_ffn_dim=shape.ffn,
        decoder_ffn_dim=shape.ffn,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        max_position_embeddings=shape.max_positions,
        activation_function="relu",
        scale_embedding=True,
        tie_word_embeddings=False,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
    )
    mbart = MBartForConditionalGeneration(config).eval()
    # Separate source and target embeddings (MBart shares one); the target one is tied to the output, as in our model.
    for stack, pieces in (("encoder", shape.source_pieces), ("decoder", shape.target_pieces)):
        embedding = getattr(mbart.model, stack).embed_tokens
        fresh = type(embedding)(pieces, shape.dim, PAD, embed_scale=embedding.embed_scale)
        getattr(mbart.model, stack).embed_tokens = fresh
    if shape.share_embeddings:
        mbart.model.encoder.embed_tokens = mbart.model.decoder.embed_tokens
    mbart.lm_head.weight = mbart.model.decoder.embed_tokens.weight
    mbart.final_logits_bias = mbart.final_logits_bias[:, : shape.target_pieces]
    theirs = dict(mbart.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for ours, weights in model.named_parameters():
            names = names_in_mbart(ours)
            for name, rows in zip(names, weights.chunk(len(names)), strict=True):
                theirs[name].copy_(rows)
        for stack in ("encoder", "decoder"):
            theirs[f"model.{stack}.embed_positions.weight"][OFFSET:] = model.positions
    return mbart


def mbart_logits(mbart, batch):
    """Logits of the target subwords without padding."""
    start = torch.full_like(batch.target[:, :1], EOS)
    real = batch.target != PAD
    output = mbart(
        input_ids=batch.source,
        attention_mask=(batch.source != PAD).long(),
        decoder_input_ids=torch.cat([start, batch.target[:, :-1]], 1),
        use_cache=False,
    )
    return output.logits[real]


@pytest.fixture(params=["separate", "shared"])
def model(request):
    if request.param == "shared":
        return small_model(source_pieces=40, share_embeddings=True)
    return small_model()


@pytest.fixture(params=["padded", "full"])
def batch(request, model):
    if request.param == "full":
        return random_batch(model.shape, [6, 6], [5, 5])
    return random_batch(model.shape, [7, 3, 12, 1], [9, 10, 2, 1])


def test_logits(model, batch):
    torch.testing.assert_close(all_logits(model, batch), mbart_logits(as_mbart(model), batch), atol=1e-5, rtol=1e-5)


def test_gradients_of_every_parameter(model, batch):
    mbart = as_mbart(model)
    weights = torch.linspace(0.5, 2.0, len(batch.source))
    batch_loss(model, batch, weights, 0.1).objective.backward()
    real = batch.target != PAD
    losses = F.cross_entropy(mbart_logits(mbart, batch), batch.target[real], label_smoothing=0.1, reduction="none")
    (losses * weights.repeat_interleave(batch.target_lengths)).sum().backward()
    theirs = {name: weight.grad for name, weight in mbart.named_parameters(remove_duplicate=False)}
    for name, weight in model.named_parameters():
        expected = torch.cat([theirs[other] for other in names_in_mbart(name)])
        scale = expected.abs().max().item()
        torch.testing.assert_close(weight.grad, expected, atol=2e-5 * max(scale, 1), rtol=1e-4, msg=name)
