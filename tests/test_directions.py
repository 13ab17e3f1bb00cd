import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.directions import (
    Direction,
    GroupMap,
    check_code,
    group_of,
    parse,
    shape,
    shared_side,
    tag,
    tag_kind,
)

codes = st.from_regex(r"[A-Za-z]{2,8}(_[A-Za-z0-9]{1,8}){0,2}", fullmatch=True)


def directions(*names):
    return [parse(name) for name in names]


@given(src=codes, tgt=codes)
def test_a_direction_is_known_by_its_name(src, tgt):
    if src != tgt:
        assert parse(f"{src}-{tgt}") == Direction(src, tgt)
        assert parse(Direction(src, tgt).name).reverse() == Direction(tgt, src)


@pytest.mark.parametrize(
    "text", ["", "por", "por-", "-en", "por-en-fr", "p-en", "por en", "por-e n", "12-en", "por-en\n"]
)
def test_what_is_no_direction_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse(text)


def test_a_language_is_not_translated_into_itself():
    with pytest.raises(ValueError, match="'no-no' translates a language into itself"):
        parse("no-no")


def test_a_hyphen_inside_a_code_is_explained():
    with pytest.raises(ValueError, match="'pt-BR' is not a language code; write 'pt_BR'"):
        check_code("pt-BR")
    with pytest.raises(ValueError, match="write an underscore: 'pt_BR-en'"):
        parse("pt-BR-en")


@pytest.mark.parametrize(
    ("names", "expected_shape", "side", "tags"),
    [
        (["por-en"], "one-to-one", "target", [">>por<<"]),
        (["por-en", "tur-en"], "many-to-one", "target", [">>por<<", ">>tur<<"]),
        (["en-por", "en-tur"], "one-to-many", "source", [">>por<<", ">>tur<<"]),
        (["por-en", "en-por"], "many-to-many", None, [">>en<<", ">>por<<"]),
        (["por-en", "tur-de"], "many-to-many", None, [">>en<<", ">>de<<"]),
    ],
)
def test_the_tag_names_the_language_that_the_shape_leaves_open(names, expected_shape, side, tags):
    several = directions(*names)
    assert shape(several) == expected_shape
    assert shared_side(several) == side
    assert [tag(direction, tag_kind(several)) for direction in several] == tags


def test_no_directions_have_no_shape():
    with pytest.raises(ValueError, match="there are none"):
        shape([])


def test_groups():
    direction = Direction("por", "en", label="romance")
    groups = {grouping: group_of(direction, grouping) for grouping in ("pair", "source", "target", "label")}
    assert groups == {"pair": "por-en", "source": "por", "target": "en", "label": "romance"}
    with pytest.raises(ValueError, match="por-en has no label"):
        group_of(parse("por-en"), "label")


GROUPS = GroupMap({"por-en": "romance", "tur-en": "turkic", "glg-en": "romance", "none-en": "none"})
SIZES = {"por-en": 300, "glg-en": 100, "tur-en": 50, "none-en": 0}


def test_a_group_map_is_a_mapping_and_knows_the_groups_in_order():
    assert GROUPS == {"por-en": "romance", "tur-en": "turkic", "glg-en": "romance", "none-en": "none"}
    assert GROUPS.names == ("romance", "turkic", "none")
    assert GROUPS.members(["tur-en", "por-en", "glg-en"]) == {"turkic": ["tur-en"], "romance": ["por-en", "glg-en"]}


def test_amounts_of_directions_are_added_up_by_group():
    assert GROUPS.sum(SIZES) == {"romance": 400, "turkic": 50, "none": 0}
    assert list(GROUPS.sum(SIZES)) == ["romance", "turkic", "none"]
    with pytest.raises(KeyError):
        GROUPS.sum({"deu-en": 1})


def test_floats_are_added_in_the_order_they_are_given():
    one_group = GroupMap(dict.fromkeys(["a-en", "b-en", "c-en"], "all"))
    amounts = {"a-en": 1e16, "b-en": 1.0, "c-en": 1.0}
    assert one_group.sum(amounts) == {"all": 1e16}
    assert one_group.sum(dict(reversed(amounts.items()))) == {"all": 1e16 + 2}


def test_a_value_of_a_group_is_that_of_each_of_its_directions():
    losses = {"romance": 1.5, "turkic": None, "none": 2.0}
    assert GROUPS.spread(losses) == {"por-en": 1.5, "tur-en": None, "glg-en": 1.5, "none-en": 2.0}


def test_shares_of_groups_are_divided_among_their_directions_by_size():
    shares = GROUPS.shares({"romance": 0.4, "turkic": 0.6, "none": 0.0}, SIZES)
    assert shares == pytest.approx({"por-en": 0.3, "glg-en": 0.1, "tur-en": 0.6, "none-en": 0.0})
