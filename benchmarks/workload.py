"""The workload of the speed benchmarks: a prepared corpus, and the configuration that trains on it.

Nothing but training takes part in it: proportional sampling, an interval as long as the run, no validation set.
"""

from __future__ import annotations

import re
from pathlib import Path

from evenglot import yaml12
from evenglot.config import Config, load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.store import Store
from evenglot.files import write_text
from evenglot.paper.recipes import demo_corpus
from evenglot.progress import Bars

CACHE = Path(__file__).parents[1] / ".bench"
TOKENS = 2048  # a batch and an update, padding included
DROPOUT, SMOOTHING, RATE = 0.1, 0.1, 1e-3
SUBWORDS = (4000, 6000)  # of English, of all other languages
FEW_SUBWORDS = (2000, 3000)  # for the embedded corpus, which has too little text for more


def corpus_folder(name: str) -> Path:
    """A folder in our layout; `tiny_webui` is the embedded corpus."""
    return demo_corpus() if name == "tiny_webui" else Path(name).resolve()


def write_config(folder: Path, corpus: Path, tokens: int = TOKENS) -> Path:
    """Write conf.yaml for all languages of a corpus to English."""
    languages = sorted(re.findall(r"train\.(\w+)-en\.en\.gz", " ".join(path.name for path in corpus.iterdir())))
    if not languages:
        raise ValueError(f"{corpus}: no train.<language>-en.en.gz; expected the layout of the embedded corpus")
    shared, other = FEW_SUBWORDS if corpus == demo_corpus() else SUBWORDS
    settings = {
        "data": {
            "directions": {"from": languages, "to": "en"},
            "train": f"{corpus}/train.{{pair}}.{{lang}}.gz",
        },
        "vocabulary": {"size_shared": shared, "size_other": other},
        "store": {"threads": 1},
        "balance": {"strategy": "proportional"},
        "batches": {"tokens_per_batch": tokens, "tokens_per_update": tokens},
        "model": {"size": "tiny", "dropout": DROPOUT, "max_positions": 256},
        "train": {
            "learning_rate": RATE,
            "warmup": 400,
            "label_smoothing": SMOOTHING,
            "weight_decay": 0,
            "device": "cpu",
            "threads": 1,
        },
    }
    write_text(folder / "conf.yaml", yaml12.dump(settings))
    return folder / "conf.yaml"


def prepared(corpus: str, tokens: int = TOKENS, *, cache: Path = CACHE, size: str = "tiny") -> tuple[Config, Store]:
    """The configuration and the store of a corpus; prepared in the cache if it is not yet."""
    text = corpus_folder(corpus)
    folder = cache / "corpora" / text.name
    folder.mkdir(parents=True, exist_ok=True)
    config = load_config(write_config(folder, text, tokens), [f"model.size={size}"])
    return config, prepare(config, Bars())
