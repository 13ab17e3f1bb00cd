"""Tables: for the terminal, for Markdown, and for LaTeX in the layout of the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
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
        heads = [f"{head}\n{below}" for head, below in zip(self.columns, self.under or self.columns, strict=True)]
        styles = {0: "[bold]{}[/]", 1: "[underline]{}[/]"}
        rows = {
            name: [
                styles.get(-1 if cell.rank is None else cell.rank, "{}").format(_escaped(cell.text)) for cell in cells
            ]
            for name, cells in self.rows
        }
        result = table(self.title, rows, heads if self.under else self.columns, self.corner)
        result.columns[-1].no_wrap = False  # the only one that may hold a list
        if self.notes:
            result.caption, result.caption_justify = "\n".join(self.notes), "left"
        return result

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
    """Square brackets are rich's markup."""
    return text.replace("[", r"\[")


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
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "−": r"$-$",
}


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)
