"""Forget what is before a detected change: compare the evidence for one parameter and for two.

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

The blocks are expanded anew, about the exact estimate, after a detection and whenever the
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
from typing import TYPE_CHECKING, Annotated, NamedTuple

from driftbandits.core import Model, State, links
from driftbandits.core import linalg as la
from driftbandits.core.estimator.memory import forget_oldest, load_row
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.solve import damping
from driftbandits.core.estimator.state import BEGUN, HEAD, LONGEST, TAIL, Ints, layout_beyond
from driftbandits.jit import Share, inlined, internal, reader_of
from driftbandits.policies.adaptations import fixed, record_detection
from driftbandits.policies.scoring import OWN_NUMBERS, Opened

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

BLOCKS_OF_A_SIZE = 4
LARGEST_SIZE = 16  # as a power of 2; blocks of this size merge into larger ones of the same name
BLOCKS = BLOCKS_OF_A_SIZE * (LARGEST_SIZE + 1) + 1
_TESTS = 4  # a border is tested this often within the length of the block behind it
_GROWTH = 1.2
_MOST_STEPS = 50
_LEAST_RISE = 1e-6


class Numbers(NamedTuple):
    """The test."""

    threshold: float  # of the log of a Bayes factor
    dispersion: float  # phi


class Blocks(NamedTuple):
    """The rows in blocks, oldest first, and room for the test."""

    number: Annotated[Ints, Share("counters")]
    newest: Annotated[Ints, Share("counters")]  # round
    expanded: Annotated[Ints, Share("counters")]  # rows at the last expansion; 0: never
    patience: Annotated[Ints, Share("counters")]  # rows before which no border is tested
    sizes: Annotated[Ints, Share("counters", BLOCKS)]  # rows of each block
    levels: Annotated[Ints, Share("counters", BLOCKS)]  # the power of 2
    firsts: Annotated[Ints, Share("counters", BLOCKS)]  # its first round
    all_c: Annotated[Floats, Share("vectors")]
    before_c: Annotated[Floats, Share("vectors")]
    after_c: Annotated[Floats, Share("vectors")]
    solved: Annotated[Floats, Share("vectors")]
    peak: Annotated[Floats, Share("vectors")]
    c: Annotated[Floats, Share("vectors", BLOCKS)]
    all_H: Annotated[Floats, Share("matrices")]
    before_H: Annotated[Floats, Share("matrices")]
    after_H: Annotated[Floats, Share("matrices")]
    root: Annotated[Floats, Share("matrices")]
    H: Annotated[Floats, Share("matrices", BLOCKS)]


LAYOUT = layout_beyond(Blocks)
_blocks_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    return Numbers(
        threshold=-math.log(policy.false_alarm_rate),
        dispersion=(policy.link.m / 2.0) ** 2 if policy.link.linear else 1.0,
    )


@inlined
def estimate(opened: Opened, seed: int, actions: Floats) -> None:
    fixed.estimate(opened, seed, actions)
    _, model, _, _, state = opened
    blocks = _blocks_of(state.stores)
    if _rows(state) >= _GROWTH * blocks.expanded[0]:
        _expand(model, state, blocks)


@inlined
def _rows(state: State) -> int:
    return int(state.counters[TAIL] - state.counters[HEAD])


@internal
def learn(opened: Opened, reward: float, s: int) -> None:
    fixed.learn(opened, reward, s)
    numbers, model, scoring, _, state = opened
    outcome, blocks = reward - scoring.centre, _blocks_of(state.stores)
    if blocks.number[0] == 0 or s > blocks.newest[0]:
        block = blocks.number[0]
        _clear(blocks.c[block], blocks.H[block])
        blocks.sizes[block] = 0
        blocks.levels[block] = 0
        blocks.firsts[block] = s
        blocks.newest[0] = s
        blocks.number[0] += 1
    else:  # late: it belongs to the block of its time
        block = blocks.number[0] - 1
        while block > 0 and blocks.firsts[block] > s:
            block -= 1
        blocks.firsts[block] = min(blocks.firsts[block], s)
    blocks.sizes[block] += 1
    _add_row(model, state, outcome, blocks.c[block], blocks.H[block])
    _add_row(model, state, outcome, blocks.all_c, blocks.all_H)
    _merge(blocks)
    if blocks.expanded[0] > 0 and _rows(state) >= blocks.patience[0]:
        _test(model, _numbers_of(numbers), state, blocks)


@inlined
def _clear(c: Floats, H: Floats) -> None:
    for i in range(c.shape[0]):
        c[i] = 0.0
    la.set_to_identity(H, 0.0)


@inlined
def _add_row(model: Model, state: State, reward: float, c: Floats, H: Floats) -> None:
    """Add scratch.row, expanded about theta_hat, to the sums of a set of rows."""
    row = state.scratch.row
    z = la.dot(row, state.theta_hat)
    slope = links.slope(model.link, model.m, z)
    la.add_scaled(c, reward - links.mean(model.link, model.m, z) + slope * z, row)
    la.add_outer(H, slope, row)


@inlined
def _add_block(blocks: Blocks, source: int, c: Floats, H: Floats) -> None:
    la.add_scaled(c, 1.0, blocks.c[source])
    for i in range(c.shape[0]):
        for j in range(c.shape[0]):
            H[i, j] += blocks.H[source, i, j]


@inlined
def _move_block(blocks: Blocks, source: int, target: int) -> None:
    blocks.sizes[target] = blocks.sizes[source]
    blocks.levels[target] = blocks.levels[source]
    blocks.firsts[target] = blocks.firsts[source]
    la.copy(blocks.c[source], blocks.c[target])
    la.copy_matrix(blocks.H[source], blocks.H[target])


@inlined
def _merge(blocks: Blocks) -> None:
    """Where a size has one block too many, its two oldest become one of the next size."""
    end = blocks.number[0]
    for level in range(LARGEST_SIZE + 1):
        oldest = end
        while oldest > 0 and blocks.levels[oldest - 1] == level:
            oldest -= 1
        if end - oldest <= BLOCKS_OF_A_SIZE:
            break
        _add_block(blocks, oldest + 1, blocks.c[oldest], blocks.H[oldest])
        blocks.sizes[oldest] += blocks.sizes[oldest + 1]
        blocks.levels[oldest] = min(level + 1, LARGEST_SIZE)
        for block in range(oldest + 2, blocks.number[0]):
            _move_block(blocks, block, block - 1)
        blocks.number[0] -= 1
        end = oldest + 1


@inlined
def _evidence(model: Model, phi: float, blocks: Blocks, c: Floats, H: Floats) -> float:
    """E(c, H)."""
    root, solved = blocks.root, blocks.solved
    la.copy_matrix(H, root)
    for i in range(model.d):
        root[i, i] += model.lam
    la.cholesky(root, root)
    la.copy(c, solved)
    la.forward_solve(root, solved)
    return 0.5 * la.dot(solved, solved) / phi + _log_volume(model, root)


@inlined
def _log_volume(model: Model, root: Floats) -> float:
    """-log det(I + H/lam) / 2, from the factor of H + lam I, whose diagonal holds reciprocals."""
    total = 0.0
    for i in range(model.d):
        total += math.log(root[i, i] * math.sqrt(model.lam))
    return total


@internal
def _laplace_evidence(model: Model, state: State, blocks: Blocks, first: int, last: int) -> float:
    """Evidence of a range of rows, expanded about their own peak, which Newton's method finds."""
    root, solved, peak = blocks.root, blocks.solved, blocks.peak
    rows, row = state.rows, state.scratch.row
    la.copy(state.theta_hat, peak)
    height = 0.0
    for _ in range(_MOST_STEPS):
        height = -0.5 * model.lam * la.dot(peak, peak)
        for i in range(model.d):
            solved[i] = -model.lam * peak[i]  # the gradient, and in root minus the Hessian
        la.set_to_identity(root, model.lam)
        for s in range(first, last):
            load_row(model, state, s)
            z, reward = la.dot(row, peak), rows[model.d, s]
            height += reward * z - links.log_partition(model.link, model.m, z)
            la.add_scaled(solved, reward - links.mean(model.link, model.m, z), row)
            la.add_outer(root, links.slope(model.link, model.m, z), row)
        la.cholesky(root, root)
        la.forward_solve(root, solved)
        rise = 0.5 * la.dot(solved, solved)
        if rise < _LEAST_RISE:
            height += rise
            break
        la.backward_solve(root, solved)
        la.add_scaled(peak, damping(state.gauges[LONGEST] * la.norm(solved)), solved)
    return height + _log_volume(model, root)


@internal
def _test(model: Model, test: Numbers, state: State, blocks: Blocks) -> None:
    """Forget what is before the border with the strongest evidence, if it is strong enough."""
    rows = _rows(state)
    strongest, border = _strongest_border(model, test.dispersion, blocks, rows)
    if strongest <= test.threshold:
        return
    older = 0
    for block in range(border):
        older += blocks.sizes[block]
    if not model.linear:
        first, last = state.counters[HEAD], state.counters[TAIL]
        strongest = (
            _laplace_evidence(model, state, blocks, first, first + older)
            + _laplace_evidence(model, state, blocks, first + older, last)
            - _laplace_evidence(model, state, blocks, first, last)
        )
    if strongest > test.threshold:
        record_detection(state, blocks.firsts[border], strongest, test.threshold)
        for block in range(border, blocks.number[0]):
            _move_block(blocks, block, block - border)
        blocks.number[0] -= border
        state.counters[BEGUN] = blocks.firsts[0] - 1
        blocks.expanded[0] = blocks.patience[0] = 0
        forget_oldest(model, state, older)
    else:
        blocks.patience[0] = rows + max(1, (rows - older) // 8, rows // 256)


@inlined
def _strongest_border(model: Model, phi: float, blocks: Blocks, rows: int) -> tuple[float, int]:
    """The log of the largest Bayes factor over borders whose turn it is, and its block."""
    whole = _evidence(model, phi, blocks, blocks.all_c, blocks.all_H)
    strongest, border = -math.inf, 0
    _clear(blocks.after_c, blocks.after_H)
    for block in range(blocks.number[0] - 1, 0, -1):
        _add_block(blocks, block, blocks.after_c, blocks.after_H)
        if rows % max(1, (1 << blocks.levels[block]) // _TESTS):
            continue
        for i in range(model.d):
            blocks.before_c[i] = blocks.all_c[i] - blocks.after_c[i]
            for j in range(model.d):
                blocks.before_H[i, j] = blocks.all_H[i, j] - blocks.after_H[i, j]
        before = _evidence(model, phi, blocks, blocks.before_c, blocks.before_H)
        after = _evidence(model, phi, blocks, blocks.after_c, blocks.after_H)
        if before + after - whole > strongest:
            strongest, border = before + after - whole, block
    return strongest, border


@internal
def _expand(model: Model, state: State, blocks: Blocks) -> None:
    """Sum every block anew about theta-hat."""
    _clear(blocks.all_c, blocks.all_H)
    s = state.counters[HEAD]
    for block in range(blocks.number[0]):
        _clear(blocks.c[block], blocks.H[block])
        for _ in range(blocks.sizes[block]):
            load_row(model, state, s)
            _add_row(model, state, state.rows[model.d, s], blocks.c[block], blocks.H[block])
            s += 1
        _add_block(blocks, block, blocks.all_c, blocks.all_H)
    blocks.expanded[0] = _rows(state)
