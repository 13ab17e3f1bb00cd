"""The tokenizer of a pretrained checkpoint, as it is: its ids, language codes and special tokens.

What stands around a sentence is read off the tokenizer's own output, so that batches equal those of transformers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.artefacts import key_of
from evenglot.corpus.frames import Frame
from evenglot.corpus.vocabulary import Coverage
from evenglot.directions import Direction, Side
from evenglot.extras import import_transformers, quiet
from evenglot.files import digest
from evenglot.model.families import CONFIG, PretrainedConfig, PretrainedError, read_config
from evenglot.symbols import Symbols
from evenglot.wording import did_you_mean, one_line

# Files of the tokenizers of all families: at least one of the first is needed.
VOCABULARIES = ("tokenizer.json", "sentencepiece.bpe.model", "spiece.model", "source.spm")
OTHERS = (
    *("target.spm", "vocab.json", "target_vocab.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "generation_config.json", CONFIG),
)
CODE = re.compile(r"__(\w+)__|([a-z]{2,3}_[A-Z][A-Za-z]{1,3})")  # M2M100; NLLB and mBART
PROBE = "a"  # a text that shows what stands around it


@dataclass(frozen=True)
class PretrainedTokenizers:
    """The tokenizer in a folder. `codes`: its names of languages, where they differ from ours."""

    folder: Path
    codes: tuple[tuple[str, str], ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return PretrainedTokenizers, (self.folder, self.codes)  # for other processes: without what is loaded

    @property
    def symbols(self) -> Symbols:
        """The ids of </s> and padding."""
        return self.config.symbols

    @property
    def names_target(self) -> bool:
        """Whether the model is told the target language."""
        return bool(self._known)

    def encode(self, texts: Sequence[str], side: Side) -> list[list[int]]:
        """The ids of sentences, without special tokens."""
        return self._ids(list(texts), side, special=False) if texts else []

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of translations; spaces stay as they were generated."""
        found: list[str] = self._tokenizer.batch_decode(
            [list(line) for line in ids], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return found

    def frames(self, direction: Direction) -> tuple[Frame, Frame]:
        """The special tokens around source and target sentences."""
        return self._frame(direction, "source"), self._frame(direction, "target")

    def begin(self, direction: Direction) -> tuple[int, ...]:
        """The first inputs of the decoder, before a translation: a start symbol, a language code, or both."""
        frame = self._frame(direction, "target")
        first = frame.after[-1] if self.config.family.shifts_last else self.config.decoder_start
        return (first, *frame.before)

    def characters(self) -> NDArray[np.int64]:
        """The number of characters of each subword: one for <unk>, none for special tokens."""
        tokenizer, found = self._tokenizer, np.zeros(self.config.pieces, dtype=np.int64)
        tokens = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), len(found)))))
        none = {*tokenizer.all_special_ids, *(tokenizer.convert_tokens_to_ids(token) for token in self._known.values())}
        for number, token in enumerate(tokens):
            found[number] = 0 if number in none else len(token)
        found[tokenizer.unk_token_id] = 1
        return found

    def code(self, language: str) -> str | None:
        """The tokenizer's name of a language; None if it has none for any and was not given one."""
        given = dict(self.codes)
        found = given.get(language, language)
        if found in self._known:
            return found
        if self.config.family.tag is not None and language not in given:
            return None
        where = f"data.codes.{language}" if language in given else "data.codes"
        hint = _nearest(found, self._known)
        raise PretrainedError(f"{where}: the tokenizer of {self.folder} has no language code {found!r}; {hint}")

    def coverage(self, sentences: Sequence[str], side: Side) -> Coverage:
        """How well the tokenizer covers these sentences of a language."""
        unknown, ids = self._tokenizer.unk_token_id, self.encode(sentences, side)
        pieces = sum(map(len, ids))
        alphabet = sorted(set("".join(sentences)) - {" "})
        spelt = self.encode(alphabet, side)
        return Coverage(
            unknown=sum(line.count(unknown) for line in ids) / max(pieces, 1),
            pieces_per_word=pieces / max(sum(len(sentence.split()) for sentence in sentences), 1),
            characters=sum(unknown not in line for line in spelt) / max(len(alphabet), 1),
            piece_length=sum(len(sentence.replace(" ", "")) for sentence in sentences) / max(pieces, 1),
            alphabet=len(alphabet),
        )

    @cached_property
    def config(self) -> PretrainedConfig:
        """config.json of the model."""
        return read_config(self.folder)

    @cached_property
    def _tokenizer(self) -> Any:
        if not any((self.folder / name).exists() for name in VOCABULARIES):
            raise PretrainedError(f"{self.folder}: no tokenizer; expected one of {', '.join(VOCABULARIES)}")
        transformers = import_transformers()
        try:
            with quiet(transformers):
                found = transformers.AutoTokenizer.from_pretrained(
                    self.folder, local_files_only=True, trust_remote_code=False
                )
        except Exception as error:  # of a damaged file, tokenizers raise anything
            raise PretrainedError(f"{self.folder}: the tokenizer cannot be loaded: {one_line(error)}") from error
        self._refuse_other(found)
        if self.config.family.tag is None and found.tgt_lang is None:
            found.tgt_lang = found.src_lang  # any will do: they matter to `_frame` only, which sets them
        return found

    def _refuse_other(self, tokenizer: Any) -> None:
        """Refuse a tokenizer of another model."""
        symbols = self.config.symbols
        for name, ours, theirs in (
            ("eos_token_id", symbols.eos, tokenizer.eos_token_id),
            ("pad_token_id", symbols.pad, tokenizer.pad_token_id),
        ):
            if ours != theirs:
                raise PretrainedError(
                    f"{self.folder}: the tokenizer does not fit the model: {name} is {theirs}, but {ours} in {CONFIG}"
                )
        if len(tokenizer) > self.config.pieces:
            raise PretrainedError(
                f"{self.folder}: the tokenizer does not fit the model: {len(tokenizer)} subwords, but vocab_size is "
                f"{self.config.pieces} in {CONFIG}"
            )

    @cached_property
    def _known(self) -> Mapping[str, str]:
        """The tokens that name languages, by code."""
        tag = self.config.family.tag
        pattern = CODE if tag is None else re.compile(re.escape(tag).replace(r"\{\}", r"([\w-]+)"))
        listed = getattr(self._tokenizer, "lang_token_to_id", {})  # of M2M100; not part of its vocabulary
        found = {}
        for token in [*listed, *self._tokenizer.get_vocab()]:
            if match := pattern.fullmatch(token):
                found[next(filter(None, match.groups()))] = token
        return found

    def _frame(self, direction: Direction, side: Side) -> Frame:
        """What the tokenizer puts around a sentence."""
        bare = self._ids([PROBE], side, special=False)[0]
        target = self.code(direction.tgt)
        text = PROBE
        if self.config.family.tag is None:
            self._tokenizer.src_lang, self._tokenizer.tgt_lang = self.code(direction.src), target
        elif side == "source" and target is not None:
            text = f"{self._known[target]} {PROBE}"
        whole = self._ids([text], side, special=True)[0]
        starts = [start for start in range(len(whole)) if whole[start : start + len(bare)] == bare]
        if not starts or max(whole) >= self.config.pieces:
            raise PretrainedError(
                f"{self.folder}: the tokenizer does not fit the model: it encodes {text!r} as {whole}"
            )
        before = whole[: starts[-1]]
        if side == "source" and direction.corpus_tag is not None:  # as text: the vocabulary has no token for it
            before += self._ids([direction.corpus_tag], side, special=False)[0]
        return Frame(tuple(before), tuple(whole[starts[-1] + len(bare) :]))

    def _ids(self, texts: list[str], side: Side, *, special: bool) -> list[list[int]]:
        what = {"text" if side == "source" else "text_target": texts}
        found: list[list[int]] = self._tokenizer(
            **what, add_special_tokens=special, truncation=False, return_attention_mask=False, verbose=False
        )["input_ids"]
        return found


def refuse_long_limit(config: PretrainedConfig, max_pieces: int, frames: Sequence[Frame]) -> None:
    """Refuse a limit on the length of sentences that exceeds the positions of the model."""
    special, most = max(map(len, frames)), config.max_positions
    if max_pieces + special > most:
        raise PretrainedError(
            f"clean.max_pieces: {max_pieces} subwords and {special} special ones are more than the {most} positions of "
            f"{config.folder}; set at most {most - special}"
        )


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a checkpoint that its tokenizer is loaded from, and config.json."""
    return [folder / name for name in (*VOCABULARIES, *OTHERS) if (folder / name).is_file()]


def tokenizer_hash(folder: Path) -> str:
    """A hash of these files; PretrainedError if there is no checkpoint (any more)."""
    read_config(folder)
    return key_of([[file.name, digest(file.read_bytes())] for file in tokenizer_files(folder)])


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy these files."""
    for file in tokenizer_files(source):
        shutil.copyfile(file, folder / file.name)


def coverage_by_language(
    tokenizers: PretrainedTokenizers, samples: Iterable[tuple[str, Side, Sequence[str]]]
) -> dict[str, dict[str, float]]:
    """Coverage of (language, side, sentences), in the form of the manifest."""
    return {f"{language} ({side})": asdict(tokenizers.coverage(text, side)) for language, side, text in samples}


def _nearest(code: str, known: Iterable[str]) -> str:
    """The nearest code: one that begins the same, or looks similar."""
    words = sorted(known)
    begins = [word for word in words if word.startswith(code)] or [word for word in words if word[:2] == code[:2]]
    return f"did you mean {begins[0]!r}?" if begins else did_you_mean(code, words)
