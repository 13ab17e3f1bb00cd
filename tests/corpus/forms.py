"""One corpus in all the forms that it can have on disk."""

import gzip
import io
import json
import zipfile

import pyarrow
import zstandard
from pyarrow import ipc, parquet


def text(folder, stem, language, sentences, pack=bytes, ending=""):
    (folder / f"{stem}.{language}{ending}").write_bytes(pack("".join(f"{s}\n" for s in sentences).encode()))


def two_files(folder, stem, languages, pairs, pack=bytes, ending=""):
    for language, sentences in zip(languages, columns(pairs), strict=True):
        text(folder, stem, language, sentences, pack, ending)


def columns(pairs):
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def plain(folder, stem, languages, pairs):
    two_files(folder, stem, languages, pairs)
    return f"{stem}.{{lang}}"


def gz(folder, stem, languages, pairs):
    two_files(folder, stem, languages, pairs, gzip.compress, ".gz")
    return f"{stem}.{{lang}}.gz"


def several(folder, stem, languages, pairs):
    """Two pairs of files of different kinds, one given by two paths, and a TSV."""
    third = len(pairs) // 3
    two_files(folder, f"{stem}.z", languages, pairs[:third], zstandard.compress, ".zst")
    two_files(folder, f"{stem}.b", languages, pairs[third : 2 * third])
    tsv(folder, f"{stem}.a", languages, pairs[2 * third :])
    return [f"{stem}.z.{{lang}}.zst", [f"{stem}.b.{{src}}", f"{stem}.b.{{tgt}}"], f"{stem}.a.tsv"]


def wildcards(folder, stem, languages, pairs):
    """Several files, one of them empty."""
    size = len(pairs) // 3 + 1
    parts = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    for letter, part in zip("abcd", [*parts[:1], [], *parts[1:]], strict=False):
        two_files(folder, f"{stem}.part-{letter}", languages, part, gzip.compress, ".gz")
    return f"{stem}.part-*.{{lang}}.gz"


def tsv(folder, stem, languages, pairs):
    (folder / f"{stem}.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8", newline="")
    return f"{stem}.tsv"


def jsonl(folder, stem, languages, pairs):
    rows = [dict(zip(languages, pair, strict=True)) for pair in pairs]
    (folder / f"{stem}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"{stem}.jsonl"


def nested_jsonl(folder, stem, languages, pairs):
    rows = [{"id": 1, "translation": dict(zip(languages[::-1], pair[::-1], strict=True))} for pair in pairs]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / f"{stem}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return f"{stem}.jsonl.gz"


def table(languages, pairs):
    return pyarrow.table(dict(zip(languages, (pyarrow.array(side, "string") for side in columns(pairs)), strict=True)))


def nested_table(languages, pairs):
    source, target = (pyarrow.array(side, "string") for side in columns(pairs))
    both = pyarrow.StructArray.from_arrays([target, source], languages[::-1])
    return pyarrow.table({"id": pyarrow.array(range(len(pairs)), "int64"), "translation": both})


def flat_parquet(folder, stem, languages, pairs):
    parquet.write_table(table(languages, pairs), folder / f"{stem}.parquet", row_group_size=7, use_dictionary=False)
    return f"{stem}.parquet"


def nested_parquet(folder, stem, languages, pairs):
    parquet.write_table(nested_table(languages, pairs), folder / f"{stem}.parquet", compression="zstd")
    return f"{stem}.parquet"


def arrow(folder, stem, languages, pairs):
    content = table(languages, pairs)
    content = content.set_column(1, languages[1], content[languages[1]].dictionary_encode())
    with ipc.new_file(folder / f"{stem}.arrow", content.schema) as file:
        file.write_table(content, max_chunksize=5)
    return f"{stem}.arrow"


def dataset(folder, stem, languages, pairs):
    """As `datasets.Dataset.save_to_disk` writes it, in two files."""
    content, half = nested_table(languages, pairs), len(pairs) // 2
    (folder / stem).mkdir(exist_ok=True)
    names = [f"data-{number:05}-of-00002.arrow" for number in range(2)]
    for name, part in zip(names, (content[:half], content[half:]), strict=True):
        with ipc.new_stream(folder / stem / name, content.schema) as stream:
            stream.write_table(part, max_chunksize=5)
    (folder / stem / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return f"{stem}/"


def opus_zip(folder, stem, languages, pairs):
    """A Moses download of OPUS."""
    pack(folder / f"{stem}.txt.zip", members(languages, pairs))
    return f"{stem}.txt.zip"


def members(languages, pairs):
    name = f"OPUS.{'-'.join(sorted(languages))}"
    sides = zip(languages, columns(pairs), strict=True)
    texts = {f"{name}.{language}": "".join(f"{s}\n" for s in side).encode() for language, side in sides}
    return {"README": b"A corpus.\n", "LICENSE": b"", **texts, f"{name}.ids": b"1\n"}


def pack(path, members):
    """A zip of these members: names and content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    path.write_bytes(buffer.getvalue())


FORMS = {
    form.__name__: form
    for form in (
        plain,
        gz,
        several,
        wildcards,
        tsv,
        jsonl,
        nested_jsonl,
        flat_parquet,
        nested_parquet,
        arrow,
        dataset,
        opus_zip,
    )
}
