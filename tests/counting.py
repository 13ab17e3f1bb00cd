"""How often is something called? The real thing still does the work."""

from __future__ import annotations

from typing import Any

import pytest


def calls_of(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """The arguments of each call of `owner.name` from now on."""
    calls: list[tuple[Any, ...]] = []
    real = getattr(owner, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return real(*arguments, **options)

    patch.setattr(owner, name, counted)
    return calls
