"""CTranslate2 itself, an extra."""

from __future__ import annotations

import importlib
from typing import Any


def package() -> Any:
    """CTranslate2, which not everybody has."""
    try:
        return importlib.import_module("ctranslate2")
    except ModuleNotFoundError as error:
        raise ValueError('CTranslate2 is not installed: pip install "evenglot[ct2]"') from error
