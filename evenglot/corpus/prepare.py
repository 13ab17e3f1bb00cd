"""`evenglot prepare`: clean, learn vocabularies, write the store. Every stage is an artefact, redone if needed."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from evenglot import __version__
from evenglot.config import Config
from evenglot.config.data import SPLITS
from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import DamagedError, fingerprint, key_of
from evenglot.corpus.clean import Scan
from evenglot.corpus.read import CorpusError, Pair
from evenglot.corpus.store import MANIFEST, SIDES, VERSION, SequenceWriter, Store, open_store
from evenglot.corpus.survey import (
    Files,
    Setting,
    limits_of,
    pairs_of,
    read_setting,
    rules_of,
    scan_training,
    size_on_disk,
    training_files,
)
from evenglot.corpus.vocabulary import EOS, Text, learn_vocabularies
from evenglot.directions import Direction, tag, tag_kind
from evenglot.progress import Bars

CHUNK = 10_000  # pairs encoded at a time: SentencePiece's threads share them
SHORTEST, LONGEST, UNBALANCED = "no_pieces", "too_many_pieces", "piece_ratio"  # found only after segmentation


def prepare(config: Config, bars: Bars) -> Store:
    """Make the store that a configuration describes. What is there already, made from the same, is not made again."""
    root = Path(config.store.folder)
    is_new = not root.exists()
    root.mkdir(parents=True, exist_ok=True)
    try:
        with _only_one(root):
            return _prepare(config, root, bars)
    except BaseException:
        if is_new and not (root / MANIFEST).exists():
            shutil.rmtree(root, ignore_errors=True)  # nothing was finished, so nothing is left lying about
        raise


def _prepare(config: Config, root: Path, bars: Bars) -> Store:
    settings = _settings(config)
    if (finished := _finished(root, settings)) is not None:
        return finished
    setting = read_setting(config)
    scans = {d.name: _scan(config, root, d, setting, bars) for d in config.data.directions}
    vocabulary = _vocabulary(config, root, scans, bars)
    used = [*(folder for folder, _ in scans.values()), vocabulary]
    rows: dict[str, dict[str, Any]] = {}
    for direction in config.data.directions:
        rows[direction.name] = {}
        for split, files, chosen in _splits(config, direction, scans[direction.name][1], setting):
            folder = _encode(config, root, direction, split, files, chosen, vocabulary, bars)
            rows[direction.name][split] = {"artefact": str(folder.relative_to(root)), **artefacts.about(folder)}
            used.append(folder)
        rows[direction.name]["train"]["cleaned"] = scans[direction.name][1].removed(rules_of(config))
    manifest = {
        "version": VERSION,
        "made_by": f"evenglot {__version__}",
        "settings": settings,
        "vocabulary": {"artefact": str(vocabulary.relative_to(root)), **artefacts.about(vocabulary)},
        "directions": rows,
    }
    artefacts.write_json(root / MANIFEST, manifest)
    config.save(root / "config.yaml")
    artefacts.remove_others(root, used)
    return open_store(root, verify=False)


def _settings(config: Config) -> str:
    """The hash of all that the store depends on: settings, and files as they are now."""
    splits = ((direction, split) for direction in config.data.directions for split in SPLITS)
    files = [found for direction, split in splits if (found := config.data.files(direction, split)) is not None]
    parts = config.model_dump(include={"data", "clean", "vocabulary", "store", "seed"}, by_alias=True)
    return key_of(VERSION, parts, [_identity(found) for found in files])


def _finished(root: Path, settings: str) -> Store | None:
    """The store, if it is there, intact, and made with these settings."""
    try:
        store = open_store(root)
    except DamagedError:
        return None
    return store if store.manifest["settings"] == settings else None


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Two processes must not write one store."""
    with (root / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CorpusError(f"{root}: another `evenglot prepare` is writing this store; wait for it") from error
        yield


# ------------------------------------------------------------------------------------------------------ clean


def _scan(config: Config, root: Path, direction: Direction, setting: Setting, bars: Bars) -> tuple[Path, Scan]:
    """Flags of all training pairs of a direction, as an artefact."""
    files = training_files(config, direction)
    scripts = {language: sorted(setting.scripts.get(language, ())) for language in (direction.src, direction.tgt)}
    key = key_of(_identity(files), setting.held_out.fingerprint(), asdict(limits_of(config)), scripts)

    def build(folder: Path) -> dict[str, Any]:
        result = scan_training(config, direction, setting, bars)
        result.flags.tofile(folder / "flags")
        return {"characters": result.characters, "words": result.words}

    folder = artefacts.make(root / "scan", direction.name, key, build)
    about = artefacts.about(folder)
    flags = np.fromfile(folder / "flags", dtype=np.uint16)
    return folder, Scan(flags, tuple(about["characters"]), tuple(about["words"]))


def _identity(files: Files) -> list[Any]:
    return [[fingerprint(file.path), file.column] for file in files]


# ------------------------------------------------------------------------------------------------- vocabulary


def _vocabulary(config: Config, root: Path, scans: dict[str, tuple[Path, Scan]], bars: Bars) -> Path:
    """Source and target vocabularies, as an artefact that also says how they serve each language."""
    directions, rules = config.data.directions, rules_of(config)
    texts = []
    for direction in directions:
        kept = scans[direction.name][1].kept(rules)
        if not kept.any():
            raise CorpusError(f"{direction.name}: cleaning leaves no training pair; see `evenglot check`")
        for position, language in enumerate((direction.src, direction.tgt)):
            texts.append(Text(language, SIDES[position], kept, _Sentences(config, direction, position)))
    scanned = {name: folder.name for name, (folder, _) in scans.items()}
    key = key_of(config.vocabulary.model_dump(), scanned, rules)

    def build(folder: Path) -> dict[str, Any]:
        with bars.task("learning vocabularies", None):
            models, about = learn_vocabularies(texts, config.vocabulary, _tags(directions))
        for side, model in models.items():
            (folder / f"{side}.model").write_bytes(model)
        return {**about, "tags": _tags(directions), "tag_side": tag_kind(directions)}

    return artefacts.make(root, "vocabulary", key, build)


@dataclass(frozen=True)
class _Sentences:
    """One side of a training corpus, read anew each time it is asked for."""

    config: Config
    direction: Direction
    position: int

    def __iter__(self) -> Iterator[str]:
        for pair in pairs_of(self.config, training_files(self.config, self.direction)):
            yield pair[self.position] if pair is not None else ""


def _tags(directions: Iterable[Direction]) -> list[str]:
    directions = list(directions)
    return sorted({tag(direction, tag_kind(directions)) for direction in directions})


# ------------------------------------------------------------------------------------------------------ store


def _splits(
    config: Config, direction: Direction, scan: Scan, setting: Setting
) -> Iterator[tuple[str, Files, np.ndarray | None]]:
    """Each split of a direction: its files and which of their pairs to take (None: all)."""
    yield "train", training_files(config, direction), scan.kept(rules_of(config))
    if (valid := config.data.files(direction, "valid")) is not None:
        yield "valid", valid, _capped(setting.held_out_pairs[direction.name, "valid"], config, direction)
        yield "valid_full", valid, None
    if (test := config.data.files(direction, "test")) is not None:
        yield "test", test, None


def _capped(pairs: int, config: Config, direction: Direction) -> np.ndarray | None:
    """A random choice of validation pairs, the same whenever it is made; None if all fit under the cap."""
    cap = config.store.valid_cap
    if cap is None or pairs <= cap:
        return None
    words = [config.seed, *direction.name.encode()]
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
    chosen = np.zeros(pairs, dtype=bool)
    chosen[generator.choice(pairs, cap, replace=False)] = True
    return chosen


def _encode(
    config: Config,
    root: Path,
    direction: Direction,
    split: str,
    files: Files,
    chosen: np.ndarray | None,
    vocabulary: Path,
    bars: Bars,
) -> Path:
    """Token ids of a direction and split, as an artefact."""
    limits = {} if split == "test" else config.clean.model_dump(include={"max_pieces", "min_pieces", "max_piece_ratio"})
    selection = None if chosen is None else artefacts.digest(np.packbits(chosen).tobytes())
    key = key_of(_identity(files), selection, limits, vocabulary.name, direction.name)
    about = artefacts.about(vocabulary)

    def build(folder: Path) -> dict[str, Any]:
        encoder = _Encoder(folder, vocabulary, about, direction, limits, config.store.threads)
        with bars.task(f"encoding {split} {direction.name}", size_on_disk(files)) as advance:
            pairs: Iterator[Pair | None] = pairs_of(config, files, advance)
            if chosen is not None:
                pairs = compress(pairs, chosen)
            encoder.write(pairs, keep_text=split != "train")
        return encoder.close()

    return artefacts.make(root / split, direction.name, key, build)


class _Encoder:
    """Sentence pairs -> files of ids (and text), without those that segmentation shows to be too long."""

    def __init__(
        self,
        folder: Path,
        vocabulary: Path,
        about: dict[str, Any],
        direction: Direction,
        limits: dict[str, Any],
        threads: int,
    ) -> None:
        self._models = [sentencepiece.SentencePieceProcessor(model_file=str(vocabulary / f"{s}.model")) for s in SIDES]
        self._writers = [SequenceWriter(folder, side, np.dtype(about["dtype"][side])) for side in SIDES]
        self._tag = self._models[0].piece_to_id(tag(direction, about["tag_side"]))
        self._folder, self._limits, self._threads = folder, limits, threads
        self._pairs = 0
        self.removed = {"invalid_utf8": 0, SHORTEST: 0, LONGEST: 0, UNBALANCED: 0}

    def write(self, pairs: Iterator[Pair | None], keep_text: bool) -> None:
        """Encode everything, chunk by chunk."""
        texts = [(self._folder / f"{s}.txt").open("wb") if keep_text else nullcontext() for s in SIDES]
        with texts[0] as source_text, texts[1] as target_text:
            while chunk := list(islice(pairs, CHUNK)):
                known = [pair for pair in chunk if pair is not None]
                self.removed["invalid_utf8"] += len(chunk) - len(known)
                sources, targets = (
                    model.encode([pair[side] for pair in known], num_threads=self._threads)
                    for side, model in enumerate(self._models)
                )
                fits = [self._fits(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
                self._writers[0].append([[self._tag, *ids, EOS] for ids in compress(sources, fits)])
                self._writers[1].append([[*ids, EOS] for ids in compress(targets, fits)])
                self._pairs += sum(fits)
                if source_text is not None and target_text is not None:
                    for source, target in compress(known, fits):
                        source_text.write(source.encode() + b"\n")
                        target_text.write(target.encode() + b"\n")

    def close(self) -> dict[str, Any]:
        """Finish the files; what was written?"""
        source, target = (writer.close() for writer in self._writers)
        return {"pairs": self._pairs, "source_tokens": source, "target_tokens": target, "removed": self.removed}

    def _fits(self, source: int, target: int) -> bool:
        if not self._limits:  # test sets are translated whole
            return True
        longest, shortest = max(source, target), min(source, target)
        ratio = self._limits["max_piece_ratio"]
        if shortest < max(self._limits["min_pieces"], 1):
            reason = SHORTEST
        elif longest > self._limits["max_pieces"]:
            reason = LONGEST
        elif ratio is not None and longest > ratio * shortest:
            reason = UNBALANCED
        else:
            return True
        self.removed[reason] += 1
        return False
