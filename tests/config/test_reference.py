"""docs/configuration.md is generated: it must be what would be generated now."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenglot.balance import STRATEGIES
from evenglot.config import Config
from evenglot.config.balance import DEFAULT_STRATEGY, model_of
from evenglot.config.changes import FREE_IN_GRID, FREE_ON_RESUME, REMEDIES
from evenglot.config.reference import in_words, prose, reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
MADE = reference()
PARTS = dict(re.findall(r"^##+ (\S+)\n(.*?)(?=^##+ |\Z)", MADE, re.MULTILINE | re.DOTALL))
ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)


def rows(section):
    """The cells of each key."""
    return {key: rest.split(" | ") for key, rest in ROW.findall(PARTS[section])}


def test_the_page_is_made_by_the_command_that_it_names():
    command = re.search(r"`python (-m [\w.]+)`", MADE)
    done = subprocess.run([sys.executable, *command[1].split()], capture_output=True, text=True, check=True)
    assert done.stdout == MADE


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == MADE, "run: python -m evenglot.config.reference > docs/configuration.md"


@pytest.mark.parametrize("section", Config.model_fields)
def test_every_key_is_there_once(section):
    model = Config.model_fields[section].annotation
    keys = [row[0] for row in ROW.findall(PARTS[section])]
    if section == "balance":
        assert keys == list(model_of(DEFAULT_STRATEGY).model_fields)
    elif section == "seed":
        assert keys == ["seed"]
    else:
        assert keys == [field.alias or name for name, field in model.model_fields.items()]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_is_there_with_its_options(strategy):
    options = [name for name in model_of(strategy).model_fields if name not in ("strategy", "p_unit")]
    assert list(rows(strategy)) == (options if strategy != DEFAULT_STRATEGY else [])


def test_types_ranges_defaults_and_meanings_are_the_declared_ones():
    dropout = Config.model_fields["model"].annotation.model_fields["dropout"]
    assert rows("model")["dropout"] == ["number, 0 or more, below 1", "`0.3`", "", dropout.description]
    assert rows("clean")["max_ratio"][:2] == ["number, above 1, or null", "`null`"]
    assert rows("data")["directions"][1] == "*required*"
    assert rows("temperature")["tau"][:2] == ["number, above 0", "*required*"]
    assert rows("chi-pd")["rho"][0] == "number, 0 or more, or text"


def test_the_page_says_what_may_change():
    for section in ("data", "store", "train"):
        for key, (_, _, change, _) in rows(section).items():
            name = f"{section}.{key}"
            words = set(filter(None, change.split(", ")))
            assert ("resume" in words, "remedy" in words, "grid" in words) == (
                name in FREE_ON_RESUME,
                name in REMEDIES,
                name in FREE_IN_GRID,
            ), name


def test_examples_in_comments_are_set_apart():
    assert prose("One of\n    a\n    b\nand so on") == "One of\n\n    a\n    b\n\nand so on\n"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 2000}, "whole number, 1 or more, 2,000 or less"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "true or false, or null"),
        ({"enum": ["a", "b", "c"]}, "`a`, `b` or `c`"),
        ({"const": -1}, "`-1`"),
    ],
)
def test_types_in_words(schema, words):
    assert in_words(schema) == words
