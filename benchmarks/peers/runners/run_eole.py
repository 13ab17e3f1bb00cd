"""`eole train`, measured. It does not end sources with </s>, so they get a word in its place, as all others have."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from meter import Meter, tokens

PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}


def count(trainer: Any, batches: Any, *rest: Any, **options: Any) -> dict[str, int]:
    pad = trainer.train_loss.padding_idx
    predicted = [batch["tgt"][:, 1:] for batch in batches]
    return tokens(
        sum(int(batch["srclen"].sum()) for batch in batches),
        sum(int(target.ne(pad).sum()) for target in predicted),
        sum(batch["src"].numel() for batch in batches),
        sum(target.numel() for target in predicted),
    )


def configuration(job: dict[str, Any]) -> dict[str, Any]:
    shape = job["shape"]
    return {
        "seed": job["seed"],
        "src_vocab": f"{job['data']}/vocabulary.source-with-end",
        "tgt_vocab": f"{job['data']}/vocabulary.target",
        "share_vocab": False,
        "overwrite": True,
        "tensorboard": False,
        "report_every": 100,
        "data": {
            "corpus_1": {"path_src": f"{job['data']}/train.source-with-end", "path_tgt": f"{job['data']}/train.target"}
        },
        "transforms": [],
        "training": {
            "model_path": f"{job['folder']}/run",
            "world_size": 1,
            "gpu_ranks": [],
            "num_workers": 0,
            "batch_type": "tokens",
            "batch_size": job["tokens"],
            "accum_count": [1],
            "optim": "adam",
            "adam_beta2": 0.98,
            "learning_rate": job["rate"],
            "max_grad_norm": 0,
            "label_smoothing": job["smoothing"],
            "dropout": [job["dropout"]],
            "attention_dropout": [job["dropout"]],
            "dropout_steps": [0],
            "normalization": "tokens",
            "param_init": 0,
            "param_init_method": "xavier_uniform",
            "train_steps": job["updates"] + 1,
            "valid_steps": 1_000_000,
            "save_checkpoint_steps": 1_000_000,
            "compute_dtype": PRECISIONS[job["precision"]],
            "log_attention_entropy": False,
        },
        "model": {
            "architecture": "transformer",
            "hidden_size": shape["dim"],
            "transformer_ff": shape["ffn"],
            "heads": shape["heads"],
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
            "share_decoder_embeddings": True,
            "share_embeddings": False,
            "embeddings": {
                "word_vec_size": shape["dim"],
                "position_encoding": True,
                "position_encoding_type": "SinusoidalInterleaved",
            },
            "encoder": {"layers": shape["encoder_layers"]},
            "decoder": {"layers": shape["decoder_layers"]},
        },
    }


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    from eole.bin import main as eole
    from eole.trainer import Trainer

    Trainer._train_step = Meter(job["result"], job["updates"]).around(Trainer._train_step, count)
    path = Path(job["folder"], "eole.yaml")
    path.write_text(yaml.safe_dump(configuration(job)))
    sys.argv = ["eole", "train", "--config", str(path)]
    eole.main()


if __name__ == "__main__":
    main()
