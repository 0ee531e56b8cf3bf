"""The arrays of an estimator, and what stands where in them.

Python holds `Buffers`, a few stacks of arrays. A kernel is handed them by a handle, and `state_of`
gives every vector and matrix in them its name.

Notation
--------
b          (d,)      sum w_s X_s a_s
V          (d, d)    sum w_s a_s a_s' + (lam/c) I            eq_Design_matrix_SW, eq_Design_matrix_D
V2         (d, d)    sum w_s^2 a_s a_s' + (lam/c) I          eq_Design_matrix_D2, discounting
theta_hat  (d,)      root of sum w_s (X_s - mu(a_s.theta)) a_s - lam theta    eq_MLE_SW, eq_MLE_D
theta      (d,)      its projection on ||theta|| <= S        eq:theta_tilde_SW, eq:theta_tilde_D
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.core.estimator.model import BELIEF, Floats, ladder_of, model_in
from driftbandits.jit import (
    LANES,
    Handle,
    Layout,
    Share,
    floats_of,
    inlined,
    ints_of,
    layout_of,
    length_of,
    place,
    places_of,
)

Ints = NDArray[np.int64]
Places = NDArray[np.uint32]  # unsigned: no look-out for negative indices in the inner loops

FIRST_CAPACITY = 64

# Counters of a state.
N, HEAD, TAIL, FITTED, PROJECTED, SUBTRACTIONS = map(place, range(6))
VALID = place(6)  # and 7: does expansion 0, 1 hold the sums about its anchor?
PASSES, ANCHORS, DAMPED_STEPS, PROJECTIONS, NEWTON_STEPS, DESCENT_STEPS = map(place, range(8, 14))
IDLE = place(14)  # fits since the expansion for theta was last needed
SPAN = place(15)  # as Model.span, for as long as no policy changes it
BEGUN = place(16)  # rounds up to this one are forgotten, whatever the span; 0: none
DETECTIONS, DETECTED_IN, CHANGED_IN = map(place, range(17, 20))  # how many; rounds of the last
COUNTERS = 20

# Gauges of a state.
LONGEST, LEAK, DECREMENT, ERROR_BOUND, KKT_RESIDUAL = map(place, range(5))
MASS = place(5)  # and 6: the factor of the remainder of expansion 0, 1
STATISTIC, THRESHOLD = map(place, range(7, 9))  # of the last detection
RADIUS = place(9)  # of the last decision, bonus_scale included
GAUGES = 10

# Notes on the inverse of a large design matrix, see inverse.py.
LEFT, MISSING, AGE, UPDATES, BLUR, STALE = map(place, range(6))

# Notes of a large model; the first three are two each: of `newton` and of `descent`.
MADE, FEWEST, DEBT = map(place, range(0, 6, 2))
# A debt is the steps that were made beyond the fewest that a round took since the inverse was new.
NEWTON, DESCENT = map(place, range(2))
LEAST = place(6)
NU, FURTHEST, NEAREST = map(place, range(8, 11))  # nu, max|a.u| and ||b - g||^2_{M^-1} at theta
OFF = place(11)  # bound of ||theta - exact||_V
FADED = place(12)  # and 13: what is left of weights since `newton`, `descent` were made
ESTIMATED = place(14)  # 1 where that bound is an estimate and no proof

FOR_THETA_HAT, FOR_THETA = map(place, range(2))
"""The two expansions of g."""


class Stores(NamedTuple):
    """The arrays of an estimator, in stacks: few enough for all their addresses to be at hand."""

    rows: Floats  # (d + 2, capacity): actions in order of time, one row a coordinate; reward; round
    counters: Ints
    gauges: Floats
    vectors: Floats  # (n, d)
    matrices: Floats  # (n, d, d)
    moments: Floats  # (n, monomials)
    ladder: Places  # (monomials, 4 + d), see `ladder_of`


Vector = Annotated[Floats, Share("vectors")]
Matrix = Annotated[Floats, Share("matrices")]
Monomials = Annotated[Floats, Share("moments")]


class Scratch(NamedTuple):
    """Scratch arrays of a call, so that a round allocates nothing.

    Whoever calls may rely on `row`, the action that is learned, and from one step of a decision
    to the next on J, factor, noise_factor and bonus.
    """

    row: Vector
    g: Vector  # g(theta) where it was last evaluated
    residual: Vector  # b - g
    step: Vector
    point: Vector  # where a step leads
    start: Vector  # where it came from
    pull: Vector
    slope: Vector  # of a quadratic model at the origin
    noise: Vector
    other: Vector
    J: Matrix
    factor: Matrix
    inverse: Matrix
    quadratic: Matrix  # Hessian of a quadratic model
    curvature: Matrix
    bend: Matrix
    noise_factor: Matrix
    other_matrix: Matrix
    bonus: Matrix  # of the norm that widths are measured in
    powers: Monomials
    derivatives: Monomials
    slopes: Monomials
    curvatures: Monomials


class State(NamedTuple):
    """The arrays of an estimator by name."""

    rows: Annotated[Floats, Share("rows", None)]
    counters: Annotated[Ints, Share("counters", None)]
    gauges: Annotated[Floats, Share("gauges", None)]
    # The first in their stacks need no slice, so these two stand before all others.
    anchors: Annotated[Floats, Share("vectors", 2)]  # the points of the expansions, ...
    moments: Annotated[Floats, Share("moments", 2)]  # ... and their sums
    theta_hat: Vector
    theta: Vector
    b: Vector
    notes: Vector  # of the inverse of a large model, see inverse.py
    V: Matrix
    V2: Matrix
    P: Matrix  # V^-1 of a large model, but for what the notes say
    ladder: Annotated[Places, Share("ladder", None)]
    scratch: Scratch
    stores: Stores  # in which a policy that adapts its memory has more


class Large(NamedTuple):
    """Further arrays of a large model, see large.py, at the end of the stores."""

    newton: Floats
    descent: Floats
    norm: Floats  # V2^-1 where rows are discounted, but for what the notes say
    norm_notes: Floats
    notes: Floats


_LARGE = {"matrices": 3, "vectors": 2}


@inlined
def large_of(state: State) -> Large:
    matrices, vectors = state.stores.matrices, state.stores.vectors
    i, j = matrices.shape[0], vectors.shape[0]
    return Large(matrices[i - 3], matrices[i - 2], matrices[i - 1], vectors[j - 2], vectors[j - 1])


_KNOWN = {"vectors": 6, "matrices": 3, "moments": 2}
_SCRATCH = layout_of(Scratch, after=_KNOWN)
_STATE = layout_of(State, scratch=_SCRATCH)
assert _KNOWN.items() <= _STATE.sizes.items()  # what is known ends where scratch begins
_OWN = {**_SCRATCH.sizes, "counters": COUNTERS, "gauges": GAUGES}
_by_name = _STATE.of
ROW_AT = place(_KNOWN["vectors"])
"""Where scratch.row lies among the vectors: it is the first of scratch."""
assert Scratch._fields[0] == "row"


def layout_beyond(record: type) -> Layout:
    """The layout of what the state of a policy has beyond that of an estimator."""
    return layout_of(record, after=_OWN)


class Buffers(NamedTuple):
    """A model's numbers (and what a policy adds to them), and the stores of its state."""

    numbers: Floats
    rows: Floats
    counters: Ints
    gauges: Floats
    vectors: Floats
    matrices: Floats
    moments: Floats
    ladder: Places


NUMBERS, _ROWS, _COUNTERS, _GAUGES, _VECTORS, _MATRICES, _MOMENTS, _LADDER = map(place, range(8))


@inlined
def state_of(handle: Handle, d: int) -> State:
    """The state among the buffers of a handle."""
    monomials = length_of(handle, _MOMENTS, 1)
    stores = Stores(
        floats_of(handle, _ROWS, (d + 2, length_of(handle, _ROWS, 1))),
        ints_of(handle, _COUNTERS, (length_of(handle, _COUNTERS, 0),)),
        floats_of(handle, _GAUGES, (length_of(handle, _GAUGES, 0),)),
        floats_of(handle, _VECTORS, (length_of(handle, _VECTORS, 0), d)),
        floats_of(handle, _MATRICES, (length_of(handle, _MATRICES, 0), d, d)),
        floats_of(handle, _MOMENTS, (length_of(handle, _MOMENTS, 0), monomials)),
        places_of(handle, _LADDER, (monomials, 4 + d)),
    )
    state: State = _by_name(stores)
    return state


def new_buffers(numbers: Floats, capacity: int, sizes: Mapping[str, int] | None = None) -> Buffers:
    """An empty memory. `numbers` starts with a packed `Model`; `sizes` are those of a `Layout`."""
    d = int(numbers[0])
    if capacity > 0:  # a vector of lanes that begins in a row of actions must end in the table
        capacity = max(capacity, LANES)
    model = model_in(numbers)
    needs_ladder = not (model.linear and model.fast)  # of d^3 numbers, of which none would be read
    ladder = ladder_of(d, model.order if needs_ladder else 0)
    wanted = {**_OWN, **(sizes or {})}
    is_large = model.order == 0 and model.memory != BELIEF
    if is_large:
        for store, size in _LARGE.items():
            wanted[store] += size
    buffers = Buffers(
        numbers=numbers,
        rows=np.zeros((d + 2, capacity)),
        counters=np.zeros(wanted["counters"], dtype=np.int64),
        gauges=np.zeros(wanted["gauges"]),
        vectors=np.zeros((wanted["vectors"], d)),
        matrices=np.zeros((wanted["matrices"], d, d)),
        moments=np.zeros((wanted["moments"], len(ladder))),
        ladder=ladder,
    )
    state = named(buffers)
    state.V[:] = state.V2[:] = np.eye(d) * (model.lam / model.c)
    if model.fast:
        state.notes[STALE] = 1.0
    if is_large:
        buffers.vectors[-2, STALE] = 1.0  # norm_notes of `Large`
    buffers.counters[FITTED] = 1
    buffers.counters[SPAN] = model.span
    return buffers


def named(buffers: Buffers) -> State:
    """The state among the buffers, for Python."""
    state: State = _STATE.in_python(buffers)
    return state


def beyond(buffers: Buffers) -> tuple[Floats, Floats]:
    """The vectors and matrices that a policy has beyond those of an estimator."""
    return buffers.vectors[_OWN["vectors"] :], buffers.matrices[_OWN["matrices"] :]


def estimates_of(buffers: Buffers) -> Floats:
    """theta_hat and theta, (2, d), which stand in a row behind the anchors."""
    return buffers.vectors[2:4]


def notes_of(buffers: Buffers) -> Floats:
    """The notes of a large model, for Python."""
    notes: Floats = buffers.vectors[-1]
    return notes


def copy_of(buffers: Buffers) -> Buffers:
    copies: list[Any] = [array.copy() for array in buffers]
    return Buffers(*copies)


def essence(buffers: Buffers) -> dict[str, Any]:
    """The arrays that a state consists of, without scratch and without rows that have left."""
    counters = buffers.counters.copy()
    head, tail = int(counters[HEAD]), int(counters[TAIL])
    counters[HEAD], counters[TAIL] = 0, tail - head  # where the rows lie is no part of the state
    state = named(buffers)
    return {
        "rows": buffers.rows[:, head:tail],
        "counters": counters,
        "gauges": buffers.gauges,
        "vectors": np.array([state.theta_hat, state.theta, state.b, *state.anchors[:2]]),
        "matrices": np.array([state.V, state.V2]),
        "moments": state.moments[:2],
        "more_vectors": beyond(buffers)[0],
        "more_matrices": beyond(buffers)[1],
        **({"inverse": state.P, "notes": state.notes} if _is_fast(buffers) else {}),
    }


def revived(empty: Buffers, arrays: Mapping[str, Any]) -> Buffers:
    """A memory from its essence, and an empty one of its kind."""
    living = arrays["rows"].shape[1]
    buffers = with_capacity(empty, max(2 * living, FIRST_CAPACITY))
    state = named(buffers)
    buffers.rows[:, :living] = arrays["rows"]
    buffers.counters[:] = arrays["counters"]
    buffers.counters[HEAD], buffers.counters[TAIL] = 0, living
    buffers.gauges[:] = arrays["gauges"]
    state.theta_hat[:], state.theta[:], state.b[:] = arrays["vectors"][:3]
    state.anchors[:2] = arrays["vectors"][3:]
    state.V[:], state.V2[:] = arrays["matrices"]
    state.moments[:2] = arrays["moments"]
    more_vectors, more_matrices = beyond(buffers)
    more_vectors[:], more_matrices[:] = arrays["more_vectors"], arrays["more_matrices"]
    if _is_fast(buffers):
        state.P[:], state.notes[:] = arrays["inverse"], arrays["notes"]
    return buffers


def _is_fast(buffers: Buffers) -> bool:
    return bool(model_in(buffers.numbers).fast)


def with_capacity(buffers: Buffers, capacity: int) -> Buffers:
    """Copy a memory into one with room for `capacity` rows."""
    rows = np.zeros((buffers.rows.shape[0], capacity))
    head, tail = buffers.counters[HEAD], buffers.counters[TAIL]
    rows[:, : tail - head] = buffers.rows[:, head:tail]
    counters = buffers.counters.copy()
    counters[HEAD], counters[TAIL] = 0, tail - head
    return buffers._replace(rows=rows, counters=counters)


def counter_names() -> dict[str, int]:
    """Name the counters that a caller may read."""
    return {
        "passes": PASSES,
        "anchors": ANCHORS,
        "damped_steps": DAMPED_STEPS,
        "newton_steps": NEWTON_STEPS,
        "projections": PROJECTIONS,
        "descent_steps": DESCENT_STEPS,
    }
