from __future__ import annotations

import gzip
import random
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from evenglot.corpus.read import CorpusError
from evenglot.files import sha256
from evenglot.paper.wmt import Cleaning, normalise, sample, wmt
from evenglot.text_file import TextFile
from tests.paper.layouts import bytes_of, lines_of


def plain_files(folder: Path, stem: str, source: str | bytes, target: str | bytes) -> tuple[Path, Path]:
    paths = folder / f"{stem}.xx", folder / f"{stem}.en"
    for path, text in zip(paths, (source, target), strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return paths


def test_plain_compressed_tsv_and_sgm_become_one_layout(tmp_path: Path) -> None:
    plain = plain_files(tmp_path, "plain", "bir\r\niki\u2028üç\r\n", "one\r\ntwo\u2028three\r\n")
    zipped = tmp_path / "dört.gz", tmp_path / "four.gz"
    zipped[0].write_bytes(gzip.compress("\ufeffdört\n".encode()))
    zipped[1].write_bytes(gzip.compress(b"four\n"))
    table, swapped = tmp_path / "more.tr-en.tsv", tmp_path / "more.en-tr.tsv"
    table.write_text('"beş\tfive\tignored\n', encoding="utf-8")
    swapped.write_text("six\taltı\n", encoding="utf-8")
    sgm = tmp_path / "newstest2999-tren-src.tr.sgm", tmp_path / "newstest2999-tren-ref.en.sgm"
    sgm[0].write_text('<doc docid="d"><seg id="1">yedi &amp; sekiz</seg></doc>', encoding="utf-8")
    sgm[1].write_text('<doc docid="d"><seg id="1">seven &amp; eight</seg></doc>', encoding="utf-8")
    valid = plain_files(tmp_path, "dev", "dokuz\n\n", "nine\n\n")

    out = tmp_path / "out"
    manifest = wmt(
        {
            "tur": {
                "train": [plain, zipped, table, (TextFile(swapped, 1), TextFile(swapped, 0))],
                "valid": valid,
                "test": sgm,
            }
        },
        out,
    )
    assert lines_of(out, "train", "tur") == (
        ["bir", "iki\u2028üç", "dört", '"beş', "altı"],
        ["one", "two\u2028three", "four", "five", "six"],
    )
    assert lines_of(out, "valid", "tur") == (["dokuz", ""], ["nine", ""])  # kept whole
    assert lines_of(out, "test", "tur") == (["yedi & sekiz"], ["seven & eight"])
    paths = [*plain, *zipped, table, swapped, *valid, *sgm]
    assert manifest["inputs"] == {str(path): sha256(path) for path in paths}
    assert manifest["warnings"] == []


def test_training_text_is_cleaned_as_in_the_paper(tmp_path: Path) -> None:
    source = '« Oui »\n"Oui"\nnon\n\nmot\u200b\nsans\n'.encode() + b"caf\xe9\n"
    target = '“Yes”\n"Yes"\nno\nempty\nword\n \ncoffee\n'.encode()
    files = plain_files(tmp_path, "giga", source, target)
    manifest = wmt({"fra": {"train": files}}, tmp_path / "out")
    assert lines_of(tmp_path / "out", "train", "fra") == (['"Oui"', "non", "mot"], ['"Yes"', "no", "word"])
    removed = {"duplicate": 1, "empty": 2, "invalid_utf8": 1, "not_sampled": 0}
    assert manifest["languages"]["fra"]["train"] == {"pairs": 3, "removed": removed}
    (warning,) = manifest["warnings"]
    assert warning.startswith("fra train: 3 ")
    assert "1,800,000" in warning

    wmt({"tam": {"train": files}}, tmp_path / "raw")
    assert lines_of(tmp_path / "raw", "train", "tam")[0] == ["« Oui »", '"Oui"', "non", "mot\u200b"]


def test_a_sample_is_chosen_by_the_seed_and_keeps_the_order(tmp_path: Path) -> None:
    numbers = "".join(f"{number}\n" for number in range(1000))
    inputs = {"deu": {"train": plain_files(tmp_path, "europarl", numbers, numbers)}}
    cleaning = {"deu": Cleaning(sample=100)}
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        manifest = wmt(inputs, tmp_path / name, cleaning=cleaning, seed=seed)
        assert manifest["languages"]["deu"]["train"] == {"pairs": 100, "removed": {"not_sampled": 900}}
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "again")
    one, other = (lines_of(tmp_path / name, "train", "deu") for name in ("one", "other"))
    assert one[0] == one[1] == sorted(one[0], key=int)
    assert one != other


def test_every_sample_is_equally_likely() -> None:
    counts = Counter(tuple(sample("abcd", 4, 2, f"seed {number}")) for number in range(6000))
    assert set(counts) == set(combinations("abcd", 2))
    assert all(900 < count < 1100 for count in counts.values())  # 1000 expected, standard deviation 29


def test_a_sample_of_all_is_all() -> None:
    size = random.Random(1).randint(50, 100)
    assert list(sample(range(size), size, size, "seed")) == list(range(size))
    assert list(sample(range(size), size, 0, "seed")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("«\u00a0L’été…\u00a0», dit-il\u202f!", '"L\'été...", dit-il!'),
        ("de 5\u00a0% – ou 6", "de 5% - ou 6"),
        ("„so“ ‚so‘", "\"so\" 'so'"),
        ("a\x07b\u200e", "a b"),
        ("temps\u00a0libre\u2028fin", "temps libre\u2028fin"),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


def test_faults_are_told_and_leave_nothing(tmp_path: Path) -> None:
    good = plain_files(tmp_path, "good", "bir\n", "one\n")
    unequal = plain_files(tmp_path, "unequal", "bir\niki\n", "one\n")
    invalid = plain_files(tmp_path, "invalid", b"bir\n\xff\n", b"one\ntwo\n")
    faults: list[tuple[dict[str, dict[str, Any]], str]] = [
        ({"tur": {"train": good, "test": unequal}}, r"unequal\.xx .*\b2\b.*unequal\.en .*\b1\b"),
        ({"tur": {"train": good, "test": invalid}}, r"invalid\.xx:2: .*UTF-8"),
        ({"tur": {"train": good[0]}}, r"good\.xx: .*\.tsv"),
        ({"tur": {"train": (tmp_path / "both.tsv", good[1])}}, r"both\.tsv: "),
        ({"tur": {"train": (tmp_path / "a.tgz", good[1])}}, r"a\.tgz: "),
        ({"tur": {"train": (tmp_path / "nowhere", good[1])}}, "nowhere: "),
        ({"tur": {"dev": good}}, "tur: .*'dev'.* train, valid, test"),
        ({"ger": {"train": good}}, "'ger': .* deu, fra, tam, tur"),
    ]
    for inputs, fact in faults:
        with pytest.raises(CorpusError, match=fact):
            wmt(inputs, tmp_path / "out")
        assert not list(tmp_path.glob("out*"))
