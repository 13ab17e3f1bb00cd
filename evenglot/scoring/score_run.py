"""Translate a held-out split of every direction and score it: `evenglot score`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evenglot.corpus.languages import can_identify
from evenglot.corpus.prepared import open_prepared
from evenglot.corpus.store import Store
from evenglot.directions import Direction, parse
from evenglot.extras import missing
from evenglot.files import finished_folder, write_json
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import EngineName, TranslationWarning, Translator, translator_of
from evenglot.inference.vocabularies import verify_vocabulary
from evenglot.model.devices import Device, usable_device
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import Run, RunError
from evenglot.runs.scores import read_lines, scores_file, statistics_file, translation_file
from evenglot.scoring.comet import comet_score
from evenglot.scoring.metrics import Counts
from evenglot.scoring.reference_loss import reference_losses, too_long
from evenglot.scoring.scorer import Scorer
from evenglot.scoring.sentence_statistics import SentenceStatistics, references_digest
from evenglot.scoring.summary import summary
from evenglot.seals import checksums_of, sealed
from evenglot.wording import counted


def translate_split(
    translator: Translator, store: Store, split: str, options: SearchOptions, folder: Path, bars: Bars
) -> None:
    """Write the translations of a split, one file per direction (por-en.en); the folder appears when complete."""
    with finished_folder(folder) as unfinished:
        directions = _directions(store, split)
        sources = {direction: store.text(direction.name, split, "source") for direction in directions}
        total = sum(map(len, sources.values()))
        with bars.task(f"translating {split} sets of {counted(len(directions), 'direction')}", total) as advance:
            for direction, text in sources.items():
                lines = []
                for best in translator.stream(text, direction, options, _warner(bars, direction)):
                    lines.append(best[0].text.replace("\n", " "))
                    advance(1)
                translation_file(unfinished, direction).write_bytes("".join(f"{line}\n" for line in lines).encode())


def _warner(bars: Bars, direction: Direction) -> Callable[[TranslationWarning], None]:
    return lambda warning: bars.warn(f"{direction.name}, {warning}")


def score_split(
    store: Store,
    split: str,
    folder: Path,
    *,
    tokenize: str = "13a",
    comet: str | None = None,
    model_counts: Mapping[str, Mapping[str, Counts]] | None = None,
) -> tuple[dict[str, Any], SentenceStatistics]:
    """Scores of the translations in a folder, in the form of scores.json, and the counts per sentence.

    `model_counts`: counts, by direction, of metrics computed from the model instead of the translations.
    """
    scorer, scored, extra, references = Scorer(tokenize), {}, {}, {}
    for direction in _directions(store, split):
        name = direction.name
        hypotheses = read_lines(translation_file(folder, direction))
        wanted = store.text(name, split, "target")
        references[name] = references_digest(wanted)
        try:
            scored[name] = scorer.score(hypotheses, wanted, direction.tgt, (model_counts or {}).get(name))
        except ValueError as error:
            raise RunError(f"{translation_file(folder, direction)}: {error}") from error
        if comet is not None:
            sources = store.text(name, split, "source")
            extra[name] = {"comet": comet_score(comet, sources, hypotheses, wanted, folder)}
    scores = {
        "split": split,
        "signature": scorer.signature,
        "directions": {name: {**each.as_json(), **extra.get(name, {})} for name, each in scored.items()},
        **summary(scored, store.sizes),
        "translations": checksums_of(translation_file(folder, direction) for direction in _directions(store, split)),
    }
    return scores, SentenceStatistics({name: each.counts for name, each in scored.items()}, references)


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
    """Translate a split with the model of a run, or read given translations, and score them.

    Writes scores.json and statistics.npz into the run folder.
    """
    config = run.config()
    store = open_prepared(config)
    Scorer(tokenize)  # checks the tokeniser before the long work
    folder = hypotheses or run.folder / "hypotheses" / split
    model_counts: dict[str, dict[str, Counts]] = {}
    made: dict[str, Any] = {"hypotheses": "given"}
    if hypotheses is None:
        chosen = run.choose(which)
        verify_vocabulary(run, chosen.read_state())
        _refuse_other_vocabulary(run, store)
        model = load_model(chosen, config.model.init)
        translator = translator_of(run, config.data, chosen, model, device, engine)
        translate_split(translator, store, split, options, folder, bars)
        made = {"beam": options.beam, "engine": engine, "which": which, "step": chosen.step}
        model = model.to(usable_device(device))
        for name in (each.name for each in _directions(store, split)):
            losses = reference_losses(model, store, name, split)
            if losses.any():
                model_counts[name] = {"loss": losses}
            if left_out := int(too_long(model, store.corpus(name, split)).sum()):
                made["left_out"] = made.get("left_out", 0) + left_out
                bars.warn(
                    f"{name}: {counted(left_out, 'pair')} of {split} too long for the model, left out of the loss"
                )
    if not can_identify():
        bars.note(f"no off-target rates: {missing('langid', 'py3langid')}")
    scores, statistics = score_split(store, split, folder, tokenize=tokenize, comet=comet, model_counts=model_counts)
    statistics.save(statistics_file(run, split))
    write_json(scores_file(run, split), sealed({**scores, "made": made}))  # last, so that scores imply all other files
    return {**scores, "made": made}, store


def _refuse_other_vocabulary(run: Run, store: Store) -> None:
    """Raise RunError if store and run have different vocabularies: token ids of references come from the store."""
    for file in store.vocabulary_files:
        own = run.vocabulary / file.name
        if not own.exists() or own.read_bytes() != file.read_bytes():
            raise RunError(
                f"{store.folder}: has another vocabulary than this run, as it was prepared again after training; train "
                "a new run, or translate with `evenglot translate` and run `evenglot score` with --hypotheses"
            )


def _directions(store: Store, split: str) -> list[Direction]:
    found = [parse(name) for name in store.directions if split in store.splits(name)]
    if not found:
        raise RunError(f"{store.folder}: no direction has a {split} set")
    return found
