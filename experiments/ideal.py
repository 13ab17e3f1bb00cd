"""The lowest known loss of each language: python -m experiments.ideal writes related/ideal-valid-token.json.

For each language, the minimum over three fixed mixtures of the validation loss (mean over seeds): the baseline of
`beyond-any-en.yaml`.
"""

from __future__ import annotations

from statistics import fmean

from evenglot.balance.baseline import ideal, save_baseline
from evenglot.runs.events import ValidationEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.run import Run
from experiments.kept import HERE, runs_of

REFERENCES = ("erm", "tau-1.5", "tau-2")


def main() -> None:
    """Write the file."""
    folder = HERE / "related"
    found = [_mean([_best_validation(run) for run in runs_of(folder, "any-en", reference)]) for reference in REFERENCES]
    save_baseline(folder / "ideal-valid-token.json", ideal(*found), split="valid", unit="token", label_smoothing=0.1)


def _best_validation(run: Run) -> dict[str, float]:
    """Validation losses of the best checkpoint."""
    best = [event for event in of_kind(read_log(run.log_file), ValidationEvent) if event.best]
    return dict(best[-1].loss)


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: fmean(run[name] for run in runs) for name in runs[0]}


if __name__ == "__main__":
    main()
