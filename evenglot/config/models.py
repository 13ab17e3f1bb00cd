"""The complete configuration as typed models, read from YAML and saved as resolved YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError, ValidationInfo, model_serializer, model_validator

from evenglot import yaml12
from evenglot.balance import Balancer, OptionError, check_mixture, check_options
from evenglot.config.balance import DEFAULT_STRATEGY, FORMER_DEFAULT, BalanceSettings, model_of, named_model, run_facts
from evenglot.config.batches import BatchSettings
from evenglot.config.data import CorpusSettings, DataSettings, Declaration
from evenglot.config.errors import Faults, Keys, explain, refuse
from evenglot.config.given import has_models, vocabulary_folder
from evenglot.config.intervals import SHORT_INTERVAL
from evenglot.config.preparation import CleanSettings, StoreSettings, VocabularySettings
from evenglot.config.renamed import RENAMED, update_keys
from evenglot.config.section import Context, Section, Seed, key
from evenglot.config.source import Source, given_source, read_source
from evenglot.config.training import LoraSettings, ModelSettings, TrainSettings
from evenglot.directions import shared_side
from evenglot.files import write_text
from evenglot.model.families import PretrainedError, is_run, read_config, weight_files
from evenglot.wording import some


class ReferenceRunSettings(Section):
    """Settings of the reference run of `balance.baseline: auto` that differ from those of this run.

    The paper trains chi-IBR with schedule step, but its reference with `train: {schedule: inverse-sqrt}`.
    """

    batches: BatchSettings = key({}, "Keys of `batches`.")
    model: ModelSettings = key({}, "Keys of `model`.")
    train: TrainSettings = key({}, "Keys of `train`.")

    @model_serializer
    def _only_what_is_set(self) -> dict[str, Any]:
        return {name: getattr(self, name).model_dump(exclude_unset=True) for name in type(self).model_fields}

    def changed(self, config: Config) -> Config:
        """The configuration with these settings."""
        sections = {name: (getattr(config, name), getattr(self, name)) for name in type(self).model_fields}
        return config.model_copy(
            update={
                name: here.model_copy(update={key: getattr(other, key) for key in other.model_fields_set})
                for name, (here, other) in sections.items()
            }
        )


# ------------------------------------------------------------------------------------------------- the configuration


HEADING = "# Every setting, defaults filled in and paths made absolute. evenglot reads this file like any config.\n"
HEADINGS = (HEADING,)  # first lines of files that runs wrote; keep old ones when rewording
DEFAULTS: Any = {}  # of a section that is missing in the file


class Config(Section):
    """All settings of a model and its training."""

    data: DataSettings
    clean: CleanSettings = DEFAULTS
    vocabulary: VocabularySettings = DEFAULTS
    store: StoreSettings = DEFAULTS
    balance: BalanceSettings = DEFAULTS
    batches: BatchSettings = DEFAULTS
    model: ModelSettings = DEFAULTS
    train: TrainSettings = DEFAULTS
    reference_run: ReferenceRunSettings = DEFAULTS
    seed: Seed = key(1, "Seed of all random decisions during training.")

    def balancer(
        self,
        sizes: Mapping[str, float],
        tokens: Mapping[str, float] | None = None,
        balance: BalanceSettings | None = None,
    ) -> Balancer:
        """The balancer of this run, for groups with these sizes in sentence pairs (and in target tokens).

        `balance` replaces the section of that name, for example with a baseline that was computed later.
        """
        return (balance or self.balance).create(sizes, tokens, **self._run_facts)

    @property
    def _run_facts(self) -> dict[str, Any]:
        return {"intervals": self.train.intervals, "interval_size": self.batches.interval_pairs}

    @property
    def interval_updates(self) -> int | None:
        """Updates per interval if intervals are counted in updates; None if they are counted in pairs or tokens.

        Short intervals are the default of strategies whose mixture should change often. With
        `train.intervals`, which counts intervals of one pass unless their length is configured, they are not: the run
        would be much shorter than others of the same number.
        """
        batches = self.batches
        if batches.interval_keys or self.train.intervals is not None or self.draw_options["rule"] == "released":
            return batches.interval_updates
        return SHORT_INTERVAL if self.balance.description.needs_short_intervals else None

    @property
    def draw_options(self) -> dict[str, Any]:
        """Arguments of `batches.draw`: those of `batches`, or else the defaults of the strategy."""
        usual = self.balance.description.sampling
        return {
            "rule": self.batches.oversample or usual.oversample,
            "pairs": self.batches.interval_pairs,
            "max_scale_up": self.batches.max_scale_up or usual.max_scale_up,
        }

    def to_yaml(self) -> str:
        """The resolved configuration: all defaults filled in, all paths absolute."""
        return HEADING + yaml12.dump(self.model_dump(by_alias=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the resolved configuration; `load_config` can read it back."""
        write_text(Path(path), self.to_yaml())

    @model_validator(mode="after")
    def _sections_agree(self, info: ValidationInfo) -> Self:
        refuse(
            [
                *self._init_faults(Context.of(info).check_files),
                *self._vocabulary_faults(Context.of(info).check_files),
                *self._batch_faults(),
                *self._model_faults(),
                *self.train.faults(),
                *self._reference_faults(),
                *(list(self._pass_faults()) or self._balance_faults()),  # no balancer without a valid limit
            ]
        )
        return self

    def _init_faults(self, check_files: bool) -> Faults:
        if self.model.init is None:
            if self.data.codes:
                yield ("data", "codes"), "only the tokenizer of a pretrained model has them; set model.init"
            if self.balance.starts_as_baseline:
                yield ("balance", "baseline"), "'init' are the losses of a pretrained model; set model.init"
        elif check_files and is_run(Path(self.model.init)):
            yield from self._run_faults(Path(self.model.init))
        elif check_files:
            try:
                read_config(Path(self.model.init))
                weight_files(Path(self.model.init))
            except PretrainedError as error:
                yield ("model", "init"), str(error)

    def _run_faults(self, run: Path) -> Faults:
        """`model.init` is a run of evenglot."""
        if not has_models(run / "vocabulary"):
            yield (
                ("model", "init"),
                f"{run}: a run without vocabularies of its own; if it was fine-tuned from a pretrained model, export "
                "it with `evenglot export --to huggingface` and use that folder",
            )
        if self.data.codes:
            yield ("data", "codes"), "only the tokenizer of a pretrained model has them, not a run of evenglot"
        if self.model.lora is not None:
            yield ("model", "lora"), "only models of Hugging Face have adapters, not a run of evenglot"

    def _vocabulary_faults(self, check_files: bool) -> Faults:
        yield from self.vocabulary.faults()
        given = self.vocabulary.given
        if given is not None and self.model.init is not None:
            yield ("vocabulary", "from"), "model.init has a vocabulary of its own; remove one of them"
        elif given is not None and check_files and not has_models(vocabulary_folder(Path(given))):
            yield ("vocabulary", "from"), f"{given}: no source.model and target.model; expected a run, or their folder"
        if given is not None or self.model.init is not None:
            return
        if self.vocabulary.kind == "separate" and shared_side(self.data.directions) is None:
            yield (
                ("vocabulary", "kind"),
                "'separate' needs a language that is the source, or the target, of all directions; use 'joint'",
            )

    def _batch_faults(self) -> Faults:
        if self.batches.tokens_per_batch < self.clean.max_pieces:
            yield (
                ("batches", "tokens_per_batch"),
                f"{self.batches.tokens_per_batch} is less than clean.max_pieces = {self.clean.max_pieces}; raise it",
            )
        if self.batches.tokens_per_update < self.batches.tokens_per_batch:
            yield (
                ("batches", "tokens_per_update"),
                f"less than tokens_per_batch = {self.batches.tokens_per_batch}; raise it",
            )
        lengths = self.batches.interval_keys
        if self.draw_options["rule"] == "released":
            for name in lengths:
                yield (
                    ("batches", name),
                    "the released sampling rule determines the length of an interval; remove this key",
                )
        else:
            for name in lengths[1:]:
                yield (
                    ("batches", name),
                    f"batches.{lengths[0]} also sets the length of an interval; remove one of them",
                )

    def _model_faults(self) -> Faults:
        yield from self.model.faults()
        if self.model.init is not None or self.vocabulary.given is not None:
            return
        if self.model.share_embeddings and self.vocabulary.kind == "separate":
            yield (
                ("model", "share_embeddings"),
                "separate vocabularies cannot share embeddings; use vocabulary.kind: joint",
            )

    def _reference_faults(self) -> Faults:
        reference = self.reference_run.changed(self)
        own = {*self._batch_faults(), *self._model_faults(), *self.train.faults()}
        for keys, message in {*reference._batch_faults(), *reference._model_faults(), *reference.train.faults()} - own:
            yield ("reference_run", *keys), message
        if reference.train.label_smoothing != self.train.label_smoothing:
            yield (
                ("reference_run", "train", "label_smoothing"),
                f"must be that of train, {self.train.label_smoothing:g}: it is part of the losses that are compared",
            )

    def _pass_faults(self) -> Faults:
        """A limit on passes is distributed over the intervals: their number and size must be known in advance."""
        if self.balance.options.get("max_passes") is None:
            return
        where = ("balance", "max_passes")
        if self.draw_options["rule"] == "released":
            yield where, "does not work with the released sampling rule, which determines the length of an interval"
        elif others := [name for name in self.batches.interval_keys if name != "interval_pairs"]:
            yield where, f"counts sentence pairs; use batches.interval_pairs instead of batches.{others[0]}"
        if self.train.intervals is None:
            if self.train.schedule == "linear" or self.train.cooldown:
                why = "schedule: linear" if self.train.schedule == "linear" else "cooldown"
                yield where, f"needs train.intervals, which does not work with {why}; use balance.max_ratio instead"
            else:
                yield where, "needs the number of intervals of the run; set train.intervals"

    def _balance_faults(self) -> Faults:
        """Check the options of the strategy early, not after hours of preparation."""
        groups, balance = set(self.data.groups.values()), self.balance.without_baseline_file()
        try:
            facts = {name: fact for name, fact in self._run_facts.items() if name in run_facts(balance.strategy)}
            check_options(balance.strategy, groups, p_unit=balance.p_unit, **balance.options, **facts)
            if (mixture := self.balance.reference_mixture) is not None:
                check_mixture(mixture, groups, "baseline")
        except (ValueError, ArithmeticError) as error:
            if isinstance(error, OptionError) and error.option in balance.options:
                yield ("balance", error.option), error.message
            else:
                yield ("balance",), str(error)
            return
        if self.balance.description.needs.validation_text:
            names = [d.name for d in self.data.directions if self.data.files(d, "valid") is None]
            if names:
                key = "signal" if "signal" in balance.options else "strategy"
                yield ("balance", key), f"needs validation text, missing for {some(names)}; set data.valid"


def load_config(
    path: str | os.PathLike[str], overrides: Sequence[str] = (), *, check_files: bool = True, hints: bool = True
) -> Config:
    """Read a config file; `overrides` are 'section.key=value'. ConfigError: all errors, one per line.

    `check_files=False`: do not require the text files, for callers that only read the store.
    `hints=False`: do not print hints about renamed keys, for files that evenglot wrote.
    """
    return _checked(read_source(path, overrides, RENAMED), Path(path).parent, check_files, hints)


def config_of(content: Mapping[str, Any], overrides: Sequence[str] = (), *, check_files: bool = True) -> Config:
    """As `load_config`, from the content of a file; relative paths are relative to the working directory."""
    return _checked(given_source(content, overrides, RENAMED), Path(), check_files, hints=True)


def _checked(source: Source, folder: Path, check_files: bool, hints: bool) -> Config:
    update_keys(source, hints)
    context = Context(folder.resolve(), source, check_files)
    try:
        return Config.model_validate(source.value, context=context)
    except ValidationError as error:
        raise explain(error, source, lambda keys: _known_keys(keys, source.value)) from None


def _known_keys(keys: Keys, value: dict[str, Any]) -> list[str]:
    """The keys that a section can have; `value` is the whole file."""
    model: Any = Config
    if keys == ("balance",) and "strategy" not in value["balance"]:
        return list(
            dict.fromkeys(name for each in (DEFAULT_STRATEGY, FORMER_DEFAULT) for name in model_of(each).model_fields)
        )
    if keys[:1] == ("balance",):
        model = named_model(value["balance"])
    elif keys[:2] == ("data", "directions"):
        model = Declaration
    elif keys[:2] == ("data", "corpora") and len(keys) > 2:
        model = CorpusSettings
    elif keys[:2] == ("model", "lora"):
        model = LoraSettings
    else:
        for name in keys:
            model = model.model_fields[name].annotation
    return [field.alias or name for name, field in model.model_fields.items()]
