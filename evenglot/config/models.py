"""The whole configuration as typed models: YAML in, resolved YAML out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, ValidationInfo, create_model, model_validator

from evenglot import yaml12
from evenglot.balance import Balancer, OptionError, create
from evenglot.balance.catalogue import PRESETS, STRATEGIES
from evenglot.balance.groups import Groups, Unit
from evenglot.balance.static import mixture_of
from evenglot.config.data import DataSettings, Declaration
from evenglot.config.errors import Faults, Keys, explain, refuse
from evenglot.config.section import Context, Count, FilePath, Finite, Section, Seed, absolute
from evenglot.config.source import read_source
from evenglot.config.training import ModelSettings, TrainSettings
from evenglot.directions import shared_side
from evenglot.files import write_text
from evenglot.wording import some


class CleanSettings(Section):
    """Which training pairs to leave out."""

    empty: bool = True
    identical: bool = False
    duplicates: bool = False
    leakage: bool = True
    wrong_script: bool = False
    max_words: Count | None = None
    max_ratio: Annotated[Finite, Field(gt=1)] | None = None
    max_pieces: Count = 250
    min_pieces: Count = 1
    max_piece_ratio: Annotated[Finite, Field(ge=1)] | None = None


Pieces = Annotated[int, Field(ge=16, le=1_000_000)]


class VocabularySettings(Section):
    """How text is cut into pieces."""

    kind: Literal["separate", "joint"] = "separate"
    model: Literal["unigram", "bpe"] = "unigram"
    size_shared: Pieces = 10_000
    size_other: Pieces = 30_000
    size_joint: Pieces = 32_000
    tau: Annotated[float, Field(gt=0)] = 5.0
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    sample: Count = 250_000
    seed: Seed = 1


class StoreSettings(Section):
    """Where and how `evenglot prepare` writes."""

    folder: FilePath = "store"
    valid_cap: Count | None = 800
    threads: Literal[-1] | Annotated[int, Field(ge=1, le=1024)] = -1
    seed: Seed = 1


class BatchSettings(Section):
    """How an interval is drawn and cut into batches."""

    tokens_per_batch: Count = 4096
    tokens_per_update: Count = 65_536
    epoch_size: Count | None = None
    interval_tokens: Count | None = None
    oversample: Literal["cycle", "released"] | None = None
    max_scale_up: Annotated[Finite, Field(gt=0)] | None = None

    @property
    def micro_batches(self) -> int:
        """Batches whose gradients make one update."""
        return max(1, self.tokens_per_update // self.tokens_per_batch)


AUTO = "auto:"  # and then a mixture


def _reference_or_path(value: str, info: ValidationInfo) -> str:
    return value if value.startswith(AUTO) else absolute(value, info)


ReferenceOrPath = Annotated[str, Field(min_length=1), AfterValidator(_reference_or_path)]


class BalanceSettings(Section):
    """How often each group is shown. Beside these keys, all options of the strategy, with their defaults."""

    model_config = ConfigDict(extra="allow")

    strategy: str = "chi-ibr"
    p_unit: Unit = "sentences"

    @property
    def options(self) -> dict[str, Any]:
        """The options of the strategy."""
        return dict(self.model_extra or {})

    def create(self, sizes: Mapping[str, float], tokens: Mapping[str, float] | None = None) -> Balancer:
        """The balancer for groups with these sizes in sentence pairs (and in target tokens)."""
        return create(self.strategy, sizes, tokens=tokens, p_unit=self.p_unit, **self.options)

    @property
    def reference_mixture(self) -> str | None:
        """What the reference run is drawn from that is to be trained first: `baseline: auto`, or `auto:tau:100`."""
        given = self.options.get("baseline")
        if given == "auto":
            return "data"
        return given.removeprefix(AUTO) if isinstance(given, str) and given.startswith(AUTO) else None

    def without_baseline_file(self) -> BalanceSettings:
        """The same without a baseline that is not there yet: a file, or that of a reference run (`auto`)."""
        named = isinstance(self.options.get("baseline"), str)
        return self.model_copy(update={"baseline": None}) if named else self

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, value: Any, info: ValidationInfo) -> Any:
        """Let a model made for the strategy check the options and fill in their defaults."""
        if not isinstance(value, Mapping | None):
            return value
        return _balance_model(value).model_validate(value, context=info.context).model_dump()


def _balance_model(value: Mapping[str, Any] | None) -> type[Section]:
    """The keys that the section has with the strategy it names."""
    strategy = (value or {}).get("strategy", BalanceSettings.model_fields["strategy"].default)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        try:
            create(str(strategy), {})
        except OptionError as error:
            refuse([(("strategy",), error.message)])
    return model_of(strategy)


@cache
def model_of(strategy: str) -> type[Section]:
    """The keys of the section with a strategy, made from the signature of what builds its balancer."""
    special: dict[str, Any] = {
        "preset": Literal[tuple(PRESETS)],
        "baseline": Mapping[str, Finite] | Literal["auto"] | ReferenceOrPath | None,
    }
    _, *options = inspect.signature(STRATEGIES[strategy], eval_str=True).parameters.values()  # the first is the groups
    taken = inspect.signature(create).parameters  # what it takes itself, it does not pass on
    fields: dict[str, Any] = {
        option.name: (
            special.get(option.name, option.annotation),
            ... if option.default is option.empty else option.default,
        )
        for option in options
        if option.name not in taken
    }
    common: dict[str, Any] = {
        name: (field.annotation, field.default) for name, field in BalanceSettings.model_fields.items()
    }
    model: type[Section] = create_model(f"Balance {strategy}", __base__=Section, **common, **fields)
    return model


# ------------------------------------------------------------------------------------------------- the configuration


HEADING = "# Every setting, defaults filled in and paths made absolute. evenglot reads this file like any config.\n"
HEADINGS = (HEADING,)  # a file that a run wrote starts with one of them; a heading that is reworded stays in this list
DEFAULTS: Any = {}  # of a section that the file does not have


class Config(Section):
    """Everything there is to decide about a model."""

    data: DataSettings
    clean: CleanSettings = DEFAULTS
    vocabulary: VocabularySettings = DEFAULTS
    store: StoreSettings = DEFAULTS
    balance: BalanceSettings = DEFAULTS
    batches: BatchSettings = DEFAULTS
    model: ModelSettings = DEFAULTS
    train: TrainSettings = DEFAULTS
    seed: Seed = 1

    @property
    def draw_options(self) -> dict[str, Any]:
        """Arguments of `batches.draw`: what the preset of the balancer says, unless `batches` says otherwise."""
        preset = PRESETS[self.balance.options.get("preset", "recommended")].draw
        return {
            "rule": self.batches.oversample or preset["oversample"],
            "pairs": self.batches.epoch_size,
            "max_scale_up": self.batches.max_scale_up or preset.get("max_scale_up", 1.5),
        }

    def to_yaml(self) -> str:
        """The resolved configuration: all defaults filled in, all paths absolute."""
        return HEADING + yaml12.dump(self.model_dump(by_alias=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the resolved configuration; `load_config` reads it back as it is."""
        write_text(Path(path), self.to_yaml())

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        refuse(
            [
                *self._vocabulary_faults(),
                *self._batch_faults(),
                *self._model_faults(),
                *self.train.faults(),
                *self._balance_faults(),
                *self._pass_faults(),
            ]
        )
        return self

    def _vocabulary_faults(self) -> Faults:
        if self.vocabulary.kind == "separate" and shared_side(self.data.directions) is None:
            yield (
                ("vocabulary", "kind"),
                "'separate' needs a language that is the source, or the target, of all directions; use 'joint'",
            )

    def _batch_faults(self) -> Faults:
        if self.batches.tokens_per_batch < self.clean.max_pieces:
            yield (
                ("batches", "tokens_per_batch"),
                f"{self.batches.tokens_per_batch} cannot hold a sentence of clean.max_pieces = {self.clean.max_pieces}",
            )
        if self.batches.tokens_per_update < self.batches.tokens_per_batch:
            yield ("batches", "tokens_per_update"), f"less than tokens_per_batch = {self.batches.tokens_per_batch}"
        if self.batches.epoch_size is not None and self.draw_options["rule"] == "released":
            yield ("batches", "epoch_size"), "the released drawing has a length of its own; leave this out"
        if self.batches.interval_tokens is not None and (
            self.batches.epoch_size is not None or self.draw_options["rule"] == "released"
        ):
            yield ("batches", "interval_tokens"), "something else decides the length of an interval; leave this out"

    def _model_faults(self) -> Faults:
        yield from self.model.faults()
        if self.model.share_embeddings and self.vocabulary.kind == "separate":
            yield ("model", "share_embeddings"), "two vocabularies cannot share embeddings; use vocabulary.kind: joint"

    def _pass_faults(self) -> Faults:
        """A limit on passes is planned for so many intervals of such a size: they must be those of the run."""
        planned = self.balance.options
        if planned.get("max_passes") is None:
            return
        if self.draw_options["rule"] == "released":
            yield ("balance", "max_passes"), "the released drawing decides by itself how long an interval is"
        elif self.batches.interval_tokens is not None:
            yield ("balance", "max_passes"), "counts pairs; say how long an interval is with batches.epoch_size"
        elif planned.get("interval_size") != self.batches.epoch_size:
            given = "null" if self.batches.epoch_size is None else f"{self.batches.epoch_size}"
            yield ("balance", "interval_size"), f"must be what batches.epoch_size is: {given}"
        if self.train.intervals is not None and planned.get("intervals") != self.train.intervals:
            yield ("balance", "intervals"), f"must be what train.intervals is: {self.train.intervals}"

    def _balance_faults(self) -> Faults:
        """Try the strategy on groups of equal size: what it refuses now, it would refuse after hours of preparation."""
        sizes = dict.fromkeys(self.data.groups.values(), 1e12)  # large: no limit on repetitions is out of reach
        balance = self.balance.without_baseline_file()
        try:
            balancer = balance.create(sizes, sizes)
            if (mixture := self.balance.reference_mixture) is not None:
                mixture_of(mixture, Groups.of(sizes), "baseline")
        except (ValueError, ArithmeticError) as error:
            if isinstance(error, OptionError) and error.option in balance.options:
                yield ("balance", error.option), error.message
            else:
                yield ("balance",), str(error)
            return
        listens = balancer.signal is not None and balancer.signal.split == "valid"
        if listens or balancer.needs_gradients is not None:
            names = [d.name for d in self.data.directions if self.data.files(d, "valid") is None]
            if names:
                key = "signal" if listens else "strategy"
                yield ("balance", key), f"needs validation text, and {some(names)} has none; add data.valid"


def load_config(path: str | os.PathLike[str], overrides: Sequence[str] = (), *, check_files: bool = True) -> Config:
    """Read a config file; `overrides` are 'section.key=value'. ConfigError: all that is wrong, one error a line.

    `check_files=False` for those who read the store and not the text: it may have been prepared elsewhere.
    """
    source = read_source(path, overrides)
    context = Context(Path(path).parent.resolve(), source, check_files)
    try:
        return Config.model_validate(source.value, context=context)
    except ValidationError as error:
        raise explain(error, source, lambda keys: _known_keys(keys, source.value)) from None


def _known_keys(keys: Keys, value: dict[str, Any]) -> list[str]:
    """The keys that a section can have; `value` is the whole file."""
    model: Any = Config
    if keys[:1] == ("balance",):
        model = _balance_model(value["balance"])
    elif keys[:2] == ("data", "directions"):
        model = Declaration
    elif keys:
        model = Config.model_fields[keys[0]].annotation
    return [field.alias or name for name, field in model.model_fields.items()]
