"""`python -m joeynmt train`, measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from meter import Meter, tokens


def count(trainer: Any, batch: Any) -> dict[str, int]:
    return tokens(batch.src_length.sum(), batch.ntokens, batch.src.numel(), batch.trg.numel())


def configuration(job: dict[str, Any]) -> dict[str, Any]:
    shape, dropout = job["shape"], job["dropout"]

    def side(name: str) -> dict[str, Any]:
        return {"lang": name, "level": "word", "lowercase": False, "max_length": 256, "voc_file": vocabulary(name)}

    def vocabulary(name: str) -> str:
        return f"{job['data']}/vocabulary.{name}"

    def stack(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": shape["heads"],
            "embeddings": {"embedding_dim": shape["dim"], "scale": True, "dropout": dropout},
            "hidden_size": shape["dim"],
            "ff_size": shape["ffn"],
            "dropout": dropout,
            "layer_norm": "pre",
        }

    return {
        "name": "benchmark",
        "model_dir": f"{job['folder']}/run",
        "use_cuda": False,
        "random_seed": job["seed"],
        "data": {
            "train": f"{job['data']}/train",
            "dev": f"{job['data']}/valid",
            "dataset_type": "plain",
            "src": side("source"),
            "trg": side("target"),
        },
        "testing": {"beam_size": 1, "eval_metrics": []},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": job["rate"],
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 400,
            "learning_rate_min": 1e-9,
            "label_smoothing": job["smoothing"],
            "loss": "crossentropy",
            "normalization": "tokens",
            "batch_size": job["tokens"],
            "batch_type": "token",
            "epochs": 1000,
            "updates": job["updates"] + 1,
            "validation_freq": 1_000_000,
            "logging_freq": 100,
            "early_stopping_metric": "loss",
            "overwrite": True,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": False,
            "tied_softmax": True,
            "encoder": stack(shape["encoder_layers"]),
            "decoder": stack(shape["decoder_layers"]),
        },
    }


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    from joeynmt import __main__ as joeynmt
    from joeynmt.training import TrainManager

    TrainManager._train_step = Meter(job["result"], job["updates"]).around(TrainManager._train_step, count)
    path = Path(job["folder"], "joeynmt.yaml")
    path.write_text(yaml.safe_dump(configuration(job)))
    sys.argv = ["joeynmt", "train", str(path), "--skip-test"]
    joeynmt.main()


if __name__ == "__main__":
    main()
