"""Tiny random checkpoints of each family of pretrained models, with tokenizers learned from the text of tasks.py.

They are made here, from configurations: nothing is downloaded.
"""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch

from tests.tasks import SIZES, WORDS, cipher

POSITIONS = 40
CODES = {
    "nllb": {"aa": "por_Latn", "bb": "tur_Latn", "cc": "ces_Latn", "en": "eng_Latn"},
    "m2m100": {"aa": "pt", "bb": "tr", "cc": "cs"},  # and en, which is its own name for it
    "mbart": {"aa": "ro_RO", "bb": "tr_TR", "cc": "cs_CZ", "en": "en_XX"},
    "mbart50": {"aa": "pt_XX", "bb": "tr_TR", "cc": "cs_CZ", "en": "en_XX"},
    "marian": {},
    "t5": {},
    "madlad": {"en": "en"},
}
SMALL = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": POSITIONS,
}
SMALL_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}


@cache
def text() -> list[str]:
    """Sentences of all languages of the task."""
    random = np.random.default_rng(5)
    english = [" ".join(random.choice(WORDS, random.integers(2, 7))) for _ in range(150)]
    return [line for language in SIZES for each in english for line in (each, each.translate(cipher(language)))]


@cache
def sentencepiece_model() -> bytes:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text()), model_writer=file, vocab_size=150, hard_vocab_limit=False, minloglevel=2
    )
    return file.getvalue()


def pieces() -> list[tuple[str, float]]:
    """Subwords and scores, without <unk>, <s> and </s>."""
    model = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model())
    return [(model.id_to_piece(i), model.get_score(i)) for i in range(3, len(model))]


def listed(*symbols: str) -> list[tuple[str, float]]:
    return [(symbol, 0.0) for symbol in symbols]


def save_tokenizer(kind: str, folder: Path) -> int:
    """Write the files of a tokenizer; the number of its subwords."""
    import transformers

    fairseq = listed("<s>", "<pad>", "</s>", "<unk>")
    if kind == "nllb":
        vocabulary, merges = byte_pairs()
        made = transformers.NllbTokenizer(
            vocab=vocabulary, merges=merges, extra_special_tokens=[*CODES["nllb"].values()]
        )
    elif kind == "mbart":
        from transformers.models.mbart.tokenization_mbart import FAIRSEQ_LANGUAGE_CODES as codes  # noqa: N811

        made = transformers.MBartTokenizer(vocab=[*fairseq, *pieces(), *listed(*codes, "<mask>")])
    elif kind == "mbart50":
        from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as codes  # noqa: N811

        made = transformers.MBart50Tokenizer(vocab=[*fairseq, *pieces(), *listed(*codes, "<mask>")])
    elif kind in ("t5", "madlad"):
        tags = listed("<2en>", "<2pt>") if kind == "madlad" else []
        vocabulary = [*listed("<pad>", "</s>", "<unk>"), *pieces(), *tags, *listed("<extra_id_0>")]
        made = transformers.T5Tokenizer(vocab=vocabulary, extra_ids=1)
    else:
        return save_files(kind, folder)
    made.save_pretrained(folder)
    return len(made)


def byte_pairs() -> tuple[dict[str, int], list[tuple[str, str]]]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    symbols = ["<s>", "<pad>", "</s>", "<unk>"]
    learned.train_from_iterator(
        text(), trainers.BpeTrainer(vocab_size=150, special_tokens=symbols, show_progress=False)
    )
    model = json.loads(learned.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]


def save_files(kind: str, folder: Path) -> int:
    """Tokenizers that read SentencePiece models and a list of subwords."""
    subwords = [subword for subword, _ in pieces()]
    if kind == "m2m100":
        (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model())
        subwords = ["<s>", "<pad>", "</s>", "<unk>", *subwords]
        size, name = len(subwords) + 100 + 8, "M2M100Tokenizer"  # 100 languages, and what was made up
    else:
        for side in ("source", "target"):
            (folder / f"{side}.spm").write_bytes(sentencepiece_model())
        subwords = ["</s>", "<unk>", *subwords, "<pad>"]
        size, name = len(subwords), "MarianTokenizer"
    (folder / "vocab.json").write_text(json.dumps({subword: number for number, subword in enumerate(subwords)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    return size


def save_checkpoint(kind: str, folder: Path, seed: int = 1) -> Path:
    """A checkpoint of this kind with random weights; those that are usually zero too."""
    import transformers

    folder.mkdir(parents=True)
    size = save_tokenizer(kind, folder)
    if kind in ("nllb", "m2m100"):
        config = transformers.M2M100Config(vocab_size=size, **SMALL)
        build: Any = transformers.M2M100ForConditionalGeneration
    elif kind in ("mbart", "mbart50"):
        config, build = transformers.MBartConfig(vocab_size=size, **SMALL), transformers.MBartForConditionalGeneration
    elif kind == "marian":
        own = {
            "pad_token_id": size - 1,
            "decoder_start_token_id": size - 1,
            "eos_token_id": 0,
            "forced_eos_token_id": 0,
        }
        config, build = transformers.MarianConfig(vocab_size=size, **own, **SMALL), transformers.MarianMTModel
    else:
        more = {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"} if kind == "madlad" else {}
        config = transformers.T5Config(vocab_size=size + 3, decoder_start_token_id=0, **SMALL_T5, **more)
        build = transformers.T5ForConditionalGeneration
    torch.manual_seed(seed)
    model = build(config)
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_(std=0.5)
    if kind == "madlad":
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.15)
    model.save_pretrained(folder)
    if kind == "madlad":  # as in the files that people have, of earlier versions of transformers
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "tie_word_embeddings": False}))
    return folder
