"""The files of the WMT news translation tasks that the paper's corpus consists of, and how to find them in a folder.

The paper names the tasks, not the files. Training text is all parallel text that the organisers offered for German and
French in 2014, Tamil in 2020 and Turkish in 2018. Validation sets are those of these tasks; where there are several,
the latest with at least 1,500 sentences, to which the paper caps validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from evenglot.corpus.read import CorpusError
from evenglot.paper.layout import Manifest, check_free
from evenglot.paper.wmt import WMT4, Source, wmt
from evenglot.text_file import TextFile
from evenglot.wording import counted

SUFFIXES = ("", ".gz", ".zst")


@dataclass(frozen=True)
class Published:
    """A published corpus or test set: the ends of the paths of its two files, English second, and its download.

    If both are the same file, it is a TSV, and `columns` are those of the two sides.
    """

    files: tuple[str, str]
    url: str
    pairs: int | None = None
    columns: tuple[int, int] = (0, 1)

    def source(self, paths: Sequence[Path]) -> Source:
        """How to read it from these two paths."""
        if self.files[0] != self.files[1]:
            return paths[0], paths[1]
        return TextFile(paths[0], self.columns[0]), TextFile(paths[1], self.columns[1])


def _plain(stem: str, code: str, url: str, pairs: int | None = None) -> Published:
    return Published((f"{stem}.{code}", f"{stem}.en"), url, pairs)


def _table(name: str, url: str, columns: tuple[int, int]) -> Published:
    return Published((name, name), url, columns=columns)


def _sgm(stem: str, code: str, url: str, pairs: int, *, reverse: bool = False) -> Published:
    """A test set; `reverse`: the one from English."""
    sides = (
        (f"{stem}-ref.{code}.sgm", f"{stem}-src.en.sgm")
        if reverse
        else (f"{stem}-src.{code}.sgm", f"{stem}-ref.en.sgm")
    )
    return Published(sides, url, pairs)


def _newstest2013(code: str) -> Published:
    """In 2013 all sentences had all languages, and there was one file for each."""
    files = f"newstest2013-src.{code}.sgm", "newstest2013-src.en.sgm"
    return Published(files, "https://www.statmt.org/wmt13/test.tgz", 3000)


EUROPARL = "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"
COMMON_CRAWL = "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz"
NEWS_COMMENTARY = "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz"
UNITED_NATIONS = "https://www.statmt.org/wmt13/training-parallel-un.tgz"
GIGA = "https://www.statmt.org/wmt10/training-giga-fren.tar"
WMT14_TEST = "https://www.statmt.org/wmt14/test-full.tgz"
WMT17_TEST = "https://data.statmt.org/wmt17/translation-task/test.tgz"
WMT18_TEST = "https://data.statmt.org/wmt18/translation-task/test.tgz"
WMT20_DEV = "https://data.statmt.org/wmt20/translation-task/dev.tgz"
WMT20_TEST = "https://data.statmt.org/wmt20/translation-task/test.tgz"
WIKI_TITLES = "https://data.statmt.org/wikititles/v2/wikititles-v2.ta-en.tsv.gz"
WIKI_MATRIX = "https://data.statmt.org/wmt20/translation-task/WikiMatrix/WikiMatrix.v1.en-ta.langid.tsv.gz"
PM_INDIA = "https://data.statmt.org/pmindia/v1/parallel/pmindia.v1.ta-en.tsv"
TANZIL = "https://object.pouta.csc.fi/OPUS-Tanzil/v1/moses/en-ta.txt.zip"
PRESS = "http://preon.iiit.ac.in/~jerin/resources/datasets/pib-v0.tar"
SPEECHES = "http://preon.iiit.ac.in/~jerin/resources/datasets/mkb-v0.tar"
UFAL = "http://ufal.mff.cuni.cz/~ramasamy/parallel/data/v2/en-ta-parallel-v2.tar.gz"
SETIMES = "https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-tr.txt.zip"

WMT_FILES: Mapping[str, Mapping[str, list[Published]]] = {
    "deu": {
        "train": [
            _plain("europarl-v7.de-en", "de", EUROPARL, 1_920_209),
            _plain("commoncrawl.de-en", "de", COMMON_CRAWL, 2_399_123),
            _plain("news-commentary-v9.de-en", "de", NEWS_COMMENTARY),
        ],
        "valid": [_newstest2013("de")],
        "test": [_sgm("newstest2014-deen", "de", WMT14_TEST, 3003)],
        "test_from_english": [_sgm("newstest2014-deen", "de", WMT14_TEST, 3003, reverse=True)],
    },
    "fra": {
        "train": [
            _plain("europarl-v7.fr-en", "fr", EUROPARL, 2_007_723),
            _plain("commoncrawl.fr-en", "fr", COMMON_CRAWL, 3_244_152),
            _plain("news-commentary-v9.fr-en", "fr", NEWS_COMMENTARY),
            _plain("undoc.2000.fr-en", "fr", UNITED_NATIONS, 12_886_831),
            _plain("giga-fren.release2.fixed", "fr", GIGA, 22_520_376),
        ],
        "valid": [_newstest2013("fr")],
        "test": [_sgm("newstest2014-fren", "fr", WMT14_TEST, 3003)],
        "test_from_english": [_sgm("newstest2014-fren", "fr", WMT14_TEST, 3003, reverse=True)],
    },
    "tam": {
        "train": [
            _table("wikititles-v2.ta-en.tsv", WIKI_TITLES, (0, 1)),
            _table("WikiMatrix.v1.en-ta.langid.tsv", WIKI_MATRIX, (2, 1)),
            _table("pmindia.v1.ta-en.tsv", PM_INDIA, (1, 0)),
            _plain("Tanzil.en-ta", "ta", TANZIL),
            _plain("pib/en-ta/train", "ta", PRESS),
            _plain("mkb/en-ta/mkb", "ta", SPEECHES),
            _plain("en-ta-parallel-v2/corpus.bcn.train", "ta", UFAL),
        ],
        "valid": [_sgm("newsdev2020-taen", "ta", WMT20_DEV, 1989)],
        "valid_from_english": [_sgm("newsdev2020-enta", "ta", WMT20_DEV, 1989, reverse=True)],
        "test": [_sgm("newstest2020-taen", "ta", WMT20_TEST, 997)],
        "test_from_english": [_sgm("newstest2020-enta", "ta", WMT20_TEST, 1000, reverse=True)],
    },
    "tur": {
        "train": [_plain("SETIMES.en-tr", "tr", SETIMES, 207_678)],
        "valid": [_sgm("newstest2017-tren", "tr", WMT17_TEST, 3007)],
        "valid_from_english": [_sgm("newstest2017-entr", "tr", WMT17_TEST, 3007, reverse=True)],
        "test": [_sgm("newstest2018-tren", "tr", WMT18_TEST, 3000)],
        "test_from_english": [_sgm("newstest2018-entr", "tr", WMT18_TEST, 3000, reverse=True)],
    },
}


@dataclass(frozen=True)
class Lookup:
    """A published file, and where it is; None: it is missing."""

    language: str
    split: str
    name: str
    url: str
    pairs: int | None
    path: Path | None


def look_up(downloads: Path, wanted: Mapping[str, Mapping[str, list[Published]]] = WMT_FILES) -> list[Lookup]:
    """Search a folder, and those in it, for all files of the manifest, plain or compressed."""
    if not downloads.is_dir():
        raise CorpusError(f"{downloads}: no such folder; put the downloads there, with archives unpacked")
    known: dict[str, list[Path]] = {}
    for path in sorted(path for path in downloads.rglob("*") if path.is_file()):
        known.setdefault(path.name, []).append(path)
    return [
        Lookup(language, split, name, corpus.url, corpus.pairs, _find(known, name))
        for language, split, corpus in _each(wanted)
        for name in corpus.files
    ]


def _each(wanted: Mapping[str, Mapping[str, list[Published]]]) -> Iterator[tuple[str, str, Published]]:
    for language, splits in wanted.items():
        for split, corpora in splits.items():
            for corpus in corpora:
                yield language, split, corpus


def _find(known: Mapping[str, Sequence[Path]], name: str) -> Path | None:
    """The first file whose path ends like this."""
    parts = PurePosixPath(name).parts
    for suffix in SUFFIXES:
        for path in known.get(parts[-1] + suffix, ()):
            if path.parts[-len(parts) : -1] == parts[:-1]:
                return path
    return None


def refuse_missing(downloads: Path, looked: Sequence[Lookup]) -> None:
    """CorpusError if files are missing, with a line for each download that has them."""
    missing: dict[str, dict[str, None]] = {}
    for each in looked:
        if each.path is None:
            missing.setdefault(each.url, {})[each.name] = None
    if missing:
        lines = [f"missing: {', '.join(names)}; download {url} and unpack it" for url, names in missing.items()]
        raise CorpusError(
            "\n".join([*lines, f"{downloads}: missing {counted(sum(map(len, missing.values())), 'file')}"])
        )


def wmt_downloads(
    downloads: Path, out: Path, *, overwrite: bool = False, files: Mapping[str, str] | None = None, **options: Any
) -> Manifest:
    """Write the paper's WMT corpus from a folder with the downloads. CorpusError lists the files that are missing."""
    check_free(out, overwrite)
    looked = look_up(downloads)
    refuse_missing(downloads, looked)
    paths = iter([each.path for each in looked if each.path is not None])
    inputs: dict[str, dict[str, list[Source]]] = {}
    for language, split, corpus in _each(WMT_FILES):
        inputs.setdefault(language, {}).setdefault(split, []).append(corpus.source([next(paths), next(paths)]))
    held_out = {
        language: {
            split: sum(each.pairs or 0 for each in corpora) for split, corpora in splits.items() if split != "train"
        }
        for language, splits in WMT_FILES.items()
    }
    return wmt(inputs, out, cleaning=WMT4, expected=held_out, overwrite=overwrite, files=files, **options)
