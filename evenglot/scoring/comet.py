"""COMET scores, computed by a command in another environment."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from evenglot.runs.run import RunError


def comet_score(command: str, sources: list[str], hypotheses: list[str], references: list[str], folder: Path) -> float:
    """Run a COMET command (`comet-score`), installed in another environment because its dependencies conflict."""
    files = {"-s": sources, "-t": hypotheses, "-r": references}
    arguments = []
    for option, lines in files.items():
        file = folder / f".comet{option}"
        file.write_bytes("".join(f"{line}\n" for line in lines).encode())
        arguments += [option, str(file)]
    try:
        done = subprocess.run(
            [*shlex.split(command), *arguments, "--quiet", "--only_system"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise RunError(f"--comet {command}: failed: {said.strip().splitlines()[-1]}") from error
    finally:
        for option in files:
            (folder / f".comet{option}").unlink(missing_ok=True)
    found = re.findall(r"score:?\s+(-?\d+\.\d+)", done.stdout)
    if not found:
        raise RunError(f"--comet {command}: no score in its output")
    return float(found[-1])
