"""The demo: from raw text to a store on the embedded corpus, and what each strategy does on the sizes of the paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from evenglot.balance import create
from evenglot.config import load_config
from evenglot.corpus.check import check
from evenglot.corpus.prepare import prepare
from evenglot.corpus.recipes import recipe_config
from evenglot.progress import Bars
from evenglot.report.data_tables import check_tables, store_table, vocabulary_table
from evenglot.report.figures import draw_mixtures
from evenglot.report.tables import table
from evenglot.simulate import Simulation, learning_curves, simulate

# TED talks, related languages to English (Zhou, Levy et al. 2021): sentence pairs, and the losses of its ERM model in
# nats per target token, which are chi-IBR's baselines.
TED_SIZES = {
    "bel": 4509,
    "aze": 5946,
    "glg": 10017,
    "slk": 61470,
    "ces": 103093,
    "tur": 182470,
    "por": 184755,
    "rus": 208458,
}
TED_BASELINE = {
    "bel": 1.893,
    "aze": 2.111,
    "glg": 2.006,
    "slk": 2.155,
    "ces": 2.23,
    "tur": 2.392,
    "por": 2.037,
    "rus": 2.472,
}

STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "ERM (tau = 1)": ("proportional", {}),
    "tau = 5": ("temperature", {"tau": 5}),
    "UniMax, 3 an epoch": ("unimax", {"passes": 3}),
    "cooldown, tau 5 to 1": ("schedule", {"points": {0: "tau:5", 15: "data"}, "interpolate": True}),
    "chi-IBR, rho = 0.05": ("chi-ibr", {"rho": 0.05, "baseline": TED_BASELINE}),
    "chi-IBR, no baseline": ("chi-ibr", {"rho": 0.05}),
    "CVaR-IBR, alpha = 0.5": ("cvar-ibr", {"baseline": TED_BASELINE, "floor": 0.2}),
    "Group DRO, reweights": ("group-dro", {"baseline": TED_BASELINE}),
    "chi-PD, reweights": ("chi-pd", {"rho": 0.05, "baseline": TED_BASELINE}),
}


def run_demo(out: Path, console: Console | None = None) -> None:
    """Everything that there is to see so far; training will take the place of the dry run."""
    console = console or Console()
    prepare_demo_corpus(out, console)
    dry_run(out, console)


def prepare_demo_corpus(out: Path, console: Console) -> None:
    """Check and prepare the corpus inside the package; the store is in `out`."""
    config = load_config(recipe_config("tiny-webui"), [f"store.folder={json.dumps(str((out / 'store').resolve()))}"])
    console.print(
        "\nFive languages of software messages, inside the package, translated to English: `evenglot check`, then "
        "`evenglot prepare`.\n",
        highlight=False,
    )
    console.print(*check_tables(check(config, Bars())))
    store = prepare(config, Bars())
    console.print(store_table(store), vocabulary_table(store))
    console.print(f"Store: {store.folder}", highlight=False, soft_wrap=True, markup=False)


def dry_run(out: Path, console: Console, intervals: int = 20) -> None:
    """Simulate every strategy on the TED sizes, print two tables, save a picture in `out`."""
    losses = learning_curves(TED_SIZES, TED_BASELINE)
    simulations = {
        label: simulate(create(name, TED_SIZES, **options), losses, intervals)
        for label, (name, options) in STRATEGIES.items()
    }
    console.print(
        f"\nA dry run on the sizes of the TED corpus: {len(TED_SIZES)} languages, {sum(TED_SIZES.values()):,} pairs, "
        f"{intervals} epochs.\nThe losses are scripted (each language learns with the pairs it is shown): no model is "
        "trained yet.\n",
        highlight=False,
    )
    for part in demo_tables(simulations, intervals):
        console.print(part, "")
    picture = out / "mixtures.png"
    try:
        draw_mixtures(
            simulations, picture, "Mixture q of the languages, epoch by epoch (dashed: their share of the corpus)"
        )
    except ModuleNotFoundError:
        console.print('No picture: matplotlib is not installed. Try: pip install "evenglot\\[figures]"')
    else:
        console.print(f"Picture: {picture}", highlight=False, soft_wrap=True)


def demo_tables(simulations: dict[str, Simulation], intervals: int) -> list[object]:
    """How each strategy ends, and how often it has shown each corpus."""
    columns = sorted(TED_SIZES, key=TED_SIZES.__getitem__)
    data = {"pairs, in thousands": [f"{TED_SIZES[name] / 1000:.0f}" for name in columns]}
    total = sum(TED_SIZES.values())
    shares = {"share of the corpus": [f"{100 * TED_SIZES[name] / total:.1f}" for name in columns]}
    shares |= {k: [f"{100 * s.mixtures[-1][name]:.1f}" for name in columns] for k, s in simulations.items()}
    passes = {k: [f"{s.passes[name]:.0f}" for name in columns] for k, s in simulations.items()}
    return [
        table("Mixture q in the last epoch, in %", data | shares, columns),
        table(f"Passes over each corpus in {intervals} epochs", passes, columns),
    ]
