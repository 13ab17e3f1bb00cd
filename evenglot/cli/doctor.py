"""The command `doctor`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console


def doctor(
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Train short runs on the GPUs: every precision, one against all GPUs, resume.")
    ] = False,
) -> None:
    """Show what is installed and whether it works on this machine."""
    from evenglot.preview.doctor import doctor as checks
    from evenglot.preview.doctor import doctor_table
    from evenglot.preview.smoke import gpu_checks

    found = list(gpu_checks() if gpu else checks())
    Console().print(doctor_table(found))
    if wrong := [check for check in found if check.state == "wrong"]:
        raise ValueError("\n".join(f"{check.what}: {check.details}" for check in wrong))
