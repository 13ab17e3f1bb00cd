"""docs/configuration.md is made, not written: it must be what would be made now."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenglot.balance import STRATEGIES
from evenglot.config import EXAMPLE, Config
from evenglot.config.models import model_of
from evenglot.config.reference import chapters, in_words, prose, reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
MADE = reference()
PARTS = dict(re.findall(r"^##+ (\S+)\n(.*?)(?=^##+ |\Z)", MADE, re.MULTILINE | re.DOTALL))
ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \| (.*) \|$", re.MULTILINE)


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
        assert keys == list(model_of("chi-ibr").model_fields)
    elif section == "seed":
        assert keys == ["seed"]
    else:
        assert keys == [field.alias or name for name, field in model.model_fields.items()]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_is_there_with_its_options(strategy):
    options = [name for name in model_of(strategy).model_fields if name not in ("strategy", "p_unit")]
    assert [row[0] for row in ROW.findall(PARTS[strategy])] == (options if strategy != "chi-ibr" else [])


def test_types_ranges_defaults_and_explanations_are_those_of_models_and_example():
    rows = {section: {key: rest for key, *rest in ROW.findall(text)} for section, text in PARTS.items()}
    assert rows["model"]["dropout"] == ["number, 0 or more, below 1", "`0.3`", "the paper's; 0.1 for large corpora"]
    assert rows["clean"]["max_ratio"][:2] == ["number, above 1, or null", "`null`"]
    assert rows["data"]["directions"][1] == "*needed*"
    assert rows["balance"]["baseline"][2].endswith("that has seen more of the small")  # four lines
    assert rows["temperature"]["tau"] == ["number", "*needed*", ""]
    assert rows["cvar-ibr"]["ema"][2] == "as for `chi-ibr`"
    assert rows["group-dro"]["start"][2] == ""  # not what chi-ibr calls so


def test_every_comment_of_the_example_is_used():
    made = " ".join(MADE.replace("[methods](methods.md)", "docs/methods.md").split())
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        comment = " ".join(line.partition("#")[2].split())
        assert comment.startswith("---") or comment in made


def test_comments_above_beside_and_below_a_key():
    text = "# Hi.\n\n# ----- x\n# A section.\nx:\n  # Above.\n  a: 1  # beside\n        # and below\n\n  b: 2\ny: 3\n"
    said = chapters(text)
    assert (said[""].above, said["x"].above) == (["Hi."], ["A section."])
    blocks = [(block.above, block.keys) for block in said["x"].blocks if block.keys]
    assert blocks == [(["Above."], {"a": "beside and below"}), ([], {"b": ""})]
    assert {"y": ""} in [block.keys for block in said[""].blocks]


def test_examples_in_comments_are_set_apart():
    assert prose(["One of", "    a", "    b", "and so on"]) == "One of\n\n    a\n    b\n\nand so on\n"


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
