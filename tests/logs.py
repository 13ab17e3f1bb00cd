"""Logs in tests: their lines as plain JSON objects, and events from such objects."""

import json
from pathlib import Path
from typing import Any

from evenglot.runs.events import Event, parse


def json_events(path: Path) -> list[dict[str, Any]]:
    """The lines of a log as they are on disk, without one that is still being written."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def event(name: str, step: int, **content: Any) -> Event:
    """An event from the content of its JSON object."""
    return parse({"event": name, "step": step, **content})


def scores_json(**content: Any) -> str:
    """The text of a scores.json of one direction, with this content."""
    usual = {"split": "test", "signature": {}, "directions": {"por-en": {}}, "macro": {}}
    return json.dumps({**usual, "worst": {"direction": "por-en"}, **content})
