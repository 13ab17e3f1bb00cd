"""The JSON schema for editors: it accepts what load_config accepts, and marks unknown keys and values out of range."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenglot import yaml12
from evenglot.balance import STRATEGIES, create
from evenglot.cli import app
from evenglot.config import Config
from evenglot.config.balance import model_of
from evenglot.config.example import example
from evenglot.config.schema import balance_schema, schema
from tests.config.json_schema import is_valid

ROOT = Path(__file__).parents[2]
SCHEMA = schema()
DATA = "data: {directions: [no-en, tur-en], train: 'train.{pair}.{lang}'}\n"
CONFIGS = [*ROOT.glob("evenglot/recipes/*.yaml"), *ROOT.glob("experiments/*/conf.yaml")]


def accepts(text):
    return is_valid(yaml12.parse(text)[0], SCHEMA)


def test_the_command_prints_it():
    done = CliRunner().invoke(app, ["schema"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == SCHEMA


def test_it_accepts_the_example():
    assert accepts(example())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_accepts_the_configurations_of_this_repository(path):
    assert accepts(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "train:",
        "balance: {strategy: schedule, points: {0: tau:5, 20: {no-en: 1, tur-en: 2}}}",
        "balance: {strategy: temperature, tau: .inf}",
        "balance: {rho: tau:1.5}",
        "balance: {baseline: {no-en: 2.5, tur-en: 3}}",
        "store: {threads: -1}",
    ],
)
def test_it_accepts_what_load_config_accepts(conf, text):
    conf.load(DATA + text)
    assert accepts(DATA + text)


@pytest.mark.parametrize(
    "directions",
    [
        "no-en",
        "{src: no, tgt: en, test: ['a.{lang}', [a, b], x.zip]}",
        "{from: [no, tur], to: en}",
        "[no-en, {src: tur, tgt: en, label: x, valid: null}]",
    ],
)
def test_it_accepts_every_way_to_write_directions(conf, directions):
    text = f"data: {{directions: {directions}, train: 'train.{{pair}}.{{lang}}'}}"
    conf.load(text)
    assert accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        "train: {warmup_step: 5}",
        "train: {updates: 0}",
        "train: {updates: 1.5}",
        "train: {schedule: cosine}",
        "model: {dropout: 1}",
        "batches: {epoch_size: 5}",
        "store: {threads: 0}",
        "balance: {strategy: chi-ibr, tau: 5}",
        "balance: {tau: 5}",
        "balance: {strategy: temperature}",
        "balance: {strategy: temperature, tau: 0}",
        "balance: {strategy: chi}",
        "balance: {max_upsample: 0.5}",
        "balance: {max_passes: 5, intervals: 3}",
        "seed: -1",
        "extra: 1",
    ],
)
def test_it_rejects_mistakes(text):
    assert not accepts(DATA + text)


@pytest.mark.parametrize(
    "data", ["", "data: {train: 'x.{lang}'}", "data: {directions: []}", "data: {directions: [{src: no}]}"]
)
def test_it_rejects_a_configuration_without_directions(data):
    assert not accepts(data)


def test_every_key_has_its_meaning():
    for name, about in Config.model_fields.items():
        if name not in ("seed", "balance"):
            keys = SCHEMA["$defs"][about.annotation.__name__]["properties"]
            assert all(key["description"] for key in keys.values())
    for strategy in STRATEGIES:
        keys = SCHEMA["$defs"][f"balance-{strategy}"]["properties"]
        assert list(keys) == list(model_of(strategy).model_fields)
        assert all(key["description"] for key in keys.values())


# ---------------------------------------------------------------- ranges of options: declared here, enforced elsewhere


def declared_limits():
    for strategy in STRATEGIES:
        for option, about in balance_schema(strategy)["properties"].items():
            for kind in about.get("anyOf", [about]):
                for limit in ("minimum", "exclusiveMinimum", "maximum"):
                    if limit in kind:
                        yield pytest.param(strategy, option, limit, kind[limit], id=f"{strategy}-{option}-{limit}")


NEEDED = {
    "temperature": {"tau": 2.0},
    "mix": {"alpha": 0.5},
    "unimax": {"passes": 5.0},
    "schedule": {"points": {0: "data"}},
}
BESIDE = {"max_passes": {"intervals": 1}}


@pytest.mark.parametrize(("strategy", "option", "limit", "value"), list(declared_limits()))
def test_the_builder_refuses_what_lies_outside_the_declared_range(strategy, option, limit, value):
    outside = {"minimum": value - 1, "exclusiveMinimum": value, "maximum": value + 1}[limit]
    given = {**NEEDED.get(strategy, {}), **BESIDE.get(option, {}), option: outside}
    assert option in STRATEGIES[strategy].options
    with pytest.raises(ValueError, match=rf"^{option}: "):
        create(strategy, {"a": 10, "b": 90}, **given)
