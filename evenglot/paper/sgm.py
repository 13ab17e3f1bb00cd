"""The SGML format of WMT test sets until 2020. It is not valid XML, so it is parsed with regular expressions.

<refset setid="newstest2014" srclang="any" trglang="en">
<doc sysid="ref" docid="gazette.7" genre="news" origlang="en">
<hl><seg id="1">Hill &amp; sons</seg></hl>
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from evenglot.corpus.lines import read_lines
from evenglot.corpus.read import CorpusError, Pair

TAG = re.compile(r"<doc\b(?P<doc>[^>]*)>|<seg\b(?P<seg>[^>]*)>(?P<text>.*?)</seg\s*>", re.IGNORECASE | re.DOTALL)
OPENING = re.compile(r"<seg\b", re.IGNORECASE)
ENTITY = re.compile(r"&#?\w+;")  # the semicolon is required, so 'R&D' and '?a=1&copy=2' stay
LINE_BREAK = re.compile(r"\s*[\n\r\t]\s*")

Segments = dict[tuple[str, str], str]  # text by document and segment


def aligned(source: Path, target: Path) -> Iterator[Pair]:
    """Sentence pairs in source order; CorpusError if one file lacks a segment of the other."""
    sources, targets = read_segments(source), read_segments(target)
    for has, path, lacks, other in ((sources, source, targets, target), (targets, target, sources, source)):
        for document, segment in has:
            if (document, segment) not in lacks:
                place = f"segment {segment} of document {document!r}"
                raise CorpusError(f"{other}: no {place}, which is in {path}; use files of the same release")
    yield from ((text, targets[key]) for key, text in sources.items())


def read_segments(path: Path) -> Segments:
    """The segments of a file, in file order."""
    content = b"\n".join(read_lines(path))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CorpusError(f"{path}:{line}: not UTF-8; convert the file") from error
    segments: Segments = {}
    document = ""
    for tag in TAG.finditer(text):
        if tag["doc"] is not None:
            document = _attribute(tag["doc"], "docid")
            continue
        key = (document, _attribute(tag["seg"], "id"))
        if key in segments:
            line = text.count("\n", 0, tag.start()) + 1
            raise CorpusError(f"{path}:{line}: segment {key[1]} of document {document!r} repeated; keep one reference")
        segments[key] = plain(tag["text"])
    if (begun := len(OPENING.findall(text))) != len(segments) or not segments:
        raise CorpusError(f"{path}: {begun} opening and {len(segments)} closing <seg> tags; is the file truncated?")
    return segments


def plain(text: str) -> str:
    """Text in one line, with entities replaced by characters."""
    if "&" in text:
        text = ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return LINE_BREAK.sub(" ", text.strip())


def _attribute(attributes: str, name: str) -> str:
    found = re.search(rf"""\b{name}\s*=\s*["']?([^"'>]*)""", attributes, re.IGNORECASE)
    return found[1].strip() if found else ""
