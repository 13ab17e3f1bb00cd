"""Flags of all training pairs, as an artefact of the store."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evenglot.config import Config
from evenglot.corpus import bundle
from evenglot.corpus.artefacts import key_of
from evenglot.corpus.clean import REASONS, Scan
from evenglot.corpus.identity import identity
from evenglot.corpus.store import read_section
from evenglot.corpus.survey import Surroundings, limits_of, scan_training, training_files
from evenglot.directions import Direction
from evenglot.progress import Bars


def make_scans(config: Config, root: Path, around: Surroundings, bars: Bars) -> tuple[Path, dict[str, Scan]]:
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
