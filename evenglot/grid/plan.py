"""A grid file and the runs it defines.

base: conf.yaml
seeds: [1, 2, 3]
strategies:
  erm: {balance: {strategy: proportional}}
  chi-ibr: {balance: {strategy: chi-ibr, baseline: erm}}    # losses of erm with the same seed
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from evenglot import yaml12
from evenglot.balance import Signal
from evenglot.config import Config, ConfigError, load_config
from evenglot.config.errors import Faults, explain, refuse
from evenglot.config.section import Context, Count, FilePath, Section, Seed
from evenglot.config.source import read_source
from evenglot.runs.run import Run

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # of a strategy; it becomes the name of a folder
OF_GRID = {  # keys of the config that a grid sets for each run
    "seed": "a grid has several; set seeds",
    "balance": "a grid has several; set strategies.NAME.balance",
    "data.directions": "set directions, if the grid has several sets of them",
}
SECTIONS = set(Config.model_fields) - {"data", "vocabulary", "store", "seed"}  # all strategies use the same data


class Grid(Section):
    """The content of a grid file."""

    base: FilePath
    out: FilePath = "runs"
    seeds: Annotated[tuple[Seed, ...], Field(strict=False, min_length=1)] = (1, 2, 3)
    directions: Mapping[str, Any] = {}
    strategies: Annotated[Mapping[str, Mapping[str, Any]], Field(min_length=1)]
    reference: str | None = None
    split: Literal["test", "valid", "valid_full"] = "test"
    beam: Count = 5
    checkpoints: Literal["keep", "remove"] = "keep"

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        refuse(self._faults())
        return self

    def _faults(self) -> Faults:
        if len(set(self.seeds)) < len(self.seeds):
            yield ("seeds",), "a seed is repeated"
        for section in ("directions", "strategies"):
            for name in getattr(self, section):
                if not NAME.fullmatch(name):
                    yield (
                        (section, name),
                        "not usable as the name of a folder; start with a letter or digit, then also . _ + -",
                    )
        for name, sections in self.strategies.items():
            for section in set(sections) - SECTIONS:
                yield (
                    ("strategies", name, section),
                    f"a strategy can set {', '.join(sorted(SECTIONS))}; all strategies use the same data",
                )
            if not isinstance(sections.get("balance") or {}, Mapping):
                yield ("strategies", name, "balance"), "expected a mapping such as {strategy: proportional}"
            chain = [name]
            while (needed := self.baseline_of(chain[-1])) is not None and needed not in chain:
                chain.append(needed)
            if needed is not None:
                yield ("strategies", name), f"circular baselines: {' <- '.join([*chain, needed])}"
        if self.reference is not None and self.reference not in self.strategies:
            yield ("reference",), f"not one of the strategies {', '.join(self.strategies)}"

    def baseline_of(self, strategy: str) -> str | None:
        """The strategy of the grid whose losses are the baseline of this one, or None."""
        balance = self.strategies[strategy].get("balance")
        given = balance.get("baseline") if isinstance(balance, Mapping) else None
        return given if isinstance(given, str) and given in self.strategies else None


@dataclass(frozen=True)
class Job:
    """One run of a grid."""

    direction: str | None  # name of the set of directions, if the grid has several
    strategy: str
    seed: int
    config: Config
    overrides: tuple[str, ...]  # of the base config, in the form of `evenglot train --set`
    run: Run
    needs: (
        tuple[Run, Path, Signal] | None
    )  # a run that must be complete first, the file with its losses, and their kind

    @property
    def name(self) -> str:
        """The folder of the run, relative to `out`: 'erm/seed-1'."""
        return "/".join([*([self.direction] if self.direction else []), self.strategy, f"seed-{self.seed}"])


def is_grid_file(path: Path) -> bool:
    """Whether this file has the sections of a grid."""
    if not path.is_file():
        return False
    try:
        return {"base", "strategies"} <= read_source(path).value.keys()
    except ConfigError:
        return False


def load_grid(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> tuple[Grid, list[Job]]:
    """Read a grid file and build the config of each run; ConfigError lists all errors with their place.

    `overrides`: 'seeds=[1]' replaces a key of the grid, 'train.updates=100' one of the config of every run.
    """
    of_grid, of_runs = _sorted_overrides(overrides)
    source = read_source(path, of_grid)
    try:
        grid = Grid.model_validate(source.value, context=Context(Path(path).parent.resolve(), source))
    except ValidationError as error:
        raise explain(error, source, lambda keys: [] if keys else list(Grid.model_fields)) from None
    store = load_config(grid.base, of_runs, check_files=False).store.folder
    chosen: dict[str | None, list[str]] = {
        name: _directions(grid, name, os.fspath(path), store) for name in grid.directions
    }
    jobs = [
        _job(grid, direction, of_direction, strategy, seed, os.fspath(path), of_runs)
        for seed in grid.seeds  # outermost, so that an interrupted grid has all strategies with fewer seeds
        for direction, of_direction in (chosen or {None: []}).items()
        for strategy in _providers_first(grid)
    ]
    return grid, jobs


def _sorted_overrides(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Overrides of the grid's own keys, and of the config; ConfigError for keys that the grid sets for each run."""
    of_grid = [each for each in overrides if each.partition("=")[0].split(".")[0].strip() in Grid.model_fields]
    of_runs = [each for each in overrides if each not in of_grid]
    for override in of_runs:
        key = override.partition("=")[0].strip()
        if key in OF_GRID:
            raise ConfigError([f"--set {key}: {OF_GRID[key]}"])
    return of_grid, of_runs


def matching(jobs: Sequence[Job], patterns: Sequence[str]) -> list[Job]:
    """The runs with one of these names, which may have wildcards (* ?); ValueError for one that no run has."""
    for pattern in patterns:
        if not any(fnmatchcase(job.name, pattern) for job in jobs):
            raise ValueError(f"--only {pattern}: no run of this grid; `--list` prints their names")
    return [job for job in jobs if any(fnmatchcase(job.name, pattern) for pattern in patterns)]


def _providers_first(grid: Grid) -> list[str]:
    """The strategies in the order of the file, except that each follows the provider of its baseline."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        if (needed := grid.baseline_of(name)) is not None:
            add(needed)
        order.setdefault(name)

    for name in grid.strategies:
        add(name)
    return list(order)


def _directions(grid: Grid, name: str, path: str, store: str) -> list[str]:
    """Overrides for a set of directions, checked; each set has its own folder below the store of the base config."""
    overrides = [
        f"data.directions={yaml12.dump_line(grid.directions[name])}",
        f"store.folder={yaml12.dump_line(os.fspath(Path(store) / name))}",
    ]
    try:
        load_config(grid.base, [*overrides, "balance={strategy: proportional}"], check_files=False)
    except ConfigError as error:
        raise ConfigError(f"{path}: directions.{name}: {line}" for line in error.lines) from None
    return overrides


def _job(
    grid: Grid,
    direction: str | None,
    of_direction: Sequence[str],
    strategy: str,
    seed: int,
    path: str,
    of_runs: Sequence[str],
) -> Job:
    """`of_direction` are the overrides of that set of directions, `of_runs` of all runs; `path`: of the grid file."""
    folder = Path(grid.out, *([direction] if direction else []))
    settings = {section: value for section, value in grid.strategies[strategy].items() if value is not None}
    provider = grid.baseline_of(strategy)
    if provider is not None:
        settings["balance"] = {**settings["balance"], "baseline": None}
    overrides = [f"seed={seed}"]
    for section, value in settings.items():
        whole = section == "balance" or not isinstance(
            value, Mapping
        )  # replaced as a whole: options of the base's strategy must not remain
        overrides += [f"{section}={yaml12.dump_line(value)}"] if whole else _keys(section, value)
    overrides += [*of_runs, *of_direction]  # of_runs replace settings of the strategy, but not the store of directions
    try:
        config = load_config(grid.base, overrides, check_files=False)
    except ConfigError as error:
        raise ConfigError(f"{path}: strategies.{strategy}: {line}" for line in error.lines) from None
    file = config.balance.options.get("baseline")
    if isinstance(file, str) and config.balance.reference_mixture is None and not Path(file).exists():
        raise ConfigError(
            [f"{path}: strategies.{strategy}: balance.baseline: {file} is neither a strategy of this grid nor a file"]
        )
    needs = None
    if provider is not None:
        signal = _signal(config)
        run = Run(folder / provider / f"seed-{seed}")
        file = run.folder / f"baseline-{signal.split}-{signal.unit}.json"
        needs = (run, file, signal)
        overrides.append(f"balance.baseline={yaml12.dump_line(os.fspath(file))}")
        config = load_config(grid.base, overrides, check_files=False)
    return Job(direction, strategy, seed, config, tuple(overrides), Run(folder / strategy / f"seed-{seed}"), needs)


def _keys(section: str, values: Mapping[str, Any]) -> list[str]:
    return [f"{section}.{key}={yaml12.dump_line(value)}" for key, value in values.items()]


def _signal(config: Config) -> Signal:
    """The kind of losses that the strategy uses; its baseline must be of the same kind."""
    return config.balance.description.needs.losses or Signal()
