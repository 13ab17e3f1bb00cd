"""`evenglot prepare`: clean, learn vocabularies, write the store. Every stage is an artefact, redone if needed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from evenglot import __version__
from evenglot.config import Config
from evenglot.config.data import Split
from evenglot.corpus import artefacts, bundle
from evenglot.corpus.artefacts import DamagedError, key_of
from evenglot.corpus.clean import REASONS, Scan
from evenglot.corpus.encode import Encoded, Encoder, PieceLimits, Request, ShortLengths
from evenglot.corpus.given import given_hash, given_models
from evenglot.corpus.identity import identity, settings_key
from evenglot.corpus.on_ray import on_ray
from evenglot.corpus.pretrained import (
    PretrainedTokenizers,
    copy_tokenizer,
    coverage_by_language,
    refuse_long_limit,
    tokenizer_hash,
)
from evenglot.corpus.read import CorpusError, changed, read_blocks, read_some
from evenglot.corpus.store import CONFIG, MANIFEST, Store, config_key, open_store, read_section, write_manifest
from evenglot.corpus.survey import (
    Mask,
    Surroundings,
    advice,
    limits_of,
    read_surroundings,
    rules_of,
    scan_training,
    size_on_disk,
    training_files,
)
from evenglot.corpus.tokenizers import Tokenizers, open_tokenizers
from evenglot.corpus.vocabulary import (
    TRAINING_THREADS,
    Text,
    coverage_sample,
    describe_models,
    learn_vocabularies,
    piece_type,
)
from evenglot.corpus.workers import each, processes_for
from evenglot.directions import SIDES, Direction, Side, tag, tag_kind
from evenglot.files import LOCK, UNFINISHED, LockedError, digest, full_disk_named, lock, write_text
from evenglot.processor import cores
from evenglot.progress import WORTH_A_LINE, Advance, Bars
from evenglot.reading import read_json
from evenglot.seeding import generator
from evenglot.text_file import Corpus
from evenglot.wording import duration

IDS = ("source.ids", "target.ids", "offsets")
BUNDLES = {"train": IDS, "held_out": (*IDS, "source.txt", "target.txt")}  # their files
SECONDS_TO_LEARN = {"unigram": 5e-6, "bpe": 0.4e-6}  # CPU time per character of the sample, measured
Machines = Literal["here", "ray"]
PLACES = ("scan", "train", "valid", "valid_full", "test")  # folders of the artefacts of an earlier layout


class BusyStoreError(CorpusError, LockedError):
    """Another process is writing the store."""


def prepare(config: Config, bars: Bars, on: Machines = "here") -> Store:
    """Make the store that a configuration describes. What is there already, made from the same, is not made again.

    `on`: where blocks of text are worked on: on this machine, or on a Ray cluster. It makes no difference to the store.
    """
    if on not in get_args(Machines):
        raise ValueError(f"on: {on!r} is not one of {', '.join(get_args(Machines))}")
    with on_ray() if on == "ray" else nullcontext():
        return _prepare_alone(config, bars)


def _prepare_alone(config: Config, bars: Bars) -> Store:
    """While no other process writes the store."""
    root = Path(config.store.folder)
    root.mkdir(parents=True, exist_ok=True)
    if not _is_ours(root):
        raise CorpusError(f"{root}: not empty, and not a store; give store.folder a folder of its own")
    with lock(root, f"{root}: another `evenglot prepare` is writing this store; wait for it", BusyStoreError):
        is_new = [path.name for path in root.iterdir()] == [LOCK]
        try:
            with full_disk_named(root):
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
            return "artefacts" in read_json(root / MANIFEST)
        return any(artefacts.NAME.fullmatch(name) for name in names) or "train" in names  # damaged
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
    settings = settings_key(config)
    store = _finished(root, settings, bars)
    if store is None:
        content = _make(config, root, bars)
        write_text(root / CONFIG, config.to_yaml(), own=True)
        about = {"made_by": f"evenglot {__version__}", "config": config_key(root)}
        write_manifest(root, {"settings": settings, **about, **content})
        store = open_store(root, verify=False)
    places = [root / place for place in PLACES]
    artefacts.remove_others((root, *places), store.artefacts)
    for place in places:
        with suppress(OSError):  # absent, or still in use
            place.rmdir()
    return store


def _make(config: Config, root: Path, bars: Bars) -> dict[str, Any]:
    """Make or find every part of the store; what the manifest says of them."""
    around = read_surroundings(config)
    scan_folder, scans = _scan(config, root, around, bars)
    vocabulary = _vocabulary(config, root, scans, bars)
    parts = [part for d in config.data.corpora for part in _parts(config, d, scans[d.name], around)]
    rows: dict[str, dict[str, Any]] = {corpus.name: {} for corpus in config.data.corpora}
    used = [scan_folder, vocabulary]
    for name in BUNDLES:
        mine = [part for part in parts if part.bundle == name]
        folder, entries = _encode(config, root, name, mine, vocabulary, bars) if mine else (root, [])
        used += [folder] * bool(mine)
        for part, entry in zip(mine, entries, strict=True):
            about = entry["about"]
            row = {"artefact": folder.name, **about, "removed": part.removed | about["removed"]}
            rows[part.direction.name][part.name] = {**row, "sections": entry["sections"]}
    return {
        "vocabulary": {"artefact": vocabulary.name, **artefacts.about(vocabulary)},
        "directions": rows,
        "artefacts": [folder.name for folder in used],
    }


def _finished(root: Path, settings: str, bars: Bars) -> Store | None:
    """The store, if it is there, intact, and made with these settings. Damage is said, then mended."""
    if not (root / MANIFEST).exists():
        return None
    try:
        store = open_store(root)
        _ = store.made_with  # not all of it has a checksum
    except DamagedError as error:
        bars.warn(f"{error.path}: {error.fault}; it is made again")
        return None
    return store if store.manifest["settings"] == settings else None


# ------------------------------------------------------------------------------------------------------ clean


def _scan(config: Config, root: Path, around: Surroundings, bars: Bars) -> tuple[Path, dict[str, Scan]]:
    """Flags of all training pairs, as an artefact."""
    directions = config.data.corpora
    keys = [_scan_key(config, direction, around) for direction in directions]

    def build(missing: list[int]) -> Generator[bundle.Write, None, None]:
        for _, scan in scan_training(config, [directions[position] for position in missing], around, bars):
            yield partial(write, scan)

    def write(scan: Scan, part: bundle.PartWriter) -> dict[str, Any]:
        part.append("flags", scan.flags.tobytes())
        return {"characters": scan.characters}

    folder, entries = bundle.make(root, "scan", keys, ["flags"], build)
    scans = {}
    for direction, entry in zip(directions, entries, strict=True):
        flags = read_section(folder, entry["sections"]["flags"], np.dtype(np.uint16))
        scans[direction.name] = Scan(flags, tuple(entry["about"]["characters"]))
    return folder, scans


def _scan_key(config: Config, direction: Direction, around: Surroundings) -> str:
    languages = (direction.src, direction.tgt)
    scripts = {language: sorted(around.scripts.get(language, ())) for language in languages}
    judged_by = [around.held_out.fingerprint(*languages), asdict(limits_of(config)), scripts, config.data.invalid_utf8]
    return key_of(identity(training_files(config, direction)), list(REASONS), *judged_by)


# ------------------------------------------------------------------------------------------------- vocabulary


def _vocabulary(config: Config, root: Path, scans: dict[str, Scan], bars: Bars) -> Path:
    """Source and target vocabularies, as an artefact that also says how they serve each language."""
    directions = config.data.corpora
    texts, learned_from = [], {}
    for direction in directions:
        files = training_files(config, direction)
        kept = scans[direction.name].kept(rules_of(config))
        if not kept.any():
            raise CorpusError(f"{files[0][0]}: cleaning leaves no training pair; see `evenglot check`")
        learned_from[direction.name] = [identity(files), _digest(kept)]
        for position, language in enumerate((direction.src, direction.tgt)):
            side = [sides[position] for sides in files]
            texts.append(Text(language, SIDES[position], kept, partial(read_some, side)))
    if (given := given_models(config, _tags(directions))) is not None:
        return _given_vocabulary(config, root, given, texts, learned_from)
    if config.model.init is not None:
        return _pretrained_vocabulary(config, root, texts, learned_from)
    settings = config.vocabulary.model_dump(exclude={"given"})
    order = list(learned_from.items())  # the sample depends on it
    key = key_of(settings, order, *filter(None, [_corpus_tags(directions)]))

    def build(folder: Path) -> dict[str, Any]:
        sentences, most = sum(map(len, texts)) // 2, config.vocabulary.sample
        if most is not None and sentences > most:
            bars.note(
                f"vocabulary.sample: learning from {most:,} of {sentences:,} sentences on each side; null uses all"
            )
        seconds = _seconds_to_learn(config, scans)
        about_time = f" (about {duration(seconds)})" if seconds > WORTH_A_LINE else ""
        with bars.task(f"learning vocabularies{about_time}", None):
            models, about = learn_vocabularies(texts, config.vocabulary, _tags(directions))
        return {**about, **_write_models(folder, models, directions)}

    return artefacts.make(root, "vocabulary", key, build)


def _write_models(folder: Path, models: Mapping[Side, bytes], directions: Iterable[Direction]) -> dict[str, Any]:
    """Write SentencePiece models; what the manifest says about their content."""
    for side, model in models.items():
        (folder / f"{side}.model").write_bytes(model)
    hashes = {side: digest(model) for side, model in models.items()}
    return {"hash": hashes, "tags": _tags(directions), "tag_side": tag_kind(directions)}


def _given_vocabulary(
    config: Config, root: Path, models: Mapping[Side, bytes], texts: list[Text], learned_from: dict[str, Any]
) -> Path:
    """The vocabularies of another run or folder, as an artefact like learned ones."""
    directions, given = config.data.corpora, given_hash(config)

    def build(folder: Path) -> dict[str, Any]:
        about = describe_models(models, texts)
        kind = "joint" if models["source"] == models["target"] else "separate"
        own = {"kind": kind, "asked": about["pieces"], "given": given}
        return {**own, **about, **_write_models(folder, models, directions)}

    return artefacts.make(root, "vocabulary", key_of("given", given, _tags(directions), learned_from), build)


def _seconds_to_learn(config: Config, scans: dict[str, Scan]) -> float:
    """A rough estimate from the size of the sample: SentencePiece does not say how far it has come."""
    characters, pairs = sum(sum(scan.characters) for scan in scans.values()), sum(map(len, scans.values()))
    most = config.vocabulary.sample
    sampled = 1.0 if most is None else min(1.0, most / max(pairs, 1))
    return SECONDS_TO_LEARN[config.vocabulary.model] * characters * sampled / min(cores(), TRAINING_THREADS)


def _pretrained_vocabulary(config: Config, root: Path, texts: list[Text], learned_from: dict[str, Any]) -> Path:
    """A copy of the tokenizer of a pretrained model, which learns nothing, as an artefact like a vocabulary."""
    init, codes = Path(config.model.init or ""), dict(sorted(config.data.codes.items()))
    tokenizers = PretrainedTokenizers(init, tuple(codes.items()))
    frames = {direction.name: tokenizers.frames(direction) for direction in config.data.corpora}  # or an error
    refuse_long_limit(tokenizers.config, config.clean.max_pieces, [*chain(*frames.values())])
    hashed = tokenizer_hash(init)

    def build(folder: Path) -> dict[str, Any]:
        copy_tokenizer(init, folder)
        pieces = dict.fromkeys(SIDES, tokenizers.config.pieces)
        return {
            "kind": "pretrained",
            "asked": pieces,
            "pieces": pieces,
            "dtype": {side: piece_type(number) for side, number in pieces.items()},
            "coverage": coverage_by_language(tokenizers, coverage_sample(texts)),
            "hash": dict.fromkeys(SIDES, hashed),
            "tags": [list(pair) for pair in codes.items()],
        }

    return artefacts.make(root, "vocabulary", key_of("pretrained", hashed, codes, learned_from), build)


def _tags(directions: Iterable[Direction]) -> list[str]:
    directions = list(directions)
    kind = tag_kind(directions)
    return sorted({tag(direction, kind) for direction in directions}) + _corpus_tags(directions)


def _corpus_tags(directions: Iterable[Direction]) -> list[str]:
    return sorted({direction.corpus_tag for direction in directions if direction.corpus_tag is not None})


def _digest(mask: Mask) -> str:
    return digest(np.packbits(mask).tobytes())


# ------------------------------------------------------------------------------------------------------ store


@dataclass(frozen=True, eq=False)
class Part:
    """A split of a direction to be encoded: from which files, which of their pairs, and the limits of segmentation."""

    name: str
    direction: Direction
    split: Split
    files: Corpus
    chosen: Mask | None  # None: all
    limits: PieceLimits
    removed: dict[str, int]

    @property
    def bundle(self) -> str:
        """The bundle that it is stored in."""
        return "train" if self.split == "train" else "held_out"

    def key(self, vocabulary: Path) -> str:
        """The hash of all that its content depends on."""
        selection = None if self.chosen is None else _digest(self.chosen)
        limits = [self.limits.shortest, str(self.limits.longest), str(self.limits.ratio)]
        tags = filter(None, [self.direction.corpus_tag])
        return key_of(identity(self.files), selection, limits, vocabulary.name, self.direction.name, self.name, *tags)


def _parts(config: Config, direction: Direction, scan: Scan, around: Surroundings) -> Iterator[Part]:
    """Training pairs cleaned; validation pairs capped, and all that are not empty; the test set whole."""
    clean, rules = config.clean, rules_of(config)
    ratio = clean.max_piece_ratio or float("inf")
    limits = PieceLimits(clean.min_pieces, clean.max_pieces, ratio)
    train = training_files(config, direction)
    yield Part("train", direction, "train", train, scan.kept(rules), limits, scan.removed(rules))
    if (valid := config.data.files(direction, "valid")) is not None:
        usable = around.usable[direction.name, "valid"]
        empty = {"empty": int(np.count_nonzero(~usable))}
        short = PieceLimits(longest=clean.max_pieces)
        yield Part("valid", direction, "valid", valid, _capped(usable, config, direction), short, {})
        yield Part("valid_full", direction, "valid", valid, usable, PieceLimits(), empty)
    if (test := config.data.files(direction, "test")) is not None:
        yield Part("test", direction, "test", test, None, PieceLimits(), {})


def _capped(usable: Mask, config: Config, direction: Direction) -> Mask:
    """A random choice of the usable validation pairs, the same whenever it is made; all of them if they are few."""
    cap = config.store.valid_cap
    if cap is None or np.count_nonzero(usable) <= cap:
        return usable
    chosen = np.zeros_like(usable)
    draw = generator(config.store.seed, "valid_cap", direction.name)
    chosen[draw.choice(np.flatnonzero(usable), cap, replace=False)] = True
    return chosen


def _encode(
    config: Config, root: Path, name: str, parts: list[Part], vocabulary: Path, bars: Bars
) -> tuple[Path, list[bundle.Entry]]:
    """Token ids of some parts, as an artefact."""
    keys = [part.key(vocabulary) for part in parts]

    def build(missing: list[int]) -> Generator[bundle.Write, None, None]:
        wanted = [parts[position] for position in missing]
        size = sum(size_on_disk(part.files) for part in wanted)
        processes = processes_for(size, config.store.threads)
        with bars.task(f"encoding {name.replace('_', '-')} text", size) as advance:
            tokenizers = open_tokenizers(vocabulary, config.data)
            dtypes = artefacts.about(vocabulary)["dtype"]
            encoder = Encoder(tokenizers, (dtypes["source"], dtypes["target"]))
            requests = _requests(config, wanted, tokenizers, advance)
            with closing(each(encoder, requests, processes)) as results:
                for part, group in groupby(results, itemgetter(0)):
                    yield partial(_write, part, (encoded for _, encoded in group))

    return bundle.make(root, name, keys, BUNDLES[name], build)


def _requests(
    config: Config, parts: Iterable[Part], tokenizers: Tokenizers, advance: Advance
) -> Iterator[tuple[Part, Request]]:
    """All blocks of these parts; an error if the text changed length since it was scanned."""
    for part in parts:
        what = (part.limits, tokenizers.frames(part.direction), part.split != "train", advice(config, part.split))
        pairs = 0
        for block in read_blocks(part.files, advance):
            pairs += block.count
            chosen = None if part.chosen is None else part.chosen[block.first : pairs]
            if chosen is not None and len(chosen) < block.count:
                raise changed(part.files[0][0])
            yield part, Request(block, chosen, *what)
        if part.chosen is not None and pairs < len(part.chosen):
            raise changed(part.files[0][0])


def _write(part: Part, blocks: Iterable[Encoded], writer: bundle.PartWriter) -> dict[str, Any]:
    """Write the ids, offsets and text of a part; what the manifest says about it."""
    lengths: list[tuple[ShortLengths, ShortLengths]] = []
    removed: Counter[str] = Counter()
    for block in blocks:
        lengths.append(block.lengths)
        removed.update(block.removed)
        for number, side in enumerate(SIDES):
            writer.append(f"{side}.ids", block.ids[number])
            if block.text is not None:
                writer.append(f"{side}.txt", block.text[number])
    tokens = {}
    for number, side in enumerate(SIDES):
        sides = (np.zeros(1, dtype=np.int32), *(each[number] for each in lengths))
        offsets = np.cumsum(np.concatenate(sides), dtype=np.int64)
        writer.append(f"{side}.offsets", offsets.tobytes(), "offsets")
        tokens[f"{side}_tokens"] = int(offsets[-1])
    pairs = sum(len(each[0]) for each in lengths)
    if pairs == 0:
        raise CorpusError(f"{part.files[0][0]}: no pair is left of {part.name}; relax `clean`")
    return {"pairs": pairs, **tokens, "removed": dict(removed)}
