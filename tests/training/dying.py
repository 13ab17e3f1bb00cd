"""`python -m tests.training.dying CHECKPOINT ARGUMENTS`: evenglot, of whose processes the first kills itself once.

It does so after this checkpoint has been saved, unless `torchrun` has restarted it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.killed import kill_itself


def main() -> None:
    checkpoint = Path(sys.argv.pop(1))
    if os.environ["RANK"] == "0" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        kill_itself(checkpoint.exists)
    from evenglot.cli import main as evenglot

    evenglot()


if __name__ == "__main__":
    main()
