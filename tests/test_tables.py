"""A table in three formats: special characters are escaped, and the best cells are highlighted."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evenglot.tables import Cell, Sheet, table

SHEET = Sheet(
    "BLEU (test)",
    "Method",
    ("por", "zh_Hans"),
    (("erm", (Cell("20.00", 1), Cell("9.00"))), ("chi", (Cell("21.00", 0), Cell("8.00")))),
    under=("0.750", "0.250"),
    notes=("Of 100 % of the data.", "* significant."),
)
PLAIN = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), max_size=8).map(str.strip)
UNDERLINED = "\x1b[4m"
BOLD = "\x1b[1m"


def terminal(sheet: Sheet, width: int = 200, color: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=color, color_system="standard" if color else None).print(
        sheet.to_rich()
    )
    return out.getvalue()


def named(name: str, **changes) -> Sheet:
    """A sheet with one cell and this text in one place (title, cell, ...)."""
    given = {"title": "title", "corner": "corner", "columns": ("column",), "rows": (("row", (Cell("1"),)),)}
    places = {
        "title": {"title": name},
        "corner": {"corner": name},
        "column": {"columns": (name,)},
        "row": {"rows": ((name, (Cell("1"),)),)},
        "cell": {"rows": (("row", (Cell(name),)),)},
        "best": {"rows": (("row", (Cell(name, 0),)),)},
        "under": {"under": (name,)},
        "note": {"notes": (name,)},
    }
    return Sheet(**{**given, **places[changes["place"]]})


PLACES = ["title", "corner", "column", "row", "cell", "best", "under", "note"]


# --------------------------------------------------------------------------------------------------- terminal


def test_the_terminal_shows_everything():
    said = terminal(SHEET)
    for text in ("BLEU (test)", "Method", "por", "zh_Hans", "0.750", "erm", "21.00", "100 % of the data", "* signif"):
        assert text in said
    assert len(said.splitlines()[0].rstrip()) == len("BLEU (test)")


def test_the_best_is_bold_and_the_second_underlined():
    said = terminal(SHEET, color=True)
    assert f"{BOLD}21.00" in said
    assert f"{UNDERLINED}20.00" in said
    assert f"{BOLD}9.00" not in said
    assert f"{UNDERLINED}8.00" not in said


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", ["chi[rho=1]", "x[/]"])
def test_square_brackets_are_no_markup(place, text):
    assert text in terminal(named(text, place=place))


@pytest.mark.parametrize("name", ["[/b]", "[small]"])
def test_nor_are_they_in_the_names_of_a_plain_table(name):
    output = io.StringIO()
    Console(file=output, width=80).print(table("", {name: ["1"]}, ["loss"]))
    assert name in output.getvalue()


# --------------------------------------------------------------------------------------------------- Markdown


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_is_a_table_that_github_reads():
    said = SHEET.to_markdown().splitlines()
    assert said == [
        "**BLEU (test)**",
        "",
        "| Method | por | zh_Hans |",
        "| --- | ---: | ---: |",
        "|  | 0.750 | 0.250 |",
        "| erm | <u>20.00</u> | 9.00 |",
        "| chi | **21.00** | 8.00 |",
        "",
        "Of 100 % of the data.  ",
        r"\* significant.",
    ]


@given(PLAIN, PLAIN)
def test_bars_do_not_break_its_columns(name, text):
    sheet = Sheet("t", "c", ("one", "two"), ((name, (Cell(text, 0), Cell("2"))),))
    lines = [line for line in sheet.to_markdown().splitlines() if line.startswith("|")]
    assert {len(cells_of(line)) for line in lines} == {3}


# --------------------------------------------------------------------------------------------------- LaTeX


def structure(text: str) -> list[list[str]]:
    """The rows of a tabular; environments and braces must be balanced, and all rows have its number of columns."""
    open_environments: list[str] = []
    for what, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", text):
        if what == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert open_environments == []
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    columns = re.search(r"\\begin\{tabular\}\{([lcr|]+)\}", text)[1].replace("|", "")
    rows = [re.split(r"(?<!\\)&", line[: -len(r"\\")]) for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(row) for row in rows} == {len(columns)}
    return [[cell.strip() for cell in row] for row in rows]


def test_latex_has_the_layout_of_the_papers_tables():
    assert structure(SHEET.to_latex()) == [
        [r"\textbf{Method}", r"\textbf{por}", r"\textbf{zh\_Hans}"],
        ["", "0.750", "0.250"],
        ["erm", r"\underline{20.00}", "9.00"],
        ["chi", r"\textbf{21.00}", "8.00"],
    ]
    assert re.findall(r"\\(\w+rule)", SHEET.to_latex()) == ["toprule", "midrule", "bottomrule"]
    assert r"\caption{BLEU (test). Of 100 \% of the data. * significant.}" in SHEET.to_latex()


@given(PLAIN, PLAIN, PLAIN)
def test_special_characters_do_not_break_its_structure(name, text, title):
    sheet = Sheet(title, "c", ("one", "two"), ((name, (Cell(text, 0), Cell("2"))), ("b", (Cell(text), Cell("3")))))
    assert len(structure(sheet.to_latex())) == 3


@pytest.mark.parametrize("place", PLACES)
def test_what_latex_reads_as_commands_is_escaped_everywhere(place):
    said = named(r"50%_a&b#c$d{e}\f", place=place).to_latex()
    assert r"50\%\_a\&b\#c\$d\{e\}\textbackslash{}f" in said


def test_signs_of_our_numbers_are_mathematics():
    sheet = Sheet("por → en", "c", ("one",), (("row", (Cell("−0.40 ±0.10"),)),))
    assert r"$-$0.40 $\pm$0.10" in sheet.to_latex()
    assert r"$\rightarrow$" in sheet.to_latex()


@pytest.mark.parametrize("text", ["Δ mean", "p < .05", "a > b", "a|b"])
def test_so_are_those_that_latexs_usual_font_lacks(text):
    said = named(text, place="cell").to_latex()
    assert said.isascii()
    assert not re.search(r"(?<![$\\{])[<>|](?![$}])", said.split(r"\midrule")[1])
