"""Files for users of the exported model who do not have evenglot: translate.py and README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenglot.export.ctranslate2.agreement import BEAM, LENGTH_PENALTY, MAX_LENGTH, Report
from evenglot.inference.ctranslate2.engine import BATCH

SCRIPT = '''\
"""Translate a text line by line: python translate.py LANGUAGE < text > translation"""

import json
import sys
import zlib
from pathlib import Path

import ctranslate2
import sentencepiece

here = Path(__file__).resolve().parent
file = here / "evenglot.json"
try:  # Was anything damaged on its way here?
    for name, (_, checksum) in json.loads(file.read_text(encoding="utf-8"))["files"].items():
        file = here / name
        if zlib.crc32(file.read_bytes()) != checksum:
            raise ValueError("changed since it was exported")
except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
    sys.exit(f"{{file}}: damaged ({{error!r}}); copy the folder again")
source = sentencepiece.SentencePieceProcessor(model_file=str(here / "source.model"))
target = sentencepiece.SentencePieceProcessor(model_file=str(here / "target.model"))
tag = f">>{{sys.argv[1]}}<<" if len(sys.argv) > 1 else ""  # of the {side} language: see README.md
if tag not in {tags}:
    sys.exit("usage: python translate.py LANGUAGE < text > translation, with the {side} language: {languages}")
sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")

# Encode to ids first, so that text that looks like a tag is not read as one. Lines are cut at {longest} subwords.
lines = [source.id_to_piece(source.encode(line)[:{longest}]) for line in sys.stdin]
translator = ctranslate2.Translator(str(here))
results = translator.translate_batch(
    [[tag, *subwords, "</s>"] for subwords in lines],
    beam_size={beam}, length_penalty={length_penalty}, max_batch_size={batch},
    max_decoding_length={max_length}, min_decoding_length=0,
)
for subwords, result in zip(lines, results):
    print(target.decode(result.hypotheses[0]) if subwords else "")
'''

README = """\
# {run}: a translation model for CTranslate2

Exported by evenglot from update {step} of the run `{run}`. Weights: {quantization}. Directions: {directions}.

## Use

    pip install ctranslate2 sentencepiece
    python translate.py {example} < text > translation

`translate.py` is a short example of how to call the model from your own program.

## Input format

Every source sentence begins with the tag of its {side} language, one of {tags}, and ends with `</s>`:

    {example_tag} ▁subwords ▁of ▁the ▁sentence </s>

The tag is a single token. Put it before the subwords that SentencePiece (`source.model`) produces for the sentence; a
tag inside the text has no effect. The maximum length is {max_positions} tokens, including the tag and `</s>`.

## Check

{check}

## Licence

Not specified. Add a licence here before you share the model; the training data may restrict the choice.
"""


def _languages(about: Mapping[str, Any]) -> list[str]:
    """The languages of the tags."""
    return [name.removeprefix(">>").removesuffix("<<") for name in about["tags"]]


def script(about: Mapping[str, Any]) -> str:
    """The content of translate.py."""
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
    """The content of README.md."""
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
