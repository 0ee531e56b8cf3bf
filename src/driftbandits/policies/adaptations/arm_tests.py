"""Tests of single arms for a change, for fixed arms: CUSUM-UCB, M-UCB and GLR-klUCB.

An action is taken for the arm of its largest coordinate, so a one-hot action is its arm. Each test
reads the rewards of one arm since it was last forgotten. When it fires, the arm is forgotten, or
all arms are: their rows and columns of V and b begin anew. To see changes of arms that look bad,
all three explore: in a share alpha of the rounds an arm is drawn at random. (M-UCB and GLR-klUCB
have a schedule for that. Exploring at random, at the same rate, keeps propensities known.)

Notation
--------
K, T, G    arms; rounds, UNKNOWN_HORIZON unless given; changes, 1 unless given
x, n, S    a reward over m; rewards of the arm since it was forgotten, and their sum

CUSUM-UCB  (Liu, Lee, Shroff 2018) u is the mean of the first M rewards. Then
           g+ = max(0, g+ + x - u - eps), g- = max(0, g- + u - x - eps), and the arm has changed
           when one of them exceeds h = log(T/G); alpha = sqrt(G log(T/G)/T)
M-UCB      (Cao, Wen, Kveton, Xie 2019) everything is forgotten when the sums of the older and the
           newer half of the arm's last w rewards differ by more than b = sqrt(w log(2 K T^2)/2);
           alpha = sqrt(G K (2 b + 3 sqrt(w))/(2 T))
GLR-klUCB  (Besson, Kaufmann, Maillard, Seznec 2022, local restarts) the arm has changed when for
           some s the likelihood ratio s kl(S_s/s, S/n) + (n-s) kl((S-S_s)/(n-s), S/n) exceeds
           log(3 n^(3/2)/delta), delta = 1/sqrt(T); alpha = sqrt(G K log(T)/T). At most SPLITS
           values of s are tested, equally far apart: the distance doubles when there are more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import FITTED, layout_beyond
from driftbandits.jit import Share, inlined, internal, place, reader_of
from driftbandits.policies.adaptations import fixed, record_detection
from driftbandits.policies.scoring import OWN_NUMBERS, Opened, arm_of, bernoulli_divergence

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

TESTS = ("", "sums", "halves", "likelihood ratio")
"""Tests that a row can have; the first is none."""
SUMS, HALVES = place(1), place(2)

UNKNOWN_HORIZON = 10_000
FIRST = 100  # M
SLACK = 0.1  # eps
LAST = 200  # w
SPLITS = 128

COUNT, SUM, UP, DOWN, HELD, DISTANCE, HISTORY = range(7)
"""Sums of an arm: n, S, g+, g-; values in its history, and how far apart they are."""
ROOM = HISTORY + max(LAST, SPLITS)


class Numbers(NamedTuple):
    """The test."""

    kind: int  # place in TESTS
    threshold: float  # h, b, or -log(delta)


class Own(NamedTuple):
    """Sums of the tests, arm by arm."""

    arms: Annotated[Floats, Share("gauges", None)]


LAYOUT = layout_beyond(Own)
_own_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    threshold, _ = _rule_of_the_source(policy)
    return Numbers(kind=TESTS.index(policy.row.test), threshold=threshold)


def exploration_for(policy: Policy) -> float:
    """alpha."""
    return _rule_of_the_source(policy)[1]


def _rule_of_the_source(policy: Policy) -> tuple[float, float]:
    """The threshold and alpha."""
    T, K = policy.horizon or UNKNOWN_HORIZON, policy.dim
    G = min(max(policy.changes or 1, 1), T)
    if policy.row.test == TESTS[SUMS]:
        threshold = math.log(max(T / G, math.e))
        alpha = math.sqrt(G * threshold / T)
    elif policy.row.test == TESTS[HALVES]:
        threshold = math.sqrt(LAST * math.log(2.0 * K * T * T) / 2.0)
        alpha = math.sqrt(G * K * (2.0 * threshold + 3.0 * math.sqrt(LAST)) / (2.0 * T))
    else:
        threshold = 0.5 * math.log(T)
        alpha = math.sqrt(G * K * math.log(max(T, 2)) / T)
    return threshold, min(alpha, 1.0)


def sizes_for(policy: Policy) -> dict[str, int]:
    sizes = dict(LAYOUT.sizes)
    sizes["gauges"] += ROOM * policy.dim
    return sizes


@internal
def learn(opened: Opened, reward: float, s: int) -> None:
    fixed.learn(opened, reward, s)
    numbers, model, scoring, _, state = opened
    test, own = _numbers_of(numbers), _own_of(state.stores)
    k = arm_of(state.scratch.row, scoring.dim)
    arm = own.arms[k * ROOM : (k + 1) * ROOM]
    x = reward / model.m
    arm[COUNT] += 1.0
    arm[SUM] += x
    threshold = test.threshold
    if test.kind == SUMS:
        statistic = _follow_sums(arm, x)
    elif test.kind == HALVES:
        statistic = _follow_halves(arm, x)
    else:
        statistic = _follow_splits(arm)
        threshold += math.log(3.0) + 1.5 * math.log(arm[COUNT])
    if statistic <= threshold:
        return
    record_detection(state, s, statistic, threshold)
    for other in range(scoring.dim):
        if other == k or test.kind == HALVES:
            state.V[other, :] = state.V[:, other] = 0.0
            state.V[other, other] = model.lam / model.c
            state.b[other] = 0.0
            own.arms[other * ROOM : (other + 1) * ROOM] = 0.0
    state.counters[FITTED] = 0


@inlined
def _follow_sums(arm: Floats, x: float) -> float:
    """The larger of the two sums; HISTORY holds u."""
    if arm[COUNT] <= FIRST:
        arm[HISTORY] = arm[SUM] / arm[COUNT]
        return 0.0
    arm[UP] = max(0.0, arm[UP] + x - arm[HISTORY] - SLACK)
    arm[DOWN] = max(0.0, arm[DOWN] + arm[HISTORY] - x - SLACK)
    return float(max(arm[UP], arm[DOWN]))


@inlined
def _follow_halves(arm: Floats, x: float) -> float:
    """The difference of the halves of the last rewards; HISTORY holds them in a circle."""
    newest = (int(arm[COUNT]) - 1) % LAST
    arm[HISTORY + newest] = x
    if arm[COUNT] < LAST:
        return 0.0
    older, newer = 0.0, 0.0
    for age in range(LAST):
        value = arm[HISTORY + (newest - age) % LAST]
        if age < LAST // 2:
            newer += value
        else:
            older += value
    return abs(newer - older)


@inlined
def _follow_splits(arm: Floats) -> float:
    """The largest likelihood ratio of a split; HISTORY holds the sums up to each."""
    if arm[DISTANCE] == 0.0:
        arm[DISTANCE] = 1.0
    n, total, distance = arm[COUNT], arm[SUM], arm[DISTANCE]
    if n % distance != 0.0:
        return 0.0
    largest, whole = 0.0, total / n
    held = int(arm[HELD])
    for i in range(held):
        s = (i + 1.0) * distance
        before, after = arm[HISTORY + i] / s, (total - arm[HISTORY + i]) / (n - s)
        ratio = s * bernoulli_divergence(before, whole)
        ratio += (n - s) * bernoulli_divergence(after, whole)
        largest = max(largest, ratio)
    if held == SPLITS:
        held = SPLITS // 2
        for i in range(held):
            arm[HISTORY + i] = arm[HISTORY + 2 * i + 1]
        arm[DISTANCE] = 2.0 * distance
    if n % arm[DISTANCE] == 0.0:
        arm[HISTORY + held] = total
        held += 1
    arm[HELD] = held
    return largest
