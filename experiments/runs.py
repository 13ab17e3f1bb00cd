"""Train, score and store the runs of experiments/default/plan.yaml that are missing, in its order.

    python -m experiments.runs WORK              # trains in the folder WORK; stores in experiments/default/results/
    python -m experiments.runs WORK --list       # what is missing

WORK has a folder for every configuration, NAME/corpus being a link to the text; stores and runs are made beside it.
Start it twice for two runs at a time: a run that another process has begun is left to it (NAME/runs/RUN.lock, released
when that process ends). Interrupted runs are resumed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenglot import yaml12
from experiments import regret

HERE = Path(__file__).parent / "default"


@dataclass(frozen=True)
class Job:
    """A run of the plan."""

    setting: str
    row: str
    seed: int
    conf: str
    settings: tuple[str, ...]

    @property
    def result(self) -> Path:
        """The stored numbers."""
        return regret.RESULTS / self.setting / f"{self.row}-{self.seed}.json"


def missing() -> Iterator[Job]:
    """The runs of the plan that have no stored result."""
    plan, _ = yaml12.parse((HERE / "plan.yaml").read_text(encoding="utf-8"))
    for stage in plan["stages"]:
        setting = plan["settings"][stage["setting"]]
        for seed in stage["seeds"]:
            for row in stage["rows"]:
                settings = (*setting.get("set", ()), f"seed={seed}", f"balance={plan['rows'][row]}")
                job = Job(stage["setting"], row, seed, setting["conf"], settings)
                if not job.result.exists():
                    yield job


def carry_out(job: Job, work: Path) -> bool:
    """Train, score and store; False if another process is at it."""
    folder = work / job.conf
    run = folder / "runs" / f"{job.setting}-{job.row}-{job.seed}"
    run.parent.mkdir(parents=True, exist_ok=True)
    with run.with_name(f"{run.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if job.result.exists():
            return True
        shutil.copy(HERE / f"{job.conf}.yaml", folder / "conf.yaml")
        sets = [word for each in job.settings for word in ("--set", each)]
        resume = ["--resume"] if (run / "log.jsonl").exists() else []
        evenglot = [sys.executable, "-m", "experiments.adaptive"]  # the command line, with further strategies
        with (folder / "prepare.lock").open("w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)  # the first run of a configuration writes its store
            _run([*evenglot, "prepare", "conf.yaml"], folder)
        _run([*evenglot, "train", "conf.yaml", "--out", str(run), *sets, *resume], folder)
        _run([*evenglot, "score", str(run), "--engine", "ctranslate2", "--beam", "5"], folder)
        print(regret.keep(job.setting, job.row, run), flush=True)
    return True


def _run(command: Sequence[str], folder: Path) -> None:
    """Run with the code of this repository, whatever is installed."""
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])})


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    if "--list" in arguments:
        for job in missing():
            print(job.setting, job.row, job.seed)
        return
    work = Path(arguments[0]).resolve()
    while any(carry_out(job, work) for job in missing()):
        pass  # one run, the first that nobody is at; then look again


if __name__ == "__main__":
    main(sys.argv[1:])
