"""SentencePiece vocabularies, trained on a temperature-balanced sample, and their coverage of each language."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from evenglot.balance.static import temperature
from evenglot.config import VocabularySettings
from evenglot.corpus.read import CorpusError
from evenglot.directions import SIDES, Side
from evenglot.seeding import generator
from evenglot.symbols import EOS, PAD, UNK

TRAINING_THREADS = 4  # fixed, because the learned vocabulary depends on it
COVERAGE_SAMPLE = 2000  # sentences of a corpus used to measure coverage
MAX_COVERAGE_SAMPLE = 20_000  # of all corpora of a language
ENGLISH = frozenset({"en", "eng"})
MAX_OVERSAMPLING = 1.5  # maximum length of the sample relative to the corpus (as in the paper's scripts)


def train_vocabulary(
    sentences: Iterable[str],
    *,
    size: int,
    tags: Sequence[str],
    model: Literal["unigram", "bpe"] = "unigram",
    character_coverage: float = 1.0,
) -> bytes:
    """A SentencePiece model, as the bytes of its file. Ids: </s> 0, <unk> 1, <pad> 2, then tags, then subwords.

    Tags are control symbols, so text that contains one is not mistaken for it. A unigram vocabulary is smaller than
    `size` if the text yields no more subwords. Sentences over 4 KB are skipped.
    """
    file = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=file,
            model_type=model,
            vocab_size=size,
            character_coverage=character_coverage,
            eos_id=EOS,
            unk_id=UNK,
            pad_id=PAD,
            bos_id=-1,
            control_symbols=list(tags),
            hard_vocab_limit=model == "bpe",
            num_threads=TRAINING_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise CorpusError(f"vocabulary: {_explain(str(error), size)}") from error
    return file.getvalue()


def _explain(message: str, size: int) -> str:
    """SentencePiece's errors, with advice. All are RuntimeErrors: only their text tells them apart."""
    if found := re.search(r"value <= (\d+)", message):
        return f"the text yields fewer than {size} subwords; set at most {found[1]}"
    if found := re.search(r"smaller than required_chars. (\d+) vs (\d+)", message):
        return f"{size} subwords cannot cover the text's {found[2]} characters; use more, or lower character_coverage"
    return message.split("\n")[0]


@dataclass(frozen=True)
class Coverage:
    """How well a vocabulary covers a language, measured on a sample of its sentences."""

    unknown: float  # share of tokens that are <unk>
    pieces_per_word: float
    characters: float  # share of the distinct characters that are in the vocabulary
    piece_length: float  # characters per subword
    alphabet: int  # distinct characters

    @property
    def starved(self) -> bool:
        """Is the coverage poor? Scripts with many characters naturally have short subwords."""
        spelt_out = self.piece_length < 1.5 and self.alphabet < 300
        return self.unknown > 0.001 or self.characters < 0.95 or spelt_out


def coverage(model: sentencepiece.SentencePieceProcessor, sentences: Sequence[str]) -> Coverage:
    """Unknown rate, subwords per word and character coverage on these sentences."""
    ids = model.encode(list(sentences))
    pieces = sum(map(len, ids))
    unknown = sum(line.count(UNK) for line in ids)
    words = sum(len(sentence.split()) for sentence in sentences)
    alphabet = set("".join(model.normalize(list(sentences)))) - {" ", "▁"}
    known = sum(not model.is_unknown(model.piece_to_id(character)) for character in alphabet)
    letters = sum(len(sentence.replace(" ", "")) for sentence in sentences)
    return Coverage(
        unknown=unknown / max(pieces, 1),
        pieces_per_word=pieces / max(words, 1),
        characters=known / max(len(alphabet), 1),
        piece_length=letters / max(pieces, 1),
        alphabet=len(alphabet),
    )


def piece_characters(model: sentencepiece.SentencePieceProcessor) -> NDArray[np.int64]:
    """The number of characters of each subword: one for <unk>, none for tags and </s>."""
    return np.array(
        [1 if i == UNK else 0 if model.is_control(i) else len(model.id_to_piece(i)) for i in range(len(model))]
    )


# ---------------------------------------------------------------------------------------------- training sample


@dataclass(frozen=True, eq=False)
class Text:
    """One side of a training corpus: its language, a mask of the kept sentences, and how to read some of them."""

    language: str
    side: Side
    kept: NDArray[np.bool_]
    read: Callable[[NDArray[np.int64]], Iterable[str]]  # sentences by their positions, in ascending order

    def __len__(self) -> int:
        return int(np.count_nonzero(self.kept))

    def pick(self, chosen: NDArray[Any] | slice) -> Iterable[str]:
        """Some of the kept sentences, in their order."""
        return self.read(np.flatnonzero(self.kept)[chosen])


def learn_vocabularies(
    texts: Sequence[Text], settings: VocabularySettings, tags: Sequence[str]
) -> tuple[dict[Side, bytes], dict[str, Any]]:
    """The models of the source and the target side, and their coverage of each language.

    Joint: one model for both sides, from a temperature-balanced sample of all languages. Separate: one model for the
    side that all directions share (usually English), sampled proportionally, and one for all other languages, balanced.
    """
    if settings.kind == "joint":
        asked = dict.fromkeys(SIDES, settings.size_joint)
        joint = _learn(texts, settings.size_joint, settings.tau, settings, tags)
        models = dict.fromkeys(SIDES, joint)
    else:
        shared = _shared_side(texts)
        asked = {side: settings.size_shared if side == shared else settings.size_other for side in SIDES}
        models = {
            side: _learn(
                [text for text in texts if text.side == side],
                asked[side],
                1.0 if side == shared else settings.tau,
                settings,
                tags,
            )
            for side in SIDES
        }
    return models, {"kind": settings.kind, "asked": asked, **describe_models(models, texts)}


def describe_models(models: Mapping[Side, bytes], texts: Sequence[Text]) -> dict[str, Any]:
    """The sizes of vocabularies, and their coverage of each language."""
    processors = {side: sentencepiece.SentencePieceProcessor(model_proto=model) for side, model in models.items()}
    served: dict[str, dict[str, float]] = {}
    for language, side, sample in coverage_sample(texts):
        served[f"{language} ({side})"] = asdict(coverage(processors[side], sample))
    return {
        "pieces": {side: len(processor) for side, processor in processors.items()},
        "dtype": {side: piece_type(len(processor)) for side, processor in processors.items()},
        "coverage": served,
    }


def coverage_sample(texts: Sequence[Text]) -> Iterator[tuple[str, Side, list[str]]]:
    """Sentences of each language and side, on which coverage is measured."""
    for language, side in dict.fromkeys((text.language, text.side) for text in texts):
        mine = [text for text in texts if (text.language, text.side) == (language, side)]
        first = slice(min(COVERAGE_SAMPLE, max(MAX_COVERAGE_SAMPLE // len(mine), 1)))
        yield language, side, [sentence for text in mine for sentence in text.pick(first)]


def piece_type(pieces: int) -> str:
    """The type in which the store keeps ids."""
    return "uint16" if pieces <= 1 << 16 else "uint32"


def _shared_side(texts: Sequence[Text]) -> Side:
    """The side with one language in all directions; for a single direction, the English side if there is one."""
    languages = {side: {text.language for text in texts if text.side == side} for side in SIDES}
    if len(languages["target"]) > 1 or (len(languages["source"]) == 1 and languages["source"] & ENGLISH):
        return "source"
    return "target"


def _learn(texts: Sequence[Text], size: int, tau: float, settings: VocabularySettings, tags: Sequence[str]) -> bytes:
    sample = balanced_sample(texts, tau, settings.sample, settings.seed)
    return train_vocabulary(
        sample, size=size, tags=tags, model=settings.model, character_coverage=settings.character_coverage
    )


def balanced_sample(texts: Sequence[Text], tau: float, most: int | None, seed: int) -> list[str]:
    """Sentences, `most` if given, with languages in proportion to size^(1/tau), and texts of a language by size.

    Small languages are repeated, until the largest is exhausted or the sample is 1.5 times as long as the text.
    """
    languages = sorted({text.language for text in texts})
    sizes = {language: sum(len(text) for text in texts if text.language == language) for language in languages}
    shares = dict(zip(languages, temperature(list(sizes.values()), tau).tolist(), strict=True))
    largest = max(languages, key=sizes.__getitem__)
    total = min(most or math.inf, MAX_OVERSAMPLING * sum(sizes.values()), sizes[largest] / shares[largest])
    sample: list[str] = []
    for number, text in enumerate(texts):
        wanted = round(total * shares[text.language] * len(text) / sizes[text.language])
        times = repetitions(len(text), wanted, generator(seed, "vocabulary", number))
        chosen = np.flatnonzero(times)
        for sentence, count in zip(text.pick(chosen), times[chosen].tolist(), strict=True):
            sample += [sentence] * count
    # Shuffled, because SentencePiece's time is quadratic in the length of repeated stretches of text.
    return [sample[i] for i in generator(seed, "vocabulary").permutation(len(sample))]


def repetitions(size: int, wanted: int, random: np.random.Generator) -> NDArray[np.int64]:
    """How often each of `size` sentences is in a sample of `wanted`: all equally often, some once more."""
    whole, rest = divmod(wanted, size)
    times = np.full(size, whole, dtype=np.int64)
    times[random.choice(size, rest, replace=False)] += 1
    return times
