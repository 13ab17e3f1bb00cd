"""A grid file, and the runs it asks for.

base: conf.yaml
seeds: [1, 2, 3]
strategies:
  erm: {balance: {strategy: proportional}}
  chi-ibr: {balance: {strategy: chi-ibr, baseline: erm}}    # the losses of erm with the same seed
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from evenglot import yaml12
from evenglot.balance.balancer import Signal
from evenglot.config import Config, ConfigError, load_config
from evenglot.config.errors import Faults, explain, refuse
from evenglot.config.section import Context, Count, FilePath, Section, Seed
from evenglot.config.source import read_source
from evenglot.runs.run import Run

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # of a strategy: it will be the name of a folder
SECTIONS = set(Config.model_fields) - {"data", "vocabulary", "store", "seed"}  # the data are the same for all


class Grid(Section):
    """What a grid file says."""

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
            yield ("seeds",), "the same seed twice"
        for section in ("directions", "strategies"):
            for name in getattr(self, section):
                if not NAME.fullmatch(name):
                    yield (section, name), "not the name of a folder; use letters, digits, and . _ + - inside"
        for name, sections in self.strategies.items():
            for section in set(sections) - SECTIONS:
                yield (
                    ("strategies", name, section),
                    f"a strategy can set {', '.join(sorted(SECTIONS))}; the data are the same for all",
                )
            if not isinstance(sections.get("balance") or {}, Mapping):
                yield ("strategies", name, "balance"), "expected keys with values, such as {strategy: proportional}"
            chain = [name]
            while (needed := self.baseline_of(chain[-1])) is not None and needed not in chain:
                chain.append(needed)
            if needed is not None:
                yield ("strategies", name), f"baselines in a circle: {' <- '.join([*chain, needed])}"
        if self.reference is not None and self.reference not in self.strategies:
            yield ("reference",), f"not one of the strategies {', '.join(self.strategies)}"

    def baseline_of(self, strategy: str) -> str | None:
        """The strategy of the grid whose losses this one takes as its baselines."""
        balance = self.strategies[strategy].get("balance")
        given = balance.get("baseline") if isinstance(balance, Mapping) else None
        return given if isinstance(given, str) and given in self.strategies else None


@dataclass(frozen=True)
class Job:
    """One run of a grid."""

    direction: str | None  # the name of a set of directions, if the grid has several
    strategy: str
    seed: int
    config: Config
    overrides: tuple[str, ...]  # of the base config, as for `evenglot train --set`
    run: Run
    needs: tuple[Run, Path, Signal] | None  # a run that must be finished first, and the file of its losses

    @property
    def name(self) -> str:
        """As its folder is called."""
        return "/".join([*([self.direction] if self.direction else []), self.strategy, f"seed-{self.seed}"])


def load_grid(path: str | os.PathLike[str]) -> tuple[Grid, list[Job]]:
    """Read a grid file and all configurations it leads to; ConfigError: what is wrong, where, one error a line."""
    source = read_source(path)
    try:
        grid = Grid.model_validate(source.value, context=Context(Path(path).parent.resolve(), source))
    except ValidationError as error:
        raise explain(error, source, lambda keys: [] if keys else list(Grid.model_fields)) from None
    store = load_config(grid.base, check_files=False).store.folder
    jobs = [
        _job(grid, direction, strategy, seed, os.fspath(path), store)
        for seed in grid.seeds  # first: a complete comparison with one seed is worth more than half of one with three
        for direction in grid.directions or [None]
        for strategy in _providers_first(grid)
    ]
    return grid, jobs


def _providers_first(grid: Grid) -> list[str]:
    """The strategies in their order, but each after the one whose losses it needs."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        if (needed := grid.baseline_of(name)) is not None:
            add(needed)
        order.setdefault(name)

    for name in grid.strategies:
        add(name)
    return list(order)


def _job(grid: Grid, direction: str | None, strategy: str, seed: int, path: str, store: str) -> Job:
    """`path` is that of the grid file, `store` the folder that the base config names."""
    folder = Path(grid.out, *([direction] if direction else []))
    settings = {section: value for section, value in grid.strategies[strategy].items() if value is not None}
    provider = grid.baseline_of(strategy)
    if provider is not None:
        settings["balance"] = {**settings["balance"], "baseline": None}
    overrides = [f"seed={seed}"]
    if direction:
        overrides += [
            f"data.directions={yaml12.dump_line(grid.directions[direction])}",
            f"store.folder={yaml12.dump_line(os.fspath(Path(store) / direction))}",
        ]
    for section, value in settings.items():
        whole = section == "balance" or not isinstance(value, Mapping)  # options of another strategy must not remain
        overrides += [f"{section}={yaml12.dump_line(value)}"] if whole else _keys(section, value)
    try:
        config = load_config(grid.base, overrides, check_files=False)
    except ConfigError as error:
        in_directions = any(keys[:2] == ("data", "directions") for keys in error.keys)
        place = f"directions.{direction}" if in_directions else f"strategies.{strategy}"
        raise ConfigError(f"{path}: {place}: {line}" for line in error.lines) from None
    file = config.balance.options.get("baseline")
    if isinstance(file, str) and config.balance.reference_mixture is None and not Path(file).exists():
        raise ConfigError(
            [f"{path}: strategies.{strategy}: balance.baseline: neither a strategy of this grid nor a file: {file}"]
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
    """The losses that the strategy listens to; its baselines must be of the same kind."""
    sizes = dict.fromkeys(config.data.groups.values(), 1e12)  # any will do, to ask
    return config.balance.without_baseline_file().create(sizes, sizes).signal or Signal()
