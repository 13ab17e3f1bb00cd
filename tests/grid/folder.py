"""A folder with a grid file in it, for tests that read, run and change grids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evenglot import yaml12
from evenglot.grid.plan import Grid, Job, load_grid
from evenglot.runs.run import Run

CHI = {"strategy": "chi-ibr", "rho": 0.1, "baseline": "erm"}
Strategies = Mapping[str, Mapping[str, Mapping[str, Any]]]


class GridFolder:
    """Two strategies, one seed; `train` is set in both."""

    def __init__(self, folder: Path, conf: Path, **train: Any) -> None:
        self.folder, self.conf, self.train = folder, conf, train
        self.file = folder / "grid.yaml"
        folder.mkdir(exist_ok=True)
        self.write()

    def write(self, changes: Strategies | None = None, **keys: Any) -> None:
        """Write the grid file, with some settings of strategies changed, some strategies added, and other keys."""
        strategies: dict[str, dict[str, Any]] = {
            "chi": {"balance": CHI, "train": self.train},
            "erm": {"balance": {"strategy": "proportional"}, "train": self.train},
        }
        for name, sections in (changes or {}).items():
            known = strategies.setdefault(name, {"train": self.train})
            known |= {section: {**known.get(section, {}), **settings} for section, settings in sections.items()}
        content = {"base": str(self.conf), "seeds": [1], "beam": 1, "strategies": strategies}
        self.file.write_text(yaml12.dump(content | keys))

    def load(self, changes: Strategies | None = None, **keys: Any) -> tuple[Grid, list[Job]]:
        """Write it and read it."""
        self.write(changes, **keys)
        return load_grid(self.file)

    def run(self, strategy: str, seed: int = 1) -> Run:
        return Run(self.folder / "runs" / strategy / f"seed-{seed}")


def names(jobs: Iterable[Job]) -> list[str]:
    return [job.name for job in jobs]


def change_end(run: Run, **facts: Any) -> None:
    """Change facts of the last event in a run's log."""
    *before, last = run.log_file.read_text().splitlines()
    run.log_file.write_text("".join(f"{line}\n" for line in (*before, json.dumps(json.loads(last) | facts))))


def times(folder: Path) -> dict[Path, int]:
    """When each file below a folder was last written; the lock is opened by everybody."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*.*") if not file.name.startswith(".")}
