"""The model card of an exported model: usage, directions, data, strategy and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

from evenglot import __version__
from evenglot.config import Config
from evenglot.directions import Direction, tag, tag_kind
from evenglot.export.hub import Sharing, metadata
from evenglot.runs.events import ConfigEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.run import Run
from evenglot.runs.scores import Scores, read_scores_file
from evenglot.scoring.metrics import Metric, scored_by

CARD = """\
---
{front_matter}---
# {name}

One translation model for {count}, trained with evenglot.

## Use

    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained({load})
    model = AutoModelForSeq2SeqLM.from_pretrained(FOLDER)
    batch = tokenizer(["{text}"], return_tensors="pt", padding=True, truncation=True)
    print(tokenizer.batch_decode(model.generate({generate}), skip_special_tokens=True))

{note}

## Training

{training}

Balancing strategy: {strategy}. Exported with {versions}.

## Scores

{scores}

## Licence

{license}

## Check

{check}
"""


@dataclass(frozen=True)
class Usage:
    """How transformers is called: arguments of the tokenizer and of `generate`, a sentence, and what to know.

    `library`: what loads the folder, for the Hub.
    """

    load: str
    text: str
    generate: str
    note: str
    tags: Mapping[str, str]  # how the language is named, by direction
    library: str = "transformers"


def usage_of_ours(config: Config, max_positions: int) -> Usage:
    """A tag before every sentence."""
    directions = config.data.directions
    side = tag_kind(directions)
    tags = {direction.name: tag(direction, side) for direction in directions}
    every = list(dict.fromkeys(tags.values()))
    note = (
        f"Every sentence must begin with the tag of its {side} language: {', '.join(f'`{each}`' for each in every)}. "
        f"The maximum length is {max_positions} subwords. Do\nnot translate empty lines."
    )
    return Usage("FOLDER", f"{every[0]} ...", "**batch", note, tags)


def model_card(run: Run, config: Config, check: str, usage: Usage, sharing: Sharing) -> str:
    """README.md of an exported folder, in the format of the Hugging Face Hub; `check`: the result of the comparison."""
    directions = config.data.directions
    file = run.folder / "scores.json"
    scores = read_scores_file(file) if file.exists() else None
    name = run.folder.resolve().name
    packages = ("torch", "transformers", "sentencepiece")
    versions = [f"evenglot {__version__}", *(f"{name} {version(name)}" for name in packages)]
    return CARD.format(
        front_matter=_front_matter(name, directions, scores, sharing, usage.library),
        name=name,
        count="one direction" if len(directions) == 1 else f"{len(directions)} directions",
        load=usage.load,
        text=usage.text,
        generate=usage.generate,
        note=usage.note,
        training=_training_table(run, directions, usage.tags),
        strategy=_strategy(config),
        versions=", ".join(versions),
        scores=_score_table(scores),
        check=check,
        license=_license(sharing),
    )


def _front_matter(
    name: str, directions: Sequence[Direction], scores: Scores | None, sharing: Sharing, library: str
) -> str:
    """YAML metadata for the Hub."""
    about = metadata(name, directions, scores, sharing, library)
    return yaml.safe_dump(about, sort_keys=False, allow_unicode=True)


def _license(sharing: Sharing) -> str:
    if sharing.license is None:
        return "Not stated. The text that a model is trained on may restrict how it can be shared and used."
    return f"`{sharing.license}`"


def _training_table(run: Run, directions: Sequence[Direction], tags: Mapping[str, str]) -> str:
    """Tags and corpus sizes. Sizes come from the event log, because the store may have changed since the run began."""
    events = read_log(run.log_file) if run.log_file.exists() else []
    sizes: dict[str, int] = {}
    for event in of_kind(events, ConfigEvent):
        sizes = {name: facts.pairs for name, facts in event.directions.items()}
    rows = [
        [direction.name, f"`{tags[direction.name]}`", _number(sizes.get(direction.name))] for direction in directions
    ]
    return _table(["direction", "tag", "sentence pairs"], rows)


def _number(pairs: int | None) -> str:
    return "unknown" if pairs is None else f"{pairs:,}"


def _strategy(config: Config) -> str:
    """The strategy and its options; paths are reduced to file names to keep local folders private."""
    options = {
        key: Path(value).name if isinstance(value, str) else value for key, value in config.balance.options.items()
    }
    listed = ", ".join(f"{key} {value}" for key, value in options.items() if value is not None)
    return f"`{config.balance.strategy}`" + (f" ({listed})" if listed else "")


def _score_table(scores: Scores | None) -> str:
    if scores is None:
        return "Not available. Run `evenglot score` before the export to include them."
    metrics = scored_by(scores.macro)
    rows = [[name, *_cells(row, metrics), str(row.get("lines", ""))] for name, row in scores.directions.items()]
    rows.append(["mean", *_cells(scores.macro, metrics), ""])
    signatures = scores.signature
    notes = [f"{each.label} signature: `{signatures[each.key]}`" for each in metrics if each.key in signatures]
    notes.append(f"Lowest: {scores.worst_direction}")
    table = _table(["direction", *(each.label for each in metrics), "sentences"], rows)
    return "\n\n".join([f"On the split `{scores.split}`:", table, ". ".join(notes) + "."])


def _cells(row: Mapping[str, float | None], metrics: Sequence[Metric]) -> list[str]:
    return [each.text(row[each.scores_key] or 0.0) for each in metrics]


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
