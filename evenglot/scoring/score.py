"""Translate a held-out split of every direction and score it: `evenglot score`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenglot.batches.load import collate
from evenglot.corpus.prepared import open_prepared
from evenglot.corpus.store import Store
from evenglot.corpus.vocabulary import piece_characters
from evenglot.directions import SIDES, Direction, parse
from evenglot.files import finished_folder, write_json
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Device, EngineName, Translator, choose, load, usable_device
from evenglot.model.loss import batch_loss
from evenglot.model.transformer import Transformer
from evenglot.progress import Bars
from evenglot.runs.checkpoint import load_model
from evenglot.runs.run import Run, RunError
from evenglot.runs.scores import read_lines, scores_file, statistics_file, translation_file
from evenglot.scoring.comet import comet_score
from evenglot.scoring.scores import Scorer
from evenglot.scoring.statistics import METRICS, Counts, Statistics, references_digest
from evenglot.scoring.summary import summary
from evenglot.sequences import ParallelSequences
from evenglot.symbols import PAD

SENTENCES_AT_ONCE = 64


def translate_split(
    translator: Translator, store: Store, split: str, options: SearchOptions, folder: Path, bars: Bars
) -> None:
    """Write the translations of a split, a file for each direction: por-en.en; all of them or none."""
    with finished_folder(folder) as unfinished:
        for direction in _directions(store, split):
            sources = store.text(direction.name, split, "source")
            lines = []
            with bars.task(f"translating {split} {direction.name}", len(sources)) as advance:
                for best in translator.stream(sources, direction, options, lambda warning: bars.note(str(warning))):
                    lines.append(best[0].text.replace("\n", " "))
                    advance(1)
            translation_file(unfinished, direction).write_bytes("".join(f"{line}\n" for line in lines).encode())


def reference_losses(model: Transformer, store: Store, name: str, split: str) -> Counts:
    """-log p of each reference, in nats, and its characters: how well the model would have guessed it.

    Both are 0 for pairs that are longer than the model has positions, so that they do not count.
    """
    corpus = store.corpus(name, split)
    characters = torch.from_numpy(piece_characters(store.vocabulary("target")))
    device = next(model.parameters()).device
    model.eval()
    found = np.zeros((len(corpus), 2))
    by_length = np.argsort(corpus.target.lengths, kind="stable")
    fitting = by_length[~too_long(model, corpus)[by_length]]
    for rows in np.array_split(fitting, max(1, len(fitting) // SENTENCES_AT_ONCE)) if len(fitting) else ():
        batch = collate([corpus], np.zeros(len(rows), dtype=np.int32), rows, PAD)
        with torch.inference_mode():
            losses = batch_loss(model, batch.to(device), torch.zeros(len(rows), device=device), smoothing=0.0).sums
        found[rows, 0] = losses.cpu().numpy()
        found[rows, 1] = characters[batch.target].sum(1).numpy()
    return found


def too_long(model: Transformer, corpus: ParallelSequences) -> NDArray[np.bool_]:
    """Which pairs have more pieces than the model has positions?"""
    longest = np.maximum(corpus.source.lengths, corpus.target.lengths)
    return np.asarray(longest > model.shape.max_positions)


def score_split(
    store: Store, split: str, folder: Path, *, tokenize: str = "13a", comet: str | None = None
) -> tuple[dict[str, Any], Statistics]:
    """Scores of the translations in a folder, as scores.json has them, and what each sentence adds to them."""
    scorer, scored, extra, references = Scorer(tokenize), {}, {}, {}
    for direction in _directions(store, split):
        hypotheses = read_lines(translation_file(folder, direction))
        wanted = store.text(direction.name, split, "target")
        references[direction.name] = references_digest(wanted)
        try:
            scored[direction.name] = scorer.score(hypotheses, wanted, direction.tgt)
        except ValueError as error:
            raise RunError(f"{translation_file(folder, direction)}: {error}") from error
        if comet is not None:
            sources = store.text(direction.name, split, "source")
            extra[direction.name] = {"comet": comet_score(comet, sources, hypotheses, wanted, folder)}
    scores = {
        "split": split,
        "signature": scorer.signature,
        "directions": {name: {**each.as_json(), **extra.get(name, {})} for name, each in scored.items()},
        **summary(scored, store.sizes),
    }
    return scores, Statistics({name: each.counts for name, each in scored.items()}, references)


def score_run(
    run: Run,
    split: str,
    options: SearchOptions,
    bars: Bars,
    *,
    hypotheses: Path | None = None,
    engine: EngineName = "torch",
    which: str = "best",
    tokenize: str = "13a",
    comet: str | None = None,
    device: Device = "auto",
) -> tuple[dict[str, Any], Store]:
    """Translate a split with the model of a run, or take translations that are there, and score it.

    Written into the run: scores.json, and what each sentence adds to them in statistics.npz.
    """
    store = open_prepared(run.config())
    Scorer(tokenize)  # complains before the work begins
    folder = hypotheses or run.folder / "hypotheses" / split
    losses = {}
    made: dict[str, Any] = {"hypotheses": "given"}
    if hypotheses is None:
        _refuse_other_vocabulary(run, store)
        translator = load(run.folder, which=which, device=device, engine=engine)
        translate_split(translator, store, split, options, folder, bars)
        chosen = choose(run, which)
        made = {"beam": options.beam, "engine": engine, "which": which, "step": chosen.step}
        model = load_model(chosen).to(usable_device(device))
        for name in (each.name for each in _directions(store, split)):
            counts = reference_losses(model, store, name, split)
            if counts.any():
                losses[name] = counts
            if left_out := int(too_long(model, store.corpus(name, split)).sum()):
                made["left_out"] = made.get("left_out", 0) + left_out
                bars.note(
                    f"{name}: {left_out} of the {split} pairs are too long for the model; the loss is of the others"
                )
    scores, statistics = score_split(store, split, folder, tokenize=tokenize, comet=comet)
    scores["made"] = made
    for name, counts in losses.items():
        scores["directions"][name]["loss_per_character"] = float(METRICS["loss"].score(counts.sum(0)))
    with_losses = {
        name: {**counts, **({"loss": losses[name]} if name in losses else {})}
        for name, counts in statistics.counts.items()
    }
    Statistics(with_losses, statistics.references).save(statistics_file(run, split))
    write_json(scores_file(run, split), scores)  # last: whoever finds scores finds the rest
    return scores, store


def _refuse_other_vocabulary(run: Run, store: Store) -> None:
    """The pieces of references are those of the store: to another model they mean something else."""
    for side in SIDES:
        if (run.vocabulary / f"{side}.model").read_bytes() != store.vocabulary_file(side).read_bytes():
            raise RunError(
                f"{store.folder}: was prepared anew since this run was trained, and has another vocabulary; train "
                "again, or translate the text with `evenglot translate` and give `evenglot score` the --hypotheses"
            )


def _directions(store: Store, split: str) -> list[Direction]:
    found = [parse(name) for name in store.directions if split in store.splits(name)]
    if not found:
        raise RunError(f"{store.folder}: no direction has a {split} set")
    return found
