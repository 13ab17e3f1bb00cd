"""The Hugging Face Hub: metadata of a model card, and uploading an exported folder."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from evenglot.directions import Direction
from evenglot.export.languages import hub_code
from evenglot.extras import missing, silent_bars
from evenglot.runs.scores import Scores
from evenglot.scoring.metrics import scored_by

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
MODEL = re.compile(r"([\w.-]+/)?[\w.-]+")  # some old models have no owner
LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


@dataclass(frozen=True)
class Sharing:
    """What the card says beyond what the run knows."""

    license: str | None = None  # an identifier of the Hub, such as cc-by-4.0
    datasets: Sequence[str] = ()  # their names on the Hub
    base_model: str | None = None  # the name of the pretrained model on the Hub

    def __post_init__(self) -> None:
        if self.license is not None and not LICENSE.fullmatch(self.license):
            raise ValueError(f"--license {self.license}: not an identifier of the Hub, such as apache-2.0 or cc-by-4.0")
        if self.base_model is not None and not MODEL.fullmatch(self.base_model):
            raise ValueError(
                f"--base-model {self.base_model}: expected a name on the Hub, such as facebook/m2m100_418M"
            )


def metadata(
    name: str, directions: Sequence[Direction], scores: Scores | None, sharing: Sharing, library: str = "transformers"
) -> dict[str, Any]:
    """The front matter of a card: languages, licence, data sets, and the scores of each direction as one result.

    `library`: what loads the folder.
    """
    hub = _import_hub()
    codes = chain(*((direction.src, direction.tgt) for direction in directions))
    data = hub.ModelCardData(
        language=sorted({hub_code(code) for code in codes}),
        license=sharing.license,
        base_model=sharing.base_model,
        library_name=library,
        pipeline_tag="translation",
        tags=["translation", "multilingual", "evenglot"],
        datasets=list(sharing.datasets) or None,
        metrics=[metric.key for metric in scored_by(scores.macro) if metric.from_text] if scores else None,
        model_name=name if scores else None,
        eval_results=_results(hub, scores, sharing) if scores else None,
    )
    found: dict[str, Any] = data.to_dict()
    return found


def _results(hub: Any, scores: Scores, sharing: Sharing) -> list[Any]:
    """Text metrics of each direction; those of one direction are grouped by the Hub as one result."""
    return [
        hub.EvalResult(
            task_type="translation",
            task_name=f"Translation {direction}",
            dataset_type=sharing.datasets[0] if len(sharing.datasets) == 1 else "custom",
            dataset_name=f"{direction}, {row['lines']} sentences",
            dataset_config=direction,
            dataset_split=scores.split,
            metric_type=metric.key,
            metric_name=metric.label,
            metric_value=round(row[metric.scores_key] or 0.0, metric.digits),
            metric_args={"signature": scores.signature[metric.key]},
        )
        for direction, row in scores.directions.items()
        for metric in scored_by(row)
        if metric.from_text
    ]


def check_repository(repository: str) -> None:
    """Refuse a name that the Hub would refuse, before the work."""
    if not REPOSITORY.fullmatch(repository):
        raise ValueError(f"--push {repository}: expected OWNER/NAME, such as your-name/my-model")


def push(folder: Path, repository: str) -> str:
    """Upload an exported folder to a model repository, which is created (private) if it is not there.

    Returns its address. The address of the Hub and the token are those of huggingface_hub: HF_ENDPOINT, HF_TOKEN or
    `hf auth login`.
    """
    hub = _import_hub()
    api = hub.HfApi()
    try:
        with silent_bars(hub):
            address = api.create_repo(repository, private=True, exist_ok=True)
            api.upload_folder(folder_path=folder, repo_id=repository, commit_message="Upload with evenglot")
    except Exception as error:  # of the network, the Hub or the token: they have no common class
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"--push {repository}: {reason}; {folder} is complete. Log in with `hf auth login`, or set HF_TOKEN to a "
            f"token that may write; then upload it with `hf upload {repository} {folder}`"
        ) from error
    return str(address)


def _import_hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise missing("hf", "huggingface_hub") from error
