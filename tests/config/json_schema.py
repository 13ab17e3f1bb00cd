"""A small validator for the part of JSON Schema that our schema uses; an unknown keyword is an error."""

from math import inf

NOTES = {"$schema", "$defs", "title", "description", "default", "examples", "resume", "grid", "ends_run"}
NOTES |= {"then", "else"}  # read by `if`
TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def is_valid(value, schema, root=None):
    """Is the value what the schema describes?"""
    root = schema if root is None else root
    return all(_keyword(name, given, value, schema, root) for name, given in schema.items() if name not in NOTES)


def _keyword(name, given, value, schema, root):
    def fits(part, other):
        return is_valid(part, other, root)

    items = value if isinstance(value, list) else []
    keys = value if isinstance(value, dict) else {}
    amount = value if TYPES["number"](value) else None
    first = len(schema.get("prefixItems", []))
    checks = {
        "$ref": lambda: fits(value, root["$defs"][given.removeprefix("#/$defs/")]),
        "type": lambda: TYPES[given](value),
        "const": lambda: value == given,
        "enum": lambda: value in given,
        "anyOf": lambda: any(fits(value, other) for other in given),
        "allOf": lambda: all(fits(value, other) for other in given),
        "if": lambda: fits(value, schema.get("then" if fits(value, given) else "else", {})),
        "required": lambda: not isinstance(value, dict) or set(given) <= set(keys),
        "properties": lambda: all(fits(keys[key], other) for key, other in given.items() if key in keys),
        "additionalProperties": lambda: all(
            given is not False and (given is True or fits(part, given))
            for key, part in keys.items()
            if key not in schema.get("properties", {})
        ),
        "items": lambda: all(fits(item, given) for item in items[first:]),
        "prefixItems": lambda: all(fits(item, other) for item, other in zip(items, given, strict=False)),
        "minItems": lambda: not isinstance(value, list) or len(items) >= given,
        "maxItems": lambda: not isinstance(value, list) or len(items) <= given,
        "minLength": lambda: not isinstance(value, str) or len(value) >= given,
        "minimum": lambda: amount is None or amount >= given,
        "maximum": lambda: amount is None or amount <= given,
        "exclusiveMinimum": lambda: amount is None or amount > given,
        "exclusiveMaximum": lambda: amount is None or amount < given or given == inf,
    }
    return checks[name]()
