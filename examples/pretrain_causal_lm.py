"""Continue to pre-train a causal language model on six languages of very different sizes, balanced.

Lines that balancing adds are marked with `# +`, lines that it changes with `# ~`.
"""

import argparse
import gzip
from collections import Counter  # +
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments  # ~

import evenglot
from evenglot.balance import create  # +
from evenglot.integrations.transformers import BalancedTrainer  # ~

CORPUS = Path(evenglot.__file__).parent / "data" / "tiny_webui"
LANGUAGES = ["por", "tur", "ces", "slk", "glg"]  # and English, the other side of all of them
BLOCK = 64  # bytes of an example


def read(split: str) -> list[dict]:
    """Blocks of bytes of one language each, in place of the ids of a tokenizer."""
    texts = dict.fromkeys(["en", *LANGUAGES], b"")
    for name in LANGUAGES:
        for side in (name, "en"):
            texts[side] += gzip.decompress((CORPUS / f"{split}.{name}-en.{side}.gz").read_bytes())
    examples = []
    for name, text in texts.items():
        for start in range(0, len(text) - BLOCK, BLOCK):
            ids = list(text[start : start + BLOCK])
            examples.append({"input_ids": ids, "labels": ids, "language": name})
    return examples


def new_model() -> LlamaForCausalLM:
    """A small random model; in practice LlamaForCausalLM.from_pretrained(...)."""
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=256, max_position_embeddings=BLOCK, **shape))


def main() -> None:
    """Train, and print what was sampled and the validation losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", default="pretrained")
    parser.add_argument("--strategy", default="fade", help="for example proportional, or chi-ibr")
    options = parser.parse_args()

    torch.manual_seed(1)
    train = read("train")
    sizes = Counter(example["language"] for example in train)  # +
    trainer = BalancedTrainer(  # ~
        model=new_model(),
        args=TrainingArguments(
            options.out,
            max_steps=options.steps,
            per_device_train_batch_size=32,
            learning_rate=3e-3,
            logging_steps=50,
            save_strategy="no",
            report_to="none",
            dataloader_pin_memory=torch.cuda.is_available(),
        ),
        train_dataset=train,
        eval_dataset=read("valid"),
        balancer=create(options.strategy, sizes=sizes),  # +
        group_column="language",  # +
    )
    trainer.train()

    metrics = trainer.evaluate()
    print(f"{'language':10} {'blocks':>10} {'sampled (%)':>12} {'validation loss':>16}")
    for name in sizes:
        print(f"{name:10} {sizes[name]:10} {trainer.balancer.q[name]:12.1%} {metrics[f'eval_loss/{name}']:16.3f}")


if __name__ == "__main__":
    main()
