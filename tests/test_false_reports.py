"""Changes that `auto` reports while nothing changes, against what `false_alarm_rate` promises."""

from __future__ import annotations

import numpy as np
import pytest

import driftbandits as db

RUNS, ROUNDS = 12, 300
PROMISED = RUNS * ROUNDS * db.policy("auto", dim=1).false_alarm_rate  # about one
MEANS = np.array([0.0, 0.5, 1.0])


def reports(scatter, draw, *, separate, joins=0):
    """Count reports in all runs. The third arm joins later, if at all."""
    found = 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        own = {"dim": 2, "arms": "separate"} if separate else {"dim": 5}
        agent = db.Agent(db.policy("auto", reward="amount", **own), seed=seed)
        slopes = rng.normal(size=(3 if separate else 1, 2))
        for t in range(ROUNDS):
            there = 3 if t >= joins else 2
            x = rng.normal(size=2)
            if separate:
                choice = agent.decide(x, arms=["a", "b", "c"][:there])
            else:
                choice = agent.decide(np.hstack([np.eye(3), np.tile(x, (3, 1))])[:there])
            i = choice.index
            agent.update(
                choice, float(MEANS[i] + slopes[i * separate] @ x + scatter[i] * draw(rng))
            )
        found += len(agent.detections)
    return found


def normal(rng):
    return rng.normal()


def skewed(rng):
    """Draw skewed amounts, most of them small."""
    return rng.lognormal()


@pytest.mark.parametrize("joins", [0, 150])
@pytest.mark.parametrize("scatter", [(1.0, 1.0, 1.0), (0.1, 1.0, 3.0)])
def test_separate_arms_report_no_changes_that_are_none(scatter, joins):
    """The first rounds say little of features and of noise, and arms need not be alike in it."""
    assert reports(scatter, normal, separate=True, joins=joins) <= PROMISED


@pytest.mark.parametrize("separate", [False, True])
def test_heavy_tails_are_no_changes(separate):
    assert reports((1.0, 1.0, 1.0), skewed, separate=separate) <= PROMISED


@pytest.mark.parametrize("scatter", [(0.2, 0.2, 3.0), (3.0, 0.2, 0.2)])
def test_arms_that_scatter_differently_are_learned(scatter):
    """An arm that paid nearly the same a few times is not known: .7 of the way, if it were."""
    shares = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        contexts, slopes = rng.normal(size=(1500, 6)), 0.4 * rng.normal(size=(3, 6))
        means = contexts @ slopes.T + 0.4 * MEANS
        agent = db.Agent(db.policy("auto", dim=6, arms="separate", reward="amount"), seed=seed)
        chosen = []
        for x, mean in zip(contexts, means, strict=True):
            i = agent.decide(x, arms=["a", "b", "c"]).index
            agent.update(agent.issued, float(mean[i] + scatter[i] * rng.normal()))
            chosen.append(mean[i])
        random, best = means.mean(), means.max(axis=1).mean()
        shares.append((np.mean(chosen) - random) / (best - random))
    assert np.mean(shares) > 0.82
