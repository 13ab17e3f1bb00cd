"""How commands fail: one line for each error on stderr, exit code 2, no traceback."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn


def fail_usage(error: Any) -> NoReturn:
    """A wrong option or argument; without a message, the help has been printed instead."""
    if message := error.format_message():
        command = error.ctx.command_path if getattr(error, "ctx", None) else "evenglot"
        fail(f"{message.rstrip('.')}; see `{command} --help`")
    sys.exit(2)


def fail(message: str) -> NoReturn:
    """Print the message, one error a line, and exit. Of several processes (torchrun), each says which one it is."""
    who = f" (process {os.environ.get('RANK')})" if os.environ.get("WORLD_SIZE", "1") != "1" else ""
    for line in message.splitlines():
        print(f"evenglot{who}: {line}", file=sys.stderr)
    sys.exit(2)
