"""Megatron-LM reads our weights and blends its datasets with them.

Megatron runs in a process of its own, as importing it warns and compiles. Reading `--data-args-path` is one line of
Megatron-LM that is not in the package `megatron-core`: `get_blend_from_list(f.read().split())`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.integrations.mixtures import megatron, paths_of
from evenglot.robust.validate import OptionError

pytestmark = pytest.mark.skipif(find_spec("megatron") is None, reason="megatron-core is in the dev extra")

BLENDS = """
import json, sys, warnings
warnings.simplefilter("ignore")
from megatron.core.datasets.utils import get_blend_from_list
for line in sys.stdin:
    print(json.dumps(get_blend_from_list(json.loads(line).split())), flush=True)
"""
SAMPLES = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from megatron.core.datasets.utils import get_blend_from_list
from megatron.core.tokenizers import MegatronTokenizer

file, size = sys.argv[1], int(sys.argv[2])
blend = get_blend_from_list(open(file).read().split())
for prefix in blend[0]:
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=np.int32)
    for _ in range(40):
        builder.add_document(torch.arange(1, 9), [8])
    builder.finalize(prefix + ".idx")
config = GPTDatasetConfig(
    random_seed=1, sequence_length=8, blend=blend, split="1,0,0", mid_level_dataset_surplus=0.5,
    reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
    tokenizer=MegatronTokenizer.from_pretrained(metadata_path={"library": "byte-level"}, vocab_size=20),
)
train, _, _ = BlendedMegatronDatasetBuilder(GPTDataset, [size, 0, 0], lambda: True, config).build()
print(json.dumps(np.bincount(train.dataset_index[:size]).tolist()))
"""


@pytest.fixture(scope="module")
def reader() -> Iterator[subprocess.Popen[str]]:
    """A process that reads the text of a `--data-args-path` file per line, as JSON, and prints paths and weights."""
    command = [sys.executable, "-c", BLENDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


def read_by(process: subprocess.Popen[str], text: str) -> tuple[list[str], list[float]]:
    process.stdin.write(json.dumps(text) + "\n")
    process.stdin.flush()
    paths, weights = json.loads(process.stdout.readline())
    return paths, weights


path = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
amount = st.just(0.0) | st.floats(1e-9, 1e9)


@given(st.dictionaries(path, amount, min_size=1).filter(lambda found: any(found.values())))
def test_paths_and_weights_are_read_as_they_were_written(reader, shares):
    paths = {f"x{number}": path for number, path in enumerate(shares)}
    amounts = dict(zip(paths, shares.values(), strict=True))
    positive = [path for path, share in shares.items() if share]
    if any(path.split() != [path] for path in positive):
        with pytest.raises(OptionError, match="paths"):
            megatron(amounts, paths)
        return
    read, weights = read_by(reader, megatron(amounts, paths))
    assert read == positive
    total = sum(shares.values())
    assert weights == pytest.approx([shares[path] / total for path in positive])


@pytest.mark.slow
def test_megatron_samples_with_these_weights(tmp_path: Path):
    shares = {"aze-en": 0.05, "por-en": 0.65, "slk-en": 0.0, "tur-en": 0.3}
    file = tmp_path / "blend.txt"
    file.write_text(megatron(shares, paths_of(f"{tmp_path}/it's-{{direction}}", shares)))
    command = [sys.executable, "-c", SAMPLES, str(file), "1000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [50, 650, 300]
