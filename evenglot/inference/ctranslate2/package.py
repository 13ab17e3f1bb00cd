"""Import of CTranslate2, an optional dependency."""

from __future__ import annotations

import importlib
from typing import Any


def package() -> Any:
    """The ctranslate2 module; ValueError with instructions if it is not installed."""
    try:
        return importlib.import_module("ctranslate2")
    except ModuleNotFoundError as error:
        raise ValueError('CTranslate2 is not installed: pip install "evenglot[ct2]"') from error
