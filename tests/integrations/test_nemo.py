"""NeMo reads our `input_cfg` and draws sentence pairs with its weights.

NeMo has dozens of dependencies, some of which conflict with ours, so it is not in the dev extra: install
`nemo_toolkit[asr]` and evenglot in an environment of their own, and run this file there.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.integrations.mixtures import nemo, text_paths_of
from evenglot.robust.validate import OptionError

SHARES = {"no-en": 0.2, "por-en": 0.5, "slk-en": 0.0, "tur-en": 0.3}
any_path = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def test_source_and_target_have_their_languages():
    found = text_paths_of("{direction}/train.{lang}", ["aze-en", "en-aze"])
    assert found == {
        "aze-en": ("aze-en/train.aze", "aze-en/train.en"),
        "en-aze": ("en-aze/train.en", "en-aze/train.aze"),
    }


@pytest.mark.parametrize("pattern", ["{direction}", "{pair}.{lang}"])
def test_a_pattern_without_languages_or_with_an_unknown_field_is_refused(pattern):
    with pytest.raises(OptionError, match="paths"):
        text_paths_of(pattern, ["aze-en"])


@pytest.mark.parametrize("path", ["", "a(b", "a{1..3}", "shard_OP_0..3_CL_"])
def test_a_path_that_nemo_would_expand_is_refused(path):
    with pytest.raises(OptionError, match="paths"):
        nemo({"aze-en": 1.0}, {"aze-en": ("a", path)})


@pytest.mark.filterwarnings("ignore")
def test_nemo_draws_the_directions_with_these_shares(tmp_path: Path):
    cutset = pytest.importorskip("nemo.collections.common.data.lhotse.cutset", reason="see above")
    from omegaconf import OmegaConf

    paths = text_paths_of(f"{tmp_path}/it's {{direction}}.{{lang}}", SHARES)
    for name, sides in paths.items():
        for path in sides:
            Path(path).write_text("".join(f"{name} {number}\n" for number in range(50)))
    (tmp_path / "input.yaml").write_text(nemo(SHARES, paths))
    settings = {"input_cfg": str(tmp_path / "input.yaml"), "shuffle": False, "shard_seed": 1, "seed": 1}
    pairs, _ = cutset.read_cutset_from_config(OmegaConf.create(settings))
    drawn = list(islice(pairs, 4000))
    assert all(pair.source.text == pair.target.text for pair in drawn)
    languages = Counter(f"{pair.source.language}-{pair.target.language}" for pair in drawn)
    assert languages == Counter(pair.source.text.split()[0] for pair in drawn)
    assert set(languages) == {"no-en", "por-en", "tur-en"}
    for name, share in SHARES.items():
        assert languages[name] / 4000 == pytest.approx(share, abs=0.035)  # 4.4 standard deviations


@pytest.mark.filterwarnings("ignore")
@given(st.dictionaries(any_path, st.floats(1e-7, 1), min_size=1, max_size=5))
def test_nemo_reads_paths_and_weights_as_they_were_written(tmp_path_factory, shares):
    cutset = pytest.importorskip("nemo.collections.common.data.lhotse.cutset", reason="see above")
    from omegaconf import OmegaConf

    paths = {f"x{number}-en": (path, f"{path} en") for number, path in enumerate(shares)}
    weights = dict(zip(paths, shares.values(), strict=True))
    try:
        text = nemo(weights, paths)
    except OptionError:
        assert any(set("()<>{}[]") & set(path) or "_OP_" in path or "_CL_" in path for path in shares)
        return
    file = tmp_path_factory.mktemp("nemo") / "input.yaml"
    file.write_text(text, encoding="utf-8")
    entries = OmegaConf.create(cutset.load_yaml(file))
    assert [(each.source_paths, each.target_paths) for each in entries] == list(paths.values())
    total = sum(shares.values())
    assert [each.weight for each in entries] == pytest.approx([share / total for share in shares.values()])
