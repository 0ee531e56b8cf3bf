"""What limits keep, and what they cost: `python benchmarks/guardrails.py budgets|shares`.

A shop of 5 arms and 5 features, clicks, 3,000 decisions, the mean of 20 runs. The caller's own rule
plays the baseline: it knows the parameter up to an error, as of the first day. In `quiet` the
world stays as it is, in `changes` the parameter is drawn anew every 1,000 decisions, in `drift` it
turns all the time, in `rule knows` the baseline hears of every change at once, and in `nothing to
gain` it is always the best arm.

For a budget: the reward that was lost against the baseline by what arms earn on average, at the end
and at the worst moment; at how many moments more was lost than budget x n, in one run, where luck
counts, and by the mean of all runs; and in how many runs the inequality between rewards that came
and upper bounds of the baseline has held, `by the log`. For shares: how often the arm was played,
over all and in the least (or largest) 1,000 decisions in a row, and the reward that was lost
against no limits.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import driftbandits as db
from driftbandits.service.guardrails import Accounts, Guard, earned, price_of
from driftbandits.service.offers import Offer
from driftbandits.store.records import Configured

ROUNDS, RUNS, ARMS, DIM = 3000, 20, 5, 5
WINDOW = 1000
STRETCH = 1000
NAMES = tuple("abcde")
DELAY = 20
POLICIES: dict[str, dict[str, Any]] = {
    "auto": {},
    "D-GLUCB": {"discount": 0.998, "bonus_scale": 0.1},
}
WORLDS = {
    "quiet": ("auto",),
    "changes": ("auto", "D-GLUCB"),
    "drift": ("auto",),
    "rule knows": ("auto",),
    "nothing to gain": ("auto",),
}
BUDGETS = (None, 0.02, 0.005)
SHARES: dict[str, Any] = {
    "none": None,
    "a: at least .1": {"a": (0.1, 1.0)},
    "a: at least .4": {"a": (0.4, 1.0)},  # twice of what it would get
    "a: at most .1": {"a": (0.0, 0.1)},
    "a, b: at most .1, c: at least .2": {"a": (0.0, 0.1), "b": (0.0, 0.1), "c": (0.2, 1.0)},
}

Floats = NDArray[np.float64]


class World(NamedTuple):
    """Everything that happens, whatever is played."""

    actions: Floats  # (rounds, arms, dim)
    means: Floats  # (rounds, arms)
    clicks: Floats
    baselines: NDArray[np.int64]


def world(kind: str, seed: int) -> World:
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(ROUNDS, ARMS, DIM))
    actions /= np.maximum(np.linalg.norm(actions, axis=2, keepdims=True), 1.0)
    theta = 2.0 * _unit(rng)
    path = np.tile(theta, (ROUNDS, 1))
    if kind in ("changes", "rule knows"):
        for start in range(1000, ROUNDS, 1000):
            path[start:] = 2.0 * _unit(rng)
    if kind == "drift":
        other = _unit(rng)
        angle = np.linspace(0.0, 2.0 * np.pi, ROUNDS)[:, None]
        path = np.cos(angle) * theta + 2.0 * np.sin(angle) * other
    means = 1.0 / (1.0 + np.exp(2.0 - np.einsum("tkd,td->tk", actions, path)))
    rule = 1.5 * _unit(rng) + (path if kind == "rule knows" else theta)
    baselines = np.argmax(np.einsum("tkd,td->tk", actions, np.broadcast_to(rule, path.shape)), 1)
    if kind == "nothing to gain":
        baselines = np.argmax(means, axis=1)
    return World(actions, means, (rng.random(means.shape) < means).astype(float), baselines)


def _unit(rng: np.random.Generator) -> Floats:
    found = rng.normal(size=DIM)
    return np.asarray(found / np.linalg.norm(found))


class Run(NamedTuple):
    """What was played, and what the accounts say."""

    played: NDArray[np.int64]
    by_log: Floats  # what was lost, by rewards and upper bounds


def version(**limits: Any) -> Configured:
    """A configuration with these limits, whatever else it says."""
    plain = (1, {}, 0, "online", None, 0.0, None, None, True, "")
    return Configured(*plain, **limits, limit_window=WINDOW)


def play(name: str, seen: World, seed: int, limits: Configured) -> Run:
    policy = db.policy(name, dim=DIM, link="logistic", intercept=True, **POLICIES[name])
    agent, accounts = db.Agent(policy, seed=seed), Accounts()
    played = np.zeros(ROUNDS, dtype=np.int64)
    by_log, lost, waiting = np.zeros(ROUNDS), 0.0, list[tuple[Any, int]]()
    for t in range(ROUNDS):
        baseline = int(seen.baselines[t])
        offer = Offer(NAMES, seen.actions[t], baseline, "")
        guard = Guard(policy, limits, str(t), offer, accounts, b"%d" % seed)
        made: list[Any] = []

        def rule(choices: Any, guard: Guard = guard, made: list[Any] = made) -> list[int]:
            made += guard.plays(choices)
            return [made[0].played]

        choice = agent.decide(seen.actions[t], played=rule)
        played[t] = made[0].played
        if limits.budget is not None and played[t] != baseline:
            lost += price_of(policy, choice, baseline)
        waiting.append((choice, t))
        if len(waiting) > DELAY:
            earlier, s = waiting.pop(0)
            value = float(seen.clicks[s, played[s]])
            agent.update(earlier, value)
            if limits.budget is not None and accounts.charged.pop(str(s), None) is not None:
                accounts.put_in(earned(policy, value), limits.budget, limits.limit_window)
                lost -= value
        by_log[t] = lost
    return Run(played, by_log)


def budgets() -> None:
    print(f"Budgets, window {WINDOW}, rewards {DELAY} decisions late")
    print(
        f"{'world':<16}{'policy':<9}{'budget':>8}{'reward':>9}{'baseline':>9}{'best':>8}"
        f"{'lost':>8}{'at worst':>9}{'above, one run':>15}{'on average':>11}{'by the log':>11}"
    )
    for kind, names in WORLDS.items():
        for name in names:
            for budget in BUDGETS:
                limits = version(budget=budget)
                print(f"{kind:<16}{name:<9}{_budget_row(kind, name, limits)}", flush=True)


def _budget_row(kind: str, name: str, limits: Configured) -> str:
    rounds, figures, losses = np.arange(ROUNDS), [], []
    allowed = (limits.budget or 0.0) * (rounds + 1)
    for seed in range(RUNS):
        seen = world(kind, seed)
        run = play(name, seen, seed, limits)
        own, base = seen.means[rounds, run.played], seen.means[rounds, seen.baselines]
        lost = np.cumsum(base - own)
        losses.append(lost)
        kept = (run.by_log <= allowed + 1e-9).all()
        best = seen.means.max(axis=1).mean()
        figures.append([own.mean(), base.mean(), best, lost[-1], max(lost.max(), 0.0), kept])
    reward, base, best, lost, worst, kept = np.mean(figures, axis=0)
    label = "none" if limits.budget is None else f"{limits.budget:g}"
    told = f"{label:>8}{reward:9.4f}{base:9.4f}{best:8.4f}{lost:8.1f}{worst:9.1f}"
    if limits.budget is None:
        return told
    one = (np.array(losses) > allowed).mean()
    average = (np.mean(losses, axis=0) > allowed).mean()
    return f"{told}{one:15.1%}{average:11.1%}{kept:11.0%}"


def shares() -> None:
    print(f"Shares, window {WINDOW}; of the first arm: played, and over {STRETCH} in a row")
    print(f"{'world':<16}{'shares':<34}{'played':>8}{'least':>8}{'largest':>9}{'cost':>8}")
    for kind in ("quiet", "changes"):
        free = np.zeros(RUNS)
        for label, limited in SHARES.items():
            rows = []
            for seed in range(RUNS):
                seen = world(kind, seed)
                run = play("auto", seen, seed, version(shares=limited))
                is_first = np.cumsum(np.concatenate([[0.0], run.played == 0]))
                stretches = (is_first[STRETCH:] - is_first[:-STRETCH]) / STRETCH
                reward = seen.means[np.arange(ROUNDS), run.played].mean()
                if limited is None:
                    free[seed] = reward
                share = float((run.played == 0).mean())
                rows.append([share, stretches.min(), stretches.max(), free[seed] - reward])
            share, least, most, cost = np.mean(rows, axis=0)
            print(
                f"{kind:<16}{label:<34}{share:8.3f}{least:8.3f}{most:9.3f}{cost:8.4f}", flush=True
            )


if __name__ == "__main__":
    {"budgets": budgets, "shares": shares}[sys.argv[1]]()
