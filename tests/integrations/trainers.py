"""Tiny random models of Hugging Face, made here, and data of three languages on which they learn."""

from collections import Counter
from pathlib import Path

import datasets
import torch
from torch.distributed.tensor import DTensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    TrainingArguments,
)

from evenglot.balance import create
from evenglot.integrations.transformers import BalancedSeq2SeqTrainer, BalancedTrainer

LANGUAGES = ["big"] * 90 + ["mid"] * 27 + ["low"] * 11
SIZES = dict(Counter(LANGUAGES))
EVALUATED = ["big"] * 9 + ["mid"] * 7 + ["low"] * 5
VOCABULARY, PAD, EOS = 40, 1, 2
MOVING = {"rho": 0.3, "noise": "ignore"}

_LAYERS = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 32,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "pad_token_id": PAD,
    "eos_token_id": EOS,
    "bos_token_id": 0,
    "decoder_start_token_id": EOS,
}


def new_model(kind="m2m100", dropout=0.0, seed=0):
    torch.manual_seed(seed)
    drops = {"dropout": dropout, "attention_dropout": dropout, "activation_dropout": dropout}
    ends = {"pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": 0}
    if kind == "m2m100":
        return M2M100ForConditionalGeneration(M2M100Config(**_LAYERS, **drops))
    if kind == "mbart":
        return MBartForConditionalGeneration(MBartConfig(**_LAYERS, **drops))
    if kind == "marian":
        return MarianMTModel(MarianConfig(**_LAYERS, **drops))
    if kind == "t5":
        shape = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout_rate": dropout}
        return T5ForConditionalGeneration(
            T5Config(vocab_size=VOCABULARY, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD, **shape)
        )
    if kind == "llama":
        shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **shape, **ends))
    if kind == "gpt2":
        drops = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
        shape = {"n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
        return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **shape, **ends, **drops))
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return BertForSequenceClassification(
        BertConfig(vocab_size=VOCABULARY, num_labels=4, pad_token_id=PAD, **shape, **drops)
    )


def new_data(kind="seq2seq", seed=1, languages=LANGUAGES):
    """Labels repeat the input, moved by one symbol; in the language "low" most of them are random."""
    chance = torch.Generator().manual_seed(seed)
    noise = {"big": 0.05, "mid": 0.2, "low": 0.8}

    def example(language):
        length = int(torch.randint(3, 9, (1,), generator=chance))
        inputs = torch.randint(3, VOCABULARY, (length,), generator=chance)
        random = torch.randint(3, VOCABULARY, (length,), generator=chance)
        labels = torch.where(torch.rand(length, generator=chance) < noise[language], random, (inputs - 2) % 37 + 3)
        if kind == "classes":
            return {"input_ids": inputs.tolist(), "label": int(labels[0]) % 4, "language": language}
        if kind == "causal":
            ids = [*inputs.tolist(), *labels.tolist(), EOS]
            return {"input_ids": ids, "labels": ids, "language": language}
        return {"input_ids": [*inputs.tolist(), EOS], "labels": [*labels.tolist(), EOS], "language": language}

    return datasets.Dataset.from_list([example(language) for language in languages])


def collate(examples):
    """Pad. Fails for a column that it does not know, as `tokenizer.pad` does for a string."""
    batch = {}
    for name, filler in {"input_ids": PAD, "labels": -100}.items():
        if name in examples[0]:
            longest = max(len(each[name]) for each in examples)
            batch[name] = torch.tensor([each[name] + [filler] * (longest - len(each[name])) for each in examples])
    if "label" in examples[0]:
        batch["labels"] = torch.tensor([each["label"] for each in examples])
    batch["attention_mask"] = (batch["input_ids"] != PAD).long()
    assert not set(examples[0]) - {*batch, "label"}
    return batch


KINDS = {"llama": "causal", "gpt2": "causal", "bert": "classes"}


def new_trainer(
    folder: Path,
    kind="m2m100",
    strategy="chi-ibr",
    options=MOVING,
    *,
    dropout=0.0,
    model=None,
    given=None,
    **args,
):
    """A trainer with 16 examples an update, 8 updates an epoch and a new mixture after every 3, unless told otherwise.

    `given` are arguments of the trainer, `args` those of TrainingArguments.
    """
    data = KINDS.get(kind, "seq2seq")
    is_seq2seq = data == "seq2seq"
    defaults = {
        "output_dir": str(folder),
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "dataloader_pin_memory": False,
        "per_device_train_batch_size": 16,
        "per_device_eval_batch_size": 8,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "max_steps": 12,
        "seed": 5,
    }
    arguments = (Seq2SeqTrainingArguments if is_seq2seq else TrainingArguments)(**{**defaults, **args})
    parts = {
        "model": new_model(kind, dropout) if model is None else model,
        "args": arguments,
        "data_collator": collate,
        "train_dataset": new_data(data),
        "eval_dataset": new_data(data, seed=2, languages=EVALUATED),
        "balancer": create(strategy, sizes=SIZES, **options),
        "group_column": "language",
        "interval_updates": 3,
    }
    return (BalancedSeq2SeqTrainer if is_seq2seq else BalancedTrainer)(**{**parts, **(given or {})})


def weights_of(trainer):
    model = trainer.accelerator.unwrap_model(trainer.model)
    weights = (weight.full_tensor() if isinstance(weight, DTensor) else weight for weight in model.parameters())
    return torch.cat([weight.detach().flatten().double() for weight in weights])


def logged(trainer, key):
    return [entry[key] for entry in trainer.state.log_history if key in entry]
