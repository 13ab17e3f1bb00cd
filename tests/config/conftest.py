import textwrap
from types import SimpleNamespace

import pytest

from evenglot.config import ConfigError, load_config


@pytest.fixture
def conf(tmp_path):
    """conf.load(text) and conf.errors(text): the file is tmp_path/conf.yaml, and errors call it conf.yaml."""

    def load(text, *overrides, check_files=False):
        path = tmp_path / "conf.yaml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return load_config(path, overrides, check_files=check_files)

    def errors(text, *overrides, check_files=False):
        with pytest.raises(ConfigError) as caught:
            load(text, *overrides, check_files=check_files)
        return [line.replace(f"{tmp_path}/", "") for line in str(caught.value).split("\n")]

    return SimpleNamespace(load=load, errors=errors, folder=tmp_path)
