"""Parquet, Arrow and zip files for torture/readers.py: of wrong content or form, and with changed bytes.

Content is wrong in the ways that a stranger's file can be: columns of other types, nulls, nesting, other names, text
that is not UTF-8, offsets and indices that lead outside, members called anything, and little that expands to much.
"""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

from evenglot.corpus.read import read_pairs
from evenglot.text_file import TextFile
from torture.mutations import at_random, mutated

Case = Callable[[random.Random], object]
SIDES = {"por": ["Olá mundo", "uma casa", "três"] * 5, "en": ["Hello world", "a house", "three"] * 5}
PLAIN = [b"abcd"] * 15
HOSTILE_TEXT = ("", "\n", "\r\n", "\0", "\u2028", "\ufeff", "a\nb", "\t", "x" * 100_000, "y" * 1_100_000)
HOSTILE_NAMES = ("", ".", "por.en", "translation", "translation.por", "Por", "por ", "\0", "x" * 50_000, "../por")


def pairs_of(path: Path) -> None:
    """Read both sides."""
    for _ in read_pairs(TextFile(path, "por"), TextFile(path, "en")):
        pass


def changed(content: bytes, chance: random.Random) -> bytes:
    """One to three changes of bytes, half of them near the end, where these formats have their tables."""
    new = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = (
            chance.randrange(len(new)) if chance.random() < 0.5 else len(new) - 1 - chance.randrange(min(len(new), 700))
        )
        match chance.randrange(5):
            case 0:
                new[at] ^= 1 << chance.randrange(8)
            case 1:
                new[at : at + chance.randrange(9)] = chance.randbytes(chance.randrange(9))
            case 2:
                new[at : at + 4] = chance.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\1\0\0\0"])
            case 3:
                del new[at + 1 :]
            case _:
                new[at] = chance.randrange(256)
    return bytes(new)


# -------------------------------------------------------------------------------------------------------------- tables


def _forged(content: bytes, chance: random.Random) -> bytes:
    """Offsets of PLAIN, where they are stored plainly, that lead anywhere; no writer would write these."""
    offsets = np.sort(np.array([chance.randrange(61) for _ in range(16)], dtype=np.int32))
    if chance.random() < 0.7:
        offsets[chance.randrange(16)] = chance.choice([-1, 61, 2**31 - 1, -(2**31)])
    return content.replace(np.arange(0, 64, 4, dtype=np.int32).tobytes(), offsets.tobytes())


def _indexed(chance: random.Random, count: int) -> Any:
    """A dictionary, perhaps with indices that it does not have, or with nulls."""
    indices = [chance.choice([0, 0, 1, 2, -1, 127]) for _ in range(count)] if chance.random() < 0.5 else [0] * count
    words = pa.array(chance.choice([["a", "b", "c"], ["a"], [None, "b", None], [], [1, 2, 3]]))
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), words, safe=False)


def _column(chance: random.Random, texts: list[str]) -> Any:
    """A column in the place of these texts."""
    count = len(texts)
    values: list[Any] = list(texts)
    match chance.randrange(15):
        case 0:
            return pa.array(range(count), chance.choice([pa.int8(), pa.uint64(), pa.float16(), pa.timestamp("ns")]))
        case 1:
            return pa.array([text.encode() for text in texts], chance.choice([pa.binary(), pa.large_binary()]))
        case 2:
            values[chance.randrange(count)] = None
        case 3:
            return pa.nulls(count, chance.choice([pa.null(), pa.string(), pa.list_(pa.string())]))
        case 4:
            return pa.array(
                [[text] for text in texts], chance.choice([pa.list_(pa.string()), pa.list_(pa.string(), 1)])
            )
        case 5:
            return pa.array([{"por": text, "en": chance.choice([text, None])} for text in texts])
        case 6:
            return pa.array([{"x": {"por": {"en": text}}} if chance.random() < 0.9 else None for text in texts])
        case 7:
            return pa.array([[("por", text)] for text in texts], pa.map_(pa.string(), pa.string()))
        case 8:
            return pa.array(PLAIN if chance.random() < 0.7 else [chance.randbytes(4) for _ in PLAIN]).view(pa.string())
        case 9:
            return _indexed(chance, count)
        case 10:
            return pa.array(texts, chance.choice([pa.large_string(), pa.string_view()]))
        case 11:
            return pa.RunEndEncodedArray.from_arrays([count - 2, count], ["a", "b"])
        case 13:
            return pa.array(texts).dictionary_encode()
        case _:
            values[chance.randrange(count)] = chance.choice(HOSTILE_TEXT)
    return pa.array(values, pa.string())


def table_of(chance: random.Random) -> pa.Table:
    """A table with wrong content."""
    columns = {name: pa.array(texts) for name, texts in SIDES.items()}
    for name in chance.sample(sorted(columns), chance.randint(0, 2)):
        columns[name] = _column(chance, SIDES[name])
    names, arrays = list(columns), list(columns.values())
    match chance.randrange(12):
        case 0:
            names[chance.randrange(2)] = chance.choice(HOSTILE_NAMES)
        case 1:
            names, arrays = names * 2, arrays * 2
        case 2:
            names, arrays = names[:1], arrays[:1]
        case 3:
            names, arrays = [], []
        case 4 | 5:
            around = chance.choice(["translation", "x", "por"])
            names, arrays = [around], [pa.StructArray.from_arrays(arrays, names)]
        case 6:
            names, arrays = [*map(str, range(300)), *names], [*([arrays[0]] * 300), *arrays]
        case 7:
            arrays = [array.slice(0, 0) for array in arrays]
    return checked(pa.Table.from_arrays(arrays, names=names))


def checked(table: pa.Table) -> pa.Table:
    """The table if it leads nowhere outside itself: writing it would crash. What is not UTF-8 may stay."""
    for column in table.columns:
        for chunk in column.chunks:
            chunk.validate(full=not pa.types.is_string(chunk.type))
    return table


def write_parquet(table: pa.Table, chance: random.Random) -> bytes:
    """In one of many ways."""
    out, kinds = io.BytesIO(), ["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]
    parquet.write_table(
        table,
        out,
        row_group_size=chance.choice([1, 4, 8_192]),
        compression=chance.choice(kinds),
        use_dictionary=chance.random() < 0.5,
        data_page_version=chance.choice(["1.0", "2.0"]),
        write_page_checksum=chance.random() < 0.5,
        store_schema=chance.random() < 0.7,
    )
    return out.getvalue()


def write_arrow(table: pa.Table, chance: random.Random) -> bytes:
    """A stream or a file, compressed or not, its batches perhaps cut."""
    out, options = io.BytesIO(), ipc.IpcWriteOptions(compression=chance.choice([None, "lz4", "zstd"]))
    make = chance.choice([ipc.new_stream, ipc.new_file])
    with make(out, table.schema, options=options) as writer:
        writer.write_table(table, chance.choice([1, 4, None]))
    return _forged(out.getvalue(), chance)


def table_case(ending: str, write: Callable[[pa.Table, random.Random], bytes]) -> Callable[[Path], Case]:
    """Tables of one format."""

    def make(run: Path) -> Case:
        file = run.parent / f"text.{ending}"

        def case(chance: random.Random) -> None:
            content = None
            while content is None:
                try:
                    content = write(table_of(chance), chance)
                except (pa.ArrowException, OSError):  # not every type can be written in every way
                    continue
            file.write_bytes(changed(content, chance) if chance.random() < 0.4 else content)
            pairs_of(file)

        return case

    return make


def dataset_case(run: Path) -> Case:
    """The list of files in the folder of a dataset."""
    folder = run.parent / "dataset"
    folder.mkdir()
    table = pa.table(SIDES)
    for number in range(2):
        with ipc.new_stream(folder / f"{number}.arrow", table.schema) as writer:
            writer.write_table(table)
    state = {"_data_files": [{"filename": f"{number}.arrow"} for number in range(2)], "_indices_data_files": None}
    state |= {"_fingerprint": "0" * 16, "_format_columns": ["por", "en"], "_split": "train"}

    def case(chance: random.Random) -> None:
        text = json.dumps(mutated(state, at_random(chance))).encode()
        (folder / "state.json").write_bytes(changed(text, chance) if chance.random() < 0.2 else text)
        pairs_of(folder / "state.json")

    return case


# ---------------------------------------------------------------------------------------------------------------- zips


def write_zip(chance: random.Random) -> bytes:
    """A zip, its members called and packed in other ways."""
    members = {f"corpus.{name}": "".join(f"{text}\n" for text in texts).encode() for name, texts in SIDES.items()}
    method = chance.choice([zipfile.ZIP_DEFLATED] * 4 + [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    one = chance.choice(sorted(members))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        twist = chance.randrange(14)
        match twist:
            case 0:
                members[chance.choice(["../../x.en", "/etc/x.en", "a\\b.en", "x.en/", ".en", "en", "x\0.en"])] = b"x\n"
            case 1:
                members[f"{'x' * 60_000}.{chance.choice(['en', 'xx'])}"] = b"x\n"
            case 2:
                members = {name.upper(): content for name, content in members.items()}
            case 3:
                del members[one]
            case 4:
                members |= {f"{number}.txt": b"" for number in range(3_000)}
            case 5:
                members[one] = b"" if chance.random() < 0.5 else chance.randbytes(5_000)
            case 6:
                members[one] = chance.choice([b"x" * 1_100_000, b"x", b"\n" * 99, b"\xff\n" * 15, members[one] * 2])
            case 7:
                inner = io.BytesIO()
                with zipfile.ZipFile(inner, "w") as nested:
                    nested.writestr(one, members[one])
                members[one] = inner.getvalue()
        for name, content in members.items():
            archive.writestr(name, content)
            if twist == 8 and name == one:
                with warnings.catch_warnings(action="ignore"):  # a second one of this name
                    archive.writestr(name, content)
        if twist == 9:
            archive.comment = chance.randbytes(60_000)
        if twist > 9:  # what the table at the end says
            info = archive.infolist()[chance.randrange(2)]
            match chance.randrange(6):
                case 0:
                    info.file_size = chance.choice([0, 1, 2**31, 2**62])
                case 1:
                    info.compress_size = chance.choice([0, 1, 2**31, 2**62])
                case 2:
                    info.header_offset = chance.choice([0, 1, 10**6, 2**40])
                case 3:
                    info.flag_bits ^= 1 << chance.randrange(16)
                case 4:
                    info.compress_type = chance.choice([1, 9, 12, 14, 93, 99, 0, 8])
                case _:
                    info.CRC ^= 1
    return out.getvalue()


def zip_case(run: Path) -> Case:
    """Zips with both sides."""
    file = run.parent / "text.zip"

    def case(chance: random.Random) -> None:
        content = write_zip(chance)
        file.write_bytes(changed(content, chance) if chance.random() < 0.3 else content)
        pairs_of(file)

    return case


CONTAINERS: dict[str, Callable[[Path], Case]] = {
    "parquet": table_case("parquet", write_parquet),
    "arrow": table_case("arrow", write_arrow),
    "dataset": dataset_case,
    "zip": zip_case,
}
