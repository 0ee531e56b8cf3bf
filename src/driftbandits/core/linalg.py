"""Small dense kernels: Cholesky factors, solves, inverses, and a quadratic over a ball.

Written out instead of called from LAPACK: for d <= 30 the call costs more than the arithmetic, and
the package then needs nothing but numpy and numba.

The compiler may not reorder a sum, so a loop over a dot product makes one addition after the other.
The kernels of large matrices, `*_large` and `multiply_rows`, add multiples of rows instead, four at
a time, which it makes into vectors: within a factor of two of a BLAS, on one thread, and the
same bits at every call.

Notation
--------
A        (d, d)     a symmetric positive definite matrix
C        (d, d)     its lower Cholesky factor, A = C C', with 1/C_jj on the diagonal; that of a
                    large matrix has C' above the diagonal
x, y     (d,)       vectors
nu       scalar     multiplier of the constraint ||x|| <= S
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from driftbandits.jit import SPAN, compiled, leaf, multiply_span, multiply_two_spans

Floats = NDArray[np.float64]

_SECULAR_STEPS = 60
_SMALLEST_PIVOT = 1e-15
_ROUNDING = 1e-13
_TINY = 1e-300


@leaf
def cholesky(A: Floats, C: Floats) -> bool:
    """C := lower Cholesky factor of A; False when A is not numerically positive definite.

    Then the factor is that of a matrix with the smallest pivots that rounding can tell from zero.
    C may be A itself.
    """
    d = A.shape[0]
    sound = True
    for j in range(d):
        total = A[j, j]
        floor = _SMALLEST_PIVOT * abs(A[j, j])
        for k in range(j):
            total -= C[j, k] * C[j, k]
        if not total > floor:
            sound = False
            total = max(floor, _TINY)
        reciprocal = 1.0 / math.sqrt(total)
        C[j, j] = reciprocal
        for i in range(j + 1, d):
            total = A[i, j]
            for k in range(j):
                total -= C[i, k] * C[j, k]
            C[i, j] = total * reciprocal
    return sound


@leaf
def forward_solve(C: Floats, x: Floats) -> None:
    """x := C^-1 x."""
    for i in range(x.shape[0]):
        total = x[i]
        for k in range(i):
            total -= C[i, k] * x[k]
        x[i] = total * C[i, i]


@leaf
def backward_solve(C: Floats, x: Floats) -> None:
    """x := C'^-1 x."""
    d = x.shape[0]
    for i in range(d - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, d):
            total -= C[k, i] * x[k]
        x[i] = total * C[i, i]


@leaf
def multiply_by_factor(C: Floats, x: Floats) -> None:
    """x := C x."""
    for i in range(x.shape[0] - 1, -1, -1):
        total = x[i] / C[i, i]
        for k in range(i):
            total += C[i, k] * x[k]
        x[i] = total


@leaf
def invert_factor(C: Floats, out: Floats) -> float:
    """Lower triangle of out := C^-1; returns trace A^-1 = ||C^-1||_F^2, a bound of ||A^-1||."""
    d = C.shape[0]
    squares = 0.0
    for j in range(d):
        out[j, j] = C[j, j]
        squares += C[j, j] * C[j, j]
        for i in range(j + 1, d):
            total = 0.0
            for k in range(j, i):
                total -= C[i, k] * out[k, j]
            total *= C[i, i]
            out[i, j] = total
            squares += total * total
    return squares


@leaf
def inverse(C: Floats, out: Floats) -> None:
    """out := A^-1, from the factor."""
    d = C.shape[0]
    invert_factor(C, out)
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, d):
                total += out[k, i] * out[k, j]
            out[i, j] = total
    for i in range(d):
        for j in range(i):
            out[j, i] = out[i, j]


@leaf
def dot(x: Floats, y: Floats) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@leaf
def norm(x: Floats) -> float:
    return math.sqrt(dot(x, x))


@leaf
def distance(x: Floats, y: Floats) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        difference = x[i] - y[i]
        total += difference * difference
    return math.sqrt(total)


@leaf
def copy(source: Floats, target: Floats) -> None:
    for i in range(source.shape[0]):
        target[i] = source[i]


@leaf
def copy_matrix(source: Floats, target: Floats) -> None:
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@leaf
def set_to_identity(A: Floats, scale: float) -> None:
    """A := scale I."""
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            A[i, j] = scale if i == j else 0.0


@leaf
def add_scaled(x: Floats, scale: float, y: Floats) -> None:
    """x := x + scale y."""
    for i in range(x.shape[0]):
        x[i] += scale * y[i]


@leaf
def multiply(A: Floats, x: Floats, out: Floats) -> None:
    """out := A x."""
    d = x.shape[0]
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += A[i, j] * x[j]
        out[i] = total


@leaf
def add_outer(A: Floats, weight: float, x: Floats) -> None:
    """A := A + weight x x'."""
    d = x.shape[0]
    for i in range(d):
        w = weight * x[i]
        for j in range(d):
            A[i, j] += w * x[j]


@leaf
def sandwich(A: Floats, B: Floats, scratch: Floats, out: Floats) -> None:
    """out := A B A for symmetric A and B."""
    multiply_matrices(A, B, scratch)
    multiply_matrices(scratch, A, out)


@leaf
def multiply_matrices(A: Floats, B: Floats, out: Floats) -> None:
    """out := A B; out is neither A nor B."""
    d = A.shape[0]
    for i in range(d):
        for j in range(d):
            out[i, j] = 0.0
        for k in range(d):
            factor = A[i, k]
            for j in range(d):
                out[i, j] += factor * B[k, j]


@leaf
def _add_four(
    out: Floats,
    first: int,
    last: int,
    weights: tuple[float, float, float, float],
    A: Floats,
    k: int,
) -> None:
    """out := out + weights . (A_k, ..., A_k+3), between two coordinates."""
    a, b, c, d = weights
    w, x, y, z = A[k], A[k + 1], A[k + 2], A[k + 3]
    for j in range(first, last):
        out[j] += a * w[j] + b * x[j] + c * y[j] + d * z[j]


@leaf
def _add_one(out: Floats, first: int, last: int, weight: float, x: Floats) -> None:
    """out := out + weight x, between two coordinates."""
    for j in range(first, last):
        out[j] += weight * x[j]


@compiled
def cholesky_large(A: Floats, C: Floats) -> bool:
    """Factor a large A from its lower triangle; C is not A, and has C' above its diagonal."""
    d = A.shape[0]
    sound = True
    for i in range(d):
        for j in range(i + 1):
            C[j, i] = A[i, j]
    for k in range(d):
        floor = _SMALLEST_PIVOT * abs(A[k, k])
        pivot = C[k, k]
        if not pivot > floor:
            sound = False
            pivot = max(floor, _TINY)
        reciprocal = 1.0 / math.sqrt(pivot)
        C[k, k] = reciprocal
        for j in range(k + 1, d):
            C[k, j] *= reciprocal
        if k % 4 < 3:  # the rest of these four rows now, all others by the four together
            for i in range(k + 1, min(k + 4 - k % 4, d)):
                _add_one(C[i], i, d, -C[k, i], C[k])
        else:
            for i in range(k + 1, d):
                weights = (-C[k - 3, i], -C[k - 2, i], -C[k - 1, i], -C[k, i])
                _add_four(C[i], i, d, weights, C, k - 3)
    for i in range(d):
        for j in range(i):
            C[i, j] = C[j, i]
    return sound


@compiled
def forward_solve_large(C: Floats, x: Floats) -> None:
    """x := C^-1 x."""
    d = x.shape[0]
    for k in range(d):
        x[k] *= C[k, k]
        _add_one(x, k + 1, d, -x[k], C[k])


@compiled
def backward_solve_large(C: Floats, x: Floats) -> None:
    """x := C'^-1 x."""
    for k in range(x.shape[0] - 1, -1, -1):
        x[k] *= C[k, k]
        _add_one(x, 0, k, -x[k], C[k])


@compiled
def multiply_by_factor_large(C: Floats, x: Floats) -> None:
    """x := C x."""
    d = x.shape[0]
    for k in range(d - 1, -1, -1):
        _add_one(x, k + 1, d, x[k], C[k])
        x[k] /= C[k, k]


@compiled
def invert_factor_large(C: Floats, out: Floats) -> float:
    """out := C^-1, with zeros above the diagonal; returns trace A^-1 as `invert_factor` does."""
    squares = 0.0
    for i in range(C.shape[0]):
        row = out[i]
        for j in range(C.shape[0]):
            row[j] = 0.0
        whole = i - i % 4
        for k in range(0, whole, 4):
            weights = (-C[i, k], -C[i, k + 1], -C[i, k + 2], -C[i, k + 3])
            _add_four(row, 0, k + 4, weights, out, k)
        for k in range(whole, i):
            _add_one(row, 0, k + 1, -C[i, k], out[k])
        for j in range(i):
            row[j] *= C[i, i]
        row[i] = C[i, i]
        squares += dot(row, row)
    return squares


@compiled
def inverse_large(C: Floats, out: Floats) -> float:
    """out := A^-1, from the factor of a large matrix; returns its trace."""
    d = C.shape[0]
    trace = invert_factor_large(C, out)
    for i in range(d):
        row = out[i]
        weight = row[i]
        for j in range(i + 1):
            row[j] *= weight
        last = d - (d - i - 1) % 4
        for k in range(i + 1, last, 4):
            weights = (out[k, i], out[k + 1, i], out[k + 2, i], out[k + 3, i])
            _add_four(row, 0, i + 1, weights, out, k)
        for k in range(last, d):
            _add_one(row, 0, i + 1, out[k, i], out[k])
    for i in range(d):
        for j in range(i):
            out[j, i] = out[i, j]
    return trace


@compiled
def dot_large(x: Floats, y: Floats) -> float:
    """x . y, in four sums at a time."""
    d = x.shape[0]
    last = d - d % 4
    a, b, c, e = 0.0, 0.0, 0.0, 0.0
    for j in range(0, last, 4):
        a += x[j] * y[j]
        b += x[j + 1] * y[j + 1]
        c += x[j + 2] * y[j + 2]
        e += x[j + 3] * y[j + 3]
    for j in range(last, d):
        a += x[j] * y[j]
    return (a + b) + (c + e)


@compiled
def multiply_large(A: Floats, x: Floats, out: Floats) -> None:
    """out := A x for a symmetric A."""
    d = x.shape[0]
    for j in range(d):
        out[j] = 0.0
    last = d - d % 4
    for k in range(0, last, 4):
        _add_four(out, 0, d, (x[k], x[k + 1], x[k + 2], x[k + 3]), A, k)
    for k in range(last, d):
        _add_one(out, 0, d, x[k], A[k])


@compiled
def multiply_rows(X: Floats, A: Floats, out: Floats) -> None:
    """out := X A, for any number of rows; out is neither X nor A."""
    rows, (n, d) = X.shape[0], A.shape
    in_spans = d - d % SPAN
    for first in range(0, in_spans, SPAN):
        for i in range(0, rows - 1, 2):
            multiply_two_spans(X, i, A, first, out)
        if rows % 2 == 1:
            multiply_span(X, rows - 1, A, first, out)
    if in_spans == d:
        return
    for i in range(rows):
        for j in range(in_spans, d):
            out[i, j] = 0.0
    last = n - n % 4
    for k in range(0, last, 4):
        for i in range(rows):
            weights = (X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3])
            _add_four(out[i], in_spans, d, weights, A, k)
    for k in range(last, n):
        for i in range(rows):
            _add_one(out[i], in_spans, d, X[i, k], A[k])


@leaf
def minimise_in_ball(
    A: Floats,
    c: Floats,
    S: float,
    nu: float,
    tolerance: float,
    x: Floats,
    shifted: Floats,
    C: Floats,
    y: Floats,
) -> bool:
    """x := argmin over ||x|| <= S of x'A x / 2 - c'x, from a guess of its multiplier nu >= 0.

    `tolerance` is how far off ||x||/S may be before x is scaled to the sphere. False when A + nu I
    was not positive definite for some nu tried.

    The solution satisfies (A + nu I) x = c. When the free minimiser lies outside, nu is the root
    of 1/||x(nu)|| = 1/S, a concave increasing function of nu: Newton from the left never
    overshoots, and from the right it lands on the left or at 0 (More and Sorensen 1983; there is
    no hard case because A is positive definite).
    `shifted`, `C` and `y` are scratch.
    """
    d = x.shape[0]
    copy_matrix(A, shifted)
    sound = True
    for _ in range(_SECULAR_STEPS):
        for i in range(d):
            shifted[i, i] = A[i, i] + nu
        sound = cholesky(shifted, C) and sound
        copy(c, x)
        forward_solve(C, x)
        backward_solve(C, x)
        length = norm(x)
        if nu == 0.0 and length <= S:
            return sound
        copy(x, y)
        forward_solve(C, y)
        excess = length / S - 1.0
        nu = max(nu + excess * (length * length) / dot(y, y), 0.0)
        if abs(excess) <= max(tolerance, _ROUNDING):
            break
    scale = S / norm(x)
    for i in range(d):
        x[i] *= scale
    return sound
