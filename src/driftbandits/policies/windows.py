"""A bandit over windows: Exp3 draws the window of each block of rounds (Cheung et al. 2019).

At the start of a block everything is forgotten, a window is drawn, and a sliding-window policy
plays the block with it. The sum of the block's rewards, over the most it can be, is what Exp3
learns.

Notation
--------
H          rounds in a block: floor(d^(2/3) sqrt(T))
J          ceil(ln H); the windows are floor(H^(j/J)), j = 0..J
gamma      share of uniform draws: min(1, sqrt((J+1) ln(J+1) / ((e-1) ceil(T/H))))
p_j        (1 - gamma) w_j / sum w + gamma/(J+1)
w_j        weights; after a block with window j, w_j *= exp(gamma gain / ((J+1) p_j))
"""

from __future__ import annotations

import math

from driftbandits.estimator.memory import forget_oldest
from driftbandits.estimator.model import BEGUN, COUNTERS, GAUGES, HEAD, SPAN, TAIL, Model, N, State
from driftbandits.jit import inlined, internal, place
from driftbandits.policies.adaptation import WINDOWS, Adaptation

# Places beyond the estimator's own.
BLOCK, DRAWN = map(place, range(COUNTERS, COUNTERS + 2))  # from 1; which window, from 0
GAIN, CHANCE = map(place, range(GAUGES, GAUGES + 2))
LOG_WEIGHTS = place(GAUGES + 2)


def bandit_over_windows(
    *, d: int, horizon: int, reward_range: tuple[float, float]
) -> tuple[Adaptation, dict[str, int]]:
    """The numbers of the paper, and the entries that the state needs."""
    H = max(1, math.floor(d ** (2.0 / 3.0) * math.sqrt(horizon)))
    J = max(1, math.ceil(math.log(H)))
    blocks = math.ceil(horizon / H)
    mixing = min(1.0, math.sqrt((J + 1) * math.log(J + 1) / ((math.e - 1.0) * blocks)))
    low, high = reward_range
    adaptation = Adaptation(
        kind=WINDOWS, block=H, windows=J + 1, mixing=mixing, low=low, range=high - low
    )
    return adaptation, {"more_counters": 2, "more_gauges": 2 + J + 1}


@inlined
def is_over(adaptation: Adaptation, state: State) -> bool:
    """Whether the next round belongs to another block than the one that is played."""
    return bool(state.counters[N] // adaptation.block + 1 != state.counters[BLOCK])


@internal
def begin_block(model: Model, adaptation: Adaptation, state: State, draw: float) -> None:
    """Learn what the last window earned, forget everything, take the window that `draw` says."""
    counters, gauges = state.counters, state.gauges
    count = adaptation.windows
    if counters[BLOCK] > 0:
        gauges[LOG_WEIGHTS + counters[DRAWN]] += (
            adaptation.mixing * gauges[GAIN] / (adaptation.block * count * gauges[CHANCE])
        )
    largest = -math.inf
    for j in range(count):
        largest = max(largest, gauges[LOG_WEIGHTS + j])
    total = 0.0
    for j in range(count):
        gauges[LOG_WEIGHTS + j] -= largest  # only their differences matter
        total += math.exp(gauges[LOG_WEIGHTS + j])
    below = 0.0
    for j in range(count):
        share = math.exp(gauges[LOG_WEIGHTS + j]) / total
        chance = (1.0 - adaptation.mixing) * share + adaptation.mixing / count
        counters[DRAWN] = j
        gauges[CHANCE] = chance
        below += chance
        if draw < below:
            break
    counters[BLOCK] = counters[N] // adaptation.block + 1
    counters[BEGUN] = (counters[BLOCK] - 1) * adaptation.block
    gauges[GAIN] = 0.0
    share = counters[DRAWN] / (count - 1.0)
    counters[SPAN] = int(float(adaptation.block) ** share + 1e-9)
    forget_oldest(model, state, counters[TAIL] - counters[HEAD])


@inlined
def credit(adaptation: Adaptation, state: State, reward: float) -> None:
    """Count a reward of the present block."""
    state.gauges[GAIN] += (reward - adaptation.low) / adaptation.range
