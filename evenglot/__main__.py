"""python -m evenglot: the same as the command `evenglot`."""

from evenglot.cli import main

main()
