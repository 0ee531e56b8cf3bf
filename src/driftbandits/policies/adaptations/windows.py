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
from typing import TYPE_CHECKING, Annotated, NamedTuple

from driftbandits.core import Model, State
from driftbandits.core.estimator.memory import forget_oldest
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import BEGUN, HEAD, SPAN, TAIL, Ints, N, layout_beyond
from driftbandits.jit import Share, inlined, internal, reader_of
from driftbandits.policies.adaptations import fixed
from driftbandits.policies.randomness import WINDOW_DRAW, uniform
from driftbandits.policies.scoring import OWN_NUMBERS, Opened

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy


class Numbers(NamedTuple):
    """Constants of the paper."""

    block: int  # H
    windows: int  # J + 1
    mixing: float  # gamma
    low: float  # smallest reward
    range: float  # largest less smallest reward


class Own(NamedTuple):
    """The window of the present block, and the weights of all."""

    block: Annotated[Ints, Share("counters")]  # from 1
    drawn: Annotated[Ints, Share("counters")]  # which window, from 0
    gain: Annotated[Floats, Share("gauges")]
    probability: Annotated[Floats, Share("gauges")]
    log_weights: Annotated[Floats, Share("gauges", None)]  # one for each window


LAYOUT = layout_beyond(Own)
_own_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    assert policy.horizon is not None  # checked where a policy is made
    H = max(1, math.floor(policy.model_dim ** (2.0 / 3.0) * math.sqrt(policy.horizon)))
    J = max(1, math.ceil(math.log(H)))
    blocks = math.ceil(policy.horizon / H)
    mixing = min(1.0, math.sqrt((J + 1) * math.log(J + 1) / ((math.e - 1.0) * blocks)))
    low, high = policy.model_range()
    return Numbers(block=H, windows=J + 1, mixing=mixing, low=low, range=high - low)


def sizes_for(policy: Policy) -> dict[str, int]:
    sizes = dict(LAYOUT.sizes)
    sizes["gauges"] += numbers_for(policy).windows
    return sizes


def window_for(policy: Policy) -> int:
    return numbers_for(policy).block


@inlined
def estimate(opened: Opened, seed: int, actions: Floats) -> None:
    numbers, model, _, _, state = opened
    own, bandit = _own_of(state.stores), _numbers_of(numbers)
    block = state.counters[N] // bandit.block
    if block + 1 != own.block[0]:
        _begin_block(model, bandit, state, own, uniform(seed, block, WINDOW_DRAW))
    fixed.estimate(opened, seed, actions)


@internal
def _begin_block(model: Model, bandit: Numbers, state: State, own: Own, draw: float) -> None:
    """Learn what the last window earned, forget everything, take the window that `draw` says."""
    counters, log_weights = state.counters, own.log_weights
    count = bandit.windows
    if own.block[0] > 0:
        log_weights[own.drawn[0]] += (
            bandit.mixing * own.gain[0] / (bandit.block * count * own.probability[0])
        )
    largest = -math.inf
    for j in range(count):
        largest = max(largest, log_weights[j])
    total = 0.0
    for j in range(count):
        log_weights[j] -= largest  # only their differences matter
        total += math.exp(log_weights[j])
    below = 0.0
    for j in range(count):
        share = math.exp(log_weights[j]) / total
        probability = (1.0 - bandit.mixing) * share + bandit.mixing / count
        own.drawn[0] = j
        own.probability[0] = probability
        below += probability
        if draw < below:
            break
    own.block[0] = counters[N] // bandit.block + 1
    counters[BEGUN] = (own.block[0] - 1) * bandit.block
    own.gain[0] = 0.0
    share = own.drawn[0] / (count - 1.0)
    counters[SPAN] = int(float(bandit.block) ** share + 1e-9)
    forget_oldest(model, state, counters[TAIL] - counters[HEAD])


@inlined
def learn(opened: Opened, reward: float, s: int) -> None:
    fixed.learn(opened, reward, s)
    own, bandit = _own_of(opened.state.stores), _numbers_of(opened.numbers)
    own.gain[0] += (reward - bandit.low) / bandit.range
