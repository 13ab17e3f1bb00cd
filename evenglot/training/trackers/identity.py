"""What a tracker calls a run: an id stored in the run folder, so that a resumed run continues there."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4


def read_id(file: Path) -> str | None:
    """The stored id, if there is one."""
    return (file.read_text(encoding="utf-8").strip() or None) if file.exists() else None


def store_id(file: Path, identity: str) -> None:
    """Keep an id for a resume."""
    file.parent.mkdir(parents=True, exist_ok=True)  # without this folder, W&B writes to /tmp
    file.write_text(identity + "\n", encoding="utf-8")


def stored_id(file: Path, resume: bool) -> str:
    """The stored id of a resumed run; a new run gets a new one."""
    identity = (read_id(file) if resume else None) or uuid4().hex[:8]
    store_id(file, identity)
    return identity
