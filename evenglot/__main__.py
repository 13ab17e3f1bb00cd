"""`python -m evenglot`: the command line, for `torchrun -m evenglot`."""

from evenglot.cli import main

main()
