"""Import of CTranslate2, an optional dependency."""

from __future__ import annotations

import importlib
import os
from typing import Any

import torch

from evenglot.extras import missing


def package() -> Any:
    """The ctranslate2 module; ValueError with instructions if it is not installed."""
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")  # CTranslate2 uses AVX2 unless asked, 1.15 times as slow
    try:
        return importlib.import_module("ctranslate2")
    except ModuleNotFoundError as error:
        raise missing("ct2", "ctranslate2") from error
