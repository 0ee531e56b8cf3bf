"""What a fit is made of: the numbers that never change and the arrays that do.

A kernel is handed `Buffers` by a handle; `model_of` and `state_of` give their contents names.

Notation
--------
d          dimension of the model (the intercept counts)
N          clock: decisions and ticks so far; row s has age N - s
w_s        weight of row s: 1, or gamma^(N-s)
lam        penalty (lam/2)||theta||^2
c          c_mu, smallest slope; design matrices start at (lam/c) I
b          (d,)      sum w_s X_s a_s
V          (d, d)    sum w_s a_s a_s' + (lam/c) I            eq_Design_matrix_SW, eq_Design_matrix_D
V2         (d, d)    sum w_s^2 a_s a_s' + (lam/c) I          eq_Design_matrix_D2, discounting
theta_hat  (d,)      root of sum w_s (X_s - mu(a_s.theta)) a_s - lam theta    eq_MLE_SW, eq_MLE_D
theta      (d,)      its projection on ||theta|| <= S        eq:theta_tilde_SW, eq:theta_tilde_D
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.jit import Handle, array_of, compiled, inlined, of_width, place

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Places = NDArray[np.uint32]  # unsigned: no look-out for negative indices in the inner loops

EVERYTHING, WINDOW, DISCOUNT = 0, 1, 2
SINCE_RESTART = 3  # everything, until a policy forgets the oldest rows
POOL = 4  # several at once, see policies/pool.py
NO_PROJECTION, RADIAL, EXACT = 0, 1, 2

MOST_MONOMIALS = 220
HIGHEST_ORDER = 8
LOWEST_USEFUL_ORDER = 4
TRUNCATION_TOLERANCE = 2e-9
FIRST_CAPACITY = 64


class Model(NamedTuple):
    """The numbers of an estimator."""

    d: int
    link: int
    m: float
    lam: float
    memory: int
    span: int  # rows of this age or older are forgotten; 0: never
    gamma: float
    S: float
    L: float
    c: float
    projection: int
    order: int  # of the Taylor expansions of g, see expansion.py
    # Entries that a policy which adapts its memory has beyond those named below.
    more_counters: int = 0
    more_gauges: int = 0
    more_vectors: int = 0
    more_matrices: int = 0


MODEL_SIZE = len(Model._fields)

# Counters of a state.
N, HEAD, TAIL, FITTED, PROJECTED, SUBTRACTIONS = map(place, range(6))
VALID = place(6)  # and 7: does expansion 0, 1 hold the sums about its anchor?
PASSES, ANCHORS, DAMPED_STEPS, PROJECTIONS, NEWTON_STEPS, DESCENT_STEPS = map(place, range(8, 14))
IDLE = place(14)  # fits since the expansion for theta was last needed
SPAN = place(15)  # as Model.span, for as long as no policy changes it
BEGUN = place(16)  # rounds up to this one are forgotten; 0: there was no restart
DETECTIONS, DETECTED_IN, CHANGED_IN = map(place, range(17, 20))  # how many; rounds of the last
COUNTERS = 20

# Gauges of a state.
LONGEST, LEAK, DECREMENT, ERROR_BOUND, KKT_RESIDUAL = map(place, range(5))
MASS = place(5)  # and 6: the factor of the remainder of expansion 0, 1
STATISTIC, THRESHOLD = map(place, range(7, 9))  # of the last detection
RADIUS = place(9)  # of the last decision, bonus_scale included
GAUGES = 10

# Rows of State.vectors: the state proper, then scratch.
THETA_HAT, THETA, B = map(place, range(3))
ANCHOR = place(3)  # and 4: the points of the expansions
STATE_VECTORS = 5
ROW, G, STEP, POINT, PULL, START = map(place, range(5, 11))
VECTORS = 11

# Matrices of State.matrices: the state proper, then scratch.
V, V2 = map(place, range(2))
STATE_MATRICES = 2
J, FACTOR, M_INVERSE, CURVATURE, BEND, MODEL, SHIFTED, BONUS = map(place, range(2, 10))
MATRICES = 10

# Rows of State.moments: the sums of both expansions, then scratch.
FOR_THETA_HAT, FOR_THETA = map(place, range(2))
STATE_MOMENTS = 2
POWERS, DERIVATIVES, SLOPES, CURVATURES = map(place, range(2, 6))
MOMENTS = 6


class State(NamedTuple):
    """The arrays of an estimator, scratch included, so that a round allocates nothing."""

    rows: Floats  # (d + 2, capacity): actions in order of time, one row a coordinate; reward; round
    counters: Ints  # (COUNTERS + more,)
    gauges: Floats  # (GAUGES + more,)
    vectors: Floats  # (VECTORS + more, d)
    matrices: Floats  # (MATRICES + more, d, d)
    moments: Floats  # (MOMENTS, monomials)
    ladder: Places  # (monomials, 4 + d), see `ladder_of`


class Buffers(NamedTuple):
    """A model's numbers (and what a policy adds to them), and the arrays of its state."""

    numbers: Floats
    rows: Floats
    counters: Ints
    gauges: Floats
    vectors: Floats
    matrices: Floats
    moments: Floats
    ladder: Places


def expansion_order(d: int, link_is_linear: bool) -> int:
    """The highest Taylor order whose monomials are few enough to be kept up to date each round.

    An order below LOWEST_USEFUL_ORDER reaches too little further than Newton's order 1 to
    save passes, and makes each dearer.
    """
    order = 1
    while order < HIGHEST_ORDER and math.comb(d + order + 2, d) <= MOST_MONOMIALS:
        order += 1
    return 1 if link_is_linear or order < LOWEST_USEFUL_ORDER else order


def ladder_of(d: int, order: int) -> Places:
    """Monomials in d variables of degree 0..order+1, by degree, each built from a parent.

    Columns: parent, variable that multiplies the parent, degree, length of the run that it is in
    (the monomials that differ from it in their powers of the last two variables alone, which stand
    in a row), and then for each variable j the index of this monomial times x_j (degree <= order
    only, else 0).
    """
    exponents: list[tuple[int, ...]] = [(0,) * d]
    index: dict[tuple[int, ...], int] = {exponents[0]: 0}
    built: list[tuple[int, int, int, int]] = [(0, 0, 0, 1)]
    first = 0
    for degree in range(1, order + 2):
        last = len(exponents)
        for parent in range(first, last):
            for j in range(built[parent][1], d):
                child = list(exponents[parent])
                child[j] += 1
                index[tuple(child)] = len(exponents)
                exponents.append(tuple(child))
                built.append((parent, j, degree, 1 + (sum(child[-2:]) if d > 1 else 0)))
        first = last
    ladder = np.zeros((len(exponents), 4 + d), dtype=np.uint32)
    ladder[:, :4] = built
    for i, powers in enumerate(exponents):
        if built[i][2] <= order:
            for j in range(d):
                up = list(powers)
                up[j] += 1
                ladder[i, 4 + j] = index[tuple(up)]
    return ladder


def truncation_span(gamma: float, *, m: float, L: float, lam: float, tolerance: float) -> int:
    """Age from which discounted rows may be dropped: they move theta-hat by at most `tolerance`.

    The dropped rows change the gradient by at most m L gamma^n/(1-gamma), and the penalised
    likelihood is lam-strongly concave. The bound on |X - mu| is m for bounded means; for Poisson
    it is checked against the residuals as rows leave (`LEAK`).
    """
    n = math.log(tolerance * lam * (1.0 - gamma) / (m * L)) / math.log(gamma)
    return max(1, math.ceil(n))


def new_buffers(numbers: Floats, capacity: int) -> Buffers:
    """An empty memory. `numbers` starts with a packed `Model`."""
    model = model_of(numbers, int(numbers[0]))
    d = model.d
    ladder = ladder_of(d, model.order)
    buffers = Buffers(
        numbers=numbers,
        rows=np.zeros((d + 2, capacity)),
        counters=np.zeros(COUNTERS + model.more_counters, dtype=np.int64),
        gauges=np.zeros(GAUGES + model.more_gauges),
        vectors=np.zeros((VECTORS + model.more_vectors, d)),
        matrices=np.zeros((MATRICES + model.more_matrices, d, d)),
        moments=np.zeros((MOMENTS, len(ladder))),
        ladder=ladder,
    )
    buffers.matrices[V] = buffers.matrices[V2] = np.eye(d) * (model.lam / model.c)
    buffers.counters[FITTED] = 1
    buffers.counters[SPAN] = model.span
    return buffers


def copy_of(buffers: Buffers) -> Buffers:
    copies: list[Any] = [array.copy() for array in buffers]
    return Buffers(*copies)


def essence(buffers: Buffers) -> dict[str, Any]:
    """The arrays that a state consists of, without scratch and without rows that have left."""
    counters = buffers.counters.copy()
    head, tail = int(counters[HEAD]), int(counters[TAIL])
    counters[HEAD], counters[TAIL] = 0, tail - head  # where the rows lie is no part of the state
    return {
        "rows": buffers.rows[:, head:tail],
        "counters": counters,
        "gauges": buffers.gauges,
        "vectors": buffers.vectors[:STATE_VECTORS],
        "matrices": buffers.matrices[:STATE_MATRICES],
        "moments": buffers.moments[:STATE_MOMENTS],
        "more_vectors": buffers.vectors[VECTORS:],
        "more_matrices": buffers.matrices[MATRICES:],
    }


def revived(numbers: Floats, arrays: dict[str, Any]) -> Buffers:
    """A memory from its essence."""
    living = arrays["rows"].shape[1]
    buffers = new_buffers(numbers, max(2 * living, FIRST_CAPACITY))
    buffers.rows[:, :living] = arrays["rows"]
    buffers.counters[:] = arrays["counters"]
    buffers.counters[HEAD], buffers.counters[TAIL] = 0, living
    buffers.gauges[:] = arrays["gauges"]
    buffers.vectors[:STATE_VECTORS] = arrays["vectors"]
    buffers.matrices[:STATE_MATRICES] = arrays["matrices"]
    buffers.moments[:STATE_MOMENTS] = arrays["moments"]
    buffers.vectors[VECTORS:] = arrays["more_vectors"]
    buffers.matrices[MATRICES:] = arrays["more_matrices"]
    return buffers


def with_capacity(buffers: Buffers, capacity: int) -> Buffers:
    """The same memory with room for `capacity` rows."""
    rows = np.zeros((buffers.rows.shape[0], capacity))
    head, tail = buffers.counters[HEAD], buffers.counters[TAIL]
    rows[:, : tail - head] = buffers.rows[:, head:tail]
    counters = buffers.counters.copy()
    counters[HEAD], counters[TAIL] = 0, tail - head
    return buffers._replace(rows=rows, counters=counters)


@compiled
def model_of(numbers: Floats, d: int) -> Model:
    """The numbers by name; d, the first of them, from whoever may know it beforehand."""
    return Model(
        d,
        int(numbers[1]),
        numbers[2],
        numbers[3],
        int(numbers[4]),
        int(numbers[5]),
        numbers[6],
        numbers[7],
        numbers[8],
        numbers[9],
        int(numbers[10]),
        int(numbers[11]),
        int(numbers[12]),
        int(numbers[13]),
        int(numbers[14]),
        int(numbers[15]),
    )


floats_of, _table, _stack = (array_of(np.float64, n) for n in (1, 2, 3))
_ints, _places = array_of(np.int64, 1), array_of(np.uint32, 2)
NUMBERS, _ROWS, _COUNTERS, _GAUGES, _VECTORS, _MATRICES, _MOMENTS, _LADDER = map(place, range(8))


@inlined
def state_of(handle: Handle, d: int) -> State:
    """The state among the buffers of a handle."""
    return State(
        _table(handle, _ROWS),
        _ints(handle, _COUNTERS),
        floats_of(handle, _GAUGES),
        of_width(_table(handle, _VECTORS), d),
        of_width(_stack(handle, _MATRICES), d),
        _table(handle, _MOMENTS),
        _places(handle, _LADDER),
    )


def counter_names() -> dict[str, int]:
    """Which counters a caller may read, by name."""
    return {
        "passes": PASSES,
        "anchors": ANCHORS,
        "damped_steps": DAMPED_STEPS,
        "newton_steps": NEWTON_STEPS,
        "projections": PROJECTIONS,
        "descent_steps": DESCENT_STEPS,
    }


def as_numbers(model: Model, *more: Any) -> Floats:
    """Pack a model, and what a policy adds to it, for the kernels."""
    return np.array([*model, *more], dtype=np.float64)
