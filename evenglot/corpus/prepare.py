"""`evenglot prepare`: clean, learn vocabularies, write the store. Every stage is an artefact, redone if needed.

make_scans.py, make_vocabulary.py and make_parts.py are the stages.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Literal, get_args

from evenglot import __version__
from evenglot.config import Config
from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import DamagedError
from evenglot.corpus.identity import settings_key
from evenglot.corpus.make_parts import BUNDLES, make_parts, parts_of
from evenglot.corpus.make_scans import make_scans
from evenglot.corpus.make_vocabulary import make_vocabulary
from evenglot.corpus.on_ray import on_ray
from evenglot.corpus.read import CorpusError
from evenglot.corpus.store import CONFIG, MANIFEST, Store, config_key, open_store, write_manifest
from evenglot.corpus.survey import read_surroundings
from evenglot.files import LOCK, UNFINISHED, LockedError, full_disk_named, lock, write_text
from evenglot.progress import Bars
from evenglot.reading import read_json

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
    scan_folder, scans = make_scans(config, root, around, bars)
    vocabulary = make_vocabulary(config, root, scans, bars)
    parts = [part for d in config.data.corpora for part in parts_of(config, d, scans[d.name], around)]
    rows: dict[str, dict[str, Any]] = {corpus.name: {} for corpus in config.data.corpora}
    used = [scan_folder, vocabulary]
    for name in BUNDLES:
        mine = [part for part in parts if part.bundle == name]
        folder, entries = make_parts(config, root, name, mine, vocabulary, bars) if mine else (root, [])
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
