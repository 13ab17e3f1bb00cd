"""Ctrl-C: one line that says how to go on, and the process ends at once, as by the signal itself.

Python calls its own handlers only between two of its instructions, which may be minutes apart inside a library. So a
thread waits for the signal, too: the interpreter writes its number to a socket as soon as it arrives.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from contextlib import suppress

# Commands that keep what is finished; all others change nothing before their end.
GO_ON = {
    "prepare": "run the same command again to go on; finished parts are kept",
    "demo": "run the same command again to go on; finished parts are kept",
    "train": "run the same command again; if training had begun, with --resume",
    "grid": "run the same command again to go on; finished runs are kept",
}

_begun = threading.Lock()


def end_on_interrupt() -> None:
    """Handle Ctrl-C from now on; to be called by the main thread."""
    signal.signal(signal.SIGINT, _handle)
    listener, teller = socket.socketpair()
    teller.setblocking(False)
    signal.set_wakeup_fd(teller.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(listener, teller), daemon=True).start()


def _listen(listener: socket.socket, teller: socket.socket) -> None:
    """`teller` is held open. Where a command handles the signal itself, as training does, it is not ours."""
    while numbers := listener.recv(64):
        if signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) is _handle:
            _end()
    teller.close()


def _handle(number: int, frame: object) -> None:
    _end()


def _end() -> None:
    """Print the line, then die of the signal: shells stop a script for that, and not for an exit code."""
    if not _begun.acquire(blocking=False):
        threading.Event().wait()  # the other thread is about to end the process
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    line = f"Interrupted: {GO_ON[command]}." if command in GO_ON else "Interrupted."
    if os.environ.get("RANK", "0") == "0":
        with suppress(OSError, ValueError):  # standard error may be closed
            on_screen = sys.stderr is not None and sys.stderr.isatty()
            os.write(2, f"{chr(10) if on_screen else ''}{line}\n".encode())  # print() is not reentrant
    set_signal = ctypes.pythonapi.PyOS_setsig  # signal.signal works in the main thread only
    set_signal.argtypes, set_signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    set_signal(signal.SIGINT, None)  # the default
    os.kill(os.getpid(), signal.SIGINT)
