"""`evenglot prepare`: clean, learn vocabularies, write the store. Every stage is an artefact, redone if needed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from evenglot import __version__
from evenglot.config import Config
from evenglot.config.data import SPLITS, Split
from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import DamagedError, fingerprint, key_of
from evenglot.corpus.clean import REASONS, Scan
from evenglot.corpus.read import CorpusError, Pair
from evenglot.corpus.store import CONFIG, MANIFEST, SequenceWriter, Store, config_key, open_store, write_manifest
from evenglot.corpus.survey import (
    Files,
    Mask,
    Surroundings,
    limits_of,
    pairs_of,
    read_surroundings,
    rules_of,
    scan_training,
    select,
    size_on_disk,
    training_files,
)
from evenglot.corpus.vocabulary import Text, learn_vocabularies
from evenglot.directions import SIDES, Direction, tag, tag_kind
from evenglot.files import LOCK, UNFINISHED, digest, lock
from evenglot.progress import Bars
from evenglot.seeding import generator
from evenglot.symbols import EOS

CHUNK = 10_000  # pairs encoded at a time: SentencePiece's threads share them
PLACES = ("scan", "train", "valid", "valid_full", "test")  # folders of artefacts; vocabularies stand beside them


def prepare(config: Config, bars: Bars) -> Store:
    """Make the store that a configuration describes. What is there already, made from the same, is not made again."""
    root = Path(config.store.folder)
    root.mkdir(parents=True, exist_ok=True)
    if not _is_ours(root):
        raise CorpusError(f"{root}: not empty, and not a store; give store.folder a folder of its own")
    with lock(root, f"{root}: another `evenglot prepare` is writing this store; wait for it", CorpusError):
        is_new = [path.name for path in root.iterdir()] == [LOCK]
        try:
            return _prepare(config, root, bars)
        except CorpusError:  # bad text: of a new store nothing is left lying about. Interrupted work is kept.
            if is_new:
                _remove(root)
            raise


def _is_ours(root: Path) -> bool:
    """Is this folder a store, perhaps damaged, or the beginning of one, or empty?"""
    names = {path.name for path in root.iterdir()}
    if MANIFEST in names:
        with suppress(OSError, ValueError, TypeError):
            return "artefacts" in json.loads((root / MANIFEST).read_text(encoding="utf-8"))
        return "train" in names  # damaged
    others = names - {LOCK, CONFIG, *PLACES}
    return all(artefacts.NAME.fullmatch(name) or name.endswith(UNFINISHED) for name in others)


def _remove(root: Path) -> None:
    """Delete a folder and all in it; of one that is a link to another place, only what is in it."""
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not root.is_symlink():
        root.rmdir()


def _prepare(config: Config, root: Path, bars: Bars) -> Store:
    settings = _settings(config)
    store = _finished(root, settings, bars)
    if store is None:
        content = _make(config, root, bars)
        config.save(root / CONFIG)
        about = {"made_by": f"evenglot {__version__}", "config": config_key(root)}
        write_manifest(root, {"settings": settings, **about, **content})
        store = open_store(root, verify=False)
    artefacts.remove_others((root, *(root / place for place in PLACES)), store.artefacts)
    return store


def _make(config: Config, root: Path, bars: Bars) -> dict[str, Any]:
    """Make or find every part of the store; what the manifest says of them."""
    around = read_surroundings(config)
    scans = {d.name: _scan(config, root, d, around, bars) for d in config.data.directions}
    vocabulary = _vocabulary(config, root, scans, bars)
    used = [*(folder for folder, _ in scans.values()), vocabulary]
    rows: dict[str, dict[str, Any]] = {}
    for direction in config.data.directions:
        rows[direction.name] = {}
        for part in _parts(config, direction, scans[direction.name][1], around):
            folder = _encode(config, root, direction, part, vocabulary, bars)
            row = artefacts.about(folder)
            row["removed"] = part.removed | row["removed"]
            if row["pairs"] == 0:
                raise CorpusError(f"{part.files[0].path}: no pair is left of {part.name}; relax `clean`")
            rows[direction.name][part.name] = {"artefact": str(folder.relative_to(root)), **row}
            used.append(folder)
    return {
        "vocabulary": {"artefact": str(vocabulary.relative_to(root)), **artefacts.about(vocabulary)},
        "directions": rows,
        "artefacts": [str(folder.relative_to(root)) for folder in used],
    }


def _settings(config: Config) -> str:
    """The hash of all that the content of a store depends on: settings, and files as they are now."""
    splits = ((direction, split) for direction in config.data.directions for split in SPLITS)
    files = [found for direction, split in splits if (found := config.data.files(direction, split)) is not None]
    parts = config.model_dump(include={"data", "clean", "vocabulary", "store"}, by_alias=True)
    parts["store"] = {key: value for key, value in parts["store"].items() if key not in ("folder", "threads")}
    return key_of(parts, [_identity(found) for found in files])


def _finished(root: Path, settings: str, bars: Bars) -> Store | None:
    """The store, if it is there, intact, and made with these settings. Damage is said, then mended."""
    if not (root / MANIFEST).exists():
        return None
    try:
        store = open_store(root)
    except DamagedError as error:
        bars.note(f"{error.path}: {error.fault}; it is made again")
        return None
    return store if store.manifest["settings"] == settings else None


# ------------------------------------------------------------------------------------------------------ clean


def _scan(config: Config, root: Path, direction: Direction, around: Surroundings, bars: Bars) -> tuple[Path, Scan]:
    """Flags of all training pairs of a direction, as an artefact."""
    files = training_files(config, direction)
    scripts = {language: sorted(around.scripts.get(language, ())) for language in (direction.src, direction.tgt)}
    judged_by = [around.held_out.fingerprint(), asdict(limits_of(config)), scripts, config.data.invalid_utf8]
    key = key_of(_identity(files), list(REASONS), *judged_by)

    def build(folder: Path) -> dict[str, Any]:
        result = scan_training(config, direction, around, bars)
        (folder / "flags").write_bytes(result.flags.tobytes())
        return {"characters": result.characters}

    folder = artefacts.make(root / "scan", direction.name, key, build)
    flags = np.fromfile(folder / "flags", dtype=np.uint16)
    return folder, Scan(flags, tuple(artefacts.about(folder)["characters"]))


def _identity(files: Files) -> list[Any]:
    return [[fingerprint(file.path), file.column] for file in files]


# ------------------------------------------------------------------------------------------------- vocabulary


def _vocabulary(config: Config, root: Path, scans: dict[str, tuple[Path, Scan]], bars: Bars) -> Path:
    """Source and target vocabularies, as an artefact that also says how they serve each language."""
    directions = config.data.directions
    texts, learned_from = [], {}
    for direction in directions:
        files = training_files(config, direction)
        kept = scans[direction.name][1].kept(rules_of(config))
        if not kept.any():
            raise CorpusError(f"{files[0].path}: cleaning leaves no training pair; see `evenglot check`")
        learned_from[direction.name] = [_identity(files), _digest(kept)]
        for position, language in enumerate((direction.src, direction.tgt)):
            texts.append(Text(language, SIDES[position], kept, _Sentences(config, direction, position)))
    key = key_of(config.vocabulary.model_dump(), learned_from)

    def build(folder: Path) -> dict[str, Any]:
        with bars.task("learning vocabularies", None):
            models, about = learn_vocabularies(texts, config.vocabulary, _tags(directions))
        for side, model in models.items():
            (folder / f"{side}.model").write_bytes(model)
        hashes = {side: digest(model) for side, model in models.items()}
        return {**about, "hash": hashes, "tags": _tags(directions), "tag_side": tag_kind(directions)}

    return artefacts.make(root, "vocabulary", key, build)


@dataclass(frozen=True)
class _Sentences:
    """One side of a training corpus, read anew each time it is asked for."""

    config: Config
    direction: Direction
    position: int

    def __iter__(self) -> Iterator[str]:
        for pair in pairs_of(self.config, training_files(self.config, self.direction), "train"):
            yield pair[self.position] if pair is not None else ""


def _tags(directions: Iterable[Direction]) -> list[str]:
    directions = list(directions)
    return sorted({tag(direction, tag_kind(directions)) for direction in directions})


def _digest(mask: Mask) -> str:
    return digest(np.packbits(mask).tobytes())


# ------------------------------------------------------------------------------------------------------ store


@dataclass(frozen=True, eq=False)
class Part:
    """A split to be encoded: from which files, which of their pairs, and what segmentation may not exceed."""

    name: str
    split: Split
    files: Files
    chosen: Mask | None  # None: all
    limits: PieceLimits
    removed: dict[str, int]


@dataclass(frozen=True)
class PieceLimits:
    """How many pieces the sides of a pair may have; by default any number."""

    shortest: int = 0
    longest: float = float("inf")
    ratio: float = float("inf")

    def broken_by(self, source: int, target: int) -> str | None:
        """The reason to leave out a pair with so many pieces, if there is one."""
        longer, shorter = max(source, target), min(source, target)
        if shorter < self.shortest:
            return "too_few_pieces"
        if longer > self.longest:
            return "too_many_pieces"
        return "piece_ratio" if longer > self.ratio * shorter else None


def _parts(config: Config, direction: Direction, scan: Scan, around: Surroundings) -> Iterator[Part]:
    """Training pairs cleaned; validation pairs capped, and all that are not empty; the test set whole."""
    clean, rules = config.clean, rules_of(config)
    ratio = clean.max_piece_ratio or float("inf")
    limits = PieceLimits(clean.min_pieces, clean.max_pieces, ratio)
    train = training_files(config, direction)
    yield Part("train", "train", train, scan.kept(rules), limits, scan.removed(rules))
    if (valid := config.data.files(direction, "valid")) is not None:
        usable = around.usable[direction.name, "valid"]
        empty = {"empty": int(np.count_nonzero(~usable))}
        short = PieceLimits(longest=clean.max_pieces)
        yield Part("valid", "valid", valid, _capped(usable, config, direction), short, {})
        yield Part("valid_full", "valid", valid, usable, PieceLimits(), empty)
    if (test := config.data.files(direction, "test")) is not None:
        yield Part("test", "test", test, None, PieceLimits(), {})


def _capped(usable: Mask, config: Config, direction: Direction) -> Mask:
    """A random choice of the usable validation pairs, the same whenever it is made; all of them if they are few."""
    cap = config.store.valid_cap
    if cap is None or np.count_nonzero(usable) <= cap:
        return usable
    chosen = np.zeros_like(usable)
    draw = generator(config.store.seed, "valid_cap", direction.name)
    chosen[draw.choice(np.flatnonzero(usable), cap, replace=False)] = True
    return chosen


def _encode(config: Config, root: Path, direction: Direction, part: Part, vocabulary: Path, bars: Bars) -> Path:
    """Token ids of a part of a direction, as an artefact."""
    files, chosen = part.files, part.chosen
    selection = None if chosen is None else _digest(chosen)
    limits = [part.limits.shortest, str(part.limits.longest), str(part.limits.ratio)]
    key = key_of(_identity(files), selection, limits, vocabulary.name, direction.name)

    def build(folder: Path) -> dict[str, Any]:
        encoder = _Encoder(folder, vocabulary, direction, part.limits, config.store.threads)
        with bars.task(f"encoding {part.name} {direction.name}", size_on_disk(files)) as advance:
            pairs = pairs_of(config, files, part.split, advance)
            wanted = pairs if chosen is None else select(pairs, chosen, files)
            encoder.write((pair for pair in wanted if pair is not None), keep_text=part.split != "train")
        return encoder.close()

    return artefacts.make(root / part.name, direction.name, key, build)


class _Encoder:
    """Sentence pairs -> files of ids (and text), without those that segmentation shows to be out of limits."""

    def __init__(self, folder: Path, vocabulary: Path, direction: Direction, limits: PieceLimits, threads: int) -> None:
        about = artefacts.about(vocabulary)
        self._models = [sentencepiece.SentencePieceProcessor(model_file=str(vocabulary / f"{s}.model")) for s in SIDES]
        self._writers = [SequenceWriter(folder, side, np.dtype(about["dtype"][side])) for side in SIDES]
        self._tag = self._models[0].piece_to_id(tag(direction, about["tag_side"]))
        self._folder, self._limits, self._threads = folder, limits, threads
        self._removed: Counter[str] = Counter()
        self._pairs = 0

    def write(self, pairs: Iterator[Pair], keep_text: bool) -> None:
        """Encode everything, chunk by chunk."""
        texts = [(self._folder / f"{side}.txt").open("wb") if keep_text else nullcontext() for side in SIDES]
        with texts[0] as source_text, texts[1] as target_text:
            while chunk := list(islice(pairs, CHUNK)):
                sources, targets = (
                    model.encode([pair[side] for pair in chunk], num_threads=self._threads)
                    for side, model in enumerate(self._models)
                )
                reasons = [self._limits.broken_by(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
                fits = [reason is None for reason in reasons]
                self._removed.update(reason for reason in reasons if reason is not None)
                self._pairs += sum(fits)
                self._writers[0].append([[self._tag, *ids, EOS] for ids in compress(sources, fits)])
                self._writers[1].append([[*ids, EOS] for ids in compress(targets, fits)])
                if source_text is not None and target_text is not None:
                    for source, target in compress(chunk, fits):
                        source_text.write(source.encode() + b"\n")
                        target_text.write(target.encode() + b"\n")

    def close(self) -> dict[str, Any]:
        """Finish the files; what was written?"""
        source, target = (writer.close() for writer in self._writers)
        return {"pairs": self._pairs, "source_tokens": source, "target_tokens": target, "removed": dict(self._removed)}
