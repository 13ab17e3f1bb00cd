"""The JSON schema of a configuration file, for editors: `evenglot schema > evenglot.schema.json`."""

from __future__ import annotations

from typing import Any

from evenglot.balance.catalogue import STRATEGIES
from evenglot.config.balance import DEFAULT_STRATEGY, FORMER_DEFAULT, model_of
from evenglot.config.models import Config

Schema = dict[str, Any]  # JSON Schema, as pydantic writes it


def schema() -> Schema:
    """The schema of a config file. Like `load_config`, it accepts empty sections."""
    whole = Config.model_json_schema()
    for name, about in whole["properties"].items():
        if "$ref" in about and name not in whole["required"]:
            whole["properties"][name] = {"anyOf": [{"$ref": about["$ref"]}, {"type": "null"}]}
    definitions = whole["$defs"]
    definitions["Declaration"] = _declaration(definitions["Declaration"])
    directions = definitions["DataSettings"]["properties"]["directions"]
    one = directions["items"]
    for keyword in ("type", "items", "minLength"):  # pydantic describes the validated values, not the input
        directions.pop(keyword, None)
    directions["anyOf"] = [one, {"type": "array", "items": one, "minItems": 1}]
    balance = definitions["BalanceSettings"]
    balance["properties"]["strategy"] = {**balance["properties"]["strategy"], "enum": list(STRATEGIES)}
    balance["allOf"] = [_unless_named(), *map(_when, STRATEGIES)]
    definitions |= {f"balance-{strategy}": _without_notes(balance_schema(strategy)) for strategy in STRATEGIES}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_without_notes(whole), "title": "evenglot"}


def balance_schema(strategy: str) -> Schema:
    """The schema of the section `balance` for a strategy, with the ranges of options as part of their types."""
    made = model_of(strategy).model_json_schema()
    for about in made["properties"].values():
        for kind in about.get("anyOf", [about]):
            if kind.get("type") in ("number", "integer"):
                kind |= about.get("limits", {})
        about.pop("limits", None)
    made["properties"]["strategy"]["enum"] = list(STRATEGIES)
    return made


def _when(strategy: str) -> Schema:
    """The options of a strategy, if it is the one named in the file."""
    named: Schema = {"properties": {"strategy": {"const": strategy}}, "required": ["strategy"]}
    return {"if": named, "then": {"$ref": f"#/$defs/balance-{strategy}"}}


def _unless_named() -> Schema:
    """The options of the default strategy, or of the former one, if the file names none."""
    either = [{"$ref": f"#/$defs/balance-{strategy}"} for strategy in (DEFAULT_STRATEGY, FORMER_DEFAULT)]
    return {"if": {"required": ["strategy"]}, "else": {"anyOf": either}}


def _declaration(made: Schema) -> Schema:
    """An entry of `data.directions` in the file: a name, or a mapping of languages and paths."""
    codes = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    languages = {
        key: {**codes, "description": made["properties"][name]["description"]}
        for key, name in (("src", "src"), ("tgt", "tgt"), ("from", "src"), ("to", "tgt"))
    }
    paths = {name: about for name, about in made["properties"].items() if name not in languages}
    either = [{"anyOf": [{"required": [own]}, {"required": [many]}]} for own, many in (("src", "from"), ("tgt", "to"))]
    entry = {"type": "object", "properties": languages | paths, "additionalProperties": False, "allOf": either}
    return {"anyOf": [{"type": "string"}, entry]}


def _without_notes(value: Any) -> Any:
    """The schema without our own annotations and without the titles that pydantic generates."""
    if isinstance(value, list):
        return [_without_notes(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _without_notes(about) for name, about in content.items()}
        if key in ("properties", "$defs")
        else _without_notes(content)
        for key, content in value.items()
        if key not in ("group", "title")
    }
