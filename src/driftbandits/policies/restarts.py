"""Restart on a detected change: compare the evidence for one parameter and for two.

Rows are summed in blocks, oldest first. A new row is a block of its own; of every size 1, 2, 4, ...
at most BLOCKS_OF_A_SIZE are kept, and the two oldest of a size become one of the next. So there are
O(log n) blocks, and the border before each block is a change that is tested for: suffixes are
tested whose lengths grow geometrically.

Each row is replaced by its quadratic model about the estimate it met, for which the evidence of a
set of rows, the likelihood integrated over a parameter with the prior N(0, I/lam), is known in
closed form up to a factor that depends on the rows alone:

    E(c, H) = c'(H + lam I)^-1 c / (2 phi) - log det(I + H/lam) / 2.

The statistic of a border is E(before) + E(after) - E(all), the log of a Bayes factor. Were the
models exact, the sum of these factors over all borders would grow by one a round in the mean for as
long as nothing changes (Shiryaev 1963; Roberts 1966), so that a threshold of log(1/rate) has a mean
time of at least 1/rate between false alarms. Testing some borders, some of the time, only adds to
that. Quadratic models have lighter tails than counts and clicks: a steep or rare reward would be
taken for a change far too often. So a border that passes is confirmed by the evidence whose
three sets of rows are each expanded about their own peak (Laplace), and only that is reported.
Refuting costs some passes over the rows, so no border is then tested for a while.

The blocks are expanded anew, about the exact estimate, after a restart and whenever the
rows have grown by a fifth; no border is tested before the first decision has done so.

Notation
--------
z, r       a_s.theta-hat at the time, and the residual X_s - mu(z)
c          (d,)     sum of (r + mu'(z) z) a_s over the rows of a block
H          (d, d)   sum of mu'(z) a_s a_s'
phi        variance of a reward over mu': 1 but for linear rows, where it is (m/2)^2
"""

from __future__ import annotations

import math

from driftbandits import links
from driftbandits.estimator.memory import forget_oldest
from driftbandits.estimator.model import (
    BEGUN,
    COUNTERS,
    HEAD,
    LONGEST,
    MATRICES,
    ROW,
    TAIL,
    THETA_HAT,
    VECTORS,
    Model,
    State,
)
from driftbandits.estimator.solve import REACH
from driftbandits.jit import inlined, internal, place
from driftbandits.linalg import add_outer, backward_solve, cholesky, copy, dot, forward_solve, norm
from driftbandits.policies.adaptation import Adaptation
from driftbandits.policies.detection import record_detection

BLOCKS_OF_A_SIZE = 4
LARGEST_SIZE = 16  # as a power of 2; blocks of this size merge into larger ones of the same name
BLOCKS = BLOCKS_OF_A_SIZE * (LARGEST_SIZE + 1) + 1
_LOOKS = 4  # a border is tested this often within the length of the block behind it
_GROWTH = 1.2
_MOST_STEPS = 50
_LEAST_RISE = 1e-6

# Places beyond the estimator's own.
COUNT, NEWEST = map(place, range(COUNTERS, COUNTERS + 2))
EXPANDED = place(COUNTERS + 2)  # rows when the blocks were last expanded about a fit; 0: never
PATIENCE = place(COUNTERS + 3)  # rows before which no border is tested
SIZES = place(COUNTERS + 4)  # of each block: rows, ...
LEVELS = place(COUNTERS + 4 + BLOCKS)  # ... the power of 2, ...
FIRSTS = place(COUNTERS + 4 + 2 * BLOCKS)  # ... and the first round
ALL_C, BEFORE_C, AFTER_C, SOLVED, PEAK = map(place, range(VECTORS, VECTORS + 5))
C = place(VECTORS + 5)
ALL_H, BEFORE_H, AFTER_H, ROOT = map(place, range(MATRICES, MATRICES + 4))
H = place(MATRICES + 4)

MORE = {
    "more_counters": 4 + 3 * BLOCKS,
    "more_vectors": 5 + BLOCKS,
    "more_matrices": 4 + BLOCKS,
}


@inlined
def watch(model: Model, adaptation: Adaptation, state: State, reward: float, s: int) -> None:
    """Restart if the reward of the row in ROW, of round s, makes the evidence strong enough."""
    _file_row(model, state, reward, s)
    counters = state.counters
    if counters[EXPANDED] > 0 and counters[TAIL] - counters[HEAD] >= counters[PATIENCE]:
        _test(model, adaptation, state)


@inlined
def follow(model: Model, state: State) -> None:
    """Expand the blocks about a fitted estimate where they have been about others for too long."""
    counters = state.counters
    if counters[TAIL] - counters[HEAD] >= _GROWTH * counters[EXPANDED]:
        _expand(model, state)


@internal
def _file_row(model: Model, state: State, reward: float, s: int) -> None:
    counters = state.counters
    if counters[COUNT] == 0 or s > counters[NEWEST]:
        block = counters[COUNT]
        _clear(state, C + block, H + block)
        counters[SIZES + block] = 0
        counters[LEVELS + block] = 0
        counters[FIRSTS + block] = s
        counters[NEWEST] = s
        counters[COUNT] += 1
    else:  # late: it belongs to the block of its time
        block = counters[COUNT] - 1
        while block > 0 and counters[FIRSTS + block] > s:
            block -= 1
        counters[FIRSTS + block] = min(counters[FIRSTS + block], s)
    counters[SIZES + block] += 1
    _add_row(model, state, reward, C + block, H + block)
    _add_row(model, state, reward, ALL_C, ALL_H)
    _merge(state)


@inlined
def _clear(state: State, c: int, h: int) -> None:
    for i in range(state.vectors.shape[1]):
        state.vectors[c, i] = 0.0
        for j in range(state.vectors.shape[1]):
            state.matrices[h, i, j] = 0.0


@inlined
def _add_row(model: Model, state: State, reward: float, c: int, h: int) -> None:
    z = dot(state.vectors, ROW, THETA_HAT)
    slope = links.slope(model.link, model.m, z)
    response = reward - links.mean(model.link, model.m, z) + slope * z
    for i in range(model.d):
        state.vectors[c, i] += response * state.vectors[ROW, i]
    add_outer(state.matrices, h, slope, state.vectors, ROW)


@inlined
def _add_block(state: State, source: int, c: int, h: int) -> None:
    for i in range(state.vectors.shape[1]):
        state.vectors[c, i] += state.vectors[C + source, i]
        for j in range(state.vectors.shape[1]):
            state.matrices[h, i, j] += state.matrices[H + source, i, j]


@inlined
def _move_block(state: State, source: int, target: int) -> None:
    counters = state.counters
    counters[SIZES + target] = counters[SIZES + source]
    counters[LEVELS + target] = counters[LEVELS + source]
    counters[FIRSTS + target] = counters[FIRSTS + source]
    copy(state.vectors, C + source, C + target)
    for i in range(state.vectors.shape[1]):
        for j in range(state.vectors.shape[1]):
            state.matrices[H + target, i, j] = state.matrices[H + source, i, j]


@inlined
def _merge(state: State) -> None:
    """Where a size has one block too many, its two oldest become one of the next size."""
    counters = state.counters
    end = counters[COUNT]
    for level in range(LARGEST_SIZE + 1):
        oldest = end
        while oldest > 0 and counters[LEVELS + oldest - 1] == level:
            oldest -= 1
        if end - oldest <= BLOCKS_OF_A_SIZE:
            break
        _add_block(state, oldest + 1, C + oldest, H + oldest)
        counters[SIZES + oldest] += counters[SIZES + oldest + 1]
        counters[LEVELS + oldest] = min(level + 1, LARGEST_SIZE)
        for block in range(oldest + 2, counters[COUNT]):
            _move_block(state, block, block - 1)
        counters[COUNT] -= 1
        end = oldest + 1


@inlined
def _evidence(model: Model, phi: float, state: State, c: int, h: int) -> float:
    """E(c, H)."""
    vectors, matrices, d = state.vectors, state.matrices, model.d
    for i in range(d):
        for j in range(d):
            matrices[ROOT, i, j] = matrices[h, i, j]
        matrices[ROOT, i, i] += model.lam
    cholesky(matrices, ROOT, ROOT)
    copy(vectors, c, SOLVED)
    forward_solve(matrices, ROOT, vectors, SOLVED)
    return 0.5 * dot(vectors, SOLVED, SOLVED) / phi + _log_volume(model, state)


@inlined
def _log_volume(model: Model, state: State) -> float:
    """-log det(I + H/lam) / 2, from the factor of H + lam I, whose diagonal holds reciprocals."""
    total = 0.0
    for i in range(model.d):
        total += math.log(state.matrices[ROOT, i, i] * math.sqrt(model.lam))
    return total


@internal
def _laplace_evidence(model: Model, state: State, first: int, last: int) -> float:
    """Evidence of a range of rows, expanded about their own peak, which Newton's method finds."""
    vectors, matrices, d = state.vectors, state.matrices, model.d
    copy(vectors, THETA_HAT, PEAK)
    height = 0.0
    for _ in range(_MOST_STEPS):
        height = _climb(model, state, first, last)
        cholesky(matrices, ROOT, ROOT)
        forward_solve(matrices, ROOT, vectors, SOLVED)
        rise = 0.5 * dot(vectors, SOLVED, SOLVED)
        if rise < _LEAST_RISE:
            height += rise
            break
        backward_solve(matrices, ROOT, vectors, SOLVED)
        length = state.gauges[LONGEST] * norm(vectors, SOLVED)
        damping = math.log1p(length) / length if length > REACH else 1.0
        for i in range(d):
            vectors[PEAK, i] += damping * vectors[SOLVED, i]
    return height + _log_volume(model, state)


@inlined
def _climb(model: Model, state: State, first: int, last: int) -> float:
    """The penalised log-likelihood at PEAK; SOLVED := its gradient, ROOT := minus its Hessian."""
    vectors, matrices, rows, d = state.vectors, state.matrices, state.rows, model.d
    height = -0.5 * model.lam * dot(vectors, PEAK, PEAK)
    for i in range(d):
        vectors[SOLVED, i] = -model.lam * vectors[PEAK, i]
        for j in range(d):
            matrices[ROOT, i, j] = model.lam if i == j else 0.0
    for s in range(first, last):
        for j in range(d):
            vectors[ROW, j] = rows[j, s]
        z = dot(vectors, ROW, PEAK)
        height += rows[d, s] * z - links.log_partition(model.link, model.m, z)
        residual = rows[d, s] - links.mean(model.link, model.m, z)
        for j in range(d):
            vectors[SOLVED, j] += residual * vectors[ROW, j]
        add_outer(matrices, ROOT, links.slope(model.link, model.m, z), vectors, ROW)
    return height


@internal
def _test(model: Model, adaptation: Adaptation, state: State) -> None:
    """Restart at the border with the strongest evidence, if it is strong enough."""
    counters, vectors, matrices, d = state.counters, state.vectors, state.matrices, model.d
    rows = counters[TAIL] - counters[HEAD]
    phi = adaptation.dispersion
    whole = _evidence(model, phi, state, ALL_C, ALL_H)
    strongest, border = -math.inf, 0
    _clear(state, AFTER_C, AFTER_H)
    for block in range(counters[COUNT] - 1, 0, -1):
        _add_block(state, block, AFTER_C, AFTER_H)
        if rows % max(1, (1 << counters[LEVELS + block]) // _LOOKS):
            continue
        for i in range(d):
            vectors[BEFORE_C, i] = vectors[ALL_C, i] - vectors[AFTER_C, i]
            for j in range(d):
                matrices[BEFORE_H, i, j] = matrices[ALL_H, i, j] - matrices[AFTER_H, i, j]
        before = _evidence(model, phi, state, BEFORE_C, BEFORE_H)
        after = _evidence(model, phi, state, AFTER_C, AFTER_H)
        if before + after - whole > strongest:
            strongest, border = before + after - whole, block
    if strongest <= adaptation.threshold:
        return
    older = 0
    for block in range(border):
        older += counters[SIZES + block]
    if model.link != links.IDENTITY:
        first, last = counters[HEAD], counters[TAIL]
        strongest = (
            _laplace_evidence(model, state, first, first + older)
            + _laplace_evidence(model, state, first + older, last)
            - _laplace_evidence(model, state, first, last)
        )
    if strongest > adaptation.threshold:
        record_detection(state, counters[FIRSTS + border], strongest, adaptation.threshold)
        _restart(model, state, border, older)
    else:
        counters[PATIENCE] = rows + max(1, (rows - older) // 8, rows // 256)


@internal
def _restart(model: Model, state: State, border: int, gone: int) -> None:
    """Forget the blocks before a border, which hold `gone` rows."""
    counters = state.counters
    for block in range(border, counters[COUNT]):
        _move_block(state, block, block - border)
    counters[COUNT] -= border
    counters[BEGUN] = counters[FIRSTS] - 1
    counters[EXPANDED] = 0
    counters[PATIENCE] = 0
    forget_oldest(model, state, gone)


@internal
def _expand(model: Model, state: State) -> None:
    """Sum every block anew about theta-hat."""
    counters, rows, d = state.counters, state.rows, model.d
    _clear(state, ALL_C, ALL_H)
    s = counters[HEAD]
    for block in range(counters[COUNT]):
        _clear(state, C + block, H + block)
        for _ in range(counters[SIZES + block]):
            for j in range(d):
                state.vectors[ROW, j] = rows[j, s]
            _add_row(model, state, rows[d, s], C + block, H + block)
            s += 1
        _add_block(state, block, ALL_C, ALL_H)
    counters[EXPANDED] = counters[TAIL] - counters[HEAD]
