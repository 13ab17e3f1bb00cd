"""Models for CTranslate2: the weights of a run in its format, checked against torch, and an engine that runs them.

FOLDER/model.bin, config.json, *_vocabulary.json     what CTranslate2 reads
FOLDER/source.model, target.model                    SentencePiece: from text to pieces and back
FOLDER/translate.py, README.md                       how to use it, without evenglot
FOLDER/evenglot.json                                 where it comes from; also the sign that an export wrote the folder
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from evenglot.config import Config
from evenglot.corpus.vocabulary import SIDES
from evenglot.directions import Direction, tag, tag_kind
from evenglot.export.sample import tagged_sentences
from evenglot.files import finished_folder, write_json
from evenglot.model.search import Hypothesis, beam_search, force
from evenglot.model.transformer import (
    END,
    PAD,
    CrossAttention,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    SelfAttention,
    Transformer,
)
from evenglot.training.checkpoint import Checkpoint, fingerprint
from evenglot.training.run import Run, load_model

Quantization = Literal["float32", "float16", "bfloat16", "int16", "int8"]

ABOUT = "evenglot.json"
WRITTEN = {ABOUT, "README.md", "translate.py", "source.model", "target.model", "model.bin", "config.json"} | {
    f"{side}_vocabulary.json" for side in ("source", "target", "shared")
}
RULED_OUT = -1e4  # bias of <pad> in the output layer: the softmax leaves it out, as evenglot.model.search does
BATCH = 32  # sentences that are translated together
SAMPLE = 50  # sentences on which an export is checked
TOLERANCE = 1e-4  # how far scores of the two engines may be apart in float32
BEAM, LENGTH_PENALTY, MAX_LENGTH = 5, 1.0, 200  # in the check and in translate.py


# ------------------------------------------------------------------------------------------------------- convert


def convert(
    model: Transformer,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write a model into a folder that is there, in the format of CTranslate2; pieces are in the order of their ids.

    `quantization`: a type of CTranslate2 for the weights; None leaves them in float32. Whoever uses the model gives
    source sentences complete, with their tag and </s>.
    """
    _check_pieces("source", source_pieces, model.shape.source_pieces)
    _check_pieces("target", target_pieces, model.shape.target_pieces)
    spec = _spec_of(model)
    spec.register_source_vocabulary(list(source_pieces))
    spec.register_target_vocabulary(list(target_pieces))
    spec.validate()
    spec.optimize(quantization)  # also finds weights that are the same, and stores them once
    spec.save(str(folder))


def _check_pieces(side: str, pieces: Sequence[str], expected: int) -> None:
    """CTranslate2 finds pieces by name: each must have one of its own."""
    if len(pieces) != expected:
        raise ValueError(f"{side} pieces: the model has {expected}, the vocabulary {len(pieces)}")
    if len(set(pieces)) != len(pieces):
        raise ValueError(f"{side} pieces: some are there twice")
    if pieces[END] != "</s>":
        raise ValueError(f"{side} pieces: expected </s> to be number {END}, found {pieces[END]!r}")


def _spec_of(model: Transformer) -> Any:
    """The model in CTranslate2's terms, but for the vocabularies."""
    shape = model.shape
    layers = (shape.encoder_layers, shape.decoder_layers)
    specs = package().specs
    spec = specs.TransformerSpec.from_config(layers, shape.heads, pre_norm=True, layernorm_embedding=True)
    source = model.target_embedding if model.source_embedding is None else model.source_embedding
    spec.encoder.embeddings[0].weight = _array(source.weight)
    spec.decoder.embeddings.weight = _array(model.target_embedding.weight)
    spec.decoder.projection.weight = _array(model.output_embedding)
    spec.decoder.projection.bias = np.zeros(shape.target_pieces, dtype=np.float32)
    spec.decoder.projection.bias[PAD] = RULED_OUT
    _fill_side(spec.encoder, model.encoder, model.positions)
    _fill_side(spec.decoder, model.decoder, model.positions)
    spec.config.add_source_eos = False
    spec.config.decoder_start_token = spec.config.bos_token = spec.config.eos_token = "</s>"
    spec.config.unk_token = "<unk>"
    spec.config.layer_norm_epsilon = model.encoder.final_norm.eps
    return spec


def _fill_side(spec: Any, side: Encoder | Decoder, positions: Tensor) -> None:
    spec.scale_embeddings = True
    spec.position_encodings.encodings = _array(positions)
    _fill_norm(spec.layernorm_embedding, side.embedding_norm)
    _fill_norm(spec.layer_norm, side.final_norm)
    for layer_spec, layer in zip(spec.layer, side.layers, strict=True):
        assert isinstance(layer, EncoderLayer | DecoderLayer)  # for mypy
        _fill_self_attention(layer_spec.self_attention, layer.self_attention_norm, layer.self_attention)
        if isinstance(layer, DecoderLayer):
            _fill_cross_attention(layer_spec.attention, layer.cross_attention_norm, layer.cross_attention)
        _fill_feed_forward(layer_spec.ffn, layer.feed_forward_norm, layer.feed_forward)


def _fill_self_attention(spec: Any, norm: nn.LayerNorm, attention: SelfAttention) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear[0], attention.qkv)  # rows in the same order: queries, keys, values
    _fill_linear(spec.linear[1], attention.output)


def _fill_cross_attention(spec: Any, norm: nn.LayerNorm, attention: CrossAttention) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear[0], attention.query)
    _fill_linear(spec.linear[1], attention.kv)
    _fill_linear(spec.linear[2], attention.output)


def _fill_feed_forward(spec: Any, norm: nn.LayerNorm, layer: FeedForward) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear_0, layer.expand)
    _fill_linear(spec.linear_1, layer.contract)


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _fill_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """A copy: conversion to int8 overwrites what it is given."""
    copied: NDArray[np.float32] = tensor.detach().cpu().float().numpy().copy()
    return copied


# --------------------------------------------------------------------------------------------------------- engine


class CTranslate2Engine:
    """Translates with an exported folder: ids in, ids out, as `beam_search` does it."""

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        about = _read_about(folder)
        if about is None:
            raise ValueError(f"{folder}: not an export for CTranslate2 (it has no {ABOUT} that says so)")
        self.max_positions: int = about["max_positions"]
        self._source, target = (_pieces_of(_vocabulary(folder, side)) for side in SIDES)
        self._target_ids = {piece: i for i, piece in enumerate(target)}
        self._translator = package().Translator(str(folder), device="cpu", intra_threads=threads or 0)

    def translate(
        self, sources: list[list[int]], *, beam: int, length_penalty: float, max_length: list[int], n_best: int
    ) -> list[list[Hypothesis]]:
        """The `n_best` translations of each sentence, the best score first.

        Source sentences have their tag and </s>. `max_length`: how many pieces the translation of each gets at most.
        """
        self._check(sources, max_length)
        rows_of: dict[int, list[int]] = {}  # by limit: CTranslate2 has one for all sentences of a call
        for row, limit in enumerate(max_length):
            rows_of.setdefault(min(limit, self.max_positions), []).append(row)
        found: dict[int, list[Hypothesis]] = {}
        for limit, rows in rows_of.items():
            results = self._translator.translate_batch(
                [[self._source[piece] for piece in sources[row]] for row in rows],
                beam_size=beam,
                length_penalty=length_penalty,
                num_hypotheses=n_best,
                max_decoding_length=limit,
                min_decoding_length=0,
                max_input_length=0,  # never cut
                max_batch_size=BATCH,
                return_scores=True,
                return_end_token=True,  # shows whether a translation has ended or was cut
            )
            for row, result in zip(rows, results, strict=True):
                scored = zip(result.hypotheses, result.scores, strict=True)
                found[row] = [self._hypothesis(said, score, length_penalty) for said, score in scored]
        return [found[row] for row in range(len(sources))]

    def _check(self, sources: list[list[int]], max_length: list[int]) -> None:
        if len(max_length) != len(sources):
            raise ValueError(f"max_length: expected one for each of {len(sources)} sentences, got {len(max_length)}")
        if min(max_length, default=1) < 1:
            raise ValueError(f"max_length: expected at least 1, got {min(max_length)}")
        longest = max(map(len, sources), default=0)
        if longest > self.max_positions:
            raise ValueError(f"source: {longest} pieces are more than the model's {self.max_positions} positions")

    def _hypothesis(self, said: list[str], score: float, length_penalty: float) -> Hypothesis:
        pieces = [self._target_ids[piece] for piece in said]
        ended = pieces[-1] == END
        return Hypothesis(pieces[:-1] if ended else pieces, score, score * len(pieces) ** length_penalty, ended)


def _read_about(folder: Path) -> dict[str, Any] | None:
    """What `export` wrote of itself; None if it did not write this folder."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) and about.get("format") == "ctranslate2" else None


def _vocabulary(folder: Path, side: str) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.model"))


def _pieces_of(vocabulary: sentencepiece.SentencePieceProcessor) -> list[str]:
    """By their ids."""
    return [vocabulary.id_to_piece(i) for i in range(len(vocabulary))]


def package() -> Any:
    """CTranslate2, which not everybody has."""
    try:
        return importlib.import_module("ctranslate2")
    except ModuleNotFoundError as error:
        raise ValueError('CTranslate2 is not installed: pip install "evenglot[ct2]"') from error


# --------------------------------------------------------------------------------------------------------- export


@dataclass(frozen=True)
class Report:
    """How the exported model's translations of some sentences compare with those of torch."""

    compared: int = 0  # 0: there was nothing to compare
    identical: int = 0
    ties: int = 0  # other translations, to which torch gives the same score
    largest_score_difference: float = 0.0  # among the identical ones

    @property
    def different(self) -> int:
        """Neither identical nor ties."""
        return self.compared - self.identical - self.ties

    def __str__(self) -> str:
        if not self.compared:
            return "not compared with torch: there is no store with validation text, and no sentences were given"
        ties = f"{self.ties} ties, " if self.ties else ""
        return (
            f"{self.compared} sentences translated with torch and CTranslate2: {self.identical} identical, {ties}"
            f"{self.different} different; scores of the identical within {self.largest_score_difference:.1g}"
        )


def export(
    run: Run,
    folder: Path,
    quantization: Quantization = "float32",
    sentences: Mapping[str, Sequence[str]] | None = None,
) -> Report:
    """Write the best model of a run, its vocabularies and an example of use into a folder of their own.

    Before the folder gets its name, validation sentences of the run's store are translated with torch and CTranslate2.
    Where there is no store, `sentences` are, by the name of their direction. In float32 both must agree: otherwise
    ValueError, and nothing is written. With fewer bits they need not; the report says how far they do.
    """
    package()  # complain before the work begins
    if quantization not in get_args(Quantization):
        raise ValueError(f"quantization: expected one of {', '.join(get_args(Quantization))}, got {quantization!r}")
    folder = folder.resolve()
    _refuse_if_taken(folder)
    config, chosen = run.config(), run.best()
    model = load_model(chosen)
    source = _vocabulary(run.vocabulary, "source")
    sample = list(islice(tagged_sentences(config, sentences), SAMPLE))
    sources = [_encode(source, piece, text, model.shape.max_positions) for piece, text in sample]
    with finished_folder(folder) as unfinished:
        about = _write_model(run, config, chosen, model, quantization, unfinished)
        report = compare(model, CTranslate2Engine(unfinished, torch.get_num_threads()), sources)
        if quantization == "float32":
            _refuse_disagreement(report, folder)
        (unfinished / "translate.py").write_text(_script(about), encoding="utf-8")
        (unfinished / "README.md").write_text(_readme(about, report), encoding="utf-8")
    return report


def converted(run: Run, chosen: Checkpoint, model: Transformer, quantization: Quantization = "float32") -> Path:
    """The folder of a checkpoint's model in CTranslate2's format; made on first use, and kept in the run's folder."""
    folder = run.folder / "ctranslate2" / f"{quantization}-{fingerprint(chosen)}"
    if _read_about(folder) is None:
        folder.parent.mkdir(exist_ok=True)
        with finished_folder(folder) as unfinished:
            _write_model(run, run.config(), chosen, model, quantization, unfinished)
    return folder


def _write_model(
    run: Run, config: Config, chosen: Checkpoint, model: Transformer, quantization: Quantization, folder: Path
) -> dict[str, Any]:
    """All that the engine needs; what is to be known about it."""
    source, target = (_vocabulary(run.vocabulary, side) for side in SIDES)
    convert(model, _pieces_of(source), _pieces_of(target), folder, quantization)
    for side in SIDES:
        shutil.copy(run.vocabulary / f"{side}.model", folder)
    about = _about(config.data.directions, model.shape.max_positions, quantization, run, chosen.step)
    write_json(folder / ABOUT, about)
    return about


def _refuse_if_taken(folder: Path) -> None:
    """An older export is replaced; nothing else is."""
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        if not names or (names <= WRITTEN and _read_about(folder) is not None):
            return
    elif not folder.exists():
        return
    raise ValueError(f"{folder}: has something in it that no export wrote; choose another folder")


def _about(
    directions: Iterable[Direction], max_positions: int, quantization: str, run: Run, step: int
) -> dict[str, Any]:
    """What is to be known of an exported model."""
    directions = list(directions)
    side = tag_kind(directions)
    return {
        "format": "ctranslate2",
        "quantization": quantization,
        "directions": [direction.name for direction in directions],
        "tag_side": side,
        "tags": sorted({tag(direction, side) for direction in directions}),
        "max_positions": max_positions,
        "run": run.folder.resolve().name,
        "step": step,
    }


# ------------------------------------------------------------------------------------------- compared with torch


def compare(model: Transformer, engine: CTranslate2Engine, sources: list[list[int]]) -> Report:
    """Translate source sentences, complete with tag and </s>, with both."""
    ours = list(chain.from_iterable(_with_torch(model, sources[i : i + BATCH]) for i in range(0, len(sources), BATCH)))
    limits = [MAX_LENGTH] * len(sources)
    theirs = engine.translate(sources, beam=BEAM, length_penalty=LENGTH_PENALTY, max_length=limits, n_best=1)
    pairs = [(source, mine, other[0]) for source, mine, other in zip(sources, ours, theirs, strict=True)]
    identical = [(mine, other) for _, mine, other in pairs if mine.pieces == other.pieces]
    ties = sum(_is_tie(model, *pair) for pair in pairs if pair[1].pieces != pair[2].pieces)
    differences = [abs(mine.score - other.score) for mine, other in identical]
    return Report(len(sources), len(identical), ties, max(differences, default=0.0))


def _with_torch(model: Transformer, sources: list[list[int]]) -> list[Hypothesis]:
    lengths = torch.tensor([len(source) for source in sources])
    padded = pad_sequence([torch.tensor(source) for source in sources], batch_first=True, padding_value=PAD)
    found = beam_search(
        model, padded, lengths, beam=BEAM, length_penalty=LENGTH_PENALTY, max_length=MAX_LENGTH, patience=1
    )
    return [best for best, *_ in found]


def _is_tie(model: Transformer, source: list[int], mine: Hypothesis, other: Hypothesis) -> bool:
    """Does torch, too, find the other translation as good as its own?"""
    if not other.ended:
        return False
    (log_p,) = force(model, torch.tensor([source]), torch.tensor([len(source)]), [other.pieces])
    score: float = log_p / (len(other.pieces) + 1) ** LENGTH_PENALTY
    return abs(score - mine.score) <= TOLERANCE


def _refuse_disagreement(report: Report, folder: Path) -> None:
    if 100 * report.different > report.compared or report.largest_score_difference > TOLERANCE:
        raise ValueError(f"{folder}: not written, because CTranslate2 does not do what torch does: {report}")


def _encode(vocabulary: sentencepiece.SentencePieceProcessor, piece: str, text: str, longest: int) -> list[int]:
    """Ids with tag and </s>; cut, if the model has no position for all of them."""
    first = vocabulary.piece_to_id(piece)
    if first == vocabulary.unk_id():
        raise ValueError(f"{piece}: this model has no such tag")
    return [first, *vocabulary.encode(text)[: longest - 2], END]


# -------------------------------------------------------------------------------------------- for those who use it

SCRIPT = '''\
"""Translate the lines of a text: python translate.py LANGUAGE < text > translation"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

here = Path(__file__).resolve().parent
source = sentencepiece.SentencePieceProcessor(model_file=str(here / "source.model"))
target = sentencepiece.SentencePieceProcessor(model_file=str(here / "target.model"))
tag = f">>{{sys.argv[1]}}<<" if len(sys.argv) > 1 else ""  # names the {side} language: see README.md
if tag not in {tags}:
    sys.exit("Which {side} language? One of {languages}: python translate.py LANGUAGE < text > translation")
sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")

# By way of ids, so that text that looks like a tag is not taken for one. The model can read {longest} pieces.
lines = [source.id_to_piece(source.encode(line)[:{longest}]) for line in sys.stdin]
translator = ctranslate2.Translator(str(here))
results = translator.translate_batch(
    [[tag, *pieces, "</s>"] for pieces in lines],
    beam_size={beam}, length_penalty={length_penalty}, max_batch_size={batch},
    max_decoding_length={max_length}, min_decoding_length=0,
)
for pieces, result in zip(lines, results):
    print(target.decode(result.hypotheses[0]) if pieces else "")
'''

README = """\
# {run}: a translation model for CTranslate2

Made by evenglot from update {step} of the run `{run}`; weights in {quantization}.

It translates {directions}.

## Use

    pip install ctranslate2 sentencepiece
    python translate.py {example} < text > translation

`translate.py` is short: read it to call the model from your own program.

## The tag

Every source sentence begins with a tag that names its {side} language, one of {tags}, and ends with `</s>`:

    {example_tag} ▁pieces ▁of ▁the ▁sentence </s>

The tag is a piece of its own. Put it in front of the pieces that SentencePiece (`source.model`) makes of a sentence;
within the text it means nothing. The model reads at most {max_positions} pieces at a time, tag and `</s>` included.

## Check

{check}

## Licence

Not stated. Whoever shares this model says so here; the text it was trained on may set conditions.
"""


def _languages(about: Mapping[str, Any]) -> list[str]:
    """The languages that tags name."""
    return [name.removeprefix(">>").removesuffix("<<") for name in about["tags"]]


def _script(about: Mapping[str, Any]) -> str:
    return SCRIPT.format(
        side=about["tag_side"],
        tags=about["tags"],
        languages=", ".join(_languages(about)),
        longest=about["max_positions"] - 2,
        beam=BEAM,
        length_penalty=LENGTH_PENALTY,
        max_length=min(MAX_LENGTH, about["max_positions"]),
        batch=BATCH,
    )


def _readme(about: Mapping[str, Any], report: Report) -> str:
    check = str(report)
    return README.format(
        run=about["run"],
        step=about["step"],
        quantization=about["quantization"],
        directions=", ".join(about["directions"]),
        side=about["tag_side"],
        tags=", ".join(f"`{name}`" for name in about["tags"]),
        example=_languages(about)[0],
        example_tag=about["tags"][0],
        max_positions=about["max_positions"],
        check=f"{check[0].upper()}{check[1:]}.",
    )
