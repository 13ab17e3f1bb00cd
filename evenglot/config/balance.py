"""The section `balance`: its options are those of the strategy, taken from the signature of its builder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, create_model, model_validator

from evenglot.balance import STRATEGIES, Balancer, Description, OptionError, create, describe
from evenglot.balance.groups import Unit
from evenglot.balance.options import Option
from evenglot.config.errors import Faults, refuse
from evenglot.config.section import Context, Finite, Section, absolute, key
from evenglot.wording import some

AUTO = "auto:"  # followed by a mixture
INIT = "init"  # the losses of the pretrained model


def _reference_or_path(value: str, info: ValidationInfo) -> str:
    return value if value == INIT or value.startswith(AUTO) else absolute(value, info)


ReferenceOrPath = Annotated[str, Field(min_length=1), AfterValidator(_reference_or_path)]


class BalanceSettings(Section):
    """How often each group is sampled. Below `strategy` and `p_unit` are the options of the strategy."""

    model_config = ConfigDict(extra="allow")

    strategy: str = key("fade", "Balancing strategy.")
    p_unit: Unit = key("sentences", "Unit of group sizes and shares: sentences or target tokens.")

    @property
    def options(self) -> dict[str, Any]:
        """The configured options of the strategy."""
        return dict(self.model_extra or {})

    def create(self, sizes: Mapping[str, float], tokens: Mapping[str, float] | None = None, **run: Any) -> Balancer:
        """The balancer for groups with these sizes in sentence pairs (and in target tokens).

        `run`: facts about the run that a strategy may need (`Config.balancer` passes them).
        """
        known = {name: value for name, value in run.items() if name in run_facts(self.strategy)}
        return create(self.strategy, sizes, tokens=tokens, p_unit=self.p_unit, **self.options, **known)

    @property
    def description(self) -> Description:
        """The description of the strategy, which does not depend on corpus sizes."""
        return describe(self.strategy, **self.options)

    @property
    def reference_mixture(self) -> str | None:
        """The mixture of the reference run to train first (`baseline: auto` or `auto:tau:100`), or None."""
        given = self.options.get("baseline")
        if given == "auto":
            return "data"
        return given.removeprefix(AUTO) if isinstance(given, str) and given.startswith(AUTO) else None

    @property
    def starts_as_baseline(self) -> bool:
        """Whether the baselines are the losses of the model before its first update (`baseline: init`)."""
        return self.options.get("baseline") == INIT

    def without_baseline_file(self) -> BalanceSettings:
        """A copy without a baseline that may not exist yet: a file, or the losses of a reference run (`auto`)."""
        named = isinstance(self.options.get("baseline"), str)
        return self.model_copy(update={"baseline": None}) if named else self

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, value: Any, info: ValidationInfo) -> Any:
        """Validate the options and fill in their defaults with the model of the strategy."""
        if not isinstance(value, Mapping | None):
            return value
        named = {**(value or {}), "strategy": strategy_of(value or {})}
        model = named_model(named)
        source = Context.of(info).source
        if source is not None and source.is_overridden(("balance", "strategy")):
            refuse(_options_of_others(named, model))
        return model.model_validate(named, context=info.context).model_dump()


DEFAULT_STRATEGY: str = BalanceSettings.model_fields["strategy"].default
FORMER_DEFAULT = "chi-ibr"  # options of it without `strategy` still mean it


def strategy_of(balance: Mapping[str, Any]) -> Any:
    """The strategy that a section names, or means without naming it."""
    own = model_of(FORMER_DEFAULT).model_fields.keys() - model_of(DEFAULT_STRATEGY).model_fields.keys()
    return balance.get("strategy", FORMER_DEFAULT if own & balance.keys() else DEFAULT_STRATEGY)


def named_model(value: Mapping[str, Any]) -> type[Section]:
    """The model of the section for the strategy it names."""
    strategy = strategy_of(value)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        try:
            create(str(strategy), {})
        except OptionError as error:
            refuse([(("strategy",), error.message)])
    return model_of(strategy)


def _options_of_others(value: Mapping[str, Any], model: type[Section]) -> Faults:
    """Options that only other strategies have: an override of the strategy leaves those of the file behind."""
    known = {name for strategy in STRATEGIES for name in model_of(strategy).model_fields}
    if left := [name for name in value if name in known - model.model_fields.keys()]:
        strategy = value["strategy"]
        yield (
            ("strategy",),
            f"{strategy} has no {some(left)}, which the file sets; replace the whole section: "
            f"--set balance='{{strategy: {strategy}}}'",
        )


@cache
def model_of(strategy: str) -> type[Section]:
    """The model of the section for a strategy, generated from the signature of its builder."""
    special: dict[str, Any] = {
        "baseline": Mapping[str, Finite] | Literal["auto"] | ReferenceOrPath | None,
    }
    fields: dict[str, Any] = {}
    for option in STRATEGIES[strategy].options.values():
        about = _about(option)
        if not about.from_run:
            default = ... if option.default is option.empty else option.default
            extra: Any = {"limits": about.limits} if about.limits else None
            field = Field(default, description=about.meaning, json_schema_extra=extra)
            fields[option.name] = special.get(option.name, _type(option)), field
    common: dict[str, Any] = {name: (field.annotation, field) for name, field in BalanceSettings.model_fields.items()}
    model: type[Section] = create_model(f"Balance {strategy}", __base__=Section, **common, **fields)
    return model


@cache
def run_facts(strategy: str) -> frozenset[str]:
    """Parameters of a strategy that come from other sections of the configuration."""
    return frozenset(option.name for option in STRATEGIES[strategy].options.values() if _about(option).from_run)


def _about(option: inspect.Parameter) -> Option:
    """The meaning and range of an option, from its annotation."""
    notes = option.annotation.__metadata__ if get_origin(option.annotation) is Annotated else ()
    return next((note for note in notes if isinstance(note, Option)), Option(""))


def _type(option: inspect.Parameter) -> Any:
    """The type of an option, without its meaning."""
    return get_args(option.annotation)[0] if get_origin(option.annotation) is Annotated else option.annotation
