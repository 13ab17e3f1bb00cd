"""The peers, each in a virtual environment of its own: torch first, then the peer without its pin of torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0"  # exactly, so that pip takes a CPU build where one is offered; as in pyproject.toml


@dataclass(frozen=True)
class Peer:
    """A toolkit to compare with; runners/run_<name>.py trains with it."""

    name: str
    title: str
    package: str  # as required from pip, and without the version the name that tells it
    requirements: tuple[str, ...] = ()  # what it needs besides, or does not declare
    alone: bool = False  # install it without its own requirements, with those listed here instead
    precisions: tuple[str, ...] = ("float32",)
    prepares: bool = False  # has a step between text and training, such as sockeye-prepare-data

    @property
    def distribution(self) -> str:
        return self.package.partition("==")[0]


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "eole",
            "eole",
            "eole==0.6.4",
            ("aiohttp",),  # imported by its command, not declared
            precisions=("float32", "bfloat16"),
        ),
        Peer(
            "sockeye",
            "Sockeye",
            "sockeye==3.1.34",
            ("pyyaml>=5.1", "numpy<2", "sacrebleu>=2.3"),
            alone=True,  # requires torch < 1.14
            prepares=True,
        ),
        Peer(
            "huggingface",
            "Hugging Face Seq2SeqTrainer",
            "transformers==5.23.0",
            ("accelerate", "datasets"),
            precisions=("float32", "bfloat16"),
            prepares=True,
        ),
        Peer(
            "joeynmt",
            "JoeyNMT",
            "joeynmt==2.3.0",
            (
                # what training imports of those it declares, without its pin of protobuf
                *("numpy", "pillow", "setuptools", "tensorboard", "sacrebleu>=2", "sacremoses", "sentencepiece"),
                *("subword-nmt", "matplotlib", "seaborn", "pyyaml", "six", "wrapt", "datasets", "packaging", "pandas"),
                "importlib_metadata",  # imported, not declared
            ),
            alone=True,  # it also declares linters and protobuf < 3.21, which training does not need
        ),
    )
}


def environment(peer: Peer, cache: Path) -> Path:
    """The Python of the peer's environment, which is set up if it is not yet."""
    folder = cache / "env" / peer.name
    python, marker = folder / "bin" / "python", folder / "ready.json"
    wanted = json.dumps([TORCH, peer.package, peer.requirements, peer.alone])
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return python
    print(f"Setting up {peer.title} in {folder} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text(f"{TORCH}\n", encoding="utf-8")
    _pip(python, TORCH)
    if peer.alone:
        _pip(python, "--constraint", str(constraints), *peer.requirements)
        _pip(python, "--no-deps", peer.package)
    else:
        _pip(python, "--constraint", str(constraints), peer.package, *peer.requirements)
    marker.write_text(wanted, encoding="utf-8")
    return python


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def version(python: Path, distribution: str) -> str:
    """The installed version of a distribution."""
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
