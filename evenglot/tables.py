"""Tables for the terminal, Markdown and LaTeX (in the layout of the paper's tables)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text


def table(title: str, rows: Mapping[str, Sequence[str]], columns: Sequence[str], corner: str = "") -> Table:
    """A table of formatted cells: one row per key, numbers right-aligned."""
    result = Table(title=title, title_justify="left", title_style="bold", header_style="bold", min_width=len(title))
    result.box, result.pad_edge, result.collapse_padding = box.SIMPLE_HEAD, False, True  # narrow, to fit 80 columns
    result.add_column(corner, no_wrap=True)
    for column in columns:
        result.add_column(column, justify="right", no_wrap=True)
    for name, cells in rows.items():
        result.add_row(escape(name), *cells)
    return result


# Formats of the best (rank 0) and second-best cell of a column.
IN_TERMINAL: dict[int | None, str] = {0: "[bold]{}[/]", 1: "[underline]{}[/]"}
IN_MARKDOWN: dict[int | None, str] = {0: "**{}**", 1: "<u>{}</u>"}
IN_LATEX: dict[int | None, str] = {0: r"\textbf{{{}}}", 1: r"\underline{{{}}}"}


@dataclass(frozen=True)
class Cell:
    """A cell and its rank: the best of its column is bold, the second best underlined, as in the paper."""

    text: str
    rank: int | None = None


def ranked(values: Mapping[str, float | None], text: Callable[[str], str], higher_is_better: bool) -> dict[str, Cell]:
    """Cells of one column by row. The best two are marked; of two rows only the best."""
    known = [name for name, value in values.items() if value is not None]
    order = sorted({values[name] for name in known}, reverse=higher_is_better)  # type: ignore[type-var]
    marked = order[: 1 if len(known) < 3 else 2] if len(known) > 1 else []
    ranks = {name: marked.index(values[name]) for name in known if values[name] in marked}
    return {name: Cell("-" if value is None else text(name), ranks.get(name)) for name, value in values.items()}


@dataclass(frozen=True)
class Sheet:
    """A table that can be rendered for the terminal, in Markdown and in LaTeX."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    under: tuple[str, ...] = ()  # a second line of headings
    notes: tuple[str, ...] = ()

    def to_rich(self) -> Group:
        """For the terminal; title and notes use its full width, not that of the table."""
        columns, under = ([escape(text) for text in texts] for texts in (self.columns, self.under or self.columns))
        heads = [f"{head}\n{below}" for head, below in zip(columns, under, strict=True)]
        rows = {
            name: [IN_TERMINAL.get(cell.rank, "{}").format(escape(cell.text)) for cell in cells]
            for name, cells in self.rows
        }
        result = table("", rows, heads if self.under else columns, escape(self.corner))
        result.columns[-1].no_wrap = False  # the only column that may contain a list
        return Group(Text(self.title, style="bold"), result, *(Text(note, style="italic") for note in self.notes), "")

    def fitted(self, width: int) -> list[Sheet]:
        """In tables of at most this width; with rows and columns exchanged where that takes fewer of them."""
        return min(self.parts(width), self._turned().parts(width), key=len)

    def _turned(self) -> Sheet:
        """With rows and columns exchanged; the second line of headings becomes the first column."""
        under: list[tuple[Cell, ...]] = [(Cell(text),) for text in self.under] or [()] * len(self.columns)
        columns = zip(self.columns, under, zip(*(cells for _, cells in self.rows), strict=True), strict=True)
        return replace(
            self,
            corner="",
            columns=(*("" for _ in self.under[:1]), *(name for name, _ in self.rows)),
            rows=tuple((head, (*below, *cells)) for head, below, cells in columns),
            under=(),
        )

    def parts(self, width: int) -> list[Sheet]:
        """Split into tables of at most this width: each has the row names and some of the columns."""
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
        """In GitHub's Markdown."""
        lines = [
            [self.corner, *self.columns],
            ["---", *("---:" for _ in self.columns)],
            *([["", *self.under]] if self.under else []),
            *(
                [name, *(IN_MARKDOWN.get(cell.rank, "{}").format(cell.text) for cell in cells)]
                for name, cells in self.rows
            ),
        ]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        notes = "  \n".join(self.notes).replace("*", "\\*")
        return "\n\n".join([f"**{self.title}**", body, *([notes] if notes else [])]) + "\n"

    def to_latex(self) -> str:
        """In LaTeX with booktabs: one row per method, one column per language, its share of the data below its name."""
        lines = [
            r"\begin{table*}[t]",
            r"\small\centering",
            rf"\begin{{tabular}}{{l|{'c' * len(self.columns)}}}",
            r"\toprule",
            _latex_row([self.corner, *self.columns], bold=True),
            *([_latex_row(["", *self.under])] if self.under else []),
            r"\midrule",
            *(_latex_ranked(name, cells) for name, cells in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{to_latex(' '.join([self.title + '.', *self.notes]))}}}",
            r"\end{table*}",
        ]
        return "\n".join(lines) + "\n"


def _latex_ranked(name: str, cells: Sequence[Cell]) -> str:
    return " & ".join([to_latex(name), *(IN_LATEX.get(c.rank, "{}").format(to_latex(c.text)) for c in cells)]) + r" \\"


def _latex_row(cells: Sequence[str], *, bold: bool = False) -> str:
    return " & ".join(rf"\textbf{{{to_latex(cell)}}}" if bold and cell else to_latex(cell) for cell in cells) + r" \\"


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
    "–": "--",
    "χ": r"$\chi$",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "²": "$^2$",
}


def to_latex(text: str) -> str:
    """Text with everything escaped that has a meaning in LaTeX."""
    return "".join(LATEX.get(character, character) for character in text)
