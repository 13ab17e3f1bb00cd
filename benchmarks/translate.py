"""Speed of translation: `python -m benchmarks.translate RUN` writes results/translate.md.

Compares our search in torch, CTranslate2 with float32 and int8, and Hugging Face's `generate` on the exported folder,
with the same model and sentences, beam 5 and one thread, taking turns. RUN is a trained run whose store has test sets.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

from evenglot.corpus.prepared import open_prepared
from evenglot.directions import Direction, parse, tag, tag_kind
from evenglot.export import huggingface
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import load
from evenglot.runs.run import Run

RESULT = Path(__file__).parent / "results" / "translate.md"
SENTENCES, BATCH, REPEATS, BEAM, LONGEST = 50, 32, 5, 5, 200

Texts = dict[Direction, list[str]]
Way = Callable[[Texts], list[str]]


def main() -> None:
    torch.set_num_threads(1)
    run = Run(Path(sys.argv[1]))
    store = open_prepared(run.config(), verify=False)
    texts = {parse(name): store.text(name, "test", "source")[:SENTENCES] for name in store.directions}
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "Hugging Face generate": generate(run, Path(folder) / "exported"),
            "torch (ours)": ours(run, "torch"),
            "CTranslate2 float32": ours(run, "ctranslate2"),
            "CTranslate2 int8": ours(run, "ctranslate2-int8"),
        }
        results, seconds = measure(ways, texts)
    reference = seconds["Hugging Face generate"]
    count = sum(map(len, texts.values()))
    rows = [
        f"| {name} | {statistics.median(times):.2f} | {count / statistics.median(times):.0f} "
        f"| {statistics.median(theirs / mine for mine, theirs in zip(times, reference, strict=True)):.1f} "
        f"| {sum(a == b for a, b in zip(results[name], results['torch (ours)'], strict=True))} of {count} |"
        for name, times in seconds.items()
    ]
    shape = load(run.folder).engine.model.shape  # type: ignore[attr-defined]
    lines = [
        "# How fast is translating?",
        "",
        f"Made by `python -m benchmarks.translate RUN` on {os.cpu_count()} cores ({platform.machine()}), one thread, "
        f"torch {torch.__version__}.",
        f"A model of dimension {shape.dim} with {shape.encoder_layers} + {shape.decoder_layers} layers and "
        f"{shape.target_pieces:,} target pieces; {count} test sentences of {len(texts)} directions, sorted by length, "
        f"beam {BEAM}. In turn, {REPEATS} times; medians.",
        "",
        "| way | seconds | sentences a second | times as fast as Hugging Face | same text as torch |",
        "|---|---:|---:|---:|---:|",
        *rows,
    ]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def measure(ways: dict[str, Way], texts: Texts) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
    sorted_texts = {direction: sorted(lines, key=len) for direction, lines in texts.items()}
    results, seconds = {}, {name: [] for name in ways}
    for repeat in range(REPEATS + 1):  # the first warms up
        for name, way in ways.items():
            started = perf_counter()
            results[name] = way(sorted_texts)
            if repeat:
                seconds[name].append(perf_counter() - started)
    return results, seconds


def ours(run: Run, engine: str) -> Way:
    translator = load(run.folder, engine=engine)  # type: ignore[arg-type]
    options = SearchOptions(BEAM, max_length=LONGEST)

    def translate(texts: Texts) -> list[str]:
        streams = (translator.stream(lines, direction, options) for direction, lines in texts.items())
        return [best[0].text for stream in streams for best in stream]

    return translate


def generate(run: Run, folder: Path) -> Way:
    import transformers

    huggingface.export(run, folder)
    transformers.utils.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that we do not use
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    side = tag_kind(run.config().data.directions)

    def translate(texts: Texts) -> list[str]:
        found = []
        for direction, lines in texts.items():
            for first in range(0, len(lines), BATCH):
                tagged = [f"{tag(direction, side)} {line}" for line in lines[first : first + BATCH]]
                batch = tokenizer(tagged, return_tensors="pt", padding=True)
                with torch.inference_mode():
                    ids = model.generate(**batch, num_beams=BEAM, max_length=LONGEST + 1)
                found += tokenizer.batch_decode(ids, skip_special_tokens=True)
        return found

    return translate


if __name__ == "__main__":
    main()
