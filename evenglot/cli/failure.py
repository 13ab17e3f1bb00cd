"""How commands fail: one line for each error on stderr, exit code 2, no traceback."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn


def fail_usage(error: Any) -> NoReturn:
    """Report a wrong option or argument; if there is no message, the help has been printed instead."""
    if message := error.format_message():
        command = error.ctx.command_path if getattr(error, "ctx", None) else "evenglot"
        fail(f"{message.rstrip('.')}; see `{command} --help`")
    sys.exit(2)


def fail(message: str) -> NoReturn:
    """Print the message, one error per line, and exit. Under torchrun, each line names the process."""
    who = f" (process {os.environ.get('RANK')})" if os.environ.get("WORLD_SIZE", "1") != "1" else ""
    for line in message.splitlines():
        print(f"evenglot{who}: {line}", file=sys.stderr)
    sys.exit(2)
