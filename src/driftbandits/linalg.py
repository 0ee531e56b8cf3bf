"""Small dense kernels: Cholesky factors, solves, inverses, and a quadratic over a ball.

Written out instead of called from LAPACK: for d <= 30 the call costs more than the arithmetic, and
the package then needs nothing but numpy and numba.

Notation
--------
A, V     (d, d)   symmetric positive definite
C        (d, d)   lower triangular, A = C C'
nu       scalar   multiplier of the constraint ||x|| <= S
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from driftbandits.jit import compiled

_SECULAR_STEPS = 60


@compiled
def cholesky(A: NDArray[np.float64], C: NDArray[np.float64]) -> bool:
    """C := lower Cholesky factor of A; False when A is not numerically positive definite."""
    d = A.shape[0]
    for j in range(d):
        for i in range(j, d):
            total = A[i, j]
            for k in range(j):
                total -= C[i, k] * C[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                C[j, j] = math.sqrt(total)
            else:
                C[i, j] = total / C[j, j]
    return True


@compiled
def forward_solve(C: NDArray[np.float64], x: NDArray[np.float64]) -> None:
    """x := C^-1 x."""
    for i in range(x.size):
        total = x[i]
        for k in range(i):
            total -= C[i, k] * x[k]
        x[i] = total / C[i, i]


@compiled
def backward_solve(C: NDArray[np.float64], x: NDArray[np.float64]) -> None:
    """x := C'^-1 x."""
    for i in range(x.size - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, x.size):
            total -= C[k, i] * x[k]
        x[i] = total / C[i, i]


@compiled
def solve(C: NDArray[np.float64], x: NDArray[np.float64]) -> None:
    """x := A^-1 x."""
    forward_solve(C, x)
    backward_solve(C, x)


@compiled
def inverse(C: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out := A^-1, from its factor."""
    d = C.shape[0]
    for j in range(d):
        for i in range(d):
            out[j, i] = 1.0 if i == j else 0.0
        solve(C, out[j])


@compiled
def dot(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@compiled
def norm(x: NDArray[np.float64]) -> float:
    return math.sqrt(dot(x, x))


@compiled
def multiply(A: NDArray[np.float64], x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out := A x."""
    for i in range(x.size):
        out[i] = dot(A[i], x)


@compiled
def quadratic_form(A: NDArray[np.float64], x: NDArray[np.float64]) -> float:
    """x' A x for a symmetric A, never below zero."""
    total = 0.0
    for i in range(x.size):
        row = 0.5 * A[i, i] * x[i]
        for j in range(i):
            row += A[i, j] * x[j]
        total += x[i] * row
    return max(2.0 * total, 0.0)


@compiled
def add_outer(A: NDArray[np.float64], weight: float, x: NDArray[np.float64]) -> None:
    """A := A + weight x x'."""
    for i in range(x.size):
        w = weight * x[i]
        for j in range(x.size):
            A[i, j] += w * x[j]


@compiled
def sandwich(A: NDArray[np.float64], B: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out := A B A for symmetric A and B."""
    d = A.shape[0]
    half = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            half[i, j] = dot(A[i], B[j])
    for i in range(d):
        for j in range(d):
            out[i, j] = dot(half[i], A[j])


@compiled
def minimise_in_ball(
    A: NDArray[np.float64], c: NDArray[np.float64], S: float, x: NDArray[np.float64]
) -> float:
    """x := argmin over ||x|| <= S of x'A x / 2 - c'x; returns the multiplier nu >= 0.

    The solution satisfies (A + nu I) x = c. When the free minimiser lies outside, nu is the root
    of 1/||x(nu)|| = 1/S, a concave increasing function of nu: Newton from the left never
    overshoots (More and Sorensen 1983; there is no hard case because A is positive definite).
    """
    d = c.size
    C = np.empty((d, d))
    shifted = A.copy()
    y = np.empty(d)
    nu = 0.0
    for _ in range(_SECULAR_STEPS):
        for i in range(d):
            shifted[i, i] = A[i, i] + nu
        cholesky(shifted, C)
        x[:] = c
        solve(C, x)
        length = norm(x)
        if nu == 0.0 and length <= S:
            return 0.0
        y[:] = x
        forward_solve(C, y)
        step = (length / S - 1.0) * (length * length) / dot(y, y)
        nu += step
        if not step > 1e-15 * nu:
            break
    scale = S / norm(x)
    for i in range(d):
        x[i] *= scale
    return nu
