"""Source and target vocabularies, learned, given or copied from a pretrained model, as an artefact of the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from evenglot.config import Config
from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import key_of
from evenglot.corpus.clean import Scan
from evenglot.corpus.given import given_hash, given_models
from evenglot.corpus.identity import digest_of, identity
from evenglot.corpus.pretrained import (
    PretrainedTokenizers,
    copy_tokenizer,
    coverage_by_language,
    refuse_long_limit,
    tokenizer_hash,
)
from evenglot.corpus.read import CorpusError, read_some
from evenglot.corpus.survey import rules_of, training_files
from evenglot.corpus.vocabulary import (
    TRAINING_THREADS,
    Text,
    coverage_sample,
    describe_models,
    learn_vocabularies,
    piece_type,
)
from evenglot.directions import SIDES, Direction, Side, tag, tag_kind
from evenglot.files import digest
from evenglot.processor import cores
from evenglot.progress import WORTH_A_LINE, Bars
from evenglot.wording import duration

SECONDS_TO_LEARN = {"unigram": 5e-6, "bpe": 0.4e-6}  # CPU time per character of the sample, measured


def make_vocabulary(config: Config, root: Path, scans: dict[str, Scan], bars: Bars) -> Path:
    """Source and target vocabularies, as an artefact that also says how they serve each language."""
    directions = config.data.corpora
    texts, learned_from = [], {}
    for direction in directions:
        files = training_files(config, direction)
        kept = scans[direction.name].kept(rules_of(config))
        if not kept.any():
            raise CorpusError(f"{files[0][0]}: cleaning leaves no training pair; see `evenglot check`")
        learned_from[direction.name] = [identity(files), digest_of(kept)]
        for position, language in enumerate((direction.src, direction.tgt)):
            side = [sides[position] for sides in files]
            texts.append(Text(language, SIDES[position], kept, partial(read_some, side)))
    if (given := given_models(config, _tags(directions))) is not None:
        return _given_vocabulary(config, root, given, texts, learned_from)
    if config.model.init is not None:
        return _pretrained_vocabulary(config, root, texts, learned_from)
    settings = config.vocabulary.model_dump(exclude={"given"})
    order = list(learned_from.items())  # the sample depends on it
    key = key_of(settings, order, *filter(None, [_corpus_tags(directions)]))

    def build(folder: Path) -> dict[str, Any]:
        sentences, most = sum(map(len, texts)) // 2, config.vocabulary.sample
        if most is not None and sentences > most:
            bars.note(
                f"vocabulary.sample: learning from {most:,} of {sentences:,} sentences on each side; null uses all"
            )
        seconds = _seconds_to_learn(config, scans)
        about_time = f" (about {duration(seconds)})" if seconds > WORTH_A_LINE else ""
        with bars.task(f"learning vocabularies{about_time}", None):
            models, about = learn_vocabularies(texts, config.vocabulary, _tags(directions))
        return {**about, **_write_models(folder, models, directions)}

    return artefacts.make(root, "vocabulary", key, build)


def _write_models(folder: Path, models: Mapping[Side, bytes], directions: Iterable[Direction]) -> dict[str, Any]:
    """Write SentencePiece models; what the manifest says about their content."""
    for side, model in models.items():
        (folder / f"{side}.model").write_bytes(model)
    hashes = {side: digest(model) for side, model in models.items()}
    return {"hash": hashes, "tags": _tags(directions), "tag_side": tag_kind(directions)}


def _given_vocabulary(
    config: Config, root: Path, models: Mapping[Side, bytes], texts: list[Text], learned_from: dict[str, Any]
) -> Path:
    """The vocabularies of another run or folder, as an artefact like learned ones."""
    directions, given = config.data.corpora, given_hash(config)

    def build(folder: Path) -> dict[str, Any]:
        about = describe_models(models, texts)
        kind = "joint" if models["source"] == models["target"] else "separate"
        own = {"kind": kind, "asked": about["pieces"], "given": given}
        return {**own, **about, **_write_models(folder, models, directions)}

    return artefacts.make(root, "vocabulary", key_of("given", given, _tags(directions), learned_from), build)


def _seconds_to_learn(config: Config, scans: dict[str, Scan]) -> float:
    """A rough estimate from the size of the sample: SentencePiece does not say how far it has come."""
    characters, pairs = sum(sum(scan.characters) for scan in scans.values()), sum(map(len, scans.values()))
    most = config.vocabulary.sample
    sampled = 1.0 if most is None else min(1.0, most / max(pairs, 1))
    return SECONDS_TO_LEARN[config.vocabulary.model] * characters * sampled / min(cores(), TRAINING_THREADS)


def _pretrained_vocabulary(config: Config, root: Path, texts: list[Text], learned_from: dict[str, Any]) -> Path:
    """A copy of the tokenizer of a pretrained model, which learns nothing, as an artefact like a vocabulary."""
    init, codes = Path(config.model.init or ""), dict(sorted(config.data.codes.items()))
    tokenizers = PretrainedTokenizers(init, tuple(codes.items()))
    frames = {direction.name: tokenizers.frames(direction) for direction in config.data.corpora}  # or an error
    refuse_long_limit(tokenizers.config, config.clean.max_pieces, [*chain(*frames.values())])
    hashed = tokenizer_hash(init)

    def build(folder: Path) -> dict[str, Any]:
        copy_tokenizer(init, folder)
        pieces = dict.fromkeys(SIDES, tokenizers.config.pieces)
        return {
            "kind": "pretrained",
            "asked": pieces,
            "pieces": pieces,
            "dtype": {side: piece_type(number) for side, number in pieces.items()},
            "coverage": coverage_by_language(tokenizers, coverage_sample(texts)),
            "hash": dict.fromkeys(SIDES, hashed),
            "tags": [list(pair) for pair in codes.items()],
        }

    return artefacts.make(root, "vocabulary", key_of("pretrained", hashed, codes, learned_from), build)


def _tags(directions: Iterable[Direction]) -> list[str]:
    directions = list(directions)
    kind = tag_kind(directions)
    return sorted({tag(direction, kind) for direction in directions}) + _corpus_tags(directions)


def _corpus_tags(directions: Iterable[Direction]) -> list[str]:
    return sorted({direction.corpus_tag for direction in directions if direction.corpus_tag is not None})
