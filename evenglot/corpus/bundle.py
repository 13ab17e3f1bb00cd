"""Many parts in a few files: what one stage makes of every direction, as one artefact.

A part, such as the ids of one direction, has a key, the hash of all it depends on, and sections: ranges of bytes of the
bundle's files, with checksums. What an earlier bundle has of the same key is copied, not made again. A bundle is
written part by part into a folder that ends with `.begun`, with a line in a journal for each complete part; after an
interruption, writing goes on behind the last of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import BEGUN, JOURNAL, DamagedError, key_of
from evenglot.reading import LARGEST_JSON, open_regular, read_text

COPY_BYTES = 1 << 22

Section = tuple[str, int, int, int]  # file, first byte, number of bytes, CRC-32
Entry = dict[str, Any]  # key, sections, about


@dataclass(frozen=True, eq=False)
class PartWriter:
    """Appends the sections of one part to the files of a bundle."""

    bundle: _Writer
    sections: dict[str, Section]

    def append(self, name: str, content: bytes, file: str | None = None) -> None:
        """Continue a section, in the file of the same name unless another is given; no other may end there since."""
        file = file or name
        _, start, size, crc = self.sections.get(name, (file, self.bundle.size(file), 0, 0))
        assert start + size == self.bundle.size(file)
        self.bundle.write(file, content)
        self.sections[name] = (file, start, size + len(content), crc32(content, crc))


Write = Callable[[PartWriter], dict[str, Any]]  # writes a part; returns what its entry says about it
Build = Callable[[list[int]], Generator[Write, None, None]]


def make(root: Path, name: str, keys: Sequence[str], files: Sequence[str], build: Build) -> tuple[Path, list[Entry]]:
    """The folder of a bundle whose parts have these keys, and the entries of its parts.

    If it is not there, it is made. `build` is called with the positions of the parts that no earlier bundle has, and
    yields a function for each, which writes it.
    """
    key = key_of(list(files), list(keys))
    folder = root / f"{name}.{key}"
    if not artefacts.is_intact(folder):
        begun = root / f"{name}.{key}{BEGUN}"
        earlier = [Earlier(other) for other in sorted(root.glob(f"{name}.*")) if artefacts.NAME.fullmatch(other.name)]
        try:
            entries = _write(begun, keys, files, [each for each in earlier if each.folder != begun], build)
        except ValueError:  # bad text; after a full disk or a lost worker, finished parts are of use
            shutil.rmtree(begun, ignore_errors=True)
            raise
        artefacts.make(root, name, key, lambda unfinished: _put(begun, unfinished, entries))
    (folder / JOURNAL).unlink(missing_ok=True)
    found: list[Entry] = artefacts.about(folder)["parts"]
    return folder, found


def _put(begun: Path, unfinished: Path, entries: list[Entry]) -> dict[str, Any]:
    unfinished.rmdir()  # Windows renames to no existing name
    begun.rename(unfinished)  # with its journal: a process killed before the end need not make the parts again
    return {"parts": entries}


def _write(
    folder: Path,
    keys: Sequence[str],
    files: Sequence[str],
    earlier: list[Earlier],
    build: Build,
) -> list[Entry]:
    with _Writer(folder, keys, files) as writer:
        done = len(writer.entries)
        known = [next((found for each in earlier if (found := each.part(key))), None) for key in keys]
        missing = [position for position in range(done, len(keys)) if known[position] is None]
        with closing(build(missing)) as new:
            for position in range(done, len(keys)):
                part = PartWriter(writer, {})
                found = known[position]
                about = next(new)(part) if found is None else _copy(*found, part)
                writer.add({"key": keys[position], "sections": part.sections, "about": about})
            if missing:
                next(new, None)  # to its end, where it says how long it took
        return writer.entries


def _copy(folder: Path, entry: Entry, part: PartWriter) -> dict[str, Any]:
    for name, section in entry["sections"].items():
        part.append(name, b"", section[0])
        for content in _chunks(folder, section):
            part.append(name, content, section[0])
    about: dict[str, Any] = entry["about"]
    return about


def _chunks(folder: Path, section: Section) -> Iterator[bytes]:
    name, start, left, _ = section
    with open_regular(folder / name) as file:
        file.seek(start)
        while left and (content := file.read(min(left, COPY_BYTES))):
            left -= len(content)
            yield content


def _is_sound(folder: Path, entry: Entry) -> bool:
    """Do the bytes of all sections have their checksums?"""
    try:
        for section in entry["sections"].values():
            crc = size = 0
            for content in _chunks(folder, section):
                crc, size = crc32(content, crc), size + len(content)
            if [size, crc] != list(section[2:]):
                return False
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return False
    return True


class Earlier:
    """Parts of another bundle, made with other settings, or damaged: those whose checksums hold can be used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries: dict[str, Entry] = {}
        try:
            entries = artefacts.about(folder).get("parts", [])
        except DamagedError:
            entries = _journal(folder)
        for entry in entries:
            self._entries[entry["key"]] = entry

    def part(self, key: str) -> tuple[Path, Entry] | None:
        """The folder and the entry of the part with this key, if it is there and intact."""
        entry = self._entries.get(key)
        return (self.folder, entry) if entry is not None and _is_sound(self.folder, entry) else None


def _journal(folder: Path) -> list[Entry]:
    """The complete parts of a bundle whose writing was interrupted."""
    entries = []
    try:
        for line in read_text(folder / JOURNAL, LARGEST_JSON).splitlines():
            entry = json.loads(line)
            if isinstance(entry, dict) and {"key", "sections", "about"} <= set(entry):
                entries.append(entry)
    except (OSError, ValueError):  # the last line may be cut
        pass
    return entries


class _Writer:
    """The files of an unfinished bundle, with what was complete in them."""

    def __init__(self, folder: Path, keys: Sequence[str], files: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        written = zip(_journal(folder), keys, strict=False)
        self.entries = [entry for entry, key in takewhile(lambda both: self._holds(folder, *both), written)]
        sections = [section for entry in self.entries for section in entry["sections"].values()]
        self._sizes = {file: max((s[1] + s[2] for s in sections if s[0] == file), default=0) for file in files}
        self._files: dict[str, BinaryIO] = {}
        for file, size in self._sizes.items():
            self._files[file] = (folder / file).open("r+b" if (folder / file).exists() else "w+b")
            self._files[file].truncate(size)
            self._files[file].seek(size)
        self._journal = (folder / JOURNAL).open("w", encoding="utf-8")
        for entry in self.entries:
            self._note(entry)

    @staticmethod
    def _holds(folder: Path, entry: Entry, key: str) -> bool:
        return bool(entry["key"] == key) and _is_sound(folder, entry)

    def size(self, file: str) -> int:
        return self._sizes[file]

    def write(self, file: str, content: bytes) -> None:
        self._files[file].write(content)
        self._sizes[file] += len(content)

    def add(self, entry: Entry) -> None:
        """A part is complete."""
        for file in self._files.values():
            file.flush()
        self._note(entry)
        self.entries.append(json.loads(json.dumps(entry)))

    def _note(self, entry: Entry) -> None:
        self._journal.write(json.dumps(entry) + "\n")
        self._journal.flush()

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._journal.close()
