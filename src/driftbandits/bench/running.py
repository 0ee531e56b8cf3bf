"""Runs of the benchmark: same rows, same order, same clock for every entry.

A run's reward lies on the way from random choices, whose expected reward is known exactly, to the
ceiling: the best of nine logistic regressions that see the reward of every arm. They read all
columns, all with a prior for small coefficients, or none; and they forget nothing, half after 350
rounds, or half after 70.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from driftbandits.bench.entries import OURS, Entry, NotPlayed, entries_of
from driftbandits.bench.tasks import Facts, Floats, Ints, Task, facts_of, read_task

POINTS = 60
"""Points of a curve."""
RANDOM, FIXED, CEILING = "random", "best fixed arm", "ceiling"
REFERENCES = (RANDOM, FIXED, CEILING)
_CEILING_MEMORIES = (1.0, 0.998, 0.99)
_WARM_ROUNDS = 12


class Result(NamedTuple):
    """One run of one entry on one task. `reason` is there instead of numbers if it did not play."""

    task: str
    entry: str
    run: int
    reward: float = math.nan  # mean of a round
    curve: Sequence[float] = ()  # mean reward so far, at POINTS rounds
    rounds: int = 0
    microseconds: float = math.nan  # of the processor, for a decision and its update
    megabytes: float = math.nan  # that the process grew by while it played
    reason: str = ""


class Job(NamedTuple):
    """A request to a process; it holds names alone, so that it can be sent anywhere."""

    task: str
    entry: str
    file: str  # of the entry; empty for our own
    runs: int
    most: int | None


def run_bench(
    tasks: Sequence[str],
    *,
    files: Sequence[str] = (),
    labels: Sequence[str] = (),
    runs: int = 5,
    most: int | None = None,
    workers: int = 1,
    out: Path | None = None,
    said: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """Play every entry on every task; entries are ours and those of `files`.

    With more than one worker each pair of task and entry has a process of its own, which also
    tells its memory. Results are kept in the file `out`. What it has is not played again, unless
    the file of its entry is newer.
    """
    entries = [(label, "") for label in OURS]
    entries += [(label, file) for file in files for label in _entries(file)]
    if labels:
        entries = [pair for pair in entries if any(part in pair[0] for part in labels)]
    kept: dict[tuple[str, str], list[Result]] = {}
    if out is not None and out.is_file():
        changed = [file for file in files if Path(file).stat().st_mtime > out.stat().st_mtime]
        new = {label for file in changed for label in _entries(file)}
        for result in load(out):
            if result.entry not in new:
                kept.setdefault((result.task, result.entry), []).append(result)
    results: list[Result] = []
    jobs = []
    for name in tasks:
        try:
            for run in range(runs):
                _drawn(name, run, most)
        except ImportError as error:
            said(f"{name} is left out. {error}: pip install {read_task(name).install}")
            continue
        rounds = _drawn(name, 0, most).horizon
        for label, file in [(REFERENCES[0], ""), *entries]:
            own = REFERENCES if label in REFERENCES else (label,)
            found = [result for entry in own for result in kept.get((name, entry), [])]
            if len(found) == runs * len(own) and all(r.rounds == rounds for r in found):
                results += found
            else:
                jobs.append(Job(name, label, file, runs, most))
    for number, found in enumerate(_played(jobs, workers), 1):
        results += found
        if out is not None:
            save(results, out)
        last = found[0]
        reason = f": {last.reason}" if last.reason else ""
        said(f"{number}/{len(jobs)} {last.task}, {last.entry}{reason}")
    return results


def _played(jobs: Sequence[Job], workers: int) -> Iterator[list[Result]]:
    if workers == 1 or not hasattr(os, "fork"):
        yield from map(play_job, jobs)
        return
    for job in {(job.entry, job.file): job for job in jobs}.values():
        if job.entry not in REFERENCES:
            _play_some(job)  # imports and compiles what the processes have then
    # A child has everything that was imported and drawn, and ends after its job.
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap(play_job, jobs, chunksize=1)


@lru_cache(maxsize=16)
def _entries(file: str) -> Mapping[str, Callable[[Facts, int], Entry]]:
    return entries_of(file) if file else OURS


@lru_cache(maxsize=256)
def _drawn(task: str, run: int, most: int | None) -> Task:
    return read_task(task).draw(run, most)


def _play_some(job: Job) -> str:
    """Play a few rounds, not to time what happens once; the reason if the entry cannot play."""
    task = _drawn(job.task, 0, job.most)
    try:
        entry = _entries(job.file)[job.entry](facts_of(task), 0)
    except (ImportError, NotPlayed) as error:
        return str(error)
    some = slice(_WARM_ROUNDS)
    _play(entry, Task(task.contexts[some], task.rewards[some], task.arms[some]))
    return ""


def play_job(job: Job) -> list[Result]:
    if job.entry in REFERENCES:
        runs = [_references(job.task, run, job.most) for run in range(job.runs)]
        return [result for run in runs for result in run]
    if reason := _play_some(job):
        return [Result(job.task, job.entry, 0, reason=reason)]
    results = []
    for run in range(job.runs):
        task = _drawn(job.task, run, job.most)
        before = _resident()
        entry = _entries(job.file)[job.entry](facts_of(task), run)
        rewards, seconds = _play(entry, task)
        grown = (_resident() - before) / 2**20 if run == 0 else math.nan
        own = _result(job.task, job.entry, run, task, rewards)
        results.append(own._replace(microseconds=1e6 * seconds / task.horizon, megabytes=grown))
    return results


def _play(entry: Entry, task: Task) -> tuple[Floats, float]:
    """The reward of every round, and processor seconds of the entry."""
    T, costs = task.horizon, task.costs
    earned, seconds = np.empty(T), 0.0
    pay = getattr(entry, "pay", lambda cost: None)
    purse, cheapest = math.inf, np.zeros(T + 1)
    if task.budget is not None and costs is not None:
        purse = task.budget * T
        # What must be kept to pay the cheapest arm until the end.
        least = np.where(task.arms >= 0, costs, np.inf).min(axis=1)
        cheapest[:T] = np.cumsum(least[::-1])[::-1]
    for t in range(T):
        offered = np.flatnonzero(task.arms[t] >= 0)
        if costs is not None:
            offered = offered[costs[t, offered] + cheapest[t + 1] <= purse + 1e-12]
        arms = task.arms[t, offered].tolist()
        begun = time.thread_time()
        index = entry.decide(task.contexts[t], arms)
        seconds += time.thread_time() - begun
        if not 0 <= index < len(arms):
            raise ValueError(
                f"decide must return an index into the {len(arms)} arms; got {index!r}"
            )
        k = offered[index]
        earned[t] = task.rewards[t, k]
        begun = time.thread_time()
        entry.update(index, float(earned[t]))
        seconds += time.thread_time() - begun
        if costs is not None:
            purse -= costs[t, k]
            pay(float(costs[t, k]))
    return earned, seconds


def _result(name: str, label: str, run: int, task: Task, rewards: Floats) -> Result:
    so_far = np.cumsum(rewards) / np.arange(1, task.horizon + 1)
    at = np.unique(np.linspace(0, task.horizon - 1, POINTS).round().astype(int))
    curve = so_far[at].round(5).tolist()
    return Result(name, label, run, float(rewards.mean()), curve, task.horizon)


def _resident() -> int:
    """Bytes of this process in memory, 0 where the system does not tell."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGESIZE")


# -- what others are held against ------------------------------------------------------------------


def _references(name: str, run: int, most: int | None) -> list[Result]:
    task = _drawn(name, run, most)
    random = task.rewards.mean(axis=1, where=task.arms >= 0)
    if task.budget is not None:
        random = _play(_Random(np.random.default_rng(run)), task)[0]
    rounds, X = np.arange(task.horizon), task.contexts
    ceilings = [
        task.rewards[rounds, full_information(task._replace(contexts=view), memory)]
        for view in (X, X.shape[1] ** -0.5 * X, X[:, :0])
        for memory in _CEILING_MEMORIES
    ]
    best = max(ceilings, key=lambda rewards: float(rewards.mean()))
    return [
        _result(name, RANDOM, run, task, random),
        _result(name, FIXED, run, task, _play(_Fixed(task), task)[0]),
        _result(name, CEILING, run, task, best),
    ]


class _Random:
    """One of the arms on offer, for where a purse has a say in what is on offer."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def decide(self, context: Floats, arms: Sequence[int]) -> int:
        return int(self.rng.integers(len(arms)))

    def update(self, index: int, reward: float) -> None: ...


class _Fixed:
    """The arm on offer that has the best mean in hindsight, of those that the budget allows."""

    def __init__(self, task: Task) -> None:
        self.value = np.full(int(task.arms.max()) + 1, -np.inf)
        for arm in range(len(self.value)):
            own = task.arms == arm
            dear = task.costs is not None and task.costs[own].mean() > (task.budget or np.inf)
            if own.any() and not dear:
                self.value[arm] = task.rewards[own].mean()

    def decide(self, context: Floats, arms: Sequence[int]) -> int:
        return int(self.value[list(arms)].argmax())

    def update(self, index: int, reward: float) -> None: ...


def full_information(task: Task, memory: float) -> Ints:
    """The choices of a logistic regression for each arm that learns those of all arms on offer."""
    means = _means(task, memory)
    chosen: Ints = means.argmax(axis=1)
    if task.budget is None or task.costs is None:
        return chosen
    costs = task.costs.copy()  # a mean of some fifty rounds before
    for t in range(task.horizon - 1):
        costs[t + 1] = 0.98 * costs[t] + 0.02 * task.costs[t]
    # The least penalty on costs, in quarters of an octave, that the budget allows.
    for penalty in (0.0, *0.5 ** np.arange(12.0, -1.0, -0.25)):
        chosen = (means - penalty * costs / task.budget).argmax(axis=1)
        if task.costs[np.arange(task.horizon), chosen].mean() <= task.budget:
            break
    return chosen


def _means(task: Task, memory: float) -> Floats:
    """Return the rewards that the regressions expect (T, K), -inf where an arm is not on offer.

    x      (d,)       the context and a constant
    theta  (K, d)     one step of Newton's method a round
    P      (K, d, d)  its covariance, divided by `memory` each round
    """
    X = np.column_stack([task.contexts, np.ones(task.horizon)])
    facts, d = facts_of(task), X.shape[1]
    theta, P = np.zeros((facts.arms, d)), np.tile(np.eye(d), (facts.arms, 1, 1))
    means = np.full(task.rewards.shape, -np.inf)
    shares = (task.rewards - facts.low) / (facts.high - facts.low)
    for t, x in enumerate(X):
        on_offer = np.flatnonzero(task.arms[t] >= 0)
        ids = task.arms[t, on_offer]
        mean = 1.0 / (1.0 + np.exp(-np.clip(theta[ids] @ x, -30.0, 30.0)))
        means[t, on_offer] = mean
        slope = mean * (1.0 - mean)
        along = P[ids] @ x
        shrink = slope / (memory + slope * (along @ x))
        P[ids] = (P[ids] - shrink[:, None, None] * along[:, :, None] * along[:, None, :]) / memory
        if memory < 1.0 and t % 50 == 49:
            # What is not seen for long is not forgotten beyond the prior.
            P /= np.maximum(np.trace(P, axis1=1, axis2=2) / d, 1.0)[:, None, None]
        theta[ids] += (P[ids] @ x) * (shares[t, on_offer] - mean)[:, None]
    return means


# -- on disk ---------------------------------------------------------------------------------------


def save(results: Sequence[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([result._asdict() for result in results]) + "\n", "utf-8")


def load(path: Path) -> list[Result]:
    return [Result(**row) for row in json.loads(path.read_text("utf-8"))]
