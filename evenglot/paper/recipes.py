"""Recipes: public corpora, as they are downloaded, into our layout (layout.py); and the corpus of the demo.

Nothing is fetched here: who wants the talks or the news downloads them, and so knows under which terms. The
configurations in `evenglot/recipes` take over from there; filters that need a vocabulary are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path

from evenglot.paper.layout import Manifest
from evenglot.paper.ted import DIVERSE, RELATED, ted
from evenglot.paper.wmt import wmt

RECIPES: Mapping[str, Callable[..., Manifest]] = {
    "ted-related": partial(ted, languages=RELATED),
    "ted-diverse": partial(ted, languages=DIVERSE),
    "wmt": wmt,
}


def recipe_config(name: str) -> Path:
    """The configuration that goes with a recipe, or with the demo (`tiny-webui`): to be copied and changed."""
    return _packaged("recipes", f"{name}.yaml")


def demo_corpus() -> Path:
    """The corpus of the demo, in our layout: five languages of software messages (data/tiny_webui/README.md)."""
    return _packaged("data", "tiny_webui")


def _packaged(*names: str) -> Path:
    return Path(str(files("evenglot").joinpath(*names)))
