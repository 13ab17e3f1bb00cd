"""docs/configuration.md, made of what is there: types, ranges and defaults from the models, words from example.yaml.

python -m evenglot.config.reference > docs/configuration.md
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenglot import yaml12
from evenglot.balance.catalogue import STRATEGIES
from evenglot.config import EXAMPLE, Config
from evenglot.config.models import model_of

Schema = Mapping[str, Any]  # JSON Schema, as pydantic writes it

SHOWN = "chi-ibr"  # the strategy whose options are the keys of the example
HEADING = """\
# Configuration

*Made by `python -m evenglot.config.reference` from the models that check a configuration and from the comments of
`evenglot example`; do not edit this page. How a strategy works: [methods](methods.md). Which one to take:
[choosing](choosing.md).*
"""
STRATEGIES_HEADING = f"""\
## Strategies

Keys of `balance` beside `strategy` and `p_unit`, for each strategy. Those of `{SHOWN}` are above. *Needed*: there is no
default.
"""


# ------------------------------------------------------------------------------------------ words, from the example


@dataclass
class Block:
    """Keys that stand together in the example, and the comment above them."""

    above: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)  # what stands beside each key, and below that


@dataclass
class Chapter:
    """A section of the example. The first is what is said before any section, with the keys that are in none."""

    above: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=lambda: [Block()])


LINE = re.compile(r"(?P<indent> *)(?:(?P<key>\w+):(?P<value>[^#]*))?(?:# ?(?P<comment>.*))?")


def chapters(text: str) -> dict[str, Chapter]:
    """The comments of an example configuration, by section; '' is what belongs to none."""
    found = {"": Chapter()}
    here, above, key = found[""], list[str](), ""
    for line in text.splitlines():
        parts = LINE.fullmatch(line)
        if parts is None:
            raise ValueError(f"cannot be read as a key with a comment: {line!r}")
        indent, name, comment = len(parts["indent"]), parts["key"], parts["comment"]
        if comment is not None and comment.startswith("-----"):  # a ruler
            here, above = found[""], []
        elif name and indent == 0 and not parts["value"].strip():
            here = found[name] = Chapter(above)
            above = []
        elif name:
            here = here if indent else found[""]
            if above or not here.blocks[-1].keys:
                here.blocks.append(Block(above))
                above = []
            here.blocks[-1].keys[name] = " ".join((comment or "").split())
            key = name
        elif comment is not None and indent > 2:  # goes on with what stands beside the key
            here.blocks[-1].keys[key] += f" {comment}"
        elif comment is not None:
            above.append(comment)
        elif here.blocks[-1].keys:  # an empty line ends a block
            here.blocks.append(Block())
        elif above and len(found) == 1:
            here.above, above = above, []
    return found


def prose(lines: Iterable[str]) -> str:
    """Comment lines as Markdown: what is indented is an example."""
    text = ""
    was_example = False
    for line in lines:
        is_example = line.startswith("    ")
        if text and is_example != was_example and line:
            text = text.rstrip("\n") + "\n\n"
        text += f"{line}\n"
        was_example = is_example if line else was_example
    return text.replace("docs/methods.md", "[methods](methods.md)")


# -------------------------------------------------------------------------------------------- types, from the models


def in_words(schema: Schema) -> str:
    """What a value can be: 'whole number, 1 or more, or null'."""
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(in_words(kind) for kind in schema["anyOf"]))
    if "const" in schema:
        return shown(schema["const"])
    if "enum" in schema:
        *others, last = (shown(value) for value in schema["enum"])
        return f"{', '.join(others)} or {last}"
    if "$ref" in schema:
        return "direction"
    kind = schema["type"]
    if kind == "array":
        pair = schema.get("prefixItems")
        return f"list of two ({in_words(pair[0])})" if pair else f"list ({in_words(schema['items'])})"
    if kind == "object":
        return f"keys with values ({in_words(schema['additionalProperties'])})"
    return ", ".join([NAMES[kind], *limits(schema)])


NAMES = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text", "null": "null"}
LIMITS = {
    "minimum": "{:,} or more",
    "exclusiveMinimum": "above {:,}",
    "maximum": "{:,} or less",
    "exclusiveMaximum": "below {:,}",
}


def limits(schema: Schema) -> Iterator[str]:
    """The range of a number."""
    for limit, words in LIMITS.items():
        if limit in schema:
            yield words.format(schema[limit])


def shown(value: Any) -> str:
    """As one writes it in YAML, on one line."""
    if isinstance(value, list | tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{yaml12.dump(value).splitlines()[0]}`"


def row(key: str, schema: Schema, words: str) -> str:
    """A key in a table."""
    default = shown(schema["default"]) if "default" in schema else "*needed*"
    return f"| `{key}` | {in_words(schema)} | {default} | {words} |"


def table(rows: Iterable[str]) -> str:
    """Keys with what they can be, their defaults, and what they mean."""
    return "\n".join(["| key | value | default | |", "|---|---|---|---|", *rows]) + "\n"


def _kind(schema: Schema) -> set[str]:
    """What a value can be, other than null."""
    return {in_words(kind) for kind in schema.get("anyOf", [schema])} - {"null"}


# ------------------------------------------------------------------------------------------------------- the page


def reference() -> str:
    """The text of docs/configuration.md."""
    schema = Config.model_json_schema()
    said = chapters(EXAMPLE.read_text(encoding="utf-8"))
    parts = [HEADING, prose(said[""].above)]
    for name, properties in schema["properties"].items():
        parts.append(f"## {name}\n")
        if "$ref" in properties:
            keys = schema["$defs"][properties["$ref"].rpartition("/")[2]]["properties"]
            parts += _section(said[name], _options(SHOWN) if name == "balance" else keys)
        else:
            (block,) = (block for block in said[""].blocks if name in block.keys)
            parts += [prose(block.above), table([row(name, properties, block.keys[name])])]
    parts += [STRATEGIES_HEADING, *map(_strategy, STRATEGIES)]
    return "\n".join(part for part in parts if part)


def _section(chapter: Chapter, keys: Schema) -> Iterator[str]:
    """One table for all keys up to the next that have a comment above them."""
    yield prose(chapter.above)
    rows: list[str] = []
    for block in chapter.blocks:
        if block.above:
            if rows:
                yield table(rows)
            yield prose(block.above)
            rows = []
        rows += [row(key, keys[key], words) for key, words in block.keys.items()]
    yield table(rows)


def _options(strategy: str) -> Schema:
    """The keys of the section `balance`, with this strategy."""
    options: dict[str, Schema] = model_of(strategy).model_json_schema()["properties"]
    return {**options, "strategy": {"default": options["strategy"]["default"], "enum": list(STRATEGIES)}}


def _strategy(name: str) -> str:
    explained = inspect.getdoc(STRATEGIES[name].build) or ""
    of_example, own = _options(SHOWN), _options(name)
    rows = []
    for key, schema in own.items():
        if key not in ("strategy", "p_unit"):
            is_known = key in of_example and _kind(of_example[key]) == _kind(schema) and f"`{key}`" not in explained
            rows.append(row(key, schema, f"as for `{SHOWN}`" if is_known else ""))
    return "\n".join([f"### {name}\n", explained + "\n", *([table(rows)] if rows and name != SHOWN else [])])


if __name__ == "__main__":
    print(reference(), end="")
