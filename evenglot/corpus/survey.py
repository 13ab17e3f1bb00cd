"""Look through the text that a configuration names: the parts that `evenglot check` and `evenglot prepare` share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from evenglot.config import Config
from evenglot.config.data import Split
from evenglot.corpus.clean import HeldOut, Limits, Scan, main_scripts, scan
from evenglot.corpus.read import Advance, CorpusError, Pair, TextFile, read_pairs, reject_invalid
from evenglot.directions import Direction
from evenglot.progress import Bars

HELD_OUT_SPLITS: tuple[Split, ...] = ("valid", "test")
SCRIPT_SAMPLE = 1000  # pairs of each corpus that show in which script a language is written

Files = tuple[TextFile, TextFile]


@dataclass(frozen=True, eq=False)
class Setting:
    """What must be known before training text can be judged: the held-out sentences, and scripts by language."""

    held_out: HeldOut
    held_out_pairs: dict[tuple[str, str], int]  # of each direction and split
    scripts: dict[str, frozenset[str]]


def read_setting(config: Config) -> Setting:
    """Read all validation and test sets, and the beginning of each training corpus."""
    held_out = HeldOut()
    counts: dict[tuple[str, str], int] = {}
    samples: dict[str, list[str]] = {}
    for direction in config.data.directions:
        for split in HELD_OUT_SPLITS:
            if (files := config.data.files(direction, split)) is None:
                continue
            counts[direction.name, split] = 0
            for pair in pairs_of(config, files):
                if pair is not None:
                    counts[direction.name, split] += 1
                    held_out.add(direction.src, pair[0])
                    held_out.add(direction.tgt, pair[1])
            if counts[direction.name, split] == 0:
                raise CorpusError(f"{files[0].path}: empty; leave `{split}` out of the configuration if there is none")
        for pair in islice(pairs_of(config, training_files(config, direction)), SCRIPT_SAMPLE):
            if pair is not None:
                samples.setdefault(direction.src, []).append(pair[0])
                samples.setdefault(direction.tgt, []).append(pair[1])
    scripts = {language: main_scripts(sentences) for language, sentences in samples.items()}
    return Setting(held_out, counts, scripts)


def scan_training(config: Config, direction: Direction, setting: Setting, bars: Bars) -> Scan:
    """Judge every training pair of a direction."""
    files = training_files(config, direction)
    with bars.task(f"reading {direction.name}", size_on_disk(files)) as advance:
        pairs = pairs_of(config, files, advance)
        languages = (direction.src, direction.tgt)
        result = scan(pairs, languages, setting.held_out, setting.scripts, limits_of(config))
    if len(result) == 0:
        raise CorpusError(f"{files[0].path}: empty; there is nothing to train {direction.name} on")
    return result


def training_files(config: Config, direction: Direction) -> Files:
    """Source and target of the training corpus."""
    files = config.data.files(direction, "train")
    assert files is not None  # the configuration insists on training data
    return files


def limits_of(config: Config) -> Limits:
    """The numbers behind the rules: those configured, and for rules that are off, those `check` reports by."""
    default = Limits()
    return Limits(config.clean.max_words or default.max_words, config.clean.max_ratio or default.max_ratio)


def rules_of(config: Config) -> list[str]:
    """Which rules remove training pairs? What is not UTF-8 cannot be kept."""
    clean = config.clean
    wanted = {
        "invalid_utf8": True,
        "empty": clean.empty,
        "identical": clean.identical,
        "too_long": clean.max_words is not None,
        "ratio": clean.max_ratio is not None,
        "wrong_script": clean.wrong_script,
        "duplicate": clean.duplicates,
        "leakage": clean.leakage,
    }
    return [rule for rule, on in wanted.items() if on]


def pairs_of(config: Config, files: Files, on_read: Advance | None = None) -> Iterator[Pair | None]:
    """The pairs of a corpus; a line that is not UTF-8 is an error, or None if the configuration says `drop`."""
    pairs = read_pairs(*files, on_read)
    return pairs if config.data.invalid_utf8 == "drop" else reject_invalid(pairs, *files)


def size_on_disk(files: Files) -> int:
    """Bytes that will be read, for progress bars."""
    return sum(file.path.stat().st_size for file in files)
