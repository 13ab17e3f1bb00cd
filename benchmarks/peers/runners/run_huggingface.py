"""Hugging Face `Seq2SeqTrainer` with an mBART of our shape, measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from meter import Meter, tokens

EOS, UNK, PAD = 0, 1, 2  # as in our vocabularies
IGNORED = -100


def prepare(job: dict[str, Any]) -> None:
    from datasets import Dataset

    def ids(side: str) -> list[list[int]]:
        lines = Path(job["data"], f"train.{side}").read_text().splitlines()
        return [[int(word[1:]) for word in line.split()] + [EOS] for line in lines]

    dataset = Dataset.from_dict({"input_ids": ids("source"), "labels": ids("target")})
    dataset = dataset.map(lambda pair: {"length": max(len(pair["input_ids"]), len(pair["labels"]))})
    dataset.save_to_disk(f"{job['data']}/huggingface")


def count(trainer: Any, model: Any, inputs: Any, *rest: Any, **options: Any) -> dict[str, int]:
    source, labels = inputs["attention_mask"], inputs["labels"]
    return tokens(source.sum(), (labels != IGNORED).sum(), source.numel(), labels.numel())


def model_of(job: dict[str, Any]) -> Any:
    """MBart has our architecture, down to the normalised embeddings (evenglot/export/huggingface.py).

    Its output layer is tied to the decoder's embedding, which has the target vocabulary; the encoder gets an embedding
    of its own, because sources have another vocabulary.
    """
    from transformers import MBartConfig, MBartForConditionalGeneration
    from transformers.models.mbart.modeling_mbart import MBartScaledWordEmbedding

    shape, dropout = job["shape"], job["dropout"]
    config = MBartConfig(
        vocab_size=job["pieces"]["target"],
        d_model=shape["dim"],
        encoder_layers=shape["encoder_layers"],
        decoder_layers=shape["decoder_layers"],
        encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"],
        encoder_ffn_dim=shape["ffn"],
        decoder_ffn_dim=shape["ffn"],
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        activation_function="relu",
        max_position_embeddings=256,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=None,
        use_cache=False,
    )
    model = MBartForConditionalGeneration(config)
    scale = shape["dim"] ** 0.5
    source = MBartScaledWordEmbedding(job["pieces"]["source"], shape["dim"], PAD, embed_scale=scale)
    source.weight.data.normal_(std=0.02)
    model.model.encoder.embed_tokens = source
    return model


def tokenizer_of(job: dict[str, Any]) -> Any:
    """Only pads: the text is encoded already."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {f"t{number}": number for number in range(PAD + 1, max(job["pieces"].values()))}
    vocabulary = {"</s>": EOS, "<unk>": UNK, "<pad>": PAD, **words}
    plain = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    return PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


def train(job: dict[str, Any]) -> None:
    from datasets import load_from_disk
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

    Seq2SeqTrainer.training_step = Meter(job["result"], job["updates"]).around(Seq2SeqTrainer.training_step, count)
    model, tokenizer = model_of(job), tokenizer_of(job)
    arguments = Seq2SeqTrainingArguments(
        output_dir=f"{job['folder']}/run",
        per_device_train_batch_size=job["pairs"],
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        max_steps=job["updates"] + 1,
        learning_rate=job["rate"],
        adam_beta2=0.98,
        max_grad_norm=0.0,
        label_smoothing_factor=job["smoothing"],
        lr_scheduler_type="constant",
        logging_steps=100,
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=job["precision"] == "bfloat16",
        disable_tqdm=True,
        seed=job["seed"],
    )
    collator = DataCollatorForSeq2Seq(tokenizer, model=model)
    dataset = load_from_disk(f"{job['data']}/huggingface")
    trainer = Seq2SeqTrainer(
        model=model, args=arguments, train_dataset=dataset, data_collator=collator, processing_class=tokenizer
    )
    trainer.train()


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text())
    {"prepare": prepare, "train": train}[job["action"]](job)
