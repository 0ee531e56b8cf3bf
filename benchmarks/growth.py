"""How the cost of a round grows with d, K, the window and the horizon: plots for docs/speed.md.

Every figure is a time per round in yardsticks, where the yardstick is timed in the same run at d=2
and K=6. The yardstick itself is shown too, at the d and K of each point. A point is the best of a
few repeats on one trace of a world that changes every 500 rounds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from speed import best_in_turns, whole_run, yardstick_run

import driftbandits as db
from driftbandits.environments import Abrupt
from driftbandits.simulation import draw_trace

GLM = ("SW-GLUCB", "D-GLUCB", "LogisticUCB")
YARDSTICK = "textbook LinUCB"
PATIENCE_SECONDS = 3.0
# Colours that stay apart for colour-blind readers (Okabe and Ito); the marks differ as well.
LOOK = {
    "SW-GLUCB": ("#0072B2", "o"),
    "D-GLUCB": ("#D55E00", "s"),
    "LogisticUCB": ("#009E73", "^"),
    "SW-LinUCB": ("#CC79A7", "D"),
    YARDSTICK: ("#444444", "x"),
}
Curves = dict[str, list[tuple[int, float]]]


def trace_of(*, dim: int = 2, arms: int = 6, horizon: int) -> db.Trace:
    changes = tuple(range(501, horizon, 500))
    return draw_trace(Abrupt(horizon=horizon, dim=dim, arms=arms, changes=changes), 0, 0)


def measure(names: Sequence[str], trace: db.Trace, window: int = 252) -> dict[str, float]:
    """Seconds per round of the yardstick and of each policy on a trace, timed in turns."""
    T = trace.horizon
    tasks = {YARDSTICK: yardstick_run(trace)}
    for name in names:
        policy = db.policy(name, dim=trace.dim, horizon=T, window=window, discount=0.996)
        tasks[name] = whole_run(policy, trace)
    first = best_in_turns(tasks, 1)
    repeats = int(min(20.0, max(1.0, PATIENCE_SECONDS / sum(first.values()))))
    best = best_in_turns(tasks, repeats)
    return {name: min(first[name], best[name]) / T for name in tasks}


def collect(points: dict[int, dict[str, float]], unit: float) -> Curves:
    curves: Curves = {}
    for x, found in points.items():
        for name, seconds in found.items():
            curves.setdefault(name, []).append((x, seconds / unit))
    return curves


def draw(curves: Curves, label: str, path: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "driftbandits"  # the same picture gives the same file
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.items():
        colour, mark = LOOK[name]
        line = "--" if name == YARDSTICK else "-"
        axes.plot(*zip(*points, strict=True), color=colour, marker=mark, ls=line, label=name)
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="time per round, in textbook rounds")
    ticks = [x for x, _ in next(iter(curves.values()))]
    axes.set_xticks(ticks, [f"{x:,}" for x in ticks])
    heights = [y for points in curves.values() for _, y in points]
    steps = (1.0, 2.0, 5.0) if max(heights) < 200 * min(heights) else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    parser.add_argument("--out", type=Path, default=Path("results/growth.json"))
    arguments = parser.parse_args()

    unit = measure([], trace_of(horizon=6000))[YARDSTICK]
    linear = "SW-LinUCB"
    by_dimension = {
        d: measure([*GLM, linear], trace_of(dim=d, horizon=2000 if d <= 20 else 500))
        for d in (2, 3, 5, 10, 20, 50, 100)
    }
    by_arms = {
        K: measure([*GLM, linear], trace_of(arms=K, horizon=3000 if K <= 100 else 1000))
        for K in (2, 6, 20, 50, 200, 1000)
    }
    long = trace_of(horizon=20_000)
    by_window = {
        tau: measure(["SW-GLUCB", linear], long, window=tau)
        for tau in (30, 100, 300, 1000, 3000, 10_000)
    }
    by_horizon = {
        T: measure([*GLM, linear], trace_of(horizon=T))
        for T in (1000, 3000, 10_000, 30_000, 100_000)
    }
    plots = {
        "dimension": ("dimension d (K = 6, tau = 252, gamma = 0.996)", by_dimension),
        "arms": ("actions K offered in a round (d = 2)", by_arms),
        "window": ("window tau (d = 2, K = 6, T = 20,000)", by_window),
        "horizon": ("rounds T (d = 2, K = 6, a change every 500 rounds)", by_horizon),
    }
    arguments.figures.mkdir(parents=True, exist_ok=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    report = {}
    for name, (label, points) in plots.items():
        curves = collect(points, unit)
        report[name] = curves
        draw(curves, label, arguments.figures / f"speed-{name}.svg")
        print(f"\n{label}; textbook rounds a round")
        print(f"{'':<14}" + "".join(f"{x:>11,}" for x in points))
        for policy, values in curves.items():
            print(f"{policy:<14}" + "".join(f"{y:>11.2f}" for _, y in values))
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {arguments.out} and {arguments.figures}")


if __name__ == "__main__":
    main()
