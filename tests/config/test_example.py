"""The example config is the manual: it must be complete and true."""

import pytest

from evenglot import yaml12
from evenglot.balance import STRATEGIES
from evenglot.config import EXAMPLE, load_config

TEXT = EXAMPLE.read_text(encoding="utf-8")
SHOWN = yaml12.parse(TEXT)[0]
DEFAULTS = {"train", "valid", "test", "directions"}  # of data: these have examples, not defaults


def test_it_shows_every_key_with_its_default(tmp_path):
    short = tmp_path / "conf.yaml"
    short.write_text(yaml12.dump({"data": {key: SHOWN["data"][key] for key in DEFAULTS}}))
    resolved = yaml12.parse(load_config(short, check_files=False).to_yaml().replace(f"{tmp_path}/", ""))[0]
    assert resolved == SHOWN
    assert [list(section) for section in resolved.values() if isinstance(section, dict)] == [
        list(section) for section in SHOWN.values() if isinstance(section, dict)
    ]


def test_it_is_a_config():
    assert load_config(EXAMPLE, check_files=False).data.valid == str(EXAMPLE.with_name("valid.{pair}.{lang}.gz"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_names_every_strategy_and_option(strategy):
    options = [o for o in STRATEGIES[strategy].options if o != "tokens"]
    if strategy == "chi-ibr":
        return  # its options are the keys
    line = next(line for line in TEXT.split("\n") if line.startswith(f"#     {strategy}"))
    if strategy == "cvar-ibr":
        chi = set(SHOWN["balance"]) - {"strategy", "p_unit", "preset", "rho", "max_upsample"}
        assert set(options) == chi | {"alpha"}
        options = ["alpha"]
    assert all(option in line for option in options)


def test_lines_are_not_too_long():
    assert max(map(len, TEXT.split("\n"))) <= 120
