"""Operations on files, counted across the processes of a command, which can all be killed before one of them."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

EVENTS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")  # replace: rename
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NEVER = 1 << 60  # operations


def kill_before(operation: int, counter: Path, root: Path) -> None:
    """From now on, count in `counter`; SIGKILL for the process group before the operation with this number.

    Counted are opening for writing, mkdir, rename, exchange, unlink, rmdir, link, truncate and fsync below `root`, in
    this process and its forks. What native code writes has no events: see `kill_within`.
    """
    count = Count(counter)

    def next_one() -> None:
        if count.add() == operation:
            os.killpg(0, signal.SIGKILL)

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if arguments[2] & WRITING and _is_below(arguments[0], root):
                next_one()
        elif event in EVENTS and _is_below(arguments[0], root):
            next_one()

    sys.addaudithook(look)
    _patch_what_is_not_audited(next_one)


def _is_below(path: object, root: Path) -> bool:
    """Also relative paths: rmtree works with open folders."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False  # a descriptor
    text = os.fsdecode(path)
    return not os.path.isabs(text) or Path(text).is_relative_to(root)


def _patch_what_is_not_audited(next_one: Callable[[], None]) -> None:
    from evenglot import files

    fsync, exchange = os.fsync, files._renameat2

    def counted_fsync(descriptor: int) -> None:
        next_one()
        fsync(descriptor)

    def counted_exchange(*arguments: Any) -> Any:
        next_one()
        return exchange(*arguments)

    os.fsync = counted_fsync
    if exchange is not None:
        files._renameat2 = counted_exchange


def kill_within(size: int) -> None:
    """From now on, the system kills this process where a file would become larger than this: in the middle of a write.

    What it says is lost, as that is a file, too.
    """
    with open(os.devnull, "ab") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and the write fails
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def fill_at(size: int) -> None:
    """From now on, writing fails where a file would become larger than this, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def drop_privileges() -> None:
    """From now on, permissions are meant for root, too."""
    version, no_capabilities = (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None).capset(version, no_capabilities) != 0:
        raise OSError("capset failed")


class Count:
    """A number in a file that processes share."""

    def __init__(self, file: Path) -> None:
        file.touch()
        with file.open("r+b") as opened:
            opened.truncate(8)
            self._shared = mmap.mmap(opened.fileno(), 8)

    def add(self) -> int:
        """The number before."""
        before = int.from_bytes(self._shared[:], "little")
        self._shared[:] = (before + 1).to_bytes(8, "little")
        return before


# ------------------------------------------------------------------------------------------------------ a whole grid


def fork_commands() -> None:
    """Have a grid run its commands in forks, which have imported torch already: seconds less for each."""
    from evenglot.grid import process, work

    process.subprocess = SimpleNamespace(Popen=Fork, DEVNULL=-3, STDOUT=-2)  # type: ignore[attr-defined]
    work.SECONDS_BETWEEN_LOOKS = 0.02


class Fork:
    """The part of `subprocess.Popen` that a grid uses; in the same process group, so that it dies with its grid."""

    def __init__(self, words: Sequence[str], *, stdout: Any, env: dict[str, str], **_: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(words[words.index("evenglot") + 1 :], stdout.fileno(), env)

    def poll(self) -> int | None:
        """The exit code, as that of Popen."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def wait(self) -> int:
        """Wait for the end."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)


def _become(words: Sequence[str], output: int, environment: dict[str, str]) -> None:
    """Run the command line and end this process."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.environ.update(environment)
        for stream in (1, 2):
            os.dup2(output, stream)
        sys.argv = ["evenglot", *words]
        from evenglot.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        for written in (sys.stdout, sys.stderr):
            written.flush()
        os._exit(code)
