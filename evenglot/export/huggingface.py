"""Export a checkpoint of a run to a folder that Hugging Face transformers loads without custom code.

The model class is MBart, which has our architecture: pre-norm, normalised embeddings, a final norm in both stacks. The
differences are resolved in the weights: MBart's learned position embeddings are set to our sinusoids, and a bias of the
output layer excludes padding. The tokenizer is Marian's, which has one SentencePiece model per side and supports tags
such as '>>por<<'.

Config files are written here rather than by transformers, so that they do not depend on its version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from evenglot import __version__
from evenglot.config import Config
from evenglot.directions import Side
from evenglot.export.hub import Sharing
from evenglot.export.model_card import model_card, usage_of_ours
from evenglot.export.pretrained import export_pretrained
from evenglot.export.report import BATCH, LONGEST, MARKER, SAMPLE, Report, refuse_other_content
from evenglot.export.sample import tagged_sentences
from evenglot.extras import import_transformers, quiet
from evenglot.files import finished_folder, write_json
from evenglot.inference.vocabularies import Vocabulary, read_vocabularies
from evenglot.model.pretrained import Pretrained
from evenglot.model.search import greedy
from evenglot.model.shape import Shape
from evenglot.model.transformer import Transformer
from evenglot.runs.checkpoint import fingerprint, write_tensors
from evenglot.runs.model import load_model
from evenglot.runs.run import Run
from evenglot.seals import checksums, sealed
from evenglot.symbols import EOS, PAD

NOT_STATED = Sharing()
RULED_OUT = -1e4  # a bias that no logit offsets, and finite in half precision

VOCABULARIES: dict[Side, tuple[str, str]] = {
    "source": ("source.spm", "vocab.json"),
    "target": ("target.spm", "target_vocab.json"),
}
WRITTEN = {
    *("config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json", "README.md", MARKER),
    *chain(*VOCABULARIES.values()),
}


def export(
    run: Run, folder: Path, which: str = "best", sharing: Sharing = NOT_STATED, *, adapter: bool = False
) -> Report:
    """Export a checkpoint of a run, and compare both models on validation sentences of the run's store.

    `which`: best, last, average, or a number of updates. `sharing`: what the card says beyond what the run
    knows. `adapter`: only the adapters of `model.lora`. If the models differ, or if the folder contains files that no
    export wrote, ValueError is raised and nothing is written.
    """
    transformers = import_transformers()
    folder = Path(folder).resolve()
    config, checkpoint = run.config(), run.choose(which)
    model = load_model(checkpoint, config.model.init).float()
    if adapter and config.model.lora is None:
        raise ValueError("--adapter: this run trained all weights; only runs with model.lora have adapters")
    if sharing.base_model is not None and config.model.init is None:
        raise ValueError("--base-model: this run was trained from scratch; only runs with model.init have one")
    if isinstance(model, Pretrained):
        return export_pretrained(run, config, checkpoint, model, folder, sharing, adapter)
    if not isinstance(model, Transformer):
        raise ValueError(f"{run.folder}: {type(model).__name__} cannot be exported")
    refuse_other_content(folder, WRITTEN)
    vocabularies = read_vocabularies(run, checkpoint)
    with finished_folder(folder) as unfinished:
        _write_model(model, unfinished)
        _write_tokenizer(vocabularies, model.shape.max_positions, unfinished)
        with quiet(transformers):
            sentences = _validation_sentences(config, vocabularies["source"].pieces, model.shape.max_positions)
            report = _compare(_Exported.load(transformers, unfinished), model, sentences, folder)
        (unfinished / "README.md").write_text(
            model_card(run, config, report.summary, usage_of_ours(config, model.max_positions), sharing),
            encoding="utf-8",
        )
        about = {"evenglot": __version__, "weights": fingerprint(checkpoint), "step": checkpoint.step}
        write_json(unfinished / MARKER, sealed({**about, "files": checksums(unfinished)}))
    return report


# ------------------------------------------------------------------------------------------------------- the model

POSITION_OFFSET = 2  # MBart's position 0 is row 2 of its embedding table
STACK_PARTS = {"embedding_norm": "layernorm_embedding", "final_norm": "layer_norm"}
LAYER_PARTS = {
    "self_attention_norm": ["self_attn_layer_norm"],
    "self_attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention.output": ["self_attn.out_proj"],
    "cross_attention_norm": ["encoder_attn_layer_norm"],
    "cross_attention.query": ["encoder_attn.q_proj"],
    "cross_attention.kv": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross_attention.output": ["encoder_attn.out_proj"],
    "feed_forward_norm": ["final_layer_norm"],
    "feed_forward.expand": ["fc1"],
    "feed_forward.contract": ["fc2"],
}


def _write_model(model: Transformer, folder: Path) -> None:
    write_json(folder / "config.json", _model_config(model.shape))
    write_json(folder / "generation_config.json", _generation_config(model.shape))
    write_tensors(folder / "model.safetensors", mbart_weights(model), {"format": "pt"})


def _model_config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["MBartForConditionalGeneration"],
        "model_type": "mbart",
        "is_encoder_decoder": True,
        "vocab_size": max(shape.source_pieces, shape.target_pieces),
        "d_model": shape.dim,
        "encoder_layers": shape.encoder_layers,
        "decoder_layers": shape.decoder_layers,
        "encoder_ffn_dim": shape.ffn,
        "decoder_ffn_dim": shape.ffn,
        "encoder_attention_heads": shape.heads,
        "decoder_attention_heads": shape.heads,
        "max_position_embeddings": shape.max_positions,
        "dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": shape.activation_dropout,
        "activation_function": "relu",
        "scale_embedding": True,
        "tie_word_embeddings": shape.share_embeddings,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "decoder_start_token_id": EOS,
        "forced_eos_token_id": None,  # MBart's default is a token of its own vocabulary
        "dtype": "float32",
    }


def _generation_config(shape: Shape) -> dict[str, Any]:
    """Default generation settings, equal to those of our beam search."""
    return {
        "decoder_start_token_id": EOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "num_beams": 5,
        "length_penalty": 1.0,
        "early_stopping": True,  # stop when five hypotheses are finished
        "max_length": shape.max_positions + 1,  # includes the </s> before the first subword
    }


def mbart_weights(model: Transformer) -> dict[str, Tensor]:
    """The weights of an equivalent MBart, by their MBart names."""
    shape = model.shape
    rows = max(shape.source_pieces, shape.target_pieces)  # MBart has one vocabulary size for both sides
    bias = torch.zeros(1, rows)
    bias[:, PAD] = bias[:, shape.target_pieces :] = RULED_OUT
    positions = torch.cat([torch.zeros(POSITION_OFFSET, shape.dim), model.positions.cpu()])
    weights = {"final_logits_bias": bias, **_embeddings(model, rows)}
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_positions.weight"] = positions
    for ours, weight in model.state_dict().items():
        if ours.startswith(("encoder.", "decoder.")):
            names = _names_in_stack(ours)
            weights.update(zip(names, weight.chunk(len(names)), strict=True))
    return {name: weight.detach().cpu().contiguous().clone() for name, weight in weights.items()}  # no shared memory


def _embeddings(model: Transformer, rows: int) -> dict[str, Tensor]:
    """Embedding weights: only `shared` if all are tied; otherwise `shared` is unused, but must be present."""
    target = _padded(model.target_embedding.weight, rows)
    if model.source_embedding is None:
        return {"model.shared.weight": target}
    return {
        "model.encoder.embed_tokens.weight": _padded(model.source_embedding.weight, rows),
        "model.decoder.embed_tokens.weight": target,
        "model.shared.weight": target,
        "lm_head.weight": target,
    }


def _padded(embedding: Tensor, rows: int) -> Tensor:
    return torch.nn.functional.pad(embedding, (0, 0, 0, rows - len(embedding)))


def _names_in_stack(ours: str) -> list[str]:
    """The names of the MBart weights that are stacked, in this order, in a weight of our encoder or decoder."""
    stack, rest = ours.split(".", 1)
    part, kind = rest.rsplit(".", 1)
    if part in STACK_PARTS:
        return [f"model.{stack}.{STACK_PARTS[part]}.{kind}"]
    _, number, part = part.split(".", 2)
    return [f"model.{stack}.layers.{number}.{name}.{kind}" for name in LAYER_PARTS[part]]


# --------------------------------------------------------------------------------------------------- the tokenizer


def _write_tokenizer(vocabularies: Mapping[Side, Vocabulary], max_positions: int, folder: Path) -> None:
    for side, (model_file, pieces_file) in VOCABULARIES.items():
        (folder / model_file).write_bytes(vocabularies[side].content)
        pieces = vocabularies[side].pieces
        write_json(folder / pieces_file, {pieces.id_to_piece(number): number for number in range(len(pieces))})
    about = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": True,  # also if they are equal, so that decoding always uses the target side's model
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "model_max_length": max_positions,
        "split_special_tokens": True,  # treat '</s>' in a text as text
        "clean_up_tokenization_spaces": False,  # keep spaces before punctuation as the model generated them
    }
    write_json(folder / "tokenizer_config.json", about)


# -------------------------------------------------------------------------------------------------- the comparison


@dataclass(frozen=True)
class _Sentence:
    tagged: str  # '>>por<< Olá', the input for transformers
    ids: list[int]  # the input of our own model


def _validation_sentences(
    config: Config, pieces: sentencepiece.SentencePieceProcessor, longest: int
) -> list[_Sentence]:
    """Up to SAMPLE sentences from all directions; none if the store is missing."""
    sentences = (
        _Sentence(f"{name} {line}", [pieces.piece_to_id(name), *pieces.encode(line), EOS])
        for name, line in tagged_sentences(config)
    )
    return list(islice((sentence for sentence in sentences if len(sentence.ids) <= longest), SAMPLE))


@dataclass(frozen=True, eq=False)
class _Exported:
    """The exported folder, loaded with transformers."""

    tokenizer: Any
    model: Any

    @classmethod
    def load(cls, transformers: Any, folder: Path) -> _Exported:
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        return cls(transformers.AutoTokenizer.from_pretrained(folder), model)

    def greedy(self, source: Tensor, mask: Tensor, longest: int) -> list[list[int]]:
        """Greedy translations in our format: ids without </s>."""
        found = self.model.generate(
            input_ids=source, attention_mask=mask, num_beams=1, do_sample=False, max_length=longest + 1
        )
        lines = (line[1:] for line in found.tolist())  # the first id is the </s> that starts decoding
        return [line[: line.index(EOS)] if EOS in line else line for line in lines]

    def logits(self, source: Tensor, mask: Tensor, seen: Tensor) -> Tensor:
        """Logits after each prefix of `seen`."""
        logits: Tensor = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=seen).logits
        return logits


def _compare(exported: _Exported, model: Transformer, sentences: Sequence[_Sentence], folder: Path) -> Report:
    """Compare both models; ValueError if they differ."""
    for sentence in sentences:
        if exported.tokenizer(sentence.tagged)["input_ids"] != sentence.ids:
            raise ValueError(f"{folder}: not written: the exported tokenizer encodes {sentence.tagged!r} differently")
    identical, difference = 0, 0.0
    for first in range(0, len(sentences), BATCH):
        same, apart = _compare_batch(exported, model, [sentence.ids for sentence in sentences[first : first + BATCH]])
        identical, difference = identical + same, max(difference, apart)
    report = Report(folder, len(sentences), identical, difference)
    report.refuse_difference()
    return report


@torch.inference_mode()
def _compare_batch(exported: _Exported, model: Transformer, sources: list[list[int]]) -> tuple[int, float]:
    """The number of identical greedy translations, and the largest difference of logits along ours."""
    lengths = torch.tensor([len(ids) for ids in sources])
    source = _rectangle(sources)
    mask = (source != PAD).long()
    longest = min(LONGEST, model.shape.max_positions)
    ours = greedy(model, source, lengths, longest)
    theirs = exported.greedy(source, mask, longest)
    seen = _rectangle([[EOS, *pieces][:longest] for pieces in ours])
    expected = model.decode(seen, model.encode(source, lengths)) @ model.output_embedding.T
    apart = (exported.logits(source, mask, seen)[:, :, : expected.size(2)] - expected).abs()
    apart[:, :, PAD] = 0  # excluded by the bias there, and by our search
    same = sum(left == right for left, right in zip(ours, theirs, strict=True))
    return same, float(apart[seen != PAD].max())


def _rectangle(sentences: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor(list(zip(*zip_longest(*sentences, fillvalue=PAD), strict=True)))
