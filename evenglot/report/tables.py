"""Tables: for the terminal, for Markdown, and for LaTeX in the layout of the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.markup import escape
from rich.table import Table


def table(title: str, rows: Mapping[str, Sequence[str]], columns: Sequence[str], corner: str = "") -> Table:
    """A table of ready-made cells: one row for each key, numbers to the right."""
    result = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    result.box, result.pad_edge, result.collapse_padding = box.SIMPLE_HEAD, False, True  # narrow: fits 80 columns
    result.add_column(corner, no_wrap=True)
    for column in columns:
        result.add_column(column, justify="right", no_wrap=True)
    for name, cells in rows.items():
        result.add_row(name, *cells)
    return result


@dataclass(frozen=True)
class Cell:
    """A cell that stands out: the best of its column is bold, the second best underlined, as in the paper."""

    text: str
    rank: int | None = None


@dataclass(frozen=True)
class Sheet:
    """A table that can be printed in several ways."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    under: tuple[str, ...] = ()  # a second line of headings
    notes: tuple[str, ...] = ()

    def to_rich(self) -> Table:
        """For the terminal."""
        columns, under = ([_escaped(text) for text in texts] for texts in (self.columns, self.under or self.columns))
        heads = [f"{head}\n{below}" for head, below in zip(columns, under, strict=True)]
        styles = {0: "[bold]{}[/]", 1: "[underline]{}[/]"}
        rows = {
            _escaped(name): [
                styles.get(-1 if cell.rank is None else cell.rank, "{}").format(_escaped(cell.text)) for cell in cells
            ]
            for name, cells in self.rows
        }
        result = table(_escaped(self.title), rows, heads if self.under else columns, _escaped(self.corner))
        result.columns[-1].no_wrap = False  # the only one that may hold a list
        if self.notes:
            result.caption, result.caption_justify = _escaped("\n".join(self.notes)), "left"
        return result

    def parts(self, width: int) -> list[Sheet]:
        """The same in tables that fit a terminal: each has the names of the rows and some of the columns."""
        first = max(len(self.corner), *(len(name) for name, _ in self.rows)) + 2
        widths = [
            max(len(text) for text in (head, *self.under[i : i + 1], *(cells[i].text for _, cells in self.rows))) + 2
            for i, head in enumerate(self.columns)
        ]
        groups: list[list[int]] = [[]]
        for i, wide in enumerate(widths):
            if groups[-1] and first + sum(widths[j] for j in groups[-1]) + wide > width:
                groups.append([])
            groups[-1].append(i)
        return [
            replace(
                self,
                title=self.title + (", continued" if number else ""),
                columns=tuple(self.columns[i] for i in group),
                rows=tuple((name, tuple(cells[i] for i in group)) for name, cells in self.rows),
                under=tuple(self.under[i] for i in group) if self.under else (),
                notes=self.notes if number == len(groups) - 1 else (),
            )
            for number, group in enumerate(groups)
        ]

    def to_markdown(self) -> str:
        """As GitHub reads it."""
        styles = {0: "**{}**", 1: "<u>{}</u>"}
        lines = [
            [self.corner, *self.columns],
            ["---", *("---:" for _ in self.columns)],
            *([["", *self.under]] if self.under else []),
            *(
                [name, *(styles.get(-1 if cell.rank is None else cell.rank, "{}").format(cell.text) for cell in cells)]
                for name, cells in self.rows
            ),
        ]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        notes = "  \n".join(self.notes).replace("*", "\\*")
        return "\n\n".join([f"**{self.title}**", body, *([notes] if notes else [])]) + "\n"

    def to_latex(self) -> str:
        """With booktabs: methods down, languages across, their share of the data below their names."""
        styles = {0: r"\textbf{{{}}}", 1: r"\underline{{{}}}"}
        lines = [
            r"\begin{table*}[t]",
            r"\small\centering",
            rf"\begin{{tabular}}{{l|{'c' * len(self.columns)}}}",
            r"\toprule",
            _latex_row([self.corner, *self.columns], bold=True),
            *([_latex_row(["", *self.under])] if self.under else []),
            r"\midrule",
            *(
                " & ".join(
                    [
                        _latex(name),
                        *(
                            styles.get(-1 if cell.rank is None else cell.rank, "{}").format(_latex(cell.text))
                            for cell in cells
                        ),
                    ]
                )
                + r" \\"
                for name, cells in self.rows
            ),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_latex(' '.join([self.title + '.', *self.notes]))}}}",
            r"\end{table*}",
        ]
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Square brackets are rich's markup, with a backslash before them they are not; a last one would hide ours."""
    return escape(text)


def _latex_row(cells: Sequence[str], *, bold: bool = False) -> str:
    return " & ".join(rf"\textbf{{{_latex(cell)}}}" if bold and cell else _latex(cell) for cell in cells) + r" \\"


LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "→": r"$\rightarrow$",
    "−": r"$-$",
}


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)
