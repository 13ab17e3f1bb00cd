"""Recipes that convert downloaded public corpora to our layout (layout.py), and the demo corpus.

Nothing is downloaded here: users fetch the corpora themselves and accept their terms. The configurations in
`evenglot/recipes` train on the result; filters that need a vocabulary are set there.
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
    """The example configuration of a recipe, or of the demo (`tiny-webui`), to copy and edit."""
    return _packaged("recipes", f"{name}.yaml")


def demo_corpus() -> Path:
    """The demo corpus in our layout: software messages in five languages (data/tiny_webui/README.md)."""
    return _packaged("data", "tiny_webui")


def _packaged(*names: str) -> Path:
    return Path(str(files("evenglot").joinpath(*names)))
