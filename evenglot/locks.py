"""Locks on open files: flock, or on Windows that of its C library. Where there is neither, nothing is locked."""

from __future__ import annotations

import importlib
from typing import IO, Any


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = _imported("fcntl"), _imported("msvcrt")


def try_lock(file: IO[Any], *, shared: bool = False) -> bool:
    """Lock a file until it is closed; False if another process holds the lock. OSError if locks do not work here.

    Several processes may hold a shared lock; Windows has none, and there it locks nothing.
    """
    if _fcntl is not None:
        try:
            _fcntl.flock(file, (_fcntl.LOCK_SH if shared else _fcntl.LOCK_EX) | _fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    elif _msvcrt is not None and not shared:
        try:
            file.seek(0)
            _msvcrt.locking(file.fileno(), _msvcrt.LK_NBLCK, 1)  # the first byte, which need not be there
        except PermissionError:
            return False
    return True
