"""What limits keep, and what they cost: `python benchmarks/guardrails.py`.

A shop of 5 arms and 5 features, clicks, 4,000 decisions, the mean of 6 runs. The caller's own rule
plays the baseline: it knows the parameter up to an error, as of the first day. In `quiet` the
world stays as it is, in `changes` the parameter is drawn anew every 1,000 decisions, in `drift` it
turns all the time, and in `nothing to gain` the baseline is always the best arm.

For a budget: the reward that was lost against the baseline by what arms earn on average,
at the end and at the worst moment, and at how much of all moments more was lost than the words
allow, budget x n. `by the log` is the inequality that the accounts promise: rewards that came, and
upper bounds of the baseline. For shares: how often the arm was played, over all and in the least
(or largest) 1,000 decisions in a row, and the reward that was lost against no limits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import driftbandits as db
from driftbandits.service.accounts import Accounts
from driftbandits.service.guardrails import Asked, Draws, Guard, Limits, earned, price_of

ROUNDS, RUNS, ARMS, DIM = 4000, 6, 5, 5
WINDOW = 1000
STRETCH = 1000
NAMES = tuple("abcde")
DELAY = 20
POLICIES: dict[str, dict[str, Any]] = {
    "auto": {},
    "D-GLUCB": {"discount": 0.998, "bonus_scale": 0.1},
}
WORLDS = {
    "quiet": ("auto", "D-GLUCB"),
    "changes": ("auto", "D-GLUCB"),
    "drift": ("auto",),
    "nothing to gain": ("auto",),
}
BUDGETS = (None, 0.02, 0.005)
SHARES: dict[str, Any] = {
    "none": None,
    "a: at least .1": {"a": (0.1, 1.0)},
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
    if kind == "changes":
        for start in range(1000, ROUNDS, 1000):
            path[start:] = 2.0 * _unit(rng)
    if kind == "drift":
        other = _unit(rng)
        angle = np.linspace(0.0, 2.0 * np.pi, ROUNDS)[:, None]
        path = np.cos(angle) * theta + 2.0 * np.sin(angle) * other
    means = 1.0 / (1.0 + np.exp(2.0 - np.einsum("tkd,td->tk", actions, path)))
    rule = theta + 1.5 * _unit(rng)
    baselines = np.argmax(actions @ rule, axis=1)
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


def play(name: str, seen: World, seed: int, limits: Limits) -> Run:
    policy = db.policy(name, dim=DIM, link="logistic", intercept=True, **POLICIES[name])
    agent, accounts = db.Agent(policy, seed=seed), Accounts()
    played = np.zeros(ROUNDS, dtype=np.int64)
    by_log, lost, waiting = np.zeros(ROUNDS), 0.0, list[tuple[Any, int]]()
    for t in range(ROUNDS):
        baseline = int(seen.baselines[t])
        guard = Guard(
            policy,
            limits=limits,
            asked=Asked(str(t), NAMES, baseline),
            accounts=accounts,
            draws=Draws(b"%d" % seed, str(t), ""),
        )
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
                accounts.put_in(earned(policy, value), limits.budget, limits.window)
                lost -= value
        by_log[t] = lost
    return Run(played, by_log)


def budgets() -> None:
    print(f"Budgets, window {WINDOW}, rewards {DELAY} decisions late")
    print(
        f"{'world':<16}{'policy':<9}{'budget':>8}{'reward':>9}{'baseline':>9}{'best':>7}"
        f"{'lost':>8}{'at worst':>9}{'moments above':>14}{'by the log':>11}"
    )
    for kind, names in WORLDS.items():
        for name in names:
            for budget in BUDGETS:
                limits = Limits(budget=budget, window=WINDOW)
                rows = [_budget_row(kind, name, seed, limits) for seed in range(RUNS)]
                reward, base, best, lost, worst, above, kept = np.mean(rows, axis=0)
                label = "none" if budget is None else f"{budget:g}"
                of = "" if budget is None else f"{above:14.1%}{kept:11.0%}"
                print(
                    f"{kind:<16}{name:<9}{label:>8}{reward:9.4f}{base:9.4f}{best:7.4f}"
                    f"{lost:8.1f}{worst:9.1f}{of}",
                    flush=True,
                )


def _budget_row(kind: str, name: str, seed: int, limits: Limits) -> list[float]:
    seen = world(kind, seed)
    run = play(name, seen, seed, limits)
    rounds = np.arange(ROUNDS)
    own, base = seen.means[rounds, run.played], seen.means[rounds, seen.baselines]
    lost = np.cumsum(base - own)
    allowed = 0.0 if limits.budget is None else limits.budget * (rounds + 1)
    above = float((lost > allowed).mean())
    kept = float((run.by_log <= allowed + 1e-9).all())
    best = seen.means.max(axis=1).mean()
    return [own.mean(), base.mean(), best, lost[-1], max(lost.max(), 0.0), above, kept]


def shares() -> None:
    print(f"\nShares, window {WINDOW}; of the first arm: played, and over {STRETCH} in a row")
    print(f"{'world':<16}{'shares':<34}{'played':>8}{'least':>8}{'largest':>9}{'cost':>8}")
    for kind in ("quiet", "changes"):
        free = np.zeros(RUNS)
        for label, limited in SHARES.items():
            rows = []
            for seed in range(RUNS):
                seen = world(kind, seed)
                run = play("auto", seen, seed, Limits(shares=limited, window=WINDOW))
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
    budgets()
    shares()
