"""Segments: Gaussians of the rewards since some round, for a few such rounds.

A segment is a Gaussian that never forgets and that holds the rewards of its first round and all
later ones (run lengths, Adams and MacKay 2007; Fearnhead and Liu 2007). A new one begins with every
new round; when there are too many, one is merged into a neighbour. Every chain has its own hazard
and its own weights over the same segments.
"""

from __future__ import annotations

from driftbandits.core import Model, State, copy, copy_matrix
from driftbandits.core.estimator.state import BEGUN
from driftbandits.jit import inlined, internal
from driftbandits.policies.auto.drifts import begin_as
from driftbandits.policies.auto.gaussians import (
    LATER_FITS,
    MOST_LEARNED_AGAIN,
    MOST_REFITTED,
    Noise,
    fit_anew,
    learn_again,
    learn_base,
    learn_reward,
)
from driftbandits.policies.auto.priors import make_covariance
from driftbandits.policies.auto.record import (
    CHAINS,
    FIRST_OF_ALL,
    HAZARDS,
    KINDS,
    ROOM,
    SEGMENTS,
    Belief,
)

_DRIFTS_BEGIN = 64  # rewards up to which drifts are started again with the prior of now


@internal
def hold(belief: Belief) -> None:
    """held := weights of the segments over all chains."""
    for r in range(belief.segments[0]):
        total = 0.0
        for h in range(CHAINS):
            total += belief.trust[h] * belief.weights[h * ROOM + r]
        belief.held[r] = total


@internal
def begin(model: Model, state: State, belief: Belief) -> None:
    """One segment for each kind of prior, which hold everything."""
    for kind in range(KINDS):
        belief.starts[kind], belief.serials[kind] = FIRST_OF_ALL, kind
        belief.kinds[kind] = kind
        make_covariance(model, state, belief, kind, False, belief.P[kind])
        for h in range(CHAINS):
            belief.weights[h * ROOM + kind] = 1.0 / KINDS
    belief.segments[0] = belief.born[0] = KINDS
    hold(belief)
    begin_as(model, belief, 0)


@internal
def align(model: Model, state: State, belief: Belief, common: Belief) -> None:
    """Let the segments of an arm be those of all arms; those it does not know are new to it."""
    known = belief.segments[0]
    after = 0
    for r in range(common.segments[0]):
        while after < known and belief.serials[after] < common.serials[r]:
            after += 1
        if after < known and belief.serials[after] == common.serials[r]:
            if after > r:
                belief.counts[r], belief.bases[r] = belief.counts[after], belief.bases[after]
                copy(belief.theta[after], belief.theta[r])
                copy_matrix(belief.P[after], belief.P[r])
        else:
            _empty(model, belief, r)


@internal
def begin_arm(model: Model, state: State, belief: Belief) -> None:
    """Let an arm that is new know the segments of all arms, and nothing of its own."""
    likely = 0
    for r in range(belief.segments[0]):
        _empty(model, belief, r)
        is_new = belief.starts[r] > FIRST_OF_ALL
        make_covariance(model, state, belief, belief.kinds[r], is_new, belief.P[r])
        if belief.kinds[r] == belief.kind[0] and belief.kinds[likely] != belief.kind[0]:
            likely = r
    begin_as(model, belief, likely)


@inlined
def _empty(model: Model, belief: Belief, r: int) -> None:
    """Let segment r be what is believed before any reward."""
    belief.counts[r] = 0
    belief.bases[r] = belief.base[0]
    for j in range(model.d):
        belief.theta[r, j] = 0.0
    belief.theta[r, model.d - 1] += belief.base[0]
    copy_matrix(belief.prior_P, belief.P[r])


@internal
def learn_by_segments(
    model: Model, state: State, belief: Belief, reward: float, s: int, noise: Noise
) -> None:
    """Let the segments that reach back to round s learn the reward of scratch.row.

    evidence[r] := that of the reward before. The others began later and say nothing of round s;
    `weigh` gives them what the others say together.
    """
    for r in range(belief.segments[0]):
        if belief.starts[r] <= s:
            theta, P = belief.theta[r], belief.P[r]
            base, variance = belief.shared_base[r], belief.base_variance[r]
            learned = learn_reward(model, state, theta, P, reward, 1.0, noise, base, variance)
            belief.evidence[r] = learned.evidence
            learn_base(belief, r, learned)
            belief.counts[r] += 1


@internal
def fit_segments(model: Model, state: State, belief: Belief, s: int, noise: Noise) -> None:
    """Fit segments anew that hold 1, 2, 4, 8, ... rewards, after one of round s.

    So a young belief has the prior of now, and no fit is more than half a recursion. Those
    that began later are fitted at fewer of these.
    """
    likely = _likely_kind(belief)
    for r in range(belief.segments[0]):
        n = belief.counts[r]
        if belief.starts[r] > s or n & (n - 1) != 0:
            continue
        holds_everything = belief.starts[r] == FIRST_OF_ALL
        if model.fast:
            if holds_everything and n <= MOST_LEARNED_AGAIN:
                learn_again(model, state, belief, r, noise)
        elif n <= MOST_REFITTED and (holds_everything or n in LATER_FITS):
            fit_anew(model, state, belief, r)
        if holds_everything and belief.kinds[r] == likely and n <= _DRIFTS_BEGIN:
            begin_as(model, belief, r)
    belief.kind[0] = likely


@inlined
def _likely_kind(belief: Belief) -> int:
    """The kind of prior whose segments weigh most together."""
    likely, most = 0, -1.0
    for kind in range(KINDS):
        total = 0.0
        for r in range(belief.segments[0]):
            if belief.kinds[r] == kind:
                total += belief.held[r]
        if total > most:
            likely, most = kind, total
    return likely


@internal
def begin_segment(model: Model, state: State, belief: Belief, start: int) -> None:
    """Begin a segment with round `start`, and merge one if there are too many."""
    r = belief.segments[0]
    rounds = 1 if belief.starts[r - 1] == FIRST_OF_ALL else start - belief.starts[r - 1]
    for h in range(CHAINS):
        stays = (1.0 - HAZARDS[h]) ** rounds
        for i in range(r):
            belief.weights[h * ROOM + i] *= stays
        belief.weights[h * ROOM + r] = 1.0 - stays
    belief.starts[r], belief.serials[r], belief.kinds[r] = start, belief.born[0], belief.kind[0]
    belief.shared_base[r], belief.base_variance[r] = _mean_of_bases(belief)
    _empty(model, belief, r)
    belief.segments[0] += 1
    belief.born[0] += 1
    hold(belief)
    if belief.segments[0] > SEGMENTS:
        _merge(model, state, belief, _least_missed(belief, start))


@inlined
def _mean_of_bases(belief: Belief) -> tuple[float, float]:
    """The base that arms share in the likely segments, and its variance."""
    weight, base, variance = 1e-12, 0.0, 0.0
    for r in range(belief.segments[0]):
        weight += belief.held[r]
        base += belief.held[r] * belief.shared_base[r]
        variance += belief.held[r] * belief.base_variance[r]
    return base / weight, variance / weight


@inlined
def _least_missed(belief: Belief, now: int) -> int:
    """The segment with the least weight times the gap that it would leave, relative to its age."""
    chosen, least = 0, -1.0
    for r in range(belief.segments[0] - 1):
        gap = 1.0
        if r > 0 and belief.starts[r - 1] > FIRST_OF_ALL:
            before = belief.starts[r - 1]
            gap = (belief.starts[r + 1] - before) / float(now - before)
        loss = gap * (belief.held[r] + 1e-12)
        if least < 0.0 or loss < least:
            chosen, least = r, loss
    return chosen


@internal
def _merge(model: Model, state: State, belief: Belief, r: int) -> None:
    """Give the weight of segment r to the neighbour that began nearer to it, and close the gap."""
    into = r + 1
    if r > 0 and belief.starts[r] - belief.starts[r - 1] <= belief.starts[r + 1] - belief.starts[r]:
        into = r - 1
    for h in range(CHAINS):
        belief.weights[h * ROOM + into] += belief.weights[h * ROOM + r]
    for i in range(r, belief.segments[0] - 1):
        belief.starts[i], belief.serials[i] = belief.starts[i + 1], belief.serials[i + 1]
        belief.kinds[i], belief.counts[i] = belief.kinds[i + 1], belief.counts[i + 1]
        belief.bases[i] = belief.bases[i + 1]
        belief.shared_base[i] = belief.shared_base[i + 1]
        belief.base_variance[i] = belief.base_variance[i + 1]
        copy(belief.theta[i + 1], belief.theta[i])
        copy_matrix(belief.P[i + 1], belief.P[i])
        for h in range(CHAINS):
            belief.weights[h * ROOM + i] = belief.weights[h * ROOM + i + 1]
    belief.segments[0] -= 1
    hold(belief)
    if belief.starts[0] > FIRST_OF_ALL:
        state.counters[BEGUN] = belief.starts[0] - 1
