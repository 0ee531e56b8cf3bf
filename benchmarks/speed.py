"""How long a round takes, as ratios from one run: `make bench`.

Two kinds of figures. The first divides a policy's time per round by that of the yardstick, a plain
compiled LinUCB that is never tuned. The second divides two times of this package.

Traces are drawn and kernels compiled before any clock starts. What is compared is timed in turns,
many times over and on one core, and each keeps its best time: other programs on the machine can
only add to a time. A time per round is the mean over a few traces of the best time on each.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from yardstick import play_plain_linucb

import driftbandits as db
from driftbandits.environments import Abrupt, abrupt2d
from driftbandits.experiments import draw_trace, play

WINDOW, DISCOUNT = 252, 0.996
FIGURE_1 = ("LogisticUCB", "SW-GLUCB", "D-GLUCB", "LinUCB", "SW-LinUCB", "D-LinUCB")
TRACES = 3
Key = TypeVar("Key")


# -- timing ----------------------------------------------------------------------------------------


def best_in_turns(tasks: dict[Key, Callable[[], float]], repeats: int) -> dict[Key, float]:
    """The least of the seconds that each task reports, the tasks taking turns."""
    best = dict.fromkeys(tasks, np.inf)
    gc.collect()
    gc.disable()
    for _ in range(repeats):
        for name, task in tasks.items():
            best[name] = min(best[name], task())
    gc.enable()
    return best


def mean_of_bests(
    tasks_of: Callable[[db.Trace], dict[str, Callable[[], float]]],
    traces: list[db.Trace],
    repeats: int,
) -> dict[str, float]:
    """Seconds per round of each task, over traces of the same length."""
    bests = [best_in_turns(tasks_of(trace), repeats) for trace in traces]
    return {name: np.mean([b[name] for b in bests]) / traces[0].horizon for name in bests[0]}


def traces_of(world: Abrupt, count: int = TRACES) -> list[db.Trace]:
    return [draw_trace(world, 0, replicate) for replicate in range(count)]


def policy_of(name: str, dim: int = 2, horizon: int = 6000) -> db.Policy:
    return db.policy(name, dim=dim, horizon=horizon, window=WINDOW, discount=DISCOUNT)


def cpu_seconds(run: Callable[[], object]) -> Callable[[], float]:
    """Of this thread alone, so that what else the machine does counts for less."""

    def task() -> float:
        before = time.thread_time()
        run()
        return time.thread_time() - before

    run()  # compiles
    return task


def whole_run(policy: db.Policy, trace: db.Trace) -> Callable[[], float]:
    return cpu_seconds(lambda: play(policy, trace, 0, record=()))


def yardstick_run(trace: db.Trace) -> Callable[[], float]:
    return cpu_seconds(lambda: play_plain_linucb(trace.actions, trace.rewards, 1.0))


def online_run(policy: db.Policy, trace: db.Trace) -> Callable[[], float]:
    """Seconds of a Python loop over decide and update, the loop's own time included."""
    actions, rewards = list(trace.actions), trace.rewards.tolist()

    def run() -> None:
        agent = db.Agent(policy, seed=0)
        for t in range(trace.horizon):
            choice = agent.decide(actions[t])
            agent.update(choice, rewards[t][choice.index])

    return cpu_seconds(run)


# -- the figures -----------------------------------------------------------------------------------


def figures_in_yardsticks(repeats: int, seconds: dict[str, float]) -> dict[str, float]:
    def small(trace: db.Trace) -> dict[str, Callable[[], float]]:
        return {
            "yardstick": yardstick_run(trace),
            **{name: whole_run(policy_of(name), trace) for name in FIGURE_1},
            "online": online_run(policy_of("SW-GLUCB"), trace),
        }

    def large(trace: db.Trace) -> dict[str, Callable[[], float]]:
        return {
            "yardstick, d=20, K=50": yardstick_run(trace),
            "SW-GLUCB, d=20, K=50": whole_run(policy_of("SW-GLUCB", dim=20), trace),
        }

    seconds |= mean_of_bests(small, traces_of(abrupt2d()), repeats)
    wide = Abrupt(horizon=3000, dim=20, arms=50, changes=(1001, 2001))
    seconds |= mean_of_bests(large, traces_of(wide, 2), max(3, repeats // 3))

    labels = {
        f"SW-GLUCB, tau={WINDOW}, exact projection": "SW-GLUCB",
        f"D-GLUCB, gamma={DISCOUNT}": "D-GLUCB",
        "LogisticUCB, T=6000": "LogisticUCB",
        "LinUCB": "LinUCB",
        "SW-LinUCB": "SW-LinUCB",
        "D-LinUCB": "D-LinUCB",
        "SW-GLUCB online, decide + update": "online",
        "SW-GLUCB, d=20, K=50": "SW-GLUCB, d=20, K=50",
    }
    return {
        label: seconds[key] / seconds["yardstick, d=20, K=50" if "d=20" in key else "yardstick"]
        for label, key in labels.items()
    }


def figures_of_length(repeats: int, seconds: dict[str, float]) -> dict[str, float]:
    """Time per round at twice the length, with a change every 2000 rounds in both."""
    names, lengths = ("SW-GLUCB", "D-GLUCB", "LogisticUCB"), (30_000, 60_000)
    bests = []
    for replicate in range(TRACES):
        tasks = {}
        for T in lengths:
            world = Abrupt(horizon=T, changes=tuple(range(2001, T, 2000)))
            trace = draw_trace(world, 0, replicate)
            for name in names:
                tasks[name, T] = whole_run(policy_of(name, horizon=T), trace)
        bests.append(best_in_turns(tasks, repeats))
    for name, T in bests[0]:
        seconds[f"{name}, T={T}"] = np.mean([best[name, T] for best in bests]) / T
    return {
        f"{name}, T=60,000 over T=30,000": seconds[f"{name}, T=60000"] / seconds[f"{name}, T=30000"]
        for name in names
    }


def figure_of_workers(runs: int, repeats: int, seconds: dict[str, float]) -> dict[str, float]:
    """All of figure 1 by one worker and by two; starting the two processes is part of it."""
    policies = {name: policy_of(name) for name in FIGURE_1}

    def all_of_it(workers: int) -> Callable[[], float]:
        def task() -> float:
            before = time.perf_counter()
            db.simulate(policies, abrupt2d(), runs=runs, workers=workers, record=("regret",))
            return time.perf_counter() - before

        return task

    label = f"figure 1, {runs} runs"
    best = best_in_turns(
        {f"{label}, {n} workers": all_of_it(n) for n in (1, 2)},
        repeats,
    )
    seconds |= best
    one, two = best.values()
    return {f"one worker over two, all of figure 1 ({runs} runs)": one / two}


def first_use(seconds: dict[str, float]) -> None:
    """Seconds of a new process: importing everything, and deciding with compiled code at hand."""
    imported = "import driftbandits as db; db.Agent, db.policy, db.simulate"
    decided = (
        "import driftbandits as db; "
        "db.Agent(db.policy('SW-GLUCB', dim=2, window=9)).decide([[1., 0.]])"
    )

    def process(code: str) -> Callable[[], float]:
        def task() -> float:
            before = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            return time.perf_counter() - before

        return task

    process(decided)()
    seconds |= best_in_turns(
        {
            "import driftbandits": process("import driftbandits"),
            "import of everything": process(imported),
            "first decide, from the cache": process(decided),
        },
        5,
    )


def print_table(figures: dict[str, float], seconds: dict[str, float]) -> None:
    print(f"\n{'figure':<52}{'measured':>9}")
    for name, measured in figures.items():
        print(f"{name:<52}{measured:>9.2f}")
    print("\nseconds behind the ratios (per round, or of the whole where it says so)")
    for name, value in seconds.items():
        scaled = f"{value * 1e6:.3f} us" if value < 1e-2 else f"{value:.2f} s"
        print(f"  {name:<50}{scaled:>14}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=25, help="times each run is timed")
    parser.add_argument("--runs", type=int, default=500, help="runs of figure 1; 0: leave it out")
    parser.add_argument("--out", type=Path, default=Path("results/speed.json"))
    arguments = parser.parse_args()

    seconds: dict[str, float] = {}
    figures = figures_in_yardsticks(arguments.repeats, seconds)
    figures |= figures_of_length(max(3, arguments.repeats // 4), seconds)
    if arguments.runs:
        figures |= figure_of_workers(arguments.runs, 2, seconds)
    first_use(seconds)
    print_table(figures, seconds)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "figures": figures,
        "seconds": seconds,
        "repeats": arguments.repeats,
    }
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")


if __name__ == "__main__":  # worker processes import this file
    main()
