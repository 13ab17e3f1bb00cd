"""What goes with the model for those who use it without evenglot: a short program and a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenglot.export.ctranslate2.agreement import BEAM, LENGTH_PENALTY, MAX_LENGTH, Report
from evenglot.inference.ctranslate2.engine import BATCH

SCRIPT = '''\
"""Translate the lines of a text: python translate.py LANGUAGE < text > translation"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

here = Path(__file__).resolve().parent
source = sentencepiece.SentencePieceProcessor(model_file=str(here / "source.model"))
target = sentencepiece.SentencePieceProcessor(model_file=str(here / "target.model"))
tag = f">>{{sys.argv[1]}}<<" if len(sys.argv) > 1 else ""  # names the {side} language: see README.md
if tag not in {tags}:
    sys.exit("Which {side} language? One of {languages}: python translate.py LANGUAGE < text > translation")
sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")

# By way of ids, so that text that looks like a tag is not taken for one. The model can read {longest} pieces.
lines = [source.id_to_piece(source.encode(line)[:{longest}]) for line in sys.stdin]
translator = ctranslate2.Translator(str(here))
results = translator.translate_batch(
    [[tag, *pieces, "</s>"] for pieces in lines],
    beam_size={beam}, length_penalty={length_penalty}, max_batch_size={batch},
    max_decoding_length={max_length}, min_decoding_length=0,
)
for pieces, result in zip(lines, results):
    print(target.decode(result.hypotheses[0]) if pieces else "")
'''

README = """\
# {run}: a translation model for CTranslate2

Made by evenglot from update {step} of the run `{run}`; weights in {quantization}.

It translates {directions}.

## Use

    pip install ctranslate2 sentencepiece
    python translate.py {example} < text > translation

`translate.py` is short: read it to call the model from your own program.

## The tag

Every source sentence begins with a tag that names its {side} language, one of {tags}, and ends with `</s>`:

    {example_tag} ▁pieces ▁of ▁the ▁sentence </s>

The tag is a piece of its own. Put it in front of the pieces that SentencePiece (`source.model`) makes of a sentence;
within the text it means nothing. The model reads at most {max_positions} pieces at a time, tag and `</s>` included.

## Check

{check}

## Licence

Not stated. Whoever shares this model says so here; the text it was trained on may set conditions.
"""


def _languages(about: Mapping[str, Any]) -> list[str]:
    """The languages that tags name."""
    return [name.removeprefix(">>").removesuffix("<<") for name in about["tags"]]


def script(about: Mapping[str, Any]) -> str:
    """translate.py"""
    return SCRIPT.format(
        side=about["tag_side"],
        tags=about["tags"],
        languages=", ".join(_languages(about)),
        longest=about["max_positions"] - 2,
        beam=BEAM,
        length_penalty=LENGTH_PENALTY,
        max_length=min(MAX_LENGTH, about["max_positions"]),
        batch=BATCH,
    )


def readme(about: Mapping[str, Any], report: Report) -> str:
    """README.md"""
    check = str(report)
    return README.format(
        run=about["run"],
        step=about["step"],
        quantization=about["quantization"],
        directions=", ".join(about["directions"]),
        side=about["tag_side"],
        tags=", ".join(f"`{name}`" for name in about["tags"]),
        example=_languages(about)[0],
        example_tag=about["tags"][0],
        max_positions=about["max_positions"],
        check=f"{check[0].upper()}{check[1:]}.",
    )
