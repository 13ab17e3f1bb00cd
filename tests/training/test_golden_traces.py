"""A refactoring must not change a single number: 30 updates of a tiny model, for every family of strategies.

The traces in tests/golden/traces hold every loss, every mixture and a hash of the final weights. They are compared bit
for bit on the platform that made them, and to 1e-6 elsewhere (without the hash). To make them anew, after a change that
is meant to change numbers, and explain it in the commit:

    python -m tests.training.test_golden_traces
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import sentencepiece
import torch

from evenglot.model.dropout import factors

TRACES = Path(__file__).parents[1] / "golden" / "traces"
ELSEWHERE = 1e-6

STRATEGIES = {
    "erm": {"strategy": "proportional"},
    "fade": {"strategy": "fade"},
    "chi-ibr-recommended": {"strategy": "chi-ibr"},
    "chi-ibr-paper": {"strategy": "chi-ibr", "preset": "paper", "rho": 0.05},
    "chi-ibr-released-ted": {"strategy": "chi-ibr", "preset": "released-ted"},
    "group-dro": {"strategy": "group-dro"},
    "cvar-hybrid": {"strategy": "cvar-pd"},
    "group-dro-short": {"strategy": "group-dro", "apply": "resample", "step": 0.1},
    "multidds": {"strategy": "multidds", "every": 5},
    "fastdro": {"strategy": "fastdro"},
}
SHORT = {name: {"batches.interval_updates": 3} for name in ("fade", "group-dro-short")}  # settings of single traces
STILL = ("erm", "fastdro", "chi-ibr-recommended")  # after 30 updates, languages differ by no more than noise
SETTINGS = {
    "clean.max_words": 3,  # a small corpus: an interval has about eight updates
    "vocabulary.size_shared": 300,
    "vocabulary.size_other": 500,
    "batches.tokens_per_batch": 1024,
    "batches.tokens_per_update": 4096,
    "batches.interval_pairs": None,
    "clean.max_pieces": 60,
    "model.dim": 32,
    "model.heads": 4,
    "model.ffn": 64,
    "train.updates": 30,
    "train.warmup": 10,
    "train.learning_rate": 1e-3,
    "train.epsilon": 1e-3,  # or weights whose gradient is rounding noise would differ between platforms
    "train.log_every": 1,
    "train.validate_every": 15,
    "train.threads": 1,
    "train.device": "cpu",
}


def this_platform() -> dict[str, str]:
    """What the last bits of a float32 sum depend on, and whether the same subwords are learnt at all."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "sentencepiece": sentencepiece.__version__,
        "dropout": _dropout(),
    }


def _dropout() -> str:
    """Which random numbers this build of torch has: where they are others, nothing can be compared."""
    torch.manual_seed(7)
    return "".join(str(int(kept)) for kept in factors(torch.Size([64]), 0.1) > 0)


def _processor() -> str:
    """A digest of the processor's features: libraries choose their kernels by them."""
    about = Path("/proc/cpuinfo")
    if not about.exists():
        return platform.processor()
    features = next((line for line in about.read_text().splitlines() if line.startswith(("flags", "Features"))), "")
    return sha256(" ".join(sorted(features.split())).encode()).hexdigest()[:16]


def trace(name: str, folder: Path) -> dict:
    """Train, and keep all numbers."""
    from evenglot.config import load_config
    from evenglot.corpus.prepare import prepare
    from evenglot.paper.recipes import recipe_config
    from evenglot.progress import Bars
    from evenglot.runs import checkpoint_folder
    from evenglot.training.train import train

    settings = {**SETTINGS, **SHORT.get(name, {}), "balance": STRATEGIES[name], "store.folder": str(folder / "store")}
    overrides = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    prepare(load_config(recipe_config("tiny-webui"), overrides), Bars())
    config = load_config(recipe_config("tiny-webui"), overrides, check_files=False)
    train(config, folder / name)
    events = [json.loads(line) for line in (folder / name / "log.jsonl").read_text().splitlines()]

    def of(event: str, *keys: str) -> list[dict]:
        return [{key: each.get(key) for key in ("step", *keys)} for each in events if each["event"] == event]

    return {
        "steps": of("step", "loss", "losses", "gradient_norm", "tokens"),
        "intervals": of("interval", "mixture", "target", "pairs"),
        "balance": of("balance", "mixture", "target", "losses"),
        "validation": of("validation", "loss", "pooled", "macro", "worst"),
        "weights": _digest(checkpoint_folder.checkpoints(folder / name / "checkpoints")[-1].read_model()),
    }


def _digest(tensors: dict[str, torch.Tensor]) -> str:
    hashed = sha256()
    for name in sorted(tensors):
        hashed.update(name.encode() + b"\0" + tensors[name].numpy().tobytes())
    return hashed.hexdigest()


def numbers(value) -> list[float]:
    """All losses and mixtures in a trace, in order."""
    if isinstance(value, dict):
        return [number for key in sorted(value) if key != "gradient_norm" for number in numbers(value[key])]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [] if value is None else [float(value)]


def make(names: Iterable[str], folder: Path) -> None:
    """Write traces, with the platform, into a folder."""
    with TemporaryDirectory() as made_in:
        for name in names:
            content = {"platform": this_platform(), **trace(name, Path(made_in))}
            (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """All traces, made in a process of their own, as runs are: what other tests leave in this one cannot matter."""
    folder = tmp_path_factory.mktemp("traces")
    words = "import pathlib, sys; from tests.training.test_golden_traces import STRATEGIES, make; "
    command = [sys.executable, "-c", words + "make(STRATEGIES, pathlib.Path(sys.argv[1]))", str(folder)]
    subprocess.run(command, check=True, cwd=TRACES.parents[2])
    return folder


@pytest.mark.parametrize("name", STRATEGIES)
def test_training_gives_the_numbers_it_always_gave(name, folder):
    kept = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    here, there = this_platform(), kept.pop("platform")
    if here["dropout"] != there["dropout"]:
        pytest.skip("torch has other random numbers on this platform")
    if here["sentencepiece"] != there["sentencepiece"]:
        pytest.skip(f"sentencepiece {here['sentencepiece']} learns other subwords than {there['sentencepiece']}")
    made = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert made.pop("platform") == here
    assert len(made["steps"]) == 30
    if here == there:
        assert made == kept
        return
    del made["weights"], kept["weights"]
    np.testing.assert_allclose(numbers(made), numbers(kept), rtol=ELSEWHERE, atol=ELSEWHERE)


def test_the_mixtures_of_the_traces_move():
    """A trace in which nothing happens would guard nothing."""
    for name in STRATEGIES:
        kept = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))
        moved = {json.dumps(event["target"]) for event in kept["balance"]}
        assert (len(moved) > 1) == (name not in STILL), name


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    make(sys.argv[1:] or STRATEGIES, TRACES)
