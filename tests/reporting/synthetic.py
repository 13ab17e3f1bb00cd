"""Logs and comparisons of runs that never were: as many directions and updates as a test wants."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from evenglot.reporting.watch import listen
from evenglot.runs.run import Run
from evenglot.scoring.sentence_statistics import SentenceStatistics

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def direction_names(count: int) -> list[str]:
    return [f"{LETTERS[i // 26 % 26]}{LETTERS[i % 26]}{LETTERS[(7 * i) % 26]}-en" for i in range(count)]


def write_run(
    folder: Path,
    directions: int = 3,
    updates: int = 2000,
    log_every: int = 50,
    *,
    done: bool = True,
    baseline=True,
    pairs: dict[str, int] | None = None,
) -> Run:
    """A run folder with a log of that size; losses fall, shares move, small corpora overfit a little."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(directions)
    names = direction_names(directions) if pairs is None else list(pairs)
    pairs = pairs or {name: round(300_000 / (1 + i) ** 1.3) + 200 for i, name in enumerate(names)}
    directions = len(names)
    p = {name: pairs[name] / sum(pairs.values()) for name in names}
    goal = {name: 2.3 + 1.2 * i / directions + 0.3 * random.random() for i, name in enumerate(names)}
    events = [
        {
            "event": "config", "step": 0, "time": "2026-01-01T00:00:00+00:00", "strategy": "chi-ibr",
            "evenglot": "0.1.0", "updates": updates, "parameters": 12_345_678, "device": "cpu", "precision": "float32",
            "processes": 1, "threads": 2, "tokens_per_update": 4096, "updates_per_interval": updates // 20,
            "config": {"balance": {"strategy": "chi-ibr", "rho": 0.1}, "model": {"size": "base"}, "seed": 7},
            "directions": {name: {"pairs": pairs[name], "p": p[name], "q": p[name]} for name in names},
        }
    ]  # fmt: skip
    q = dict(p)
    losses = dict.fromkeys(names, 8.0)
    each = max(log_every, updates // 20 // log_every * log_every)
    for step in range(0, updates + 1, log_every):
        if step % each == 0:
            if step:
                bases = goal if baseline else dict.fromkeys(names)
                events.append({"event": "balance", "step": step, "losses": losses, "baseline": bases})
                rise = {name: max(0.0, 0.4 * step / updates - 0.2) * (pairs[name] < 2000) for name in names}
                valid = {name: losses[name] + 0.15 + rise[name] for name in names}
                chrf = {name: 80 * math.exp(-valid[name] / 3) for name in names}
                events.append(
                    {"event": "validation", "step": step, "loss": valid, "chrf": chrf}
                    | {"loss_per_character": {name: loss / 4 for name, loss in valid.items()}, "best": True}
                )
                weights = {name: p[name] ** (1 - 0.5 * step / updates) * random.uniform(0.7, 1.4) for name in names}
                q = {name: weight / sum(weights.values()) for name, weight in weights.items()}
            if step < updates:
                drawn = {name: round(q[name] * sum(pairs.values())) for name in names}
                events.append(
                    {"event": "interval", "step": step, "mixture": q, "target": q, "pairs": drawn, "updates": each}
                )
        if step:
            fall = math.exp(-4 * step / updates)
            losses = {name: goal[name] + (8 - goal[name]) * fall + 0.05 * random.normal() for name in names}
            events.append(
                {"event": "step", "step": step, "losses": losses, "tokens": 3500 * step, "seconds": 0.5 * step}
                | {"total_updates": updates}
            )
    last = names[-1]
    message = f"{last}: validation loss 4.000 has risen from 3.500 while training loss falls (2.000), after 30 passes"
    events.append({"event": "warning", "step": updates, "message": message})
    if done:
        events.append(
            {"event": "done", "step": updates, "reason": "updates", "tokens": 3500 * updates, "seconds": 1234.5}
        )
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (folder / "config.yaml").write_text("seed: 7\n")
    return Run(folder)


def write_scores(run: Run, off_target: float = 0.01) -> None:
    events = [json.loads(line) for line in run.log_file.read_text().splitlines()]
    names = list(events[0]["directions"])
    rows = {
        name: {"bleu": 30.0 - 20 * i / len(names), "chrf": 50.0 - 25 * i / len(names), "lines": 500}
        | {"off_target": off_target}
        for i, name in enumerate(names)
    }
    macro = {key: sum(row[key] for row in rows.values()) / len(rows) for key in ("bleu", "chrf")}
    worst = {"direction": names[-1], **rows[names[-1]]}
    halves = {"low_resource": {"directions": names[1:], **macro}, "high_resource": {"directions": names[:1], **macro}}
    content = {"split": "test", "signature": {"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nw:2"}, "directions": rows}
    (run.folder / "scores.json").write_text(json.dumps({**content, "macro": macro, "worst": worst, **halves}))


def write_statistics(run: Run, level: float = 1.0, references: str = "these") -> None:
    """What a comparison is made from: of 40 sentences, losses around a level."""
    names = list(json.loads(run.log_file.read_text().splitlines()[0])["directions"])
    random = np.random.default_rng(5)
    counts = {name: {"loss": np.stack([random.normal(30 * level, 1, 40), np.full(40, 30.0)], axis=1)} for name in names}
    SentenceStatistics(counts, dict.fromkeys(names, references)).save(run.folder / "statistics.npz")


def comparison(directions: int = 8, strategies: int = 6) -> dict:
    """As comparison/compare.py makes it."""
    random = np.random.default_rng(3)
    names = direction_names(directions)
    metrics = {
        "bleu": {"label": "BLEU", "higher_is_better": True, "digits": 2, "from_text": True},
        "chrf": {"label": "chrF++", "higher_is_better": True, "digits": 2, "from_text": True},
        "loss": {"label": "loss per character", "higher_is_better": False, "digits": 4, "from_text": False},
    }
    taus = {"erm": 1.0, "temperature-2": 2.0, "temperature-5": 5.0, "uniform": "inf"}
    chosen = [*taus, "chi-ibr", "group-dro", *(f"other-{i}" for i in range(strategies))][:strategies]
    half = directions // 2
    rows = []
    for number, strategy in enumerate(chosen):
        scores, differences = {}, {}
        for key, metric in metrics.items():
            unit = 1.0 if metric["higher_is_better"] else -0.03
            start = {"bleu": 20.0, "chrf": 40.0, "loss": 1.3}[key]
            level = {n: start - unit * 8 * i / directions for i, n in enumerate(names)}
            gain = {n: unit * (number * (i / directions - 0.35) + random.normal(0, 0.4)) for i, n in enumerate(names)}
            mine = {n: level[n] + (gain[n] if number else 0) for n in names}

            def part(some, mine=mine):
                return {"mean": float(np.mean([mine[n] for n in some])), "sd": 0.12}

            worst = (min if metric["higher_is_better"] else max)(mine, key=mine.__getitem__)
            scores[key] = {
                "directions": {n: {"mean": value, "sd": 0.2} for n, value in mine.items()},
                "mean": part(names), "worst": {"direction": worst, **part([worst])},
                "low_resource": part(names[-half:]), "high_resource": part(names[:half]),
            }  # fmt: skip

            def difference(some, gain=gain, unit=unit):
                value = float(np.mean([gain[n] for n in some]))
                reach = abs(unit) * 0.7 / len(some) ** 0.5
                p = 0.01 if abs(value) > reach else 0.4
                return {"difference": value, "interval": [value - reach, value + reach], "p": p, "p_holm": p}

            harmed = [n for n in names if gain[n] / unit < -0.7]
            won = sum(gain[n] / unit > 0.7 for n in names)
            differences[key] = {
                "directions": {n: difference([n]) for n in names}, "mean": difference(names),
                "worst": difference(names[-1:]), "low_resource": difference(names[-half:]),
                "high_resource": difference(names[:half]), "wins": won, "losses": len(harmed),
                "ties": directions - won - len(harmed), "harmed": harmed,
            }  # fmt: skip
        needs = number >= 4
        rows.append({
            "name": strategy, "strategy": strategy, "tau": taus.get(strategy), "seeds": [1, 2, 3], "freedom": 2,
            "runs": ["a"],
            "validation": {n: None if (number, i) == (1, 0) else 0.9 + 0.4 * i / directions - 0.01 * number
                           for i, n in enumerate(names)},
            "passes": dict.fromkeys(names, 2.5), "scores": scores, "difference": differences if number else None,
            "cost": {"updates": 1500, "tokens": 2_600_000, "seconds": 512.3, "reference_updates": 1500 * needs,
                     "reference_seconds": 500.0 * needs},
        })  # fmt: skip
    sizes = {n: {"pairs": 30_000 // (i + 1), "resource": "high" if i < half else "low"} for i, n in enumerate(names)}
    signature = {"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nw:2"}
    content = {"split": "test", "reference": "erm", "samples": 1000, "worst_by": "validation"}
    message = "mild: 1,500 updates, erm 1,400: not the same amount of training"
    content["warnings"] = [{"kind": "different-updates", "message": message, "rows": ["mild", "erm"]}]
    content |= {"signature": signature, "metrics": metrics, "primary": "chrf"}
    return {**content, "directions": sizes, "rows": rows}


@contextmanager
def watching(*runs: Run) -> Iterator[str]:
    """The address of the live page of these runs."""
    with listen(runs, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()
