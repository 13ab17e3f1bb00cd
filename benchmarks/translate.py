"""Speed of translation: `python -m benchmarks.translate RUN...` writes results/translate.md.

Compares our search in torch, CTranslate2 with float32 and int8, and Hugging Face's `generate` on the exported folder,
with the same model and sentences, beam 5 and one thread, taking turns. A RUN is a trained run whose store has test
sets. The kept results are of two runs on the embedded corpus, made by

    evenglot train evenglot/recipes/tiny-webui.yaml --set balance='{strategy: proportional}' \\
        --set train.updates=600 --set model.size=tiny --out RUN

and the same with `mini`. `generate` gets batches of 16 sentences of similar length, its fastest size here (32 took 4 to
9 % longer, 50 took 22 to 40 %). It stops when better translations are unlikely, we stop when five are finished; with
models so badly trained that translations do not end, `generate` is slower still.
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
from time import process_time

import torch

from evenglot.corpus.prepared import open_prepared
from evenglot.directions import Direction, parse, tag, tag_kind
from evenglot.export import huggingface
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import load
from evenglot.runs.model import load_model
from evenglot.runs.run import Run

RESULT = Path(__file__).parent / "results" / "translate.md"
BATCH, REPEATS, BEAM, LONGEST = 16, 5, 5, 200
REFERENCE, OURS = "Hugging Face generate", "torch (ours)"

Texts = dict[Direction, list[str]]
Way = Callable[[Texts], list[str]]


def main() -> None:
    torch.set_num_threads(1)
    lines = [
        "# How fast is translating?",
        "",
        f"Made by `python -m benchmarks.translate RUN...` on {os.cpu_count()} cores ({platform.machine()}, "
        f"{torch.backends.cpu.get_cpu_capability()}), one thread, torch {torch.__version__}.",
        f"Models trained for a few minutes on the embedded corpus; its test sentences, sorted by length; beam {BEAM}.",
        f"CPU seconds, in turn, {REPEATS} times; medians.",
    ]
    for run in sys.argv[1:]:
        lines += ["", *section(Run(Path(run)))]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def section(run: Run) -> list[str]:
    store = open_prepared(run.config(), verify=False)
    texts = {parse(name): sorted(store.text(name, "test", "source"), key=len) for name in store.directions}
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            REFERENCE: generate(run, Path(folder) / "exported"),
            OURS: ours(run, "torch"),
            "CTranslate2 float32": ours(run, "ctranslate2"),
            "CTranslate2 int8": ours(run, "ctranslate2-int8"),
        }
        results, seconds = measure(ways, texts)
    shape = load_model(run.best()).shape
    count = sum(map(len, texts.values()))
    return [
        f"## {run.config().model.size}",
        "",
        f"Dimension {shape.dim}, {shape.encoder_layers} + {shape.decoder_layers} layers, {shape.target_pieces:,} "
        f"target subwords; {count} sentences of {len(texts)} directions.",
        "",
        "| way | CPU seconds | sentences per second | times as fast as Hugging Face | same text as torch |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {statistics.median(times):.2f} | {count / statistics.median(times):.0f} "
            f"| {statistics.median(theirs / mine for mine, theirs in zip(times, seconds[REFERENCE], strict=True)):.1f} "
            f"| {sum(a == b for a, b in zip(results[name], results[OURS], strict=True))} of {count} |"
            for name, times in seconds.items()
        ),
    ]


def measure(ways: dict[str, Way], texts: Texts) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
    results, seconds = {}, {name: [] for name in ways}
    for repeat in range(REPEATS + 1):  # the first warms up
        for name, way in ways.items():
            started = process_time()
            results[name] = way(texts)
            if repeat:
                seconds[name].append(process_time() - started)
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
