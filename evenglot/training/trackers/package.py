"""Packages of trackers, imported when a run uses them."""

from __future__ import annotations

import importlib
from typing import Any

from evenglot.extras import missing


def import_package(module: str, name: str, extra: str) -> Any:
    """The module, or an error that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(extra, name) from error
