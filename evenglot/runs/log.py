"""The record of a run: `log.jsonl`, one event a line. Terminal, TensorBoard and W&B are readers of the same events."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

Event = dict[str, Any]


class Reader(Protocol):
    """Something that wants to hear of every event."""

    def read(self, event: Event) -> None:
        """Take in one event."""

    def close(self) -> None:
        """The run is over."""


class Log:
    """Writes events to a file and hands each to its readers. Without a path (other ranks) nothing is written."""

    def __init__(self, path: Path | None, readers: Sequence[Reader] = ()) -> None:
        self.readers = list(readers)
        self._file: BinaryIO | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            self._cut(self.size)

    def write(self, event: str, step: int, **content: Any) -> Event:
        """Append an event, and return it. Numbers that are not finite become null, as JSON has no word for them."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line: Event = _plain({"event": event, "step": step, "time": now, **content})
        if self._file is not None:
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            self._file.flush()  # whoever watches the file sees it at once, and a kill loses nothing
        for reader in list(self.readers):
            self._hand(reader, line)
        return line

    def _hand(self, reader: Reader, event: Event) -> None:
        try:
            reader.read(event)
        except Exception as error:  # a full disk or a lost connection over there must not stop training
            self.readers.remove(reader)
            _complain(reader, error)

    @property
    def size(self) -> int:
        """Bytes so far. A checkpoint remembers it, so that a resumed run knows where to go on."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def rewind(self, size: int) -> None:
        """Forget what was logged after a checkpoint: those steps will be done again. A shorter file stays as it is."""
        self._cut(min(size, self.size))

    def _cut(self, size: int) -> None:
        """Keep the whole lines among the first bytes: a line that was cut short would spoil the next one."""
        if self._file is None:
            return
        self._file.seek(0)
        kept = self._file.read(size)
        self._file.truncate(kept.rfind(b"\n") + 1)  # opened to append: the next write goes to the new end

    def sync(self) -> None:
        """Wait until all of it is on the disk; done before a checkpoint that remembers the size is written."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and the readers; closing twice does no harm."""
        if self._file is not None:
            self._file.close()
            self._file = None
        while self.readers:
            reader = self.readers.pop()
            try:
                reader.close()
            except Exception as error:
                _complain(reader, error)


def _complain(reader: Reader, error: Exception) -> None:
    with suppress(OSError, ValueError):  # standard error may be what has gone away
        reason = f"{type(error).__name__}: {error}"
        print(f"warning: {type(reader).__name__} failed and is left out from here on ({reason})", file=sys.stderr)


def _plain(value: Any) -> Any:
    """The value in JSON's terms."""
    if hasattr(value, "tolist"):  # NumPy's and torch's numbers and arrays
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def read_log(path: Path) -> list[Event]:
    """All events of a run. A last line that is still being written, or was cut short by a crash, is left out."""
    lines = path.read_bytes().split(b"\n")
    events = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise ValueError(f"{path}:{number}: this line of the log is not JSON; repair or remove it") from None
        events.append(event)
    return events
