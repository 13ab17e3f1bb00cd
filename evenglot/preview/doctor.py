"""`evenglot doctor`: what is installed, and what of it works on this machine."""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Literal

import torch
from rich import box
from rich.markup import escape
from rich.table import Table
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from evenglot import __version__
from evenglot.extras import EXTRAS, MissingExtraError
from evenglot.inference.ctranslate2.package import package
from evenglot.inference.ctranslate2.weights import convert
from evenglot.model.search import greedy
from evenglot.model.shape import Shape
from evenglot.model.sizes import SIZES
from evenglot.model.transformer import Transformer
from evenglot.processor import cores
from evenglot.symbols import EOS
from evenglot.training.parallel import PRECISIONS, has_bfloat16

State = Literal["ok", "absent", "wrong"]
STYLES: dict[State, str] = {"ok": "green", "absent": "yellow", "wrong": "red"}


@dataclass(frozen=True)
class Check:
    """What was looked at: it works, it is not there (which may be intended), or something is wrong with it."""

    what: str
    state: State
    details: str = ""


def doctor() -> Iterator[Check]:
    """All checks that need no GPU, in seconds."""
    yield Check("evenglot", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield from installed()
    yield Check("CPU", "ok", f"{cores()} cores, {torch.backends.cpu.get_cpu_capability()}")
    yield _gpus()
    for precision in PRECISIONS:
        yield attempt(f"{precision} products", partial(_product, precision))
    yield attempt("SentencePiece", _subwords)
    yield attempt("gloo group of 2 processes", _gloo)
    yield attempt("CTranslate2", _ctranslate2)


def doctor_table(checks: Sequence[Check]) -> Table:
    """One row per check; long details are wrapped."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in ("", "", "details"):
        shown.add_column(column, no_wrap=column == "")
    for check in checks:
        shown.add_row(check.what, f"[{STYLES[check.state]}]{check.state}[/]", escape(check.details))
    return shown


def attempt(what: str, work: Callable[[], str]) -> Check:
    """Do something and say how it went; `work` returns details, or raises."""
    try:
        return Check(what, "ok", work())
    except MissingExtraError as error:
        return Check(what, "absent", str(error))
    except Exception as error:  # whatever is wrong, the other checks go on
        return Check(what, "wrong", f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[-1]}")


def installed() -> Iterator[Check]:
    """The packages of each extra with their versions."""
    for extra, packages in EXTRAS.items():
        versions = {name: _version(name) for name in packages}
        absent = [name for name, found in versions.items() if found is None]
        if absent:
            advice = f'{", ".join(absent)} not installed: pip install "evenglot[{extra}]"'
            yield Check(f"extra {extra}", "absent", advice)
        else:
            yield Check(f"extra {extra}", "ok", ", ".join(f"{name} {found}" for name, found in versions.items()))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _gpus() -> Check:
    if not torch.cuda.is_available():
        built = "this torch is built without CUDA" if torch.version.cuda is None else "none found"
        return Check("GPUs", "absent", built)
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Check("GPUs", "ok", f"{', '.join(names)}; CUDA {torch.version.cuda}; `evenglot doctor --gpu` tests them")


# ------------------------------------------------------------------------------------------------- what works


def _product(precision: str) -> str:
    """A product on each device against the same one in float64."""
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(64, 64, generator=generator, dtype=torch.float64) for _ in range(2))
    found = []
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        if device == "cpu" and precision == "bfloat16" and not has_bfloat16():
            found.append("cpu: no working instructions, training uses float32 instead")
            continue
        lowered = [each.to(device, PRECISIONS[precision]) for each in (left, right)]
        error = float((torch.mm(*lowered).cpu().double() - left @ right).norm() / (left @ right).norm())
        if not error < 8 * torch.finfo(PRECISIONS[precision]).eps:
            raise ValueError(f"{device}: relative error {error:.1e}")
        found.append(f"{device}: relative error {error:.0e}")
    return ", ".join(found)


def _subwords() -> str:
    """Learn a small model and cut text into subwords and back."""
    import sentencepiece

    lines = [f"the {noun} is {adjective}" for noun in ("house", "tree", "dog") for adjective in ("old", "small", "red")]
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for line in lines:
        if processor.decode(processor.encode(line)) != line:
            raise ValueError(f"{line!r} is not restored from its subwords")
    return "text is restored from its subwords"


JOIN = """
import sys, torch, torch.distributed as dist
rank, port = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", store=dist.TCPStore("127.0.0.1", port), rank=rank, world_size=2)
total = torch.tensor(rank + 1.0)
dist.all_reduce(total)
assert float(total) == 3.0, total
dist.destroy_process_group()
"""


def _gloo() -> str:
    """Two processes of their own add their numbers."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-c", JOIN]
    members = [
        subprocess.Popen([*command, str(rank), str(store.port)], stderr=subprocess.PIPE, text=True) for rank in range(2)
    ]
    try:
        errors = [member.communicate(timeout=300)[1] for member in members]
    finally:
        for member in members:
            member.kill()
    for member, error in zip(members, errors, strict=True):
        if member.returncode:
            raise ValueError((error.strip() or f"exit code {member.returncode}").splitlines()[-1])
    return "sums agree"


def _ctranslate2() -> str:
    """A small random model, converted: the same translations as with torch."""
    engine = package()
    torch.manual_seed(1)
    model = Transformer(Shape(source_pieces=40, target_pieces=40, **SIZES["tiny"])).eval()
    pieces = ["</s>", "<unk>", "<pad>", *(f"piece{i}" for i in range(37))]
    source = torch.tensor([[5, 6, 7, EOS], [8, 9, 10, EOS]])
    expected = greedy(model, source, torch.tensor([4, 4]), 12)
    with tempfile.TemporaryDirectory() as folder:
        convert(model, pieces, pieces, Path(folder))
        lines = [[pieces[i] for i in row] for row in source.tolist()]
        results = engine.Translator(folder, device="cpu").translate_batch(
            lines, beam_size=1, max_decoding_length=12, min_decoding_length=0
        )
    found = [[pieces.index(piece) for piece in result.hypotheses[0]] for result in results]
    if found != expected:
        raise ValueError("translations differ from those of torch")
    return "same translations as torch"
