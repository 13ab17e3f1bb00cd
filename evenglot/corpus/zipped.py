"""One side of a corpus in a zip, as OPUS offers them: a text file inside, found by the ending of its name.

Members are read as streams; nothing is written to disk, so it does not matter what their names look like.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from evenglot.text_file import CorpusError, TextFile
from evenglot.wording import some

EXPANSION = 200  # of text by decompression: real text stays below 20, deliberately harmful files reach 1,000
SMALL = 1 << 24  # bytes that are read whatever their expansion
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others cannot be read in chunks of limited size
ENCRYPTED = 0x1


def read_member(file: TextFile, raw: BinaryIO, chunk: int) -> Iterator[bytes]:
    """The content of one side, in chunks of at most this size. `raw` is the open zip."""
    try:
        with zipfile.ZipFile(raw) as archive:
            member = _member(file, archive)
            with archive.open(member) as text:
                yield from iter(lambda: text.read(chunk), b"")
    except zipfile.BadZipFile as error:
        raise CorpusError(f"{file.path}: a damaged or truncated zip ({error})") from error
    except (zlib.error, EOFError) as error:
        raise CorpusError(f"{file}: the compressed text is damaged or truncated") from error
    except (NotImplementedError, UnicodeDecodeError) as error:  # features that Python does not know, broken names
        raise CorpusError(f"{file.path}: cannot be read ({error})") from error


def _member(file: TextFile, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one member with the ending of this side."""
    members = [member for member in archive.infolist() if not member.filename.endswith("/")]
    found = [member for member in members if member.filename.endswith(f".{file.column}")]
    if len(found) != 1:
        many = f"{len(found)} files that end in .{file.column}" if found else f"no file that ends in .{file.column}"
        names = some(ascii(member.filename) for member in found or members)
        advice = "data.file_codes or data.columns say which endings the languages have"
        raise CorpusError(f"{file.path}: {many}; there is {names or 'nothing'}; {advice}")
    (member,) = found
    if member.flag_bits & ENCRYPTED:
        raise CorpusError(f"{file}: encrypted; unpack it and use the text files")
    if member.compress_type not in METHODS:
        raise CorpusError(f"{file}: compressed by method {member.compress_type}; expected deflate (8), or none (0)")
    if member.file_size > max(SMALL, EXPANSION * member.compress_size):
        size = f"{member.compress_size:,} bytes that expand to {member.file_size:,}"
        raise CorpusError(f"{file}: {size}, which text does not; unpack it if you trust it")
    return member
