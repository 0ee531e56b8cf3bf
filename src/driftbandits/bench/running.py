"""Runs of the benchmark: same rows, same order, same clock for every entry.

A run's reward lies on the way from random choices, whose expected reward is known exactly, to the
ceiling: the best of three logistic regressions that see the reward of every arm (they forget
nothing, half after 350 rounds, or half after 70).
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
from driftbandits.bench.tasks import Facts, Floats, Task, facts_of, read_task

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
    counted: int = 0  # rounds whose reward is known
    microseconds: float = math.nan  # of a decision and its update
    megabytes: float = math.nan  # that the process grew by while it played
    reason: str = ""


class Job(NamedTuple):
    """What a process is asked for; names alone, so that it can be sent anywhere."""

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
    said: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """Play every entry on every task; entries are ours and those of `files`.

    With more than one worker each pair of task and entry has a process of its own, which also
    tells its memory.
    """
    entries = [(label, "") for label in OURS]
    entries += [(label, file) for file in files for label in _entries(file)]
    if labels:
        entries = [pair for pair in entries if any(part in pair[0] for part in labels)]
    results: list[Result] = []
    jobs = []
    for name in tasks:
        try:
            for run in range(runs):
                results += _references(name, run, most)
        except ImportError as error:
            said(f"{name} is left out. {error}: pip install {read_task(name).install}")
            continue
        jobs += [Job(name, label, file, runs, most) for label, file in entries]
    for number, found in enumerate(_played(jobs, workers), 1):
        results += found
        last = found[0]
        said(f"{number}/{len(jobs)} {last.task}, {last.entry} {last.reason}".rstrip())
    return results


def _played(jobs: Sequence[Job], workers: int) -> Iterator[list[Result]]:
    if workers == 1 or not hasattr(os, "fork"):
        yield from map(play_job, jobs)
        return
    _warm_up(jobs)
    # A child has everything that was imported and drawn, and ends after its job.
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap(play_job, jobs, chunksize=1)


@lru_cache(maxsize=16)
def _entries(file: str) -> Mapping[str, Callable[[Facts, int], Entry]]:
    return entries_of(file) if file else OURS


@lru_cache(maxsize=256)
def _drawn(task: str, run: int, most: int | None) -> Task:
    return read_task(task).draw(run, most)


def _warm_up(jobs: Sequence[Job]) -> None:
    """Import and compile what entries need before the processes are made."""
    for job in {(job.entry, job.file): job for job in jobs}.values():
        _play_some(job)


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
    """The reward of every round, NaN where it is unknown, and the seconds inside the entry."""
    T = task.horizon
    earned, seconds = np.full(T, np.nan), 0.0
    pay = getattr(entry, "pay", None)
    purse = math.inf if task.budget is None else task.budget * T
    cheapest = np.zeros(T + 1)
    if task.budget is not None and task.costs is not None:
        # What must be kept to pay the cheapest arm until the end.
        least = np.where(task.arms >= 0, task.costs, np.inf).min(axis=1)
        cheapest[:T] = np.cumsum(least[::-1])[::-1]
    for t in range(T):
        offered = np.flatnonzero(task.arms[t] >= 0)
        if task.budget is not None and task.costs is not None:
            affordable = task.costs[t, offered] + cheapest[t + 1] <= purse + 1e-12
            offered = offered[affordable]
        arms = task.arms[t, offered].tolist()
        begun = time.perf_counter()
        index = entry.decide(task.contexts[t], arms)
        seconds += time.perf_counter() - begun
        k = offered[index]
        earned[t] = task.rewards[t, k]
        if not math.isnan(earned[t]):
            begun = time.perf_counter()
            entry.update(index, float(earned[t]))
            seconds += time.perf_counter() - begun
        if task.costs is not None:
            purse -= task.costs[t, k]
            if pay is not None:
                pay(float(task.costs[t, k]))
    return earned, seconds


def _result(name: str, label: str, run: int, task: Task, rewards: Floats) -> Result:
    known = ~np.isnan(rewards)
    counts = np.maximum(np.cumsum(known), 1)
    so_far = np.cumsum(np.where(known, rewards, 0.0)) / counts
    at = np.unique(np.linspace(0, task.horizon - 1, POINTS).round().astype(int))
    reward = float(rewards[known].mean()) if known.any() else math.nan
    curve = so_far[at].round(5).tolist()
    return Result(name, label, run, reward, curve, task.horizon, int(known.sum()))


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
    offered = np.where(task.arms >= 0, task.rewards, np.nan)
    ceilings = [_full_information(task, memory) for memory in _CEILING_MEMORIES]
    best = max(ceilings, key=lambda rewards: float(np.nanmean(rewards)))
    return [
        _result(name, RANDOM, run, task, np.nanmean(offered, axis=1)),
        _result(name, FIXED, run, task, _fixed(task)),
        _result(name, CEILING, run, task, best),
    ]


def _fixed(task: Task) -> Floats:
    """The rewards of the one arm that is best in hindsight, or of the best that is on offer."""
    ids = np.arange(int(task.arms.max()) + 1)
    known = ~np.isnan(task.rewards) & (task.arms >= 0)
    own = [task.rewards[known & (task.arms == arm)] for arm in ids]
    means = np.array([rewards.mean() if rewards.size else -np.inf for rewards in own])
    values = np.where(task.arms >= 0, means[task.arms], -np.inf)
    chosen = values.argmax(axis=1)
    rewards: Floats = task.rewards[np.arange(task.horizon), chosen]
    return rewards


def _full_information(task: Task, memory: float) -> Floats:
    """A logistic regression for each arm that learns the reward of every arm on offer.

    x      (d,)       the context and a constant
    theta  (K, d)     one step of Newton's method a round
    P      (K, d, d)  its covariance, divided by `memory` each round
    """
    X = np.column_stack([task.contexts, np.ones(task.horizon)])
    facts, d = facts_of(task), X.shape[1]
    theta, P = np.zeros((facts.arms, d)), np.tile(np.eye(d), (facts.arms, 1, 1))
    chosen = np.empty(task.horizon, dtype=np.int64)
    shares = (task.rewards - facts.low) / (facts.high - facts.low)
    for t, x in enumerate(X):
        on_offer = np.flatnonzero(task.arms[t] >= 0)
        ids = task.arms[t, on_offer]
        z = theta[ids] @ x
        chosen[t] = on_offer[z.argmax()]
        known = ~np.isnan(shares[t, on_offer])
        ids, z, share = ids[known], z[known], shares[t, on_offer][known]
        mean = 1.0 / (1.0 + np.exp(-np.clip(z, -30.0, 30.0)))
        slope = mean * (1.0 - mean)
        along = P[ids] @ x
        shrink = slope / (memory + slope * (along @ x))
        P[ids] = (P[ids] - shrink[:, None, None] * along[:, :, None] * along[:, None, :]) / memory
        # Directions that are not seen for long are not forgotten beyond the prior.
        if memory < 1.0 and t % 50 == 49:
            trace = np.trace(P, axis1=1, axis2=2) / d
            P /= np.maximum(trace, 1.0)[:, None, None]
        theta[ids] += (P[ids] @ x) * (share - mean)[:, None]
    rewards: Floats = task.rewards[np.arange(task.horizon), chosen]
    return rewards


# -- on disk ---------------------------------------------------------------------------------------


def save(results: Sequence[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([result._asdict() for result in results]) + "\n", "utf-8")


def load(path: Path) -> list[Result]:
    return [Result(**row) for row in json.loads(path.read_text("utf-8"))]
