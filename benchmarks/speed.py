"""How long a round takes, as ratios from one run: `make bench`.

Two kinds of figures. The first divides a policy's time per round by that of the yardstick, a plain
compiled LinUCB that is never tuned. The second divides two times of ours, or a plain
implementation's time by ours.

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
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import optimize, special
from yardstick import play_plain_linucb

import driftbandits as db
from driftbandits.environments import Abrupt, abrupt2d
from driftbandits.simulation import draw_trace, play

WINDOW, DISCOUNT = 252, 0.996
FIGURE_1 = ("LogisticUCB", "SW-GLUCB", "D-GLUCB", "LinUCB", "SW-LinUCB", "D-LinUCB")
TRACES = 3
Key = TypeVar("Key")


class Figure(NamedTuple):
    """A measured ratio beside what it should reach and what is dreamt of."""

    name: str
    measured: float
    reach: float
    dream: float
    more_is_better: bool = False

    @property
    def reached(self) -> str:
        def within(limit: float) -> bool:
            return self.measured >= limit if self.more_is_better else self.measured <= limit

        return "dream" if within(self.dream) else "yes" if within(self.reach) else "no"


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


# -- the plain implementation ----------------------------------------------------------------------


class PlainDGLUCB:
    """D-GLUCB as one would first write it with NumPy and SciPy, in the plane or any dimension."""

    def __init__(self, policy: db.Policy) -> None:
        self.policy = policy
        self.c = policy.link.c_mu(L=policy.L, S=policy.S)
        self.actions: list[np.ndarray] = []
        self.rewards: list[float] = []
        self.theta_hat = np.zeros(policy.dim)

    def g(self, theta, A, w):
        return A.T @ (w * special.expit(A @ theta)) + self.policy.lam * theta

    def J(self, theta, A, w):
        p = special.expit(A @ theta)
        return (A.T * (w * p * (1 - p))) @ A + self.policy.lam * np.eye(self.policy.dim)

    def decide(self, offered: np.ndarray) -> int:
        policy, n = self.policy, len(self.rewards)
        A = np.array(self.actions).reshape(n, policy.dim)
        w = policy.discount ** np.arange(n)[::-1]
        b = A.T @ (w * np.array(self.rewards))
        self.theta_hat = optimize.root(
            lambda theta: self.g(theta, A, w) - b,
            self.theta_hat,
            jac=lambda theta: self.J(theta, A, w),
            tol=1e-10,
        ).x
        ridge = policy.lam / self.c * np.eye(policy.dim)
        theta = self.theta_hat
        if np.linalg.norm(theta) > policy.S:
            theta = self.projection(A, w, b, np.linalg.inv((A.T * w**2) @ A + ridge))
        W_inverse = np.linalg.inv((A.T * w) @ A + ridge)
        lengths = np.sqrt(np.einsum("ki,ij,kj->k", offered, W_inverse, offered))
        return int(np.argmax(special.expit(offered @ theta) + self.radius(n + 1) * lengths))

    def projection(self, A, w, b, M_inverse):
        def distance(theta):
            gap = self.g(theta, A, w) - b
            return gap @ M_inverse @ gap, 2 * self.J(theta, A, w) @ M_inverse @ gap

        S = self.policy.S
        return optimize.minimize(
            distance,
            self.theta_hat * S / np.linalg.norm(self.theta_hat),
            jac=True,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda theta: S**2 - theta @ theta,
                "jac": lambda theta: -2 * theta,
            },
            options={"ftol": 1e-14},
        ).x

    def radius(self, t: int) -> float:
        p, gamma, d = self.policy, self.policy.discount, self.policy.dim
        k = p.link.k_mu(L=p.L, S=p.S)
        count = (1 - gamma ** (2 * t)) / (1 - gamma**2)
        spread = 2 * np.log(1 / p.delta) + d * np.log(1 + self.c * p.L**2 * count / (d * p.lam))
        D = np.log(1 / (1 - gamma)) / (1 - gamma)
        bias = 2 * p.L**2 * p.S * k * np.sqrt(self.c / p.lam) * gamma**D / (1 - gamma)
        return 2 * k / self.c * (np.sqrt(spread) / 2 + np.sqrt(self.c * p.lam) * p.S + bias)

    def update(self, action: np.ndarray, reward: float) -> None:
        self.actions.append(action)
        self.rewards.append(reward)


def plain_seconds_per_round(policy: db.Policy, trace: db.Trace) -> float:
    """Five stretches spread over the run, each with the history that our run has there.

    The plain version must also choose what ours chose, or it would not be the same policy.
    """
    chosen = play(policy, trace, 0, record=("chosen",)).chosen
    stretch, means = 60, []
    for middle in np.linspace(0.1, 0.9, 5) * trace.horizon:
        start = int(middle) - stretch // 2
        plain = PlainDGLUCB(policy)
        for t in range(start):
            plain.update(trace.actions[t, chosen[t]], trace.rewards[t, chosen[t]])
        plain.decide(trace.actions[start])
        times = []
        for t in range(start, start + stretch):
            before = time.thread_time()
            k = plain.decide(trace.actions[t])
            plain.update(trace.actions[t, k], trace.rewards[t, k])
            times.append(time.thread_time() - before)
            if k != chosen[t]:
                raise AssertionError(f"the plain D-GLUCB chose another arm in round {t + 1}")
        # A median would ignore the rounds with a projection; cut off disturbances alone.
        means.append(np.mean(np.minimum(times, 5 * np.median(times))))
    return float(np.mean(means))


# -- the figures -----------------------------------------------------------------------------------


def figures_in_yardsticks(repeats: int, seconds: dict[str, float]) -> list[Figure]:
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

    def over_yardstick(label: str, key: str, reach: float, dream: float) -> Figure:
        stick = "yardstick, d=20, K=50" if "d=20" in key else "yardstick"
        return Figure(label, seconds[key] / seconds[stick], reach, dream)

    return [
        over_yardstick(f"SW-GLUCB, tau={WINDOW}, exact projection", "SW-GLUCB", 3, 1.5),
        over_yardstick(f"D-GLUCB, gamma={DISCOUNT}", "D-GLUCB", 8, 2.5),
        over_yardstick("LogisticUCB, T=6000", "LogisticUCB", 8, 2.5),
        over_yardstick("LinUCB", "LinUCB", 1, 0.2),
        over_yardstick("SW-LinUCB", "SW-LinUCB", 1, 0.2),
        over_yardstick("D-LinUCB", "D-LinUCB", 1, 0.2),
        over_yardstick("SW-GLUCB online, decide + update", "online", 20, 10),
        over_yardstick("SW-GLUCB, d=20, K=50", "SW-GLUCB, d=20, K=50", 8, 3),
    ]


def figures_of_length(repeats: int, seconds: dict[str, float]) -> list[Figure]:
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
    return [
        Figure(
            f"{name}, T=60,000 over T=30,000",
            seconds[f"{name}, T=60000"] / seconds[f"{name}, T=30000"],
            *((1.5, 1.1) if name == "LogisticUCB" else (1.1, 1.0)),
        )
        for name in names
    ]


def figure_of_plain(seconds: dict[str, float]) -> Figure:
    policy, trace = policy_of("D-GLUCB"), traces_of(abrupt2d(), 1)[0]
    seconds["plain D-GLUCB"] = plain_seconds_per_round(policy, trace)
    ratio = seconds["plain D-GLUCB"] / seconds["D-GLUCB"]
    return Figure("plain NumPy + SciPy D-GLUCB over ours", ratio, 200, 1000, True)


def figure_of_workers(runs: int, repeats: int, seconds: dict[str, float]) -> Figure:
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
    return Figure(f"one worker over two, all of figure 1 ({runs} runs)", one / two, 1.7, 1.95, True)


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


def print_table(figures: list[Figure], seconds: dict[str, float]) -> None:
    print(f"\n{'figure':<52}{'measured':>9}{'reach':>8}{'dream':>8}  reached")
    for f in figures:
        print(f"{f.name:<52}{f.measured:>9.2f}{f.reach:>8g}{f.dream:>8g}  {f.reached}")
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
    figures += figures_of_length(max(3, arguments.repeats // 4), seconds)
    figures.append(figure_of_plain(seconds))
    if arguments.runs:
        figures.append(figure_of_workers(arguments.runs, 2, seconds))
    first_use(seconds)
    print_table(figures, seconds)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "figures": [{**f._asdict(), "reached": f.reached} for f in figures],
        "seconds": seconds,
        "repeats": arguments.repeats,
    }
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")


if __name__ == "__main__":  # worker processes import this file
    main()
