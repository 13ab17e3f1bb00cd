"""Continuing from the model of another run: its weights and its shape, with new rows for new language tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from evenglot.corpus.given import tag_ids
from evenglot.corpus.store import Store
from evenglot.directions import SIDES
from evenglot.files import sha256
from evenglot.model.shape import Shape
from evenglot.model.transformer import Transformer
from evenglot.runs.run import Run, RunError


def continued(run: Run, store: Store, dropouts: Mapping[str, float]) -> Transformer:
    """The model of a run's best checkpoint, for the vocabularies of a store, which begin with those of the run.

    `dropouts`: rates that replace those of the run.
    """
    content = run.best().read()
    _refuse_other_vocabulary(run, content.state)
    shape = Shape(**content.state["shape"])
    pieces = store.manifest["vocabulary"]["pieces"]
    rates = {name: rate for name, rate in dropouts.items() if hasattr(shape, name)}
    model = Transformer(
        replace(shape, source_pieces=pieces["source"], target_pieces=pieces["target"], **rates)  # type: ignore[arg-type]
    )
    weights = dict(content.model)
    for side in SIDES:
        name = f"{side}_embedding.weight"
        if name in weights:
            tags = tag_ids(store.vocabulary_file(side).read_bytes()).values()
            known = [row for row in tags if row < len(weights[name])]
            weights[name] = with_new_rows(weights[name], pieces[side], known)
    model.load_state_dict(weights)
    return model


def with_new_rows(embedding: Tensor, rows: int, similar: list[int]) -> Tensor:
    """An embedding with more rows at the end, each the mean of some old ones."""
    return torch.cat([embedding, embedding[similar].mean(0).expand(rows - len(embedding), -1)])


def max_positions(run: Run) -> int:
    """The maximum number of subwords of a sentence."""
    return int(run.best().read_state()["shape"]["max_positions"])


def _refuse_other_vocabulary(run: Run, state: Mapping[str, Any]) -> None:
    for name, expected in state.get("vocabulary", {}).items():
        file = run.vocabulary / name
        if not file.is_file() or sha256(file) != expected:
            raise RunError(f"{file}: changed since that run was trained, so its model cannot be used; restore a backup")
