"""Lines of a file, or of a pipe, to lines of another: `evenglot translate`."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, cast

from evenglot.directions import Direction
from evenglot.evaluation.engines import SearchOptions
from evenglot.evaluation.translate import Translation, Translator
from evenglot.files import UNFINISHED
from evenglot.progress import Advance, Bars

Form = Literal["text", "tsv", "jsonl"]


def translate_lines(
    translator: Translator,
    direction: Direction,
    options: SearchOptions,
    source: Path | None,
    target: Path | None,
    form: Form,
    bars: Bars,
) -> None:
    """Translate every line. Several translations of one, or their scores, want another form than text."""
    if form == "text" and options.n_best > 1:
        raise ValueError("n_best: text has one line for each sentence; use --format tsv or jsonl")
    size = source.stat().st_size if source is not None else None
    with (
        _reading(source) as lines,
        _writing(target) as out,
        bars.task(f"translating {direction.name}", size) as advance,
    ):
        translations = translator.stream(_texts(lines, advance), direction, options, bars.note)
        for number, best in enumerate(translations, start=1):
            out.write(_shown(number, best, form).encode("utf-8"))
            if target is None:
                out.flush()


def _shown(number: int, best: list[Translation], form: Form) -> str:
    texts = [translation.text.replace("\n", " ") for translation in best]
    if form == "text":
        return f"{texts[0]}\n"
    scored = list(zip(texts, (translation.score for translation in best), strict=True))
    if form == "tsv":
        return "".join(f"{number}\t{score:.6f}\t{text}\n" for text, score in scored)
    listed = [{"text": text, "score": score} for text, score in scored]
    return json.dumps({"line": number, "translations": listed}, ensure_ascii=False) + "\n"


def _texts(lines: BinaryIO, advance: Advance) -> Iterator[str]:
    """Only a line feed ends a line."""
    for number, line in enumerate(lines, start=1):
        advance(len(line))
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValueError(f"line {number}: not UTF-8 ({error.reason})") from error


@contextmanager
def _reading(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdin.buffer
    elif path.suffix == ".gz":
        with gzip.open(path, "rb") as file:
            yield cast(BinaryIO, file)
    else:
        with path.open("rb") as file:
            yield file


@contextmanager
def _writing(path: Path | None) -> Iterator[BinaryIO]:
    """A file is there when it is complete, or not at all."""
    if path is None:
        yield sys.stdout.buffer
        return
    unfinished = path.with_name(path.name + UNFINISHED)
    try:
        with gzip.open(unfinished, "wb") if path.suffix == ".gz" else unfinished.open("wb") as file:
            yield cast(BinaryIO, file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
