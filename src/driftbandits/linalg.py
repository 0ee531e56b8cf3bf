"""Small dense kernels: Cholesky factors, solves, inverses, and a quadratic over a ball.

Written out instead of called from LAPACK: for d <= 30 the call costs more than the arithmetic, and
the package then needs nothing but numpy and numba. Every matrix is an entry of one stack of
matrices, and every vector a row of one stack of vectors, because a view would cost more than a
2 x 2 solve.

Notation
--------
Ms       (n, d, d)  a stack of matrices; A, C, ... are places in it
xs       (n, d)     a stack of vectors; x, y, ... are places in it
A        place of a symmetric positive definite matrix
C        place of its lower Cholesky factor, A = C C', with 1/C_jj on the diagonal
nu       scalar     multiplier of the constraint ||x|| <= S
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from driftbandits.jit import compiled, leaf

Floats = NDArray[np.float64]

_SECULAR_STEPS = 60
_SMALLEST_PIVOT = 1e-15
_TINY = 1e-300


@leaf
def cholesky(Ms: Floats, A: int, C: int) -> bool:
    """C := lower Cholesky factor of A; False when A is not numerically positive definite.

    Then the factor is that of a matrix with the smallest pivots that rounding can tell from zero.
    """
    d = Ms.shape[1]
    sound = True
    for j in range(d):
        total = Ms[A, j, j]
        for k in range(j):
            total -= Ms[C, j, k] * Ms[C, j, k]
        floor = _SMALLEST_PIVOT * abs(Ms[A, j, j])
        if not total > floor:
            sound = False
            total = max(floor, _TINY)
        reciprocal = 1.0 / math.sqrt(total)
        Ms[C, j, j] = reciprocal
        for i in range(j + 1, d):
            total = Ms[A, i, j]
            for k in range(j):
                total -= Ms[C, i, k] * Ms[C, j, k]
            Ms[C, i, j] = total * reciprocal
    return sound


@leaf
def forward_solve(Ms: Floats, C: int, xs: Floats, x: int) -> None:
    """x := C^-1 x."""
    for i in range(xs.shape[1]):
        total = xs[x, i]
        for k in range(i):
            total -= Ms[C, i, k] * xs[x, k]
        xs[x, i] = total * Ms[C, i, i]


@leaf
def backward_solve(Ms: Floats, C: int, xs: Floats, x: int) -> None:
    """x := C'^-1 x."""
    d = xs.shape[1]
    for i in range(d - 1, -1, -1):
        total = xs[x, i]
        for k in range(i + 1, d):
            total -= Ms[C, k, i] * xs[x, k]
        xs[x, i] = total * Ms[C, i, i]


@leaf
def multiply_by_factor(Ms: Floats, C: int, xs: Floats, x: int) -> None:
    """x := C x."""
    for i in range(xs.shape[1] - 1, -1, -1):
        total = xs[x, i] / Ms[C, i, i]
        for k in range(i):
            total += Ms[C, i, k] * xs[x, k]
        xs[x, i] = total


@leaf
def invert_factor(Ms: Floats, C: int, out: int) -> float:
    """Lower triangle of out := C^-1; returns trace A^-1 = ||C^-1||_F^2, a bound of ||A^-1||."""
    d = Ms.shape[1]
    squares = 0.0
    for j in range(d):
        Ms[out, j, j] = Ms[C, j, j]
        squares += Ms[C, j, j] * Ms[C, j, j]
        for i in range(j + 1, d):
            total = 0.0
            for k in range(j, i):
                total -= Ms[C, i, k] * Ms[out, k, j]
            total *= Ms[C, i, i]
            Ms[out, i, j] = total
            squares += total * total
    return squares


@leaf
def inverse(Ms: Floats, C: int, out: int) -> None:
    """out := A^-1 = C'^-1 C^-1, from the factor."""
    d = Ms.shape[1]
    invert_factor(Ms, C, out)
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, d):
                total += Ms[out, k, i] * Ms[out, k, j]
            Ms[out, i, j] = total
    for i in range(d):
        for j in range(i):
            Ms[out, j, i] = Ms[out, i, j]


@leaf
def dot(xs: Floats, x: int, y: int) -> float:
    total = 0.0
    for i in range(xs.shape[1]):
        total += xs[x, i] * xs[y, i]
    return total


@leaf
def norm(xs: Floats, x: int) -> float:
    return math.sqrt(dot(xs, x, x))


@leaf
def distance(xs: Floats, x: int, y: int) -> float:
    total = 0.0
    for i in range(xs.shape[1]):
        difference = xs[x, i] - xs[y, i]
        total += difference * difference
    return math.sqrt(total)


@leaf
def copy(xs: Floats, source: int, target: int) -> None:
    for i in range(xs.shape[1]):
        xs[target, i] = xs[source, i]


@leaf
def multiply(Ms: Floats, A: int, xs: Floats, x: int, out: int) -> None:
    """out := A x."""
    d = xs.shape[1]
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += Ms[A, i, j] * xs[x, j]
        xs[out, i] = total


@compiled
def quadratic_form(Ms: Floats, A: int, xs: Floats, x: int) -> float:
    """x' A x for a symmetric A, never below zero."""
    total = 0.0
    for i in range(xs.shape[1]):
        row = 0.5 * Ms[A, i, i] * xs[x, i]
        for j in range(i):
            row += Ms[A, i, j] * xs[x, j]
        total += xs[x, i] * row
    return max(2.0 * total, 0.0)


@leaf
def add_outer(Ms: Floats, A: int, weight: float, xs: Floats, x: int) -> None:
    """A := A + weight x x'."""
    d = xs.shape[1]
    for i in range(d):
        w = weight * xs[x, i]
        for j in range(d):
            Ms[A, i, j] += w * xs[x, j]


@leaf
def sandwich(Ms: Floats, A: int, B: int, scratch: int, out: int) -> None:
    """out := A B A for symmetric A and B."""
    multiply_matrices(Ms, A, B, scratch)
    multiply_matrices(Ms, scratch, A, out)


@leaf
def multiply_matrices(Ms: Floats, A: int, B: int, out: int) -> None:
    """out := A B; out is neither A nor B."""
    d = Ms.shape[1]
    for i in range(d):
        for j in range(d):
            Ms[out, i, j] = 0.0
        for k in range(d):
            factor = Ms[A, i, k]
            for j in range(d):
                Ms[out, i, j] += factor * Ms[B, k, j]


@leaf
def minimise_in_ball(
    Ms: Floats,
    A: int,
    shifted: int,
    C: int,
    xs: Floats,
    c: int,
    S: float,
    x: int,
    y: int,
    nu: float,
) -> bool:
    """x := argmin over ||x|| <= S of x'A x / 2 - c'x, from a guess of its multiplier nu >= 0.

    False when A + nu I was not positive definite for some nu tried.

    The solution satisfies (A + nu I) x = c. When the free minimiser lies outside, nu is the root
    of 1/||x(nu)|| = 1/S, a concave increasing function of nu: Newton from the left never
    overshoots, and from the right it lands on the left or at 0 (More and Sorensen 1983; there is
    no hard case because A is positive definite).
    `shifted`, `C` and `y` are scratch.
    """
    d = xs.shape[1]
    for i in range(d):
        for j in range(d):
            Ms[shifted, i, j] = Ms[A, i, j]
    sound = True
    for _ in range(_SECULAR_STEPS):
        for i in range(d):
            Ms[shifted, i, i] = Ms[A, i, i] + nu
        sound = cholesky(Ms, shifted, C) and sound
        copy(xs, c, x)
        forward_solve(Ms, C, xs, x)
        backward_solve(Ms, C, xs, x)
        length = norm(xs, x)
        if nu == 0.0 and length <= S:
            return sound
        copy(xs, x, y)
        forward_solve(Ms, C, xs, y)
        excess = length / S - 1.0
        nu = max(nu + excess * (length * length) / dot(xs, y, y), 0.0)
        if abs(excess) <= 1e-13:
            break
    scale = S / norm(xs, x)
    for i in range(d):
        xs[x, i] *= scale
    return sound
