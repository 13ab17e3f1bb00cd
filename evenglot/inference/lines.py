"""Translate a file or standard input line by line: `evenglot translate`."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Literal, cast

from evenglot.corpus.lines import BOM, read_lines
from evenglot.directions import Direction
from evenglot.files import finished_file
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Translation, Translator
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
    """Translate every line. The form `text` has neither scores nor several translations per line."""
    if form == "text" and options.n_best > 1:
        raise ValueError("n_best: the text format has one translation per line; use --format tsv or jsonl")
    size = source.stat().st_size if source is not None else None
    on_screen = target is None and sys.stdout is not None and sys.stdout.isatty()  # the lines show the progress there
    task = nullcontext(lambda _: None) if on_screen else bars.task(f"translating {direction.name}", size)
    with _writing(target) as out, task as advance:
        translations = translator.stream(
            _texts(_lines(source, advance)), direction, options, lambda warning: bars.warn(str(warning))
        )
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


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValueError(f"line {number}: not UTF-8 ({error.reason})") from error


def _lines(path: Path | None, advance: Advance) -> Iterator[bytes]:
    """Lines of a file (possibly compressed) or of standard input; only a line feed ends a line."""
    if path is not None:
        yield from read_lines(path, advance)
        return
    if sys.stdin is None:
        raise ValueError("standard input is closed; pipe text into it, or give a file with --input")
    for number, line in enumerate(sys.stdin.buffer, start=1):
        advance(len(line))
        text = line.removesuffix(b"\n")
        yield text if number > 1 else text.removeprefix(BOM)


@contextmanager
def _writing(path: Path | None) -> Iterator[BinaryIO]:
    """Open the output: standard output, or a file that appears only when complete."""
    if path is None:
        if sys.stdout is None:
            raise ValueError("standard output is closed; give a file with --output")
        yield sys.stdout.buffer
        return
    with finished_file(path) as file:
        if path.suffix == ".gz":
            with gzip.open(file, "wb") as zipped:
                yield cast(BinaryIO, zipped)
        else:
            yield file
