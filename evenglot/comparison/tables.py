"""Tables of `evenglot compare`, built from the JSON of a comparison (the same that files and reports contain)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from evenglot.directions import parse, shared_side
from evenglot.files import write_text
from evenglot.tables import Cell, Sheet, ranked
from evenglot.wording import counted, duration

ACROSS = 10  # with more languages than this, languages are rows instead of columns
FREEDOM_TO_SEE_HARM = 4  # with fewer degrees of freedom the t-test has so little power that harm is easily missed
Json = Mapping[str, Any]


def show(comparison: Json, form: Literal["text", "markdown", "latex", "json"], name: str | None = None) -> None:
    """Print a comparison; `name` is the name of a set of directions, used as a heading."""
    printed = {"markdown": to_markdown, "latex": to_latex, "json": to_json}
    if form in printed:
        heading = f"## {name}\n\n" if name and form == "markdown" else ""
        print(heading + printed[form](comparison))
        return
    console = Console()
    if name:
        console.rule(name, align="left")
    told: set[str] = set()
    for sheet in sheets(comparison):
        new = replace(sheet, notes=tuple(note for note in sheet.notes if note not in told))
        told.update(sheet.notes)
        for part in new.fitted(console.width):
            console.print(part.to_rich())
    for line in verdict(comparison):
        console.print(line, highlight=False, markup=False)


def write_comparison(comparison: Json, folder: Path) -> None:
    """Write comparison.json, comparison.md and comparison.tex."""
    folder.mkdir(parents=True, exist_ok=True)
    for ending, made in {"md": to_markdown, "tex": to_latex, "json": to_json}.items():
        write_text(folder / f"comparison.{ending}", made(comparison) + "\n")


def to_json(comparison: Json) -> str:
    """The complete comparison as JSON."""
    return json.dumps(comparison, indent=1, ensure_ascii=False, allow_nan=False)


def sheets(comparison: Json) -> list[Sheet]:
    """For each metric: scores, differences and a summary; then validation losses and training cost."""
    metrics = comparison["metrics"]
    found = []
    for metric in metrics:
        found.append(scores_sheet(comparison, metric))
        if len(comparison["rows"]) > 1:
            found += [_differences(comparison, metric), _summary(comparison, metric)]
    return [*found, _validation(comparison), _cost(comparison)]


def verdict(comparison: Json, metric: str | None = None) -> list[str]:
    """One sentence for each row against the reference, by default in the primary metric."""
    metrics = comparison["metrics"]
    chosen = metric or comparison["primary"]
    label, digits = metrics[chosen]["label"], metrics[chosen]["digits"]
    better = 1 if metrics[chosen]["higher_is_better"] else -1
    lines = []
    for row in comparison["rows"]:
        if row["difference"] is None:
            continue
        found = row["difference"][chosen]
        mean = found["mean"]
        low, high = sorted(better * end for end in mean["interval"])
        word = "better" if low > 0 else "worse" if high < 0 else "no significant difference"
        lines.append(
            f"{row['name']} against {comparison['reference']}, mean {label}: {word} "
            f"({_signed(mean['difference'], digits)} [{_interval(mean['interval'], digits)}]); significantly better in "
            f"{found['wins']}, worse in {found['losses']} of {counted(len(comparison['directions']), 'direction')}"
            + (f" ({', '.join(found['harmed'])})" if found["harmed"] else "")
            + "."
            + ("" if row["freedom"] else " One seed is no evidence about training: another may reverse this.")
        )
    return lines


def to_markdown(comparison: Json) -> str:
    """Verdicts, warnings, tables and metric signatures."""
    text = [sheet.to_markdown() for sheet in sheets(comparison)]
    said = [*verdict(comparison), *_warnings(comparison)]
    return "\n".join([*(["".join(f"- {line}\n" for line in said)] if said else []), *text, _signatures(comparison)])


def to_latex(comparison: Json) -> str:
    """The tables; comments name the required packages and the warnings."""
    comments = ["\\usepackage{booktabs}", *_warnings(comparison)]
    heading = "".join(f"% {comment}\n" for comment in comments)
    return heading + "\n" + "\n".join(sheet.to_latex() for sheet in sheets(comparison))


def _warnings(comparison: Json) -> list[str]:
    return [f"Warning: {warning['message']}." for warning in comparison["warnings"]]


def _signatures(comparison: Json) -> str:
    """Signatures of the compared metrics."""
    signature = comparison["signature"]
    return "".join(
        f"{about['label']}: `{signature[key]}`  \n" for key, about in comparison["metrics"].items() if key in signature
    )


def _languages(comparison: Json) -> dict[str, str]:
    """Heading of each direction: its language that is not shared by all. Smallest corpus first, as in the paper."""
    names = list(reversed(comparison["directions"]))
    directions = [parse(name) for name in names]
    shared = shared_side(directions)
    if shared is None or len(names) == 1:
        return {name: name for name in names}
    return {d.name: d.src if shared == "target" else d.tgt for d in directions}


def _sheet(
    comparison: Json,
    title: str,
    columns: Mapping[str, Mapping[str, Cell]],
    notes: Sequence[str],
    total: Sequence[str] = (),
) -> Sheet:
    """Strategies as rows, languages as columns (transposed for many languages); `total` columns come last."""
    languages = _languages(comparison)
    pairs = {name: facts["pairs"] for name, facts in comparison["directions"].items()}
    shares = {name: f"{pairs[name] / sum(pairs.values()):.3f}" for name in languages}
    heads = {**languages, **{name: name for name in total}}
    if len(languages) <= ACROSS:
        return Sheet(
            title,
            "Strategy",
            tuple(heads.values()),
            tuple((row, tuple(cells[name] for name in heads)) for row, cells in columns.items()),
            under=tuple(shares.get(name, "") for name in heads),
            notes=tuple(notes),
        )
    return Sheet(
        title,
        "Language",
        ("share", *columns),
        tuple(
            (heading, (Cell(shares.get(name, "")), *(cells[name] for cells in columns.values())))
            for name, heading in heads.items()
        ),
        notes=tuple(notes),
    )


def _by_row(columns: Mapping[str, Mapping[str, Cell]], rows: Sequence[str]) -> dict[str, dict[str, Cell]]:
    return {row: {name: cells[row] for name, cells in columns.items()} for row in rows}


def scores_sheet(comparison: Json, metric: str) -> Sheet:
    """Scores of all languages in one metric, laid out as in the paper."""
    about, rows = comparison["metrics"][metric], comparison["rows"]
    columns = {}
    for name in [*_languages(comparison), "Avg"]:
        of_rows = {
            row["name"]: row["scores"][metric]["mean"] if name == "Avg" else row["scores"][metric]["directions"][name]
            for row in rows
        }
        columns[name] = ranked(
            {row: means["mean"] for row, means in of_rows.items()},
            lambda row, of_rows=of_rows: _with_spread(of_rows[row], about["digits"]),  # type: ignore[misc]
            about["higher_is_better"],
        )
    notes = [f"Next to each language: its share of the training pairs. {_seeds(comparison)}"]
    title = f"{about['label']} ({comparison['split']})"
    return _sheet(comparison, title, _by_row(columns, [row["name"] for row in rows]), notes, ["Avg"])


def _seeds(comparison: Json) -> str:
    numbers = sorted({len(row["seeds"]) for row in comparison["rows"]})
    if numbers == [1]:
        return "One seed."
    return f"Mean of {' to '.join(map(str, dict.fromkeys([numbers[0], numbers[-1]])))} seeds ± standard deviation."


def _with_spread(means: Json, digits: int) -> str:
    spread = "" if means["sd"] is None else f" ±{means['sd']:.{digits}f}"
    return f"{means['mean']:.{digits}f}{spread}"


def _differences(comparison: Json, metric: str) -> Sheet:
    about = comparison["metrics"][metric]
    columns: dict[str, dict[str, Cell]] = {}
    for row in comparison["rows"]:
        if row["difference"] is None:
            continue
        found = row["difference"][metric]
        cells = {
            name: Cell(_signed(d["difference"], about["digits"]) + ("*" if d["p_holm"] < 0.05 else ""))
            for name, d in found["directions"].items()
        }
        columns[row["name"]] = {**cells, "Avg": Cell(_signed(found["mean"]["difference"], about["digits"]))}
    notes = [
        f"* significant (p < .05, paired bootstrap, {comparison['samples']} samples, Holm correction over languages)."
    ]
    title = f"{about['label']}: difference to {comparison['reference']}"
    return _sheet(comparison, title, columns, notes, ["Avg"])


def _summary(comparison: Json, metric: str) -> Sheet:
    about = comparison["metrics"][metric]
    digits = about["digits"]
    rows = []
    for row in comparison["rows"]:
        scores, found = row["scores"][metric], (row["difference"] or {}).get(metric)
        cells = [_number(scores[key], digits) for key in ("mean", "low_resource", "high_resource", "worst")]
        cells[-1] += f" {_short(comparison, scores['worst']['direction'])}"
        if found is None:
            cells += ["", "", ""]
        else:
            cells += [
                f"{_signed(found['mean']['difference'], digits)} [{_interval(found['mean']['interval'], digits)}]",
                f"{found['wins']}/{found['ties']}/{found['losses']}",
                ", ".join(_short(comparison, name) for name in found["harmed"]) or "none",
            ]
        rows.append((row["name"], tuple(Cell(text) for text in cells)))
    worst = "highest validation loss" if comparison["worst_by"] == "validation" else "worst test score"
    notes = [
        f"low, high: mean over the smaller and the larger half of the corpora; worst: language with the {worst}.",
        f"Δ mean: difference to {comparison['reference']} with 95 % confidence interval; w/t/l: number of languages "
        "significantly better / not significantly different / significantly worse; harmed: the significantly worse "
        "ones.",
    ]
    if any(0 < (row["freedom"] or 0) < FREEDOM_TO_SEE_HARM for row in comparison["rows"]):
        notes.append(
            "With so few runs only large differences are significant: `none` does not prove that no language is harmed."
        )
    columns = ("mean", "low", "high", "worst", "Δ mean", "w/t/l", "harmed")
    return Sheet(f"{about['label']}: summary", "Strategy", columns, tuple(rows), notes=tuple(notes))


def _short(comparison: Json, name: str) -> str:
    return _languages(comparison)[name]


def _validation(comparison: Json) -> Sheet:
    rows = {row["name"]: row["validation"] for row in comparison["rows"]}
    columns = {}
    for name in _languages(comparison):
        values = {row: losses[name] for row, losses in rows.items()}
        columns[name] = ranked(values, lambda row, values=values: f"{values[row]:.4f}", False)  # type: ignore[misc]
    means = {row: _mean(list(losses.values())) for row, losses in rows.items()}
    columns["Avg"] = ranked(means, lambda row: f"{means[row]:.4f}", False)
    title = "Validation loss per character (with label smoothing, as in training)"
    return _sheet(comparison, title, _by_row(columns, list(rows)), ["Best checkpoint; lower is better."], ["Avg"])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _cost(comparison: Json) -> Sheet:
    rows = []
    for row in comparison["rows"]:
        cost = row["cost"]
        total = cost["seconds"] + cost["reference_seconds"]
        texts = [
            str(len(row["seeds"])),
            f"{cost['updates']:,.0f}",
            f"{cost['reference_updates']:,.0f}",
            f"{cost['tokens'] / 1e6:,.1f}",
            duration(cost["seconds"]),
            duration(total),
            f"{min(row['passes'].values()):.1f} to {max(row['passes'].values()):.1f}",
        ]
        rows.append((row["name"], tuple(Cell(text) for text in texts)))
    columns = ("seeds", "updates", "+ reference", "M tokens", "time", "total time", "passes")
    notes = (
        "Per run, mean over seeds. + reference, total time: including the reference run that the baselines come from. "
        "passes: over the least and the most frequently sampled corpus.",
    )
    return Sheet("Training cost", "Strategy", columns, tuple(rows), notes=notes)


def _number(means: Json | None, digits: int) -> str:
    return "-" if means is None else f"{means['mean']:.{digits}f}"


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")  # + 0.0: no negative zero


def _interval(ends: Sequence[float], digits: int) -> str:
    return ", ".join(_signed(end, digits) for end in ends)
