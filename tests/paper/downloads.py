"""Synthetic downloads in the real formats: the TED archive, the folders of the paper's scripts, and WMT's files.

Every language writes English words with letters of its own, so that a small model can learn them.
"""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from evenglot.paper.ted import TED_FILES, Talks
from evenglot.paper.wmt_files import WMT_FILES, Published

WORDS = ("banas", "derel", "fitim", "gosu", "kuek", "lato", "monir", "nivel")
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
HELD_OUT = 12  # sentences in every validation and test set


def foreign(sentence: str, language: str) -> str:
    """The sentence in a language: with letters shifted by a distance of its own."""
    turn = 1 + sum(map(ord, language)) % 25
    return sentence.translate(str.maketrans(ALPHABET, ALPHABET[turn:] + ALPHABET[:turn]))


def english(count: int, seed: str) -> list[str]:
    """Sentences, the same for the same seed."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(3, 7))) for _ in range(count)]


def ted_archive(path: Path, languages: Mapping[str, Talks], sizes: Mapping[str, int]) -> Path:
    """ted_talks.tar.gz: three tables with a column for each language and `__NULL__` where there is no translation."""
    header = ["talk_name", "en", *(talks.column for talks in languages.values())]
    with tarfile.open(path, "w:gz") as tar:
        for file, split in TED_FILES.items():
            count = max(sizes.values()) if split == "train" else HELD_OUT
            rows = [header]
            for number, sentence in enumerate(english(count, split)):
                has = [number < (sizes[language] if split == "train" else HELD_OUT) for language in languages]
                cells = [
                    foreign(sentence, language) if there else "__NULL__"
                    for language, there in zip(languages, has, strict=True)
                ]
                rows.append([f"talk_{number // 10}", sentence, *cells])
            content = "".join("\t".join(row) + "\n" for row in rows).encode()
            member = tarfile.TarInfo(file)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def ted_folders(folder: Path, languages: Iterable[str], sizes: Mapping[str, int]) -> Path:
    """The layout of the paper's scripts: aze_en/train.aze and aze_en/train.en, valid, test."""
    for language in languages:
        home = folder / f"{language}_en"
        home.mkdir(parents=True)
        for split in ("train", "valid", "test"):
            sentences = english(sizes[language] if split == "train" else HELD_OUT, f"{split} {language}")
            write_lines(home / f"{split}.en", sentences)
            write_lines(home / f"{split}.{language}", [foreign(sentence, language) for sentence in sentences])
    return folder


def wmt_folder(folder: Path, sizes: Mapping[str, int]) -> Path:
    """A folder with every file of the manifest, as their archives unpack: plain text, TSV and SGML, some compressed."""
    for language, splits in WMT_FILES.items():
        for split, corpora in splits.items():
            for corpus in corpora:
                count = -(-sizes[language] // len(corpora)) if split == "train" else HELD_OUT
                sentences = english(count, f"{split} {corpus.files[1]}")
                _write(folder, corpus, [(foreign(sentence, language), sentence) for sentence in sentences])
    return folder


def _write(folder: Path, corpus: Published, pairs: list[tuple[str, str]]) -> None:
    if corpus.files[0] == corpus.files[1]:
        left, right = corpus.columns
        cells = [{left: source, right: target} for source, target in pairs]
        lines = ["\t".join(row.get(place, "1.05") for place in range(4)) for row in cells]
        write_lines(folder / "tables" / f"{corpus.files[0]}.gz", lines)
        return
    for position, name in enumerate(corpus.files):
        path = folder / corpus.url.rpartition("/")[2].split(".")[0] / name
        lines = [pair[position] for pair in pairs]
        if name.endswith(".sgm"):
            kind = "srcset" if "-src" in name else "refset"
            segments = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(lines, 1)]
            lines = [f'<{kind} setid="x" srclang="any">', '<doc docid="a">', *segments, "</doc>", f"</{kind}>"]
        write_lines(path, lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file, compressed if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
