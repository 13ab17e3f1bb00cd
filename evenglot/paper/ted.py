"""Convert TED talks in 58 languages (Qi et al. 2018) to our layout.

The archive has `all_talks_train.tsv`, `..._dev.tsv` and `..._test.tsv`, with one row per English sentence and one
column per language; `__NULL__` marks a missing translation. The paper's scripts have one folder per language instead:
`aze_en/train.aze` and `aze_en/train.en`, `valid...`, `test...`.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from evenglot.corpus.lines import read_lines
from evenglot.corpus.read import CorpusError, read_pairs, reject_invalid
from evenglot.paper.layout import ENGLISH, SPLITS, Layout, Manifest, check_free, create
from evenglot.paper.sgm import plain
from evenglot.text_file import TextFile


@dataclass(frozen=True)
class Talks:
    """A language of the TED corpus: its column in the files, and its number of training pairs in the paper."""

    column: str
    pairs: int | None = None


RELATED: Mapping[str, Talks] = {
    "aze": Talks("az", 5_946),
    "bel": Talks("be", 4_509),
    "glg": Talks("gl", 10_017),
    "slk": Talks("sk", 61_470),
    "tur": Talks("tr", 182_470),
    "rus": Talks("ru", 208_458),
    "por": Talks("pt-br", 184_755),  # not `pt` (European Portuguese), which has 51,785 pairs
    "ces": Talks("cs", 103_093),
}
DIVERSE: Mapping[str, Talks] = {
    "bos": Talks("bs", 5_664),
    "mar": Talks("mr", 9_840),
    "hin": Talks("hi", 18_798),
    "mkd": Talks("mk", 25_335),
    "ell": Talks("el", 134_327),
    "bul": Talks("bg", 174_444),
    "fra": Talks("fr", 192_304),
    "kor": Talks("ko", 205_640),
}

TED = {
    "recipe": "ted",
    "from": "TED talks in 58 languages (Qi et al. 2018), https://github.com/neulab/word-embeddings-for-nmt",
}
ARCHIVE = "ted_talks.tar.gz"
TED_FILES = {"all_talks_train.tsv": "train", "all_talks_dev.tsv": "valid", "all_talks_test.tsv": "test"}
MISSING = re.compile("__NULL__|_ _ NULL _ _")  # inside a sentence it means that a part was not translated


def ted(
    download: Path,
    out: Path,
    languages: Mapping[str, Talks] = RELATED,
    *,
    overwrite: bool = False,
    files: Mapping[str, str] | None = None,
) -> Manifest:
    """Write the talks in these languages, and other `files` by name.

    `download`: ted_talks.tar.gz, or a folder with it, with its three files, or with one folder per language.
    As in the paper, a pair is kept if both sides exist; there are no other filters. Entities (`&quot;`) in the archive
    are replaced by characters. The archive is tokenised (punctuation is separated by spaces) and is not detokenised.
    """
    check_free(out, overwrite)
    found = find_talks(download, languages)
    with create(out, {**TED, "format": found.format}, overwrite, files) as layout:
        layout.made_from(found.files)
        if found.format == "folders":
            _write_folders(layout, found, languages)
        else:
            in_files = ((split, path, read_lines(path)) for split, path in zip(SPLITS, found.files, strict=False))
            for split, path, lines in _members(found.files[0]) if found.format == "archive" else in_files:
                _write_talks(layout, split, path, lines, languages)
        for language, talks in languages.items():
            layout.expect(language, "train", talks.pairs, "in the paper")
    return layout.manifest


@dataclass(frozen=True)
class Downloaded:
    """What there is to convert: its format, and its files."""

    format: Literal["archive", "tables", "folders"]
    files: list[Path]  # of folders: by language, split and side, English second


def find_talks(download: Path, languages: Mapping[str, Talks] = RELATED) -> Downloaded:
    """The files of the talks. CorpusError lists those that are missing."""
    if not download.is_dir():
        if not download.exists():
            raise CorpusError(f"{download}: no such file or folder; expected {ARCHIVE}, or a folder with its files")
        return Downloaded("archive", [download])
    if any((download / f"{language}_en").is_dir() for language in languages):
        sides = [
            side
            for language, talks in languages.items()
            for split in SPLITS
            for side in ((f"{split}.{language}", f"{split}.{talks.column}"), (f"{split}.{ENGLISH}",))
        ]
        folders = [download / f"{language}_en" for language in languages for _ in range(2 * len(SPLITS))]
        return Downloaded("folders", _existing(zip(folders, sides, strict=True), "copy the file there"))
    if (archive := download / ARCHIVE).is_file():
        return Downloaded("archive", [archive])
    tables = _existing([(download, (name,)) for name in TED_FILES], f"unpack {ARCHIVE} there, or pass the archive")
    return Downloaded("tables", tables)


def _existing(wanted: Iterable[tuple[Path, Sequence[str]]], advice: str) -> list[Path]:
    """For each folder and the names that a file in it can have, the file. CorpusError lists those that are missing."""
    files, missing = [], []
    for folder, names in wanted:
        paths = [folder / f"{name}{suffix}" for name in names for suffix in ("", ".gz", ".zst")]
        file = next((path for path in paths if path.is_file()), None)
        files.append(file or folder)
        if file is None:
            missing.append(f"{folder}: no {names[0]}; {advice}")
    if missing:
        raise CorpusError("\n".join(missing))
    return files


def _write_folders(layout: Layout, found: Downloaded, languages: Mapping[str, Talks]) -> None:
    """Write all languages from one folder each."""
    sides = iter(found.files)
    for language in languages:
        for split in SPLITS:
            left, right = TextFile(next(sides)), TextFile(next(sides))
            with layout.writer(split, language) as writer:
                for source, target in reject_invalid(read_pairs(left, right), left, right, "convert the file"):
                    if source and target:
                        writer.write(source, target)
                    else:
                        writer.removed["empty"] += 1


def _members(archive: Path) -> Iterator[tuple[str, Path, Iterator[bytes]]]:
    """Split, name and lines of the three files, read from the archive without unpacking it."""
    seen = set()
    with _explained(archive), tarfile.open(archive, "r|*") as tar:
        for member in tar:
            name = PurePosixPath(member.name).name
            if name not in TED_FILES or not member.isfile():
                continue
            if name in seen:
                raise CorpusError(f"{archive}: contains {name} twice; unpack it and pass the folder with the right one")
            seen.add(name)
            content = tar.extractfile(member)
            assert content is not None  # None only for links and folders
            yield TED_FILES[name], archive / name, _lines(content, archive)
    for name in TED_FILES:
        if name not in seen:
            raise CorpusError(f"{archive}: no {name}; is this ted_talks.tar.gz?")


def _lines(content: IO[bytes], archive: Path) -> Iterator[bytes]:
    with _explained(archive):
        for line in content:  # lines of bytes end at "\n" only, as in read.py
            yield line.removesuffix(b"\n")


@contextmanager
def _explained(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"{archive}: cannot be read as an archive ({error}); download it again") from error


def _write_talks(
    layout: Layout, split: str, path: Path, lines: Iterator[bytes], languages: Mapping[str, Talks]
) -> None:
    """Write all languages of one file of talks. The TSV has no quoting: cells are separated by tabs only."""
    header = [name.strip() for name in next(lines, b"").decode("utf-8-sig", "replace").split("\t")]
    column = {language: talks.column for language, talks in languages.items()} | {ENGLISH: ENGLISH}
    for name in column.values():
        if name not in header:
            raise CorpusError(f"{path}:1: no column {name!r}; the header has {', '.join(header)}")
    position = {language: header.index(name) for language, name in column.items()}
    with ExitStack() as stack:
        writers = {language: stack.enter_context(layout.writer(split, language)) for language in languages}
        for number, line in enumerate(lines, 2):
            try:
                cells = line.decode("utf-8").split("\t")
            except UnicodeDecodeError as error:
                raise CorpusError(f"{path}:{number}: not UTF-8; download the file again") from error
            if len(cells) != len(header):
                raise CorpusError(
                    f"{path}:{number}: {len(cells)} columns, but {len(header)} in the header; "
                    "download the file again (programs that interpret quotation marks as quoting damage it)"
                )
            target = _sentence(cells[position[ENGLISH]])
            for language, writer in writers.items():
                source = _sentence(cells[position[language]])
                if source is None or target is None:
                    writer.removed["missing"] += 1
                elif not source or not target:
                    writer.removed["empty"] += 1
                else:
                    writer.write(source, target)


def _sentence(cell: str) -> str | None:
    return None if MISSING.search(cell) else plain(cell)
