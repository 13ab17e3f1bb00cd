"""Tables of the docs, generated from the stored results and the paper's numbers: python -m experiments.tables

Rewrites the text between `<!-- NAME -->` and `<!-- end -->` in README.md, docs/results.md and the README of each
experiment.
NAME is a grid file of an experiment (related/table-a-any-en), one of `KINDS` with the directions
(related/lengths-any-en), or one of `WHOLE`, which cover several experiments.
"""

from __future__ import annotations

import re

from experiments.courses import bias, lengths, noise
from experiments.kept import HERE
from experiments.regret import by_setting, everything, goals, means
from experiments.scores import beside_the_paper, duels, fresh, languages, passes
from experiments.wording import markdown

PAGES = (HERE.parent / "README.md", HERE.parent / "docs" / "results.md", *sorted(HERE.glob("*/README.md")))
BLOCK = re.compile(r"(?P<open><!-- (?P<name>\S+/\S+) -->\n)(?:(?!<!-- ).)*(?P<close><!-- end -->)", re.DOTALL)
WHOLE = {"all/duels": duels, "all/fresh": fresh, "default/means": means}
# default/regret-chrf, default/runs-related-any-en-4, default/goals-fade75to25
REGRET = {"regret": by_setting, "runs": everything, "goals": goals}
KINDS = {"languages": languages, "passes": passes, "lengths": lengths, "noise": noise, "bias": bias}


def main() -> None:
    """Rewrite the tables in all pages."""
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


def renewed(text: str) -> str:
    """The text with all of its tables regenerated."""
    return BLOCK.sub(lambda found: f"{found['open']}{_table(found['name'])}\n{found['close']}", text)


def _table(name: str) -> str:
    if name in WHOLE:
        return markdown(*WHOLE[name]())
    folder, _, table = name.partition("/")
    kind, _, direction = table.partition("-")
    if kind in REGRET:
        return markdown(*REGRET[kind](direction))
    if kind in KINDS:
        return markdown(*KINDS[kind](HERE / folder, direction))
    grid, *direction_parts = table.rsplit("-", 2)
    return markdown(*beside_the_paper(HERE / folder, grid, "-".join(direction_parts)))


if __name__ == "__main__":
    main()
