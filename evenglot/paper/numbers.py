"""The numbers that the paper prints (numbers.json), and the layout of its tables (tables.yaml)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from evenglot import yaml12

Json = Mapping[str, Any]


@cache
def printed() -> Json:
    """All numbers of the paper's tables."""
    content: Json = json.loads(_read("numbers.json"))
    return content


@cache
def layouts() -> Json:
    """The sets of languages, and the tables with their rows."""
    content, _ = yaml12.parse(_read("tables.yaml"))
    layout: Json = content
    return layout


def bleu(dataset: str, direction: str, method: str) -> dict[str, float]:
    """BLEU by language and their average ('Avg'); empty if the paper does not have this row."""
    for row in printed()["rows"]:
        if (row["dataset"], row["direction"], row["method"]) == (dataset, direction, method):
            return {**row["bleu"], "Avg": row["avg_reported"]}
    return {}


def pairs(dataset: str) -> dict[str, int]:
    """Training pairs by language."""
    found: dict[str, int] = printed()["data_statistics"][dataset]["train_sentences"]
    return found


def _read(name: str) -> str:
    return files("evenglot.paper").joinpath(name).read_text(encoding="utf-8")
