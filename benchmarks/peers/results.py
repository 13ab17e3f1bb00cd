"""From the stamps of training processes to numbers, and from numbers to tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OURS = "evenglot"
MEGABYTE = 1e6
COLUMNS = (
    "toolkit",
    "target tokens per CPU second",
    "evenglot ÷ toolkit",
    "target tokens per update",
    "source per target token",
    "padding",
    "start-up, CPU s",
    "peak memory, MB",
)


@dataclass(frozen=True)
class Run:
    """What one training process has cost. Tokens are those of sentences, including </s>, without padding."""

    tokens_per_second: float  # target tokens per second of CPU time, after the warm-up
    tokens_per_update: float  # target tokens
    padding: float  # share of all tokens of both sides
    start_up: float  # CPU seconds before the first update
    memory: float  # MB
    source_per_target: float | None = None  # tokens; shows how alike the samples of two toolkits are

    @staticmethod
    def of(result: Mapping[str, Any], warmup: int) -> Run:
        """From the file of a `Meter`: n + 1 stamps of n updates, of which the first `warmup` do not count."""
        stamps = result["stamps"]
        if warmup >= len(stamps) - 1:
            raise ValueError(f"warmup: {warmup} of {len(stamps) - 1} updates leaves nothing to measure")
        measured = stamps[warmup:-1]

        def total(*keys: str) -> float:
            return sum(stamp[key] for stamp in measured for key in keys)

        return Run(
            tokens_per_second=total("target") / (stamps[-1]["cpu"] - stamps[warmup]["cpu"]),
            tokens_per_update=total("target") / len(measured),
            padding=1 - total("source", "target") / total("padded_source", "padded_target"),
            start_up=stamps[0]["cpu"],
            memory=result["memory"] / MEGABYTE,
            source_per_target=total("source") / total("target"),
        )


def spread(values: Sequence[float], form: str) -> str:
    """Median (min to max)."""
    median, least, most = (format(value, form) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({least} to {most})"


def table(case: Mapping[str, Any]) -> str:
    """The Markdown table of a case, as saved in peers.json."""
    settings = "".join(f", evenglot with `{setting}`" for setting in case["set"])
    heading = (
        f"**{case['corpus']}, `{case['size']}`, {case['precision']}**{settings}: {case['repeats']} x {case['updates']} "
        f"updates of {case['tokens']:,} tokens;\n{case['hardware']}, {case['date']}, commit {case['commit']}"
    )
    lines = [heading, "", f"| {' | '.join(COLUMNS)} |", "|:--" + "|--:" * (len(COLUMNS) - 1) + "|"]
    return "\n".join(lines + [_row(each) for each in case["toolkits"]])


def _row(toolkit: Mapping[str, Any]) -> str:
    name = f"{toolkit['title']} {toolkit['version']}"
    if toolkit["failure"]:
        return f"| {name} | {toolkit['failure']} |" + " |" * (len(COLUMNS) - 2)
    runs = [Run(**run) for run in toolkit["runs"]]

    def median(of: Callable[[Run], float], form: str) -> str:
        return format(statistics.median(map(of, runs)), form)

    mixes = [run.source_per_target for run in runs if run.source_per_target is not None]
    cells = [
        name,
        spread([run.tokens_per_second for run in runs], ",.0f"),
        spread(toolkit["ratios"], ".2f") if toolkit["ratios"] else "",
        median(lambda run: run.tokens_per_update, ",.0f"),
        format(statistics.median(mixes), ".2f") if mixes else "",
        median(lambda run: run.padding, ".1%"),
        median(lambda run: run.start_up, ".1f"),
        median(lambda run: run.memory, ",.0f"),
    ]
    return f"| {' | '.join(cells)} |"


def merged(saved: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All cases without those that a newer one replaces: the same hardware, and all toolkits measured again."""

    def key(case: Mapping[str, Any]) -> tuple[bool, str, str, str, str]:
        return case["precision"] != "float32", case["corpus"], case["size"], case["precision"], case["hardware"]

    def toolkits(case: Mapping[str, Any]) -> set[str]:
        return {toolkit["title"] for toolkit in case["toolkits"]}

    every = list(saved)
    for case in new:
        every = [old for old in every if key(old) != key(case) or not toolkits(old) <= toolkits(case)] + [case]
    return sorted(every, key=key)


def replaced(page: str, tables: str) -> str:
    """The page with these tables between its two marks."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"the page needs the marks {START} and {END}")
    return f"{before}{START}\n\n{tables}\n\n{END}{after}"


START, END = "<!-- begin: made by benchmarks.peers -->", "<!-- end: made by benchmarks.peers -->"
