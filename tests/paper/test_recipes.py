from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from evenglot.config import load_config
from evenglot.corpus.read import read_pairs
from evenglot.files import sha256
from evenglot.paper.layout import SPLITS
from evenglot.paper.recipes import RECIPES, demo_corpus, recipe_config
from evenglot.paper.ted import DIVERSE, RELATED
from evenglot.paper.wmt import WMT4
from evenglot.text_file import TextFile

LANGUAGES = {"ted-related": RELATED, "ted-diverse": DIVERSE, "wmt": WMT4}


def test_the_demo_corpus_is_whole_and_has_its_licences() -> None:
    folder = demo_corpus()
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for language, split in product(("por", "tur", "ces", "slk", "glg"), SPLITS):
        source, target = (TextFile(folder / f"{split}.{language}-en.{side}.gz") for side in (language, "en"))
        assert sum(pair is not None and all(pair) for pair in read_pairs(source, target)) > 40
    assert manifest["sha256"] == {path.name: sha256(path) for path in sorted(folder.glob("*.gz"))}
    assert "Copyright" in (folder / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_a_config_for_its_languages_both_ways(name: str, tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_bytes(recipe_config(name).read_bytes())
    config = load_config(path, check_files=False)
    assert {direction.src for direction in config.data.directions} == set(LANGUAGES[name])
    assert {direction.tgt for direction in config.data.directions} == {"en"}
    other = load_config(path, [f"data.directions={{from: en, to: [{', '.join(LANGUAGES[name])}]}}"], check_files=False)
    files = other.data.files(other.data.directions[0], "train")
    assert files is not None
    assert files[0][0].path.parent == tmp_path / name


def test_the_config_of_the_demo_finds_its_corpus() -> None:
    config = load_config(recipe_config("tiny-webui"))
    files = config.data.files(config.data.directions[0], "test")
    assert files is not None
    assert files[0][0].path == demo_corpus() / "test.por-en.por.gz"
