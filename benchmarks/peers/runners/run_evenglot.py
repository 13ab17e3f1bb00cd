"""`evenglot train`, measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from meter import Meter, tokens

sys.path.insert(1, str(Path(__file__).parents[3]))  # this checkout, whatever is installed
from evenglot.cli import main
from evenglot.training.step import Step


def count(step: Any, number: int, batches: Any, *rest: Any) -> dict[str, int]:
    return tokens(
        sum(int(batch.source_lengths.sum()) for batch in batches),
        sum(int(batch.target_lengths.sum()) for batch in batches),
        sum(batch.source.numel() for batch in batches),
        sum(batch.target.numel() for batch in batches),
    )


job = json.loads(Path(sys.argv[1]).read_text())
Step.train = Meter(job["result"], job["updates"]).around(Step.train, count)  # type: ignore[method-assign]
settings = [
    f"model.size={job['size']}",
    f"batches.tokens_per_batch={job['tokens']}",
    f"batches.tokens_per_update={job['tokens']}",
    f"train.updates={job['updates'] + 1}",
    f"train.precision={job['precision']}",
    f"seed={job['seed']}",
]
sys.argv = ["evenglot", "train", job["config"], "--out", f"{job['folder']}/run"]
for setting in settings + job["set"]:
    sys.argv += ["--set", setting]
main()
