"""Pretrained checkpoints in the format of Hugging Face: which families can be trained, and what their files say.

Reads JSON and compares file names only; neither torch nor transformers is imported, so that configurations are checked
quickly. Weights must be safetensors: a pickle (`.bin`) could run any code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evenglot.reading import read_text
from evenglot.symbols import Symbols

CONFIG, WEIGHTS, WEIGHTS_INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
UNLIMITED = 100_000  # positions of a model with relative ones


class PretrainedError(ValueError):
    """A checkpoint cannot be used; the message has the folder and what to do."""


@dataclass(frozen=True)
class Family:
    """How a family of models is used for translation.

    `shifts_last`: the first input of the decoder is the last target subword (a language code or </s>), instead of
    `decoder_start_token_id`. `tag`: a token at the start of the source names the target language; None: the tokenizer
    has source and target languages itself. `attention`, `feed_forward`: the names of their linear layers.
    """

    model_class: str  # in transformers
    shifts_last: bool = False
    tag: str | None = None
    has_positions: bool = True
    attention: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "out_proj")
    feed_forward: tuple[str, ...] = ("fc1", "fc2")


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "m2m_100": Family("M2M100ForConditionalGeneration"),  # M2M100, NLLB
        "mbart": Family("MBartForConditionalGeneration", shifts_last=True),  # mBART, mBART-50
        "marian": Family("MarianMTModel", tag=">>{}<<"),  # OPUS-MT
        "t5": Family(  # T5, MADLAD
            "T5ForConditionalGeneration",
            tag="<2{}>",
            has_positions=False,
            attention=("q", "k", "v", "o"),
            feed_forward=("wi", "wi_0", "wi_1", "wo"),
        ),
    }
)


@dataclass(frozen=True, eq=False)
class PretrainedConfig:
    """The content of a checkpoint's config.json, and where it is."""

    folder: Path
    content: Mapping[str, Any]

    @property
    def family(self) -> Family:
        """The family of the model."""
        return FAMILIES[self.content["model_type"]]

    @property
    def pieces(self) -> int:
        """The size of the vocabulary, in rows of the embedding."""
        return self._number("vocab_size")

    @property
    def symbols(self) -> Symbols:
        """The ids of </s> and padding."""
        return Symbols(self._number("eos_token_id"), self._number("pad_token_id"))

    @property
    def decoder_start(self) -> int:
        """The first input of the decoder, unless the family `shifts_last`."""
        return self._number("decoder_start_token_id")

    @property
    def max_positions(self) -> int:
        """The maximum number of subwords of a sentence, including special ones."""
        return self._number("max_position_embeddings") if self.family.has_positions else UNLIMITED

    def _number(self, key: str) -> int:
        value = self.content.get(key, DEFAULTS[self.content["model_type"]].get(key))
        if type(value) is not int:
            raise PretrainedError(f"{self.folder / CONFIG}: {key}: expected a number, got {value!r}")
        return value


# What transformers fills in for keys that an older config.json does not have.
DEFAULTS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "m2m_100": {"eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2, "max_position_embeddings": 1024},
        "mbart": {"eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2, "max_position_embeddings": 1024},
        "marian": {"eos_token_id": 0, "max_position_embeddings": 1024},
        "t5": {"eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0},
    }
)


def read_config(folder: Path) -> PretrainedConfig:
    """Read config.json of a checkpoint; PretrainedError if there is none, or of a model that cannot be trained."""
    file = folder / CONFIG
    try:
        content = json.loads(read_text(file))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PretrainedError(f"{folder}: {_what_is_there(folder)}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise PretrainedError(f"{file}: cannot be read: {error}") from error
    kind = content.get("model_type") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise PretrainedError(f"{file}: model_type: expected one of {', '.join(FAMILIES)}, got {kind!r}")
    return PretrainedConfig(folder, content)


def _what_is_there(folder: Path) -> str:
    """What a folder without config.json is instead. Nothing is downloaded, so the name of a model is no folder."""
    if folder.is_dir():
        return f"no {CONFIG}; expected a Hugging Face checkpoint"
    if folder.exists():
        return "not a folder; expected that of a Hugging Face checkpoint"
    return "no such folder; a model of the Hub is downloaded with `hf download OWNER/NAME --local-dir FOLDER`"


def is_run(folder: Path) -> bool:
    """Whether a folder is a run of evenglot, not a checkpoint of Hugging Face."""
    return (folder / "config.yaml").is_file() and not (folder / CONFIG).is_file()


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint; PretrainedError if there are none."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = folder / WEIGHTS_INDEX
    if index.is_file():
        try:
            names = sorted(map(str, set(json.loads(read_text(index))["weight_map"].values())))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PretrainedError(f"{index}: damaged") from error
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise PretrainedError(f"{folder}: {missing[0]} is missing, although {WEIGHTS_INDEX} lists it")
        return [folder / name for name in names]
    if any((folder / name).exists() for name in PICKLES):
        raise PretrainedError(
            f"{folder}: the weights are a pickle (pytorch_model.bin), which can run any code, and are not read; if you "
            'trust them, convert them: python -c "import transformers; transformers.AutoModelForSeq2SeqLM.'
            f"from_pretrained('{folder}').save_pretrained('NEW')\", and copy the files of the tokenizer to NEW"
        )
    raise PretrainedError(f"{folder}: no {WEIGHTS}; expected a Hugging Face checkpoint with safetensors")


def fingerprint(folder: Path) -> str:
    """A short hash of config.json and the weights."""
    code = blake2b(digest_size=8)
    for file in (folder / CONFIG, *weight_files(folder)):
        with file.open("rb") as content:
            while chunk := content.read(1 << 22):
                code.update(chunk)
    return code.hexdigest()
