"""Coverage of the intervals of lift, watched after every reward, in simulated services.

    python benchmarks/lift.py [policies] [rounds]

Each line is a world: how often the 95 % interval covered the average effect so far at all times,
for the difference and for the relative lift, and how wide it was at the end. `usual` is what the
interval of a fixed number of rounds covers, which nobody may look at twice.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from driftbandits.core.sequences import (
    GROUPS,
    Comparison,
    Design,
    asymptotic_boundary,
    log_wealth,
)

RISK = 0.05
FIRST_SEED = 100_000
"""Those from 0 on were seen when it was chosen from how many rewards on an interval is told."""


class World(NamedTuple):
    """Means of both sides in each round, and how rewards come about them."""

    name: str
    design: Design
    by_person: bool = False  # one coin for all rounds of a person


BOUNDED = (0.0, 1.0)
WORLDS = [
    World("clicks, nothing changes", Design(0.1, *BOUNDED)),
    World("clicks, drift", Design(0.1, *BOUNDED)),
    World("clicks, rare, drift", Design(0.05, *BOUNDED)),
    World("clicks, the policy learns, then fails", Design(0.5, *BOUNDED)),
    World("ratings 1..5, drift", Design(0.2, 1.0, 5.0)),
    World("amounts 0..500, skewed, drift", Design(0.2, 0.0, 500.0)),
    World("amounts without a range, drift", Design(0.2, -math.inf, math.inf)),
    World("amounts by person, drift", Design(0.2, -math.inf, math.inf), by_person=True),
]


def means(name: str, rounds: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of the control and of the policy, as shares of the range; every policy has its own."""
    t = np.arange(rounds) / rounds
    base = 0.02 if "rare" in name else rng.uniform(0.1, 0.4)
    effect = rng.uniform(-0.3, 0.5) * base
    if "drift" in name:
        wave = np.sin(2 * np.pi * (rng.uniform(0.5, 4.0) * t + rng.random()))
        jump = np.where(t > rng.random(), rng.uniform(-0.5, 0.5), 0.0)
        control = base * (1.0 + 0.5 * wave + 0.3 * jump)
        return control, np.clip(control + effect * (1.0 + jump - wave), 0.0, 1.0)
    if "learns" in name:
        gain = np.minimum(3 * t, 1.0) * np.where(t > 0.7, -1.0, 1.0)
        return np.full(rounds, base), np.clip(base + 0.3 * base * gain, 0.0, 1.0)
    return np.full(rounds, base), np.full(rounds, base + effect)


def drawn(world: World, mu: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rewards with these means."""
    low, high = world.design.low, world.design.high
    if math.isinf(world.design.high):
        return 100.0 * mu * rng.lognormal(-0.5, 1.0, mu.size)  # skewed, of mean 1
    if high == 500.0:
        return np.minimum(500.0 * mu * rng.gamma(0.25, 4.0, mu.size) * 0.1, 500.0)
    if high == 5.0:
        return low + rng.binomial(4, mu)
    return (rng.random(mu.size) < mu).astype(float)


def expected(world: World, mu: np.ndarray) -> np.ndarray:
    """What the rewards are on average; of clipped ones by a large sample."""
    low, high = world.design.low, world.design.high
    if math.isinf(world.design.high):
        return 100.0 * mu
    if high == 500.0:
        sample = np.random.default_rng(7).gamma(0.25, 4.0, 20_000)
        grid = np.linspace(0.0, 1.0, 201)
        clipped = [np.minimum(50.0 * m * sample, 500.0).mean() for m in grid]
        return np.interp(mu, grid, clipped)
    return low + (high - low) * mu if high == 5.0 else mu


def played(world: World, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """One service: rewards, sides, truth of both sides, groups."""
    rng = np.random.default_rng([seed, WORLDS.index(world)])
    control, policy = means(world.name, rounds, rng)
    people = rng.integers(0, max(rounds // 5, 1), rounds)
    if world.by_person:  # a person stays on a side, and likes or dislikes everything
        count = people.max() + 1
        is_control = (rng.random(count) < world.design.share)[people]
        liking = rng.lognormal(-0.125, 0.5, count)[people]
    else:
        is_control, liking = rng.random(rounds) < world.design.share, np.ones(rounds)
    mu = np.where(is_control, control, policy)
    rewards = drawn(world, mu, rng) * liking
    yield from (rewards, is_control, expected(world, control), expected(world, policy))
    yield rng.integers(0, GROUPS, people.max() + 1)[people]


class Path(NamedTuple):
    """S of A, of B and of A - B after every round, and their intrinsic times: (rounds, 3)."""

    n: np.ndarray
    s: np.ndarray
    v: np.ndarray
    ready: np.ndarray
    last: Comparison


FACTORS = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))


def path_of(world: World, rounds: int, seed: int) -> Path:
    """By the class itself, one reward after the other."""
    rewards, is_control, control, policy, groups = played(world, rounds, seed)
    found = Comparison(world.design)
    sums, v, ready = np.empty((rounds, 2)), np.full((rounds, 3), np.nan), np.empty(rounds)
    for i in range(rounds):
        group = int(groups[i]) if world.by_person else None
        found.add(float(rewards[i]), is_control=bool(is_control[i]), group=group)
        sums[i] = found.sums
        ready[i] = found.can_tell
        if not world.by_person or i % 50 == 49:
            v[i] = [found.intrinsic_time(*factors) for factors in FACTORS]
    s_a, s_b = (sums - np.cumsum(np.stack([policy, control], axis=1), axis=0)).T
    return Path(np.arange(1, rounds + 1), np.stack([s_a, s_b, s_a - s_b], axis=1), v, ready, found)


def holds(world: World, path: Path, which: int, *, risk: float = RISK) -> bool:
    """Whether the truth stayed inside, at every round."""
    s, v, design = path.s[:, which], path.v[:, which], world.design
    if math.isfinite(design.high):
        of_a, of_b = FACTORS[which]
        scale = (design.high - design.low) * max(of_a / (1.0 - design.share), of_b / design.share)
        return bool(log_wealth(np.abs(s) / scale, v / scale**2).max() < -math.log(risk / 2))
    seen = path.ready.astype(bool) & ~np.isnan(v)
    rounds = zip(path.n[seen], v[seen], strict=True)
    edges = [asymptotic_boundary(n, time, risk=risk) for n, time in rounds]
    return bool((np.abs(s[seen]) < edges).all())


def usual(path: Path) -> bool:
    """The same of the interval that is right once."""
    s, v = path.s[:, 2], path.v[:, 2]
    seen = (path.n >= 300) & ~np.isnan(v)
    return bool((np.abs(s[seen]) < 1.96 * np.sqrt(v[seen])).all())


class Coverage(NamedTuple):
    """Shares of policies whose truth was inside at all times, and the last half-width."""

    difference: float
    relative: float
    usual: float
    width: float


def coverage(world: World, policies: int, rounds: int) -> Coverage:
    found = []
    for seed in range(FIRST_SEED, FIRST_SEED + policies):
        path = path_of(world, rounds, seed)
        relative = holds(world, path, 2, risk=0.8 * RISK) and holds(world, path, 1, risk=0.2 * RISK)
        told = path.last.difference()
        wide = told is not None and told.low is not None and told.high is not None
        width = 0.5 * (told.high - told.low) if wide else math.nan
        found.append((holds(world, path, 2), relative, usual(path), width))
    return Coverage(*np.nanmean(np.array(found, dtype=float), axis=0).tolist())


def main() -> None:
    policies, rounds = map(int, [*sys.argv[1:], *["1000", "5000"][len(sys.argv) - 1 :]])
    print(
        f"{policies:,} policies with {rounds:,} rounds each, watched after every reward (persons:"
    )
    print("after every 50). Shares of policies whose truth was inside at all times:")
    print()
    print("| world | control | difference | relative | the usual interval | ± at the end |")
    print("|---|---|---|---|---|---|")
    for world in WORLDS:
        found = coverage(world, policies, rounds)
        shares = " | ".join(f"{share:.3f}" for share in found[:3])
        row = f"| {world.name} | {world.design.share:.2f} | {shares} | {found.width:.3f} |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
