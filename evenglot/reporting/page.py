"""The report as one HTML file below a megabyte, without network access (enforced by its content security policy)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from evenglot.files import write_text
from evenglot.reporting.page_data import Data, page_data, thinned
from evenglot.runs.run import Run
from evenglot.web import content_policy

PARTS = Path(__file__).with_name("page")  # template, styles and scripts
SCRIPTS = (
    "uPlot.iife.min.js",
    "tools.js",
    "tables.js",
    "languages.js",
    "charts.js",
    "comparison.js",
    "comparison_tables.js",
    "comparison_pictures.js",
    "simplex.js",
    "sections.js",
    "page.js",
)
STYLES = ("uPlot.min.css", "page.css")
LARGEST = 1_000_000  # bytes
# (points per curve, characters per text): the first that fits is used. 100 languages fit with the third.
FITS = ((300, 600), (150, 400), (100, 250), (60, 160), (40, 120), (24, 80), (24, 0), (8, 0))


@dataclass(frozen=True)
class Page:
    """The page without its data."""

    script: str
    style: str

    def render(self, data: Data) -> str:
        """The complete HTML, with the data thinned until they fit."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(PARTS), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
        )
        names = [run["name"] for run in data["runs"]]
        return environment.get_template("page.html").render(
            title=", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
            policy=self.policy,
            style=Markup(self.style),
            script=Markup(self.script),
            data=Markup(embedded(fitted(data, LARGEST - len((self.script + self.style).encode()) - 20_000))),
            summaries=[(run["name"], run.get("summary", [run.get("message")])) for run in data["runs"]],
        )

    @property
    def policy(self) -> str:
        """Content security policy: only this script and style may run; data are fetched from the same origin only."""
        return content_policy(self.script, self.style)


@cache
def page() -> Page:
    """The page, assembled from its files."""
    licence = (PARTS / "uPlot.LICENSE").read_text(encoding="utf-8").strip()
    scripts = [(PARTS / name).read_text(encoding="utf-8").strip() for name in SCRIPTS]
    styles = [(PARTS / name).read_text(encoding="utf-8").strip() for name in STYLES]
    own = "\n\n".join(scripts[1:])
    return Page(
        script=f"/* uPlot\n{licence}\n*/\n{scripts[0]}\n(() => {{\n{own}\n}})();\n", style="\n".join(styles) + "\n"
    )


def fitted(data: Data, size: int) -> Data:
    """The data, thinned to fit into `size` bytes; the smallest version if none fits."""
    for points, characters in FITS:
        found = thinned(data, points=points, characters=characters)
        if len(embedded(found).encode()) <= size:
            break
    return found


def embedded(data: Any) -> str:
    """JSON that is safe inside a script element (no `<`, `>` or `&`)."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def write_report(
    runs: Sequence[Run],
    out: Path,
    *,
    comparison: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    warn: Callable[[str], object] | None = None,
) -> Path:
    """Write the report of these runs, labelled with `names` or with their folder names.

    The file is replaced atomically. Calls `warn` if stored translations are missing or have changed and, of a single
    run, if it has no scores or older ones than its best checkpoint (of several, the comparison tells).
    """
    if not runs:
        raise ValueError("report: expected at least one run")
    data = page_data(runs, names=names, comparison=comparison)
    told = {"translations", "scores"} if len(runs) == 1 else {"translations"}
    for run, about in zip(runs, data["runs"], strict=True):
        for warning in about["warnings"]:
            if warn is not None and warning["kind"] in told:
                warn(f"{run.folder}: {warning['text']}")
    html = page().render(data)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, html)
    return out
