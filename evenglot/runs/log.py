"""The event log of a run: `log.jsonl`, one event per line. Terminal, TensorBoard and W&B read the same events."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from evenglot.reading import UnreadableError, parse_json, read_bytes
from evenglot.runs.events import ConfigEvent, E, Event, parse, to_json

TAIL = 1 << 17  # bytes at the end of a log that usually hold several lines


class ChangedLogError(ValueError):
    """A log does not begin with the events it had when a checkpoint was written."""


class Reader(Protocol):
    """Receives every event of a log."""

    def read(self, event: Event) -> None:
        """Process one event."""

    def close(self) -> None:
        """Release resources at the end of the run."""


class Log:
    """Writes events to a file and passes each to its readers. Without a path (ranks other than 0) it writes no file."""

    def __init__(self, path: Path | None, readers: Sequence[Reader] = ()) -> None:
        self.readers = list(readers)
        self._path = path
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()  # of the whole file, continued with each event
        if path is not None:
            if path.exists() and not path.is_file():
                raise ValueError(f"{path}: not a regular file; expected the log of a run")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            self._cut(self.size)

    def write(self, event: E) -> E:
        """Append an event with the current time, and return it as `read_log` will read it.

        Numbers that are not finite become null, as JSON cannot represent them.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = _plain(to_json(replace(event, time=now)))
        written = parse(line)
        assert isinstance(written, type(event))  # parsing keeps the kind
        if self._file is not None:
            content = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
            self._file.write(content)
            self._file.flush()  # visible to other processes at once, and safe if this one is killed
            self._hash.update(content)
        for reader in list(self.readers):
            self._hand(reader, written)
        return written

    def _hand(self, reader: Reader, event: Event) -> None:
        try:
            reader.read(event)
        except Exception as error:  # a full disk or lost connection of a tracker must not stop training
            self.readers.remove(reader)
            _complain(reader, error)

    @property
    def size(self) -> int:
        """Size of the log in bytes; stored in checkpoints, so that a resumed run can `rewind` to it."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    @property
    def hash(self) -> str:
        """SHA-256 of the log; stored in checkpoints with its size."""
        return self._hash.hexdigest()

    def rewind(self, size: int, expected: str | None = None) -> None:
        """Truncate the log to the size stored in a checkpoint: later steps will be done again. Never extends it.

        ChangedLogError if its beginning does not have the `expected` hash; then the log is left as it is.
        """
        if self._file is not None and expected is not None:
            self._file.seek(0)
            if hashlib.sha256(self._file.read(size)).hexdigest() != expected:
                fault = "was removed or cut" if self.size < size else "was changed"
                raise ChangedLogError(
                    f"{self._path}: {fault} since the last checkpoint, so the run would go on with a wrong record; "
                    "restore a backup of the log, or start a new run with --out"
                )
        self._cut(min(size, self.size))

    def _cut(self, size: int) -> None:
        """Keep the complete lines within the first `size` bytes; an incomplete line would corrupt the next one."""
        if self._file is None:
            return
        self._file.seek(0)
        kept = self._file.read(size)
        kept = kept[: kept.rfind(b"\n") + 1]
        self._file.truncate(len(kept))  # in append mode the next write goes to the new end
        self._hash = hashlib.sha256(kept)

    def sync(self) -> None:
        """Flush the log to disk; called before its size is stored in a checkpoint."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and the readers; may be called twice."""
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
    with suppress(OSError, ValueError):  # standard error may be closed
        reason = f"{type(error).__name__}: {error}"
        print(f"warning: {type(reader).__name__} failed and is disabled from now on ({reason})", file=sys.stderr)


def _plain(value: Any) -> Any:
    """Convert to plain JSON values."""
    if hasattr(value, "tolist"):  # NumPy and torch scalars and arrays
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def read_log(path: Path) -> list[Event]:
    """All events of a run, without an incomplete last line (still being written, or truncated by a crash).

    ValueError with file and line if a line is not an event. Logs of older versions are migrated.
    """
    version = 1  # until the `config` event states another
    events = []
    for number, content in _objects(path):
        try:
            event = parse(content, version)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: not a valid event: {error}") from None
        if isinstance(event, ConfigEvent):
            version = event.format
        events.append(event)
    return events


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    """The JSON values of a log with their line numbers."""
    try:
        lines = read_bytes(path).split(b"\n")
    except UnreadableError as error:
        raise ValueError(f"{path}: {error}; expected the log of a run") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = parse_json(line)
        except UnreadableError as error:
            if number == len(lines):
                return
            raise ValueError(f"{path}:{number}: this line of the log: {error}; repair or remove it") from None
        yield number, content


def last_step(path: Path) -> int:
    """The `step` of the last complete line of a log; 0 if there is none. Reads only the end of the file."""
    if not path.is_file():
        return 0
    with path.open("rb") as log:
        size, tail = log.seek(0, os.SEEK_END), TAIL
        while True:
            start = max(0, size - tail)
            log.seek(start)
            *lines, _unfinished = log.read(size - start).split(b"\n")
            for line in reversed(lines):
                with suppress(ValueError):  # the first line may be incomplete, and then it is not JSON
                    return parse(parse_json(line)).step
            if not start:
                return 0
            tail *= 2


def copy_log(source: Path, target: Path, change: Callable[[Any], Any]) -> None:
    """Copy a log, applying `change` to each JSON object; the format and unknown keys are preserved."""
    with target.open("w", encoding="utf-8") as out:
        for _, content in _objects(source):
            out.write(json.dumps(change(content), ensure_ascii=False) + "\n")
