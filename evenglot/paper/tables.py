"""The paper's tables, filled with our results: each row of ours with the paper's numbers below it.

Below a row that is not the reference are the differences to it, with 95 % confidence intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evenglot.comparison.bootstrap import Difference
from evenglot.paper import numbers
from evenglot.paper.numbers import bleu, layouts
from evenglot.paper.results import AllResults, Results
from evenglot.tables import Cell, ranked

Kind = Literal["ours", "paper", "difference"]
NONE = Cell("-")
MARKS = (
    "Bold and underlined: best and second best of ours, and of the paper's. Rows without a line of the paper are not "
    "in its table."
)


@dataclass(frozen=True)
class Line:
    """A line of a table: our scores, the paper's, or our differences to the reference."""

    kind: Kind
    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Block:
    """Lines with the same columns. `spans`: headings above several columns, with their number; `under`: below them."""

    columns: tuple[str, ...]
    sections: tuple[tuple[str, tuple[Line, ...]], ...]  # heading, lines
    spans: tuple[tuple[str, int], ...] = ()
    under: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper."""

    number: int
    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


def paper_tables(results: AllResults) -> list[PaperTable]:
    """Tables 1 to 4."""
    tables = [_main_table(int(number), about, results) for number, about in layouts()["tables"].items()]
    return [*tables, _ablation(results)]


def _main_table(number: int, about: Mapping[str, Any], results: AllResults) -> PaperTable:
    directions = layouts()["directions"]
    blocks = []
    for dataset in about["sets"]:
        of_set = {direction: results[dataset, direction] for direction in directions}
        languages = [*layouts()["sets"][dataset]["languages"], "Avg"]
        if len(about["sets"]) > 1:  # one below the other, in one block per set
            sections = tuple(
                (f"{layouts()['sets'][dataset]['name']}, {title}", tuple(_lines(about["rows"], [of_set[direction]])))
                for direction, title in directions.items()
            )
            blocks.append(Block(tuple(languages), sections, under=(*_shares(of_set.values(), languages[:-1]), "")))
        else:
            lines = tuple(_lines(about["rows"], list(of_set.values())))
            spans = tuple((title, len(languages)) for title in directions.values())
            blocks.append(Block(tuple(languages * len(directions)), (("", lines),), spans))
    return PaperTable(number, about["title"], tuple(blocks), (MARKS, *_notes(about["sets"], results)))


def _lines(rows: Sequence[Sequence[str]], of_directions: Sequence[Results]) -> Iterator[Line]:
    """The lines of a block: the columns of the directions are beside each other."""
    languages = layouts()["sets"][of_directions[0].dataset]["languages"]
    columns = [(results, language) for results in of_directions for language in [*languages, "Avg"]]
    ours, theirs = [], []
    for results, language in columns:
        chosen = languages if language == "Avg" else [language]
        ours.append(_column({name: results.score(row, chosen) for name, row, *_ in rows}))
        printed = {name: bleu(results.dataset, results.direction, method[0]) for name, _, *method in rows if method}
        theirs.append(_column({name: found.get(language) for name, found in printed.items()}))
    for name, row, *method in rows:
        if not method and all(column[name] == NONE for column in ours):
            continue
        yield Line("ours", name, tuple(column[name] for column in ours))
        if method:
            yield Line("paper", "paper", tuple(column[name] for column in theirs))
        differences = {id(results): results.differences(row) for results in of_directions}
        if any(differences.values()):
            found = (differences[id(results)].get(language) for results, language in columns)
            yield Line("difference", "difference", tuple(_difference(each) for each in found))


def _column(values: Mapping[str, float | None]) -> dict[str, Cell]:
    """The cells of a column, with the best two marked."""
    return ranked(values, lambda name: f"{values[name]:.2f}", higher_is_better=True)


def _difference(found: Difference | None) -> Cell:
    if found is None:
        return Cell("")
    low, high = found.interval
    return Cell(f"{_signed(found.difference)} [{_signed(low)}, {_signed(high)}]")


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")  # + 0.0: no negative zero


def _shares(of_set: Iterable[Results], languages: Sequence[str]) -> list[str]:
    """The shares of the training data in our runs; empty without runs."""
    for results in of_set:
        if results.runs:
            pairs = {results.language_of(name): count for name, count in results.runs[0].pairs.items()}
            return [f"{pairs[language] / sum(pairs.values()):.3f}" for language in languages]
    return [""] * len(languages)


def _ablation(results: AllResults) -> PaperTable:
    """Table 4: settings as rows, with our average, its difference to ERM, and the paper's average."""
    about = layouts()["ablation"]
    printed = {row["id"]: row["avg_bleu"] for row in numbers.printed()["ablation"]}
    sections: dict[str, list[Line]] = {}
    for key, setting, dataset, row in about["rows"]:
        of_set = results[dataset, about["direction"]]
        score = of_set.score(row, layouts()["sets"][dataset]["languages"])
        cells = (
            NONE if score is None else Cell(f"{score:.2f}"),
            _difference(of_set.differences(row).get("Avg")),
            Cell(f"{printed[key]:.2f}"),
        )
        sections.setdefault(layouts()["sets"][dataset]["name"], []).append(Line("ours", f"({key}) {setting}", cells))
    block = Block(
        ("Avg BLEU", "difference to ERM, τ=1", "paper"), tuple((name, tuple(lines)) for name, lines in sections.items())
    )
    return PaperTable(4, about["title"], (block,), tuple(_notes(["ted_related", "wmt"], results)))


def _notes(datasets: Sequence[str], results: AllResults) -> Iterator[str]:
    of_sets = [each for (dataset, _), each in results.items() if dataset in datasets and each.comparison]
    if not of_sets:
        yield "No results yet."
        return
    seeds = sorted({len(row.seeds) for each in of_sets for row in each.rows.values()})
    single = seeds == [1]
    number = "One seed" if single else f"Mean of {' to '.join(map(str, dict.fromkeys([seeds[0], seeds[-1]])))} seeds"
    coverage = "which does not cover the variance between training runs" if single else "with seed variance"
    yield f"{number}. Differences to ERM (τ=1) have 95 % confidence intervals (paired bootstrap, {coverage})."
    signatures = dict.fromkeys(each.runs[0].signature.get("bleu", "") for each in of_sets)
    yield f"BLEU: {', '.join(filter(None, signatures))}."
