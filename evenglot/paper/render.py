"""The paper's tables as Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import chain

from evenglot.paper.tables import Block, Line, PaperTable
from evenglot.tables import IN_LATEX, IN_MARKDOWN, Cell, to_latex
from evenglot.wording import counted

IN_HTML: dict[int | None, str] = {0: "<b>{}</b>", 1: "<u>{}</u>"}
MINOR = {"ours": "{}", "paper": r"\textit{{{}}}", "difference": r"{{\scriptsize {}}}"}  # lines in LaTeX

# ---------------------------------------------------------------------------------------------------- Markdown


def to_markdown(tables: Sequence[PaperTable]) -> str:
    """All tables, with padded columns, so that they are also readable as text."""
    return "\n".join(map(_markdown, tables))


def _markdown(table: PaperTable) -> str:
    parts = [f"### Table {table.number}: {table.title}"]
    for block in table.blocks:
        spans = list(chain.from_iterable([span] * count for span, count in block.spans))
        for heading, lines in block.sections:
            columns = (
                [f"{span} {column}" for span, column in zip(spans, block.columns, strict=True)]
                if spans
                else block.columns
            )
            rows = [["", *columns], *([["", *block.under]] if any(block.under) else []), *map(_markdown_line, lines)]
            parts += [*([f"**{heading}**"] if heading else []), _aligned(rows)]
    return "\n\n".join([*parts, *(note.replace("*", "\\*") for note in table.notes)]) + "\n"


def _markdown_line(line: Line) -> list[str]:
    name = line.name if line.kind == "ours" else f"  *{line.name}*"
    return [name, *(IN_MARKDOWN.get(cell.rank, "{}").format(cell.text) for cell in line.cells)]


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[rows[0][0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(rows[0][1:], widths[1:], strict=True))]]
    lines.append(["-" * widths[0], *(f"{'-' * (width - 1)}:" for width in widths[1:])])
    for first, *cells in rows[1:]:
        lines.append([first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(cells, widths[1:], strict=True))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# ------------------------------------------------------------------------------------------------------- LaTeX


def to_latex_document(tables: Sequence[PaperTable]) -> str:
    """All tables; a comment names the packages they need."""
    return "% \\usepackage{booktabs,graphicx}\n\n" + "\n".join(map(_latex, tables))


def _latex(table: PaperTable) -> str:
    lines = [r"\begin{table*}[t]", r"\small\centering", r"\resizebox{\textwidth}{!}{%"]
    width = len(table.blocks[0].columns)
    groups = "|".join("c" * count for _, count in table.blocks[0].spans) or "c" * width
    lines += [rf"\begin{{tabular}}{{l|{groups}}}", r"\toprule"]
    for number, block in enumerate(table.blocks):
        lines += [*([r"\midrule"] if number else []), *_latex_block(block)]
    caption = to_latex(f"{table.title}. {' '.join(table.notes)}")
    lines += [
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:paper:{table.number}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_block(block: Block) -> list[str]:
    lines = []
    if block.spans:
        spans = [rf"\multicolumn{{{count}}}{{c}}{{{to_latex(span)}}}" for span, count in block.spans]
        lines.append(_latex_row(["", *spans]))
    lines.append(_latex_row(["", *(rf"\textbf{{{to_latex(column)}}}" for column in block.columns)]))
    if any(block.under):
        lines.append(_latex_row(["", *map(to_latex, block.under)]))
    for heading, section in block.sections:
        lines.append(r"\midrule")
        if heading:
            lines.append(_latex_row([rf"\multicolumn{{{len(block.columns) + 1}}}{{l}}{{{to_latex(heading)}}}"]))
        for line in section:
            name = ("" if line.kind == "ours" else r"\quad ") + _minor(line, Cell(line.name))
            lines.append(_latex_row([name, *(_minor(line, cell) for cell in line.cells)]))
    return lines


def _minor(line: Line, cell: Cell) -> str:
    text = IN_LATEX.get(cell.rank, "{}").format(to_latex(cell.text))
    return MINOR[line.kind].format(text) if text else ""


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


# -------------------------------------------------------------------------------------------------------- HTML

STYLE = """\
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 92rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; border-top: 2px solid; border-bottom: 2px solid; margin: .6rem 0 }
th, td { padding: .12rem .55rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left }
thead th, tr.heading th { border-bottom: 1px solid #999 }
tr.heading th { padding-top: .5rem; font-weight: 600 }
tr.paper { color: #666; font-style: italic } tr.difference { color: #333; font-size: .8em }
tr.paper td:first-child, tr.difference td:first-child { padding-left: 1.6rem }
.scroll { overflow-x: auto } .note { color: #555; font-size: .85em; max-width: 60rem } img { max-width: 100% }
figure { margin: 1rem 0 2rem }
"""


def to_html(tables: Sequence[PaperTable], figures: Mapping[str, str], warnings: Sequence[str] = ()) -> str:
    """A page with all tables and figures; `figures` maps addresses of pictures to their captions."""
    parts = [
        "<h1>Results beside those of the paper</h1>",
        *([_html_warnings(warnings)] if warnings else []),
    ]
    parts += map(_html, tables)
    parts += [
        f'<figure><img src="{escape(address)}" alt=""><figcaption class="note">{escape(caption)}</figcaption></figure>'
        for address, caption in figures.items()
    ]
    head = f'<meta charset="utf-8"><title>Paper tables</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _html_warnings(warnings: Sequence[str]) -> str:
    """Folded: every row with other settings than ERM has some, so a whole grid has more lines than its tables."""
    items = "".join(f"<li>{escape(each)}</li>" for each in warnings)
    return f'<details class="note"><summary>{counted(len(warnings), "warning")}</summary><ul>{items}</ul></details>'


def _html(table: PaperTable) -> str:
    blocks = "\n".join(f'<div class="scroll"><table>{_html_block(block)}</table></div>' for block in table.blocks)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return f"<h2>Table {table.number}</h2>\n<p>{escape(table.title)}</p>\n{blocks}\n{notes}"


def _html_block(block: Block) -> str:
    head = []
    if block.spans:
        spans = "".join(
            f'<th colspan="{count}" style="text-align:center">{escape(span)}</th>' for span, count in block.spans
        )
        head.append(f"<tr><th></th>{spans}</tr>")
    for texts in (block.columns, block.under) if any(block.under) else (block.columns,):
        head.append("<tr><th></th>" + "".join(f"<th>{escape(text)}</th>" for text in texts) + "</tr>")
    body = []
    for heading, lines in block.sections:
        if heading:
            body.append(f'<tr class="heading"><th colspan="{len(block.columns) + 1}">{escape(heading)}</th></tr>')
        for line in lines:
            cells = "".join(f"<td>{_html_cell(cell)}</td>" for cell in line.cells)
            body.append(f'<tr class="{line.kind}"><td>{escape(line.name)}</td>{cells}</tr>')
    return f"<thead>{''.join(head)}</thead><tbody>{''.join(body)}</tbody>"


def _html_cell(cell: Cell) -> str:
    """An interval goes to a line of its own, which makes tables narrower."""
    return IN_HTML.get(cell.rank, "{}").format(escape(cell.text).replace(" [", "<br>["))
