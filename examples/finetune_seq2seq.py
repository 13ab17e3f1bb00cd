"""Fine-tune a translation model of the shape of NLLB on five languages of very different sizes, balanced.

Lines that balancing adds are marked with `# +`, lines that it changes with `# ~`.
"""

import argparse
import gzip
from collections import Counter  # +
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import M2M100Config, M2M100ForConditionalGeneration, Seq2SeqTrainingArguments  # ~

import evenglot
from evenglot.balance import create  # +
from evenglot.integrations.transformers import BalancedSeq2SeqTrainer  # ~

CORPUS = Path(evenglot.__file__).parent / "data" / "tiny_webui"
LANGUAGES = ["por", "tur", "ces", "slk", "glg"]  # 4,158 sentence pairs to 300
PAD, EOS, FIRST_BYTE = 1, 2, 3
TAGS = {name: 259 + i for i, name in enumerate(["en", *LANGUAGES])}


def encode(text: str, language: str) -> list[int]:
    """The tag of the language, the bytes of the text, and the end; in place of a tokenizer."""
    return [TAGS[language], *(FIRST_BYTE + byte for byte in text.encode()), EOS]


def read(split: str) -> list[dict]:
    """Examples with the columns that the model needs, and their languages."""
    examples = []
    for name in LANGUAGES:
        files = [CORPUS / f"{split}.{name}-en.{side}.gz" for side in (name, "en")]
        sides = [gzip.decompress(file.read_bytes()).decode().splitlines() for file in files]
        for source, target in zip(*sides, strict=True):
            ids, labels = encode(source, name), encode(target, "en")
            examples.append({"input_ids": ids, "labels": labels, "language": name})
    return examples


def collate(examples: list[dict]) -> dict[str, torch.Tensor]:
    """Pad, as DataCollatorForSeq2Seq does with a tokenizer."""
    inputs, labels = ([torch.tensor(each[key]) for each in examples] for key in ("input_ids", "labels"))
    ids = pad_sequence(inputs, batch_first=True, padding_value=PAD)
    return {
        "input_ids": ids,
        "attention_mask": (ids != PAD).long(),
        "labels": pad_sequence(labels, batch_first=True, padding_value=-100),
    }


def new_model() -> M2M100ForConditionalGeneration:
    """A small random model; M2M100ForConditionalGeneration.from_pretrained("facebook/nllb-200-distilled-600M")."""
    sides = ("encoder", "decoder")
    config = {"vocab_size": 265, "d_model": 64, "pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": EOS}
    config |= {f"{side}_layers": 2 for side in sides} | {f"{side}_ffn_dim": 256 for side in sides}
    config |= {f"{side}_attention_heads": 4 for side in sides} | {f"{side}_layerdrop": 0.0 for side in sides}
    return M2M100ForConditionalGeneration(M2M100Config(**config))


def main() -> None:
    """Train, and print what was sampled and the validation losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", default="finetuned")
    parser.add_argument("--strategy", default="fade", help="for example proportional, or chi-ibr")
    options = parser.parse_args()

    torch.manual_seed(1)
    train = read("train")
    sizes = Counter(example["language"] for example in train)  # +
    trainer = BalancedSeq2SeqTrainer(  # ~
        model=new_model(),
        args=Seq2SeqTrainingArguments(
            options.out,
            max_steps=options.steps,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            learning_rate=2e-3,
            logging_steps=50,
            eval_strategy="steps",
            eval_steps=max(1, options.steps // 2),
            save_strategy="steps",
            save_steps=max(1, options.steps // 2),
            load_best_model_at_end=True,
            metric_for_best_model="eval_worst_loss",  # ~
            greater_is_better=False,
            report_to="none",
            dataloader_pin_memory=torch.cuda.is_available(),
        ),
        train_dataset=train,
        eval_dataset=read("valid"),
        data_collator=collate,
        balancer=create(options.strategy, sizes=sizes),  # +
        group_column="language",  # +
    )
    trainer.train()

    metrics = trainer.evaluate()
    print(f"{'language':10} {'sentences':>10} {'sampled (%)':>12} {'validation loss':>16}")
    for name in LANGUAGES:
        print(f"{name:10} {sizes[name]:10} {trainer.balancer.q[name]:12.1%} {metrics[f'eval_loss/{name}']:16.3f}")


if __name__ == "__main__":
    main()
