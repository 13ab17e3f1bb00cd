"""Fixed mixtures, read by those they are for: json, Hugging Face datasets."""

from __future__ import annotations

import json
import math
from typing import Any

import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.integrations.mixtures import interleave, megatron, paths_of, to_json, token_shares
from evenglot.robust.validate import OptionError
from evenglot.stages import Stage
from tests.documents import ROOT, blocks

SHARES = {"aze-en": 0.2, "por-en": 0.5, "slk-en": 0.0, "tur-en": 0.3}
PAGE = ROOT / "docs" / "integrations-mixtures.md"


def test_a_path_for_each_direction():
    assert paths_of("{src}/{tgt}/{direction}", ["aze-en", "zh_Hans-en"]) == {
        "aze-en": "aze/en/aze-en",
        "zh_Hans-en": "zh_Hans/en/zh_Hans-en",
    }


@pytest.mark.parametrize("pattern", ["corpora/{pair}", "corpora/{}", "corpora/train", "{tgt}"])
def test_a_pattern_with_an_unknown_field_or_one_path_for_two_is_refused(pattern):
    with pytest.raises(OptionError) as failure:
        paths_of(pattern, ["aze-en", "tur-en"])
    assert failure.value.option == "paths"


@pytest.mark.parametrize("shares", [{}, {"a": -1.0, "b": 2.0}, {"a": math.nan}, {"a": 0.0}])
@pytest.mark.parametrize("write", [to_json, lambda shares: interleave(shares, {}), lambda shares: megatron(shares, {})])
def test_what_is_no_mixture_is_refused(shares, write):
    with pytest.raises(OptionError) as failure:
        write(shares)
    assert failure.value.option == "shares"


@pytest.mark.parametrize("write", [interleave, megatron])
def test_a_missing_path_is_refused(write):
    with pytest.raises(OptionError) as failure:
        write(SHARES, {"aze-en": "a"})
    assert failure.value.option == "paths"


def test_shares_of_tokens_are_those_of_the_sentences_drawn():
    found = token_shares({"a": 0.5, "b": 0.5, "c": 0.0}, {"a": 10, "b": 100, "c": 5}, {"a": 100, "b": 3000, "c": 0})
    assert found == pytest.approx({"a": 0.25, "b": 0.75, "c": 0.0})
    with pytest.raises(OptionError):
        token_shares({"a": 1.0}, {"a": 10}, {"a": 0})


def test_json_has_every_share_and_the_stages():
    content = json.loads(to_json({"a": 2, "b": 6, "c": 0}, strategy="uniform"))
    assert content == {"strategy": "uniform", "mixture": {"a": 0.25, "b": 0.75, "c": 0.0}}
    stages = [Stage({"a": 1.0, "b": 0.0}, 10), Stage({"a": 0.5, "b": 0.5}, math.inf)]
    assert json.loads(to_json(stages))["stages"] == [
        {"pairs": 10, "mixture": {"a": 1.0, "b": 0.0}},
        {"pairs": None, "mixture": {"a": 0.5, "b": 0.5}},
    ]


# ------------------------------------------------------------------------------------------- Hugging Face datasets


def test_datasets_draws_the_directions_with_these_shares_as_the_docs_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for direction in SHARES:
        (tmp_path / f"it's {direction}.jsonl").write_text("".join(f'{{"text": "{direction}"}}\n' for _ in range(3000)))
    (tmp_path / "mixture.json").write_text(interleave(SHARES, paths_of("it's {direction}.jsonl", SHARES)))
    (example,) = (block.text for block in blocks(PAGE) if "interleave_datasets" in block.text)
    space: dict[str, Any] = {}
    exec(example, space)
    texts = np.array(list(space["train"]["text"]))
    for direction, share in SHARES.items():
        assert np.mean(texts == direction) == pytest.approx(share, abs=0.02)  # 4.5 standard deviations of 12,000


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1e9), min_size=1).filter(lambda found: any(found.values())))
def test_datasets_accepts_any_mixture(shares):
    """It checks that probabilities sum to 1."""
    content = json.loads(interleave(shares, {name: name for name in shares}))
    sources = [datasets.Dataset.from_dict({"name": [name]}) for name in content["directions"]]
    mixed = datasets.interleave_datasets(sources, probabilities=content["probabilities"], seed=7)
    assert all(shares[name] > 0 for name in mixed["name"])
