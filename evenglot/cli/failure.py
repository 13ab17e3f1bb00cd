"""How commands fail: one line for each error on stderr, no traceback; exit code 2, or 1 for a bug."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from evenglot import __version__
from evenglot.live import say


def fail_usage(error: Any) -> NoReturn:
    """Report a wrong option or argument; if there is no message, the help has been printed instead."""
    if message := error.format_message():
        command = error.ctx.command_path if getattr(error, "ctx", None) else "evenglot"
        message = message.replace("Value error, ", "", 1)  # typer's way of saying that a check of its own failed
        fail(f"{message.rstrip('.')}; see `{command} --help`")
    sys.exit(2)


ADVICE = {
    errno.EACCES: "check its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENOSPC: "free some space, then run the same command again",
    errno.EDQUOT: "free some space, then run the same command again",
    errno.EMFILE: "raise the limit with `ulimit -n`",
    errno.ENOMEM: "close other programs, or use smaller batches",
}


def worded(error: OSError) -> str:
    """An error of the operating system as 'FILE: what is wrong; what to do', without its number."""
    if error.errno is None or error.strerror is None:
        return str(error)
    places = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes | Path)]
    what = error.strerror[:1].lower() + error.strerror[1:]
    advice = f"; {ADVICE[error.errno]}" if error.errno in ADVICE else ""
    return f"{' -> '.join(places)}: {what}{advice}" if places else what + advice


def fail_unexpectedly(error: Exception) -> NoReturn:
    """Report a defect of evenglot in a line; what its authors need to mend it goes to a file."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="evenglot-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            print(f"evenglot {__version__}, Python {sys.version}\n{sys.argv}", file=file)
            traceback.print_exception(error, file=file)
        where = f"details are in {file.name}"
    except OSError:
        where = "its details could not be written"
    fail(f"internal error: {reason:.300}; this is a bug in evenglot, please report it ({where})", code=1)


def fail(message: str, code: int = 2) -> NoReturn:
    """Print the message, one error per line, and exit. Under torchrun, each line names the process."""
    who = f" (process {os.environ.get('RANK')})" if os.environ.get("WORLD_SIZE", "1") != "1" else ""
    console = Console(stderr=True)
    for line in message.splitlines():
        say(console, Text(f"evenglot{who}: {line}"))
    sys.exit(code)
