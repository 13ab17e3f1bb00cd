import math
from contextlib import suppress

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from evenglot import yaml12

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
misread = st.sampled_from(
    ["no", "yes", "on", "1e-3", "0o17", "017", "12:30", "null", "~", "", ".inf", "2001-01-01", "<<"]
)
values = st.recursive(
    scalars | misread,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | misread | st.integers(), inner, max_size=4),
    max_leaves=10,
)


def value_of(text):
    return yaml12.parse(text)[0]


def faults_of(text):
    with pytest.raises(yaml12.YamlError) as caught:
        yaml12.parse(text)
    return caught.value.faults


@pytest.mark.parametrize(
    "text", ["no", "No", "yes", "on", "off", "y", "12:30", "2001-01-01", "1_000", "0b1", "<<", "="]
)
def test_words_that_version_1_1_takes_for_something_else_are_text(text):
    assert value_of(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        *[("17", 17), ("-3", -3), ("+3", 3), ("007", 7), ("0o17", 15), ("0x1F", 31)],
        *[("1e-3", 1e-3), ("1E5", 1e5), ("5.", 5.0), (".5", 0.5), ("-.inf", -math.inf), ("+.INF", math.inf)],
        *[("'17'", "17"), ('"no"', "no"), ("!!str 17", "17"), ("!!float 1", 1.0)],
    ],
)
def test_the_core_schema(text, value):
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


def test_not_a_number():
    assert math.isnan(value_of(".nan"))


def test_every_key_and_item_has_its_line():
    text = "a:\n  b: [1,\n    2]\nc:\n- x\n- y: z\n"
    value, lines = yaml12.parse(text)
    assert value == {"a": {"b": [1, 2]}, "c": ["x", {"y": "z"}]}
    assert lines == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "b", 0): 2,
        ("a", "b", 1): 3,
        ("c",): 4,
        ("c", 0): 5,
        ("c", 1): 6,
        ("c", 1, "y"): 6,
    }


def test_aliases_are_copies():
    value, lines = yaml12.parse("a: &it [1]\nb: *it\n")
    assert value["a"] == value["b"] == [1]
    assert value["a"] is not value["b"]
    assert lines["b",] == 2


def test_keys_given_twice_are_all_reported():
    (first, about_c), (second, about_a) = faults_of("a: 1\nb: {c: 1,\n  c: 2}\na: 2\n")
    assert (first, second) == (3, 4)
    assert "'c'" in about_c
    assert "line 2" in about_c
    assert "'a'" in about_a
    assert "line 1" in about_a


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("a:\n\tb: 1", 2, "tab"),
        ("a: 1\nb: {src}.txt", 2, "'{src}"),
        ("a: b: c", 1, "mapping values"),  # PyYAML's message
        ("a: [1,\nb: 2", 2, "YAML"),
        ("a: 1\n---\nb: 2", 2, "document"),
        ("a: 1\nb: \x07", 2, "U+0007"),
        ("a: *nobody", 1, "alias 'nobody'"),  # PyYAML's message
        ("? [a, b]\n: 1", 1, "key"),
        ("a: !!int x", 1, "'x' as int"),
        ("a: " + "9" * 5000, 1, "as int"),
        ('a: "\\ud800"', 1, "'\\ud800'"),
        ('a: "\\UFFFFFFFF"', 1, "escape"),
        ("a: !!python/object/apply:os.system [ls]", 1, "python/object/apply:os.system"),
        ("a: !mine x", 1, "'!mine'"),
        ("&a [*a]", 1, "alias"),
        ("[\n" * 3000, 1, "nested"),
    ],
)
def test_errors_say_where_and_what(text, line, fact):
    ((where, what),) = faults_of(text)
    assert where == line
    assert fact in what


def test_aliases_cannot_fill_the_memory():
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
    ((_, message),) = faults_of(text)
    assert "100,000" in message


@example({"\x85": "a\u2028 \n"})
@given(values)
def test_what_is_dumped_is_read_back(value):
    assert value_of(yaml12.dump(value)) == value


@example({0: ["a", float("inf")], "\u2028": None})
@given(values)
def test_one_line_is_enough(value):
    line = yaml12.dump_line(value)
    assert "\n" not in line
    assert value_of(line) == value


@given(st.dictionaries(st.text("abn:0o_", min_size=1), scalars | misread, max_size=5))
def test_readers_of_version_1_1_agree(value):
    assert yaml.safe_load(yaml12.dump(value)) == value


@given(st.text() | st.text(":-[]{}&*!|>'\"%@`#,?~ \n\t\\Uu0a"))
def test_any_text_is_a_value_or_an_error(text):
    with suppress(yaml12.YamlError):
        yaml12.parse(text)
