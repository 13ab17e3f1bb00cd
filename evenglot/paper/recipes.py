"""Recipes that convert downloaded public corpora to our layout (layout.py), and the demo corpus.

Nothing is downloaded here: users fetch the corpora themselves and accept their terms. `make` also writes the
configuration of the paper's method and the grid of all rows of its tables, from `evenglot/recipes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path

from evenglot.paper.layout import CONFIG, GRID, Manifest
from evenglot.paper.ted import DIVERSE, RELATED, find_talks, ted
from evenglot.paper.wmt_files import look_up, refuse_missing, wmt_downloads

RECIPES: Mapping[str, Callable[..., Manifest]] = {
    "ted-related": partial(ted, languages=RELATED),
    "ted-diverse": partial(ted, languages=DIVERSE),
    "wmt": wmt_downloads,
}
TALKS = {"ted-related": RELATED, "ted-diverse": DIVERSE}
Row = tuple[str, int | None, Path | None]  # language and split, expected pairs, file


def make(name: str, downloads: Path, out: Path, *, overwrite: bool = False) -> Manifest:
    """Convert the downloads to a folder with the corpus, the configuration and the paper's grid."""
    written = {CONFIG: recipe_config(name), GRID: recipe_grid(name)}
    texts = {file: path.read_text(encoding="utf-8") for file, path in written.items()}
    return RECIPES[name](downloads, out, overwrite=overwrite, files=texts)


def survey(name: str, downloads: Path) -> Iterator[Row]:
    """The files that a recipe would read; at last, CorpusError lists those that are missing."""
    if name == "wmt":
        looked = look_up(downloads)
        for each in dict.fromkeys(looked):
            if each.path is not None:
                yield f"{each.language} {each.split.replace('_', ' ')}", each.pairs, each.path
        refuse_missing(downloads, looked)
        return
    found = find_talks(downloads, TALKS[name])
    for language, talks in TALKS[name].items():
        yield f"{language} train", talks.pairs, None
    for file in found.files:
        yield found.format, None, file


def recipe_config(name: str) -> Path:
    """The configuration of a recipe, or of the demo (`tiny-webui`)."""
    return _packaged("recipes", f"{name}.yaml")


def recipe_grid(name: str) -> Path:
    """The grid of a recipe: all rows of the paper's tables about this corpus."""
    return _packaged("recipes", "grids", f"{name}.yaml")


def demo_corpus() -> Path:
    """The demo corpus in our layout: software messages in five languages (data/tiny_webui/README.md)."""
    return _packaged("data", "tiny_webui")


def _packaged(*names: str) -> Path:
    return Path(str(files("evenglot").joinpath(*names)))
