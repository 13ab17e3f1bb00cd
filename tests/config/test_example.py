"""The example config is generated from the declared fields, and it must be complete, true and readable."""

import re

import pytest

from evenglot import yaml12
from evenglot.balance import STRATEGIES
from evenglot.config import load_config
from evenglot.config.balance import DEFAULT_STRATEGY, BalanceSettings, model_of
from evenglot.config.example import example, key_groups, options
from evenglot.config.models import Config

TEXT = example()
SHOWN = yaml12.parse(TEXT)[0]
WITHOUT_DEFAULT = {"train", "valid", "test", "directions"}  # of data: these have examples


def test_it_shows_every_key_with_its_default(tmp_path):
    short = tmp_path / "conf.yaml"
    short.write_text(yaml12.dump({"data": {key: SHOWN["data"][key] for key in WITHOUT_DEFAULT}}))
    resolved = yaml12.parse(load_config(short, check_files=False).to_yaml().replace(f"{tmp_path}/", ""))[0]
    assert resolved == SHOWN
    assert [list(section) for section in resolved.values() if isinstance(section, dict)] == [
        list(section) for section in SHOWN.values() if isinstance(section, dict)
    ]


def test_it_is_a_config(tmp_path):
    (tmp_path / "conf.yaml").write_text(TEXT)
    assert load_config(tmp_path / "conf.yaml", check_files=False).data.valid == f"{tmp_path}/valid.{{pair}}.{{lang}}.gz"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_names_every_strategy_and_option(strategy):
    said = re.search(rf"^#     {strategy} .*\n(?:#      +Options: ([^.]*)\.\n)?", TEXT, re.MULTILINE)
    if strategy == DEFAULT_STRATEGY:
        assert said[1] is None  # they are the keys
        assert options(strategy) == list(SHOWN["balance"])[2:]
        return
    assert options(strategy) == re.findall(r"\w+", said[1] or "")


@pytest.mark.parametrize("section", [name for name in Config.model_fields if name != "seed"])
def test_every_meaning_stands_at_its_key(section):
    body = TEXT.split(f" {section}\n", 1)[1].split("# -----", 1)[0]
    for group in key_groups(Config.model_fields[section].annotation):
        for key, info in group.fields.items():
            at = re.search(rf"((?:^  #.*\n)*)^  {key}: [^#\n]*((?:#.*\n *)*)", body, re.MULTILINE)
            comment = at[1] if "\n" in info.description else at[2]
            assert " ".join(comment.replace("#", " ").split()).endswith(" ".join(info.description.split())), key


def test_every_option_of_every_strategy_has_a_meaning():
    for strategy in STRATEGIES:
        fields = model_of(strategy).model_fields
        assert list(fields)[: len(BalanceSettings.model_fields)] == list(BalanceSettings.model_fields)
        assert all(field.description for field in fields.values())


def test_comments_are_aligned_and_lines_are_not_too_long():
    lines = TEXT.splitlines()
    assert max(map(len, lines)) <= 120
    beside = [line.index("#") for line in lines if re.match(r" +\w+: .*#", line) and "{pair}" not in line]
    assert set(beside) == {27}
