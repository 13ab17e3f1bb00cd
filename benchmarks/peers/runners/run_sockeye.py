"""`sockeye-prepare-data` and `sockeye-train`, measured.

Sockeye 3.1.34 requires torch 1.13 at most, but runs unchanged with 2.13.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from meter import Meter, tokens


def prepare(job: dict[str, Any]) -> None:
    from sockeye import prepare_data

    sys.argv = ["sockeye-prepare-data", "-s", f"{job['data']}/train.source", "-t", f"{job['data']}/train.target"]
    sys.argv += ["-o", f"{job['data']}/sockeye", "--max-seq-len", "255", "--max-processes", "1"]
    prepare_data.main()


def count(trainer: Any, batch: Any) -> dict[str, int]:
    labels = batch.labels["target_label"]
    return tokens(batch.source_length.sum(), (labels != 0).sum(), batch.source[..., 0].numel(), labels.numel())


def train(job: dict[str, Any]) -> None:
    from sockeye import train as sockeye_train
    from sockeye import training

    trainer = training.EarlyStoppingTrainer
    trainer._step = Meter(job["result"], job["updates"]).around(trainer._step, count)
    shape, dropout = job["shape"], str(job["dropout"])
    options = {
        "--prepared-data": f"{job['data']}/sockeye",
        "--validation-source": f"{job['data']}/valid.source",
        "--validation-target": f"{job['data']}/valid.target",
        "--output": f"{job['folder']}/run",
        "--num-layers": f"{shape['encoder_layers']}:{shape['decoder_layers']}",
        "--transformer-model-size": shape["dim"],
        "--transformer-attention-heads": shape["heads"],
        "--transformer-feed-forward-num-hidden": shape["ffn"],
        "--transformer-preprocess": "n",
        "--transformer-postprocess": "dr",
        "--transformer-dropout-attention": dropout,
        "--transformer-dropout-act": dropout,
        "--transformer-dropout-prepost": dropout,
        "--embed-dropout": dropout,
        "--weight-tying-type": "trg_softmax",
        "--label-smoothing": job["smoothing"],
        "--batch-type": "max-word",
        "--batch-size": job["tokens"],
        "--optimizer": "adam",
        "--optimizer-betas": "0.9:0.98",
        "--initial-learning-rate": job["rate"],
        "--gradient-clipping-type": "none",
        "--max-seq-len": 255,
        "--max-updates": job["updates"] + 1,
        "--checkpoint-interval": 1_000_000,
        "--decode-and-evaluate": 0,
        "--seed": job["seed"],
    }
    sys.argv = ["sockeye-train", "--use-cpu", *(str(part) for option in options.items() for part in option)]
    sockeye_train.main()


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text())
    {"prepare": prepare, "train": train}[job["action"]](job)
