"""Start of the command line: the script `evenglot`, `python -m evenglot` and `torchrun -m evenglot`."""

from __future__ import annotations

import sys

from evenglot import __version__
from evenglot.extras import absent, missing


def main() -> None:
    """Run the command line. Without the extra `train`, only `--version` works; the rest says what to install."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"evenglot {__version__}")
        return
    try:
        from evenglot.cli import main as run

        run()
    except ModuleNotFoundError as error:
        packages = absent()
        if error.name not in packages:
            raise
        print(f"evenglot: {missing('train', *packages)}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
