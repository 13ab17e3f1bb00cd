"""Our chi-square best response compared to root finding, bisection and a conic solver.

`python -m benchmarks.best_response` prints the table and writes it to benchmarks/results/. All solvers solve the same
problems in one run, interleaved; times are medians. Our time includes the validation of v; the others skip it.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import cvxpy
import numpy as np
import scipy
from scipy.optimize import brentq

from evenglot.robust import ChiSquareBall

RESULTS = Path(__file__).parent / "results"
SIZES = (8, 100, 10_000, 1_000_000)
RADII = (0.05, 1.0)
REPETITIONS = {8: 301, 100: 301, 10_000: 31, 1_000_000: 7}
CONIC_REPETITIONS = 9
CONIC_LIMIT = 10_000  # groups; at a million CLARABEL needs minutes and gigabytes

TED = np.array([4_509.0, 5_946, 10_017, 61_470, 103_093, 182_470, 184_755, 208_458])  # sentences; rho = 1 binds

Solver = Callable[[], np.ndarray]


def divergence_at(eta: float, p: np.ndarray, v: np.ndarray) -> float:
    lifted = np.maximum(v - eta, 0)
    return 0.5 * ((p @ (lifted * lifted)) / (p @ lifted) ** 2 - 1)


def bracket(p: np.ndarray, v: np.ndarray, rho: float) -> tuple[float, float]:
    """Bounds of eta: from the interior solution (or the smallest v) to just below the largest v."""
    mean = p @ v
    low = min(v.min(), mean - np.sqrt((p @ (v - mean) ** 2) / (2 * rho)))
    return low, v.max() - 1e-12 * (v.max() - low)


def mixture_at(eta: float, p: np.ndarray, v: np.ndarray) -> np.ndarray:
    q = p * np.maximum(v - eta, 0)
    return q / q.sum()


def with_brentq(p: np.ndarray, v: np.ndarray, rho: float) -> np.ndarray:
    low, high = bracket(p, v, rho)
    if divergence_at(high, p, v) <= rho:  # the radius does not bind
        return mixture_at(high, p, v)
    return mixture_at(brentq(lambda eta: divergence_at(eta, p, v) - rho, low - 1e-9, high, xtol=1e-14), p, v)


def with_bisection(p: np.ndarray, v: np.ndarray, rho: float) -> np.ndarray:
    low, high = bracket(p, v, rho)
    for _ in range(100):
        middle = (low + high) / 2
        if divergence_at(middle, p, v) > rho:
            high = middle
        else:
            low = middle
    return mixture_at(low, p, v)


def with_sorting(p: np.ndarray, v: np.ndarray, rho: float) -> np.ndarray:
    """The closed form over all prefixes of the sorted values: the textbook alternative to ours."""
    u = v - v.max()
    top = p @ (u == 0)
    if (1 + 2 * rho) * top >= 1:  # the radius does not bind
        return np.where(u == 0, p / top, 0.0)
    order = np.argsort(-u)
    weight, value = p[order], u[order]
    mass, first, second = np.cumsum(weight), np.cumsum(weight * value), np.cumsum(weight * value**2)
    mean = first / mass
    variance = np.maximum(second / mass - mean**2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        eta = mean - np.sqrt(variance / ((1 + 2 * rho) * mass - 1))
    following = np.append(value[1:], -np.inf)
    fits = ((1 + 2 * rho) * mass > 1) & (eta >= following)
    return mixture_at(float(eta[int(np.argmax(fits))]), p, u)


class Conic:
    """CLARABEL through cvxpy. A kept instance can be solved for another v without compiling the problem again."""

    def __init__(self, p: np.ndarray, rho: float) -> None:
        self.v = cvxpy.Parameter(p.size)
        self.q = cvxpy.Variable(p.size, nonneg=True)
        ball = cvxpy.sum_squares(cvxpy.multiply(1 / np.sqrt(p), self.q)) <= 1 + 2 * rho
        self.problem = cvxpy.Problem(cvxpy.Maximize(self.v @ self.q), [cvxpy.sum(self.q) == 1, ball])

    def __call__(self, v: np.ndarray) -> np.ndarray:
        self.v.value = v
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")  # the status is part of the results
            self.problem.solve(solver=cvxpy.CLARABEL)
        return np.asarray(self.q.value)

    @property
    def solver_seconds(self) -> float:
        return float(self.problem.solver_stats.solve_time)


def measure(m: int, rho: float) -> dict[str, object]:
    rng = np.random.default_rng(m)
    p = TED if m == TED.size else rng.dirichlet(np.full(m, 0.5)) + 1e-9
    p = p / p.sum()
    v = rng.normal(3.0, 0.5, size=m)
    ball = ChiSquareBall(p, rho)
    rivals: dict[str, Solver] = {
        "ours": lambda: ball.best_response(v),
        "sorting": lambda: with_sorting(p, v, rho),
        "brentq": lambda: with_brentq(p, v, rho),
        "bisection": lambda: with_bisection(p, v, rho),
    }
    conic = Conic(p, rho) if m <= CONIC_LIMIT else None
    if conic is not None:
        rivals["CLARABEL"] = lambda: Conic(p, rho)(v)
        rivals["compiled once"] = lambda: conic(v)
    times: dict[str, list[float]] = {name: [] for name in (*rivals, "solver only")}
    answers = {name: solve() for name, solve in rivals.items()}  # also warms up
    for repetition in range(REPETITIONS[m]):
        for name, solve in rivals.items():
            if name in ("CLARABEL", "compiled once") and repetition >= CONIC_REPETITIONS:
                continue
            start = time.perf_counter()
            solve()
            times[name].append(time.perf_counter() - start)
            if name == "compiled once" and conic is not None:
                times["solver only"].append(conic.solver_seconds)
    seconds = {name: float(np.median(taken)) for name, taken in times.items() if taken}
    quality = {
        name: {
            "largest difference in q": float(np.abs(q - answers["ours"]).max()),
            "difference in <q, v>": float((q - answers["ours"]) @ v),
            "chi2 / rho - 1": ball.divergence(q) / rho - 1,
        }
        for name, q in answers.items()
    }
    status = conic.problem.status if conic is not None else "not run"
    return {"m": m, "rho": rho, "seconds": seconds, "quality": quality, "CLARABEL": status}


def table(rows: list[dict[str, object]]) -> str:
    names = ["ours", "sorting", "brentq", "bisection", "CLARABEL", "compiled once", "solver only"]
    lines = ["| m | rho | ours | " + " | ".join(names[1:]) + " |", "|---:|---:|---:|" + "---:|" * (len(names) - 1)]
    for row in rows:
        seconds = row["seconds"]
        assert isinstance(seconds, dict)
        ours = seconds["ours"]
        cells = [f"{seconds[n] / ours:,.1f}x" if n in seconds else "not run" for n in names[1:]]
        lines.append(f"| {row['m']:,} | {row['rho']} | {ours * 1e6:,.0f} us | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def accuracy(rows: list[dict[str, object]]) -> str:
    """The worst accuracy of each solver over all problems."""
    qualities = [row["quality"] for row in rows]
    measures = list(qualities[0]["ours"])  # type: ignore[index]
    lines = ["| | " + " | ".join(measures) + " |", "|:---|" + "---:|" * len(measures)]
    for name in ("ours", "sorting", "brentq", "bisection", "CLARABEL"):
        found = [q[name] for q in qualities if name in q]  # type: ignore[index, operator]
        worst = [max((one[measure] for one in found), key=abs) for measure in measures]
        lines.append(f"| {name} | " + " | ".join(f"{value:.1e}" for value in worst) + " |")
    return "\n".join(lines)


def goals(rows: list[dict[str, object]]) -> list[str]:
    def ratios(name: str) -> list[float]:
        return [r["seconds"][name] / r["seconds"]["ours"] for r in rows if name in r["seconds"]]  # type: ignore[index, operator]

    def slowest(m: int) -> float:
        return max(r["seconds"]["ours"] for r in rows if r["m"] == m)  # type: ignore[index]

    checks = {
        "at least 100x faster than CLARABEL where it runs": (min(ratios("CLARABEL")), 100, "x"),
        "at least 5x faster than bisection": (min(ratios("bisection")), 5, "x"),
    }
    lines = [
        f"- {text}: {value:,.1f}{unit}, {'met' if value >= goal else 'NOT met'}"
        for text, (value, goal, unit) in checks.items()
    ]
    lines[0] += f" (through cvxpy, which a call compiles anew; compiled once: {min(ratios('compiled once')):,.1f}x)"
    lines.append(f"- 8 groups below 50 us: {slowest(8) * 1e6:.0f} us, {'met' if slowest(8) < 50e-6 else 'NOT met'}")
    million = slowest(1_000_000)
    lines.append(f"- a million groups below 0.25 s: {million:.3f} s, {'met' if million < 0.25 else 'NOT met'}")
    return lines


def main() -> None:
    rows = []
    for m in SIZES:
        for rho in RADII:
            rows.append(measure(m, rho))
            print(table(rows).splitlines()[-1], flush=True)
    versions = f"NumPy {np.__version__}, SciPy {scipy.__version__}, cvxpy {cvxpy.__version__}"
    text = "\n".join(
        [
            "# Chi-square best response",
            "",
            f"Made by `python -m benchmarks.best_response`: Python {platform.python_version()}, {versions}, "
            f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}; medians, interleaved in one run.",
            "Times of the others as multiples of ours. CLARABEL is called through cvxpy. `compiled once`: it keeps the",
            "compiled problem and only v changes; `solver only`: what CLARABEL itself reports, without cvxpy.",
            "",
            table(rows),
            "",
            *goals(rows),
            "",
            "Worst over all rows; <q, v> in the units of v, around 3. CLARABEL calls its own answer inaccurate at m = "
            + (", ".join(sorted({f"{r['m']:,}" for r in rows if r["CLARABEL"] == "optimal_inaccurate"})) or "none")
            + ".",
            "",
            accuracy(rows),
            "",
        ]
    )
    print("\n" + text)
    (RESULTS / "best_response.md").write_text(text, encoding="utf-8")
    (RESULTS / "best_response.json").write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
