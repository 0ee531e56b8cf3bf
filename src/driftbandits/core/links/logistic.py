"""Clicks and ratings: mu(z) = m / (1 + e^-z), shares of m.

Notation (beyond links/__init__.py)
--------
p        scalar     sigma(z) = mu(z)/m
q        scalar     p (1 - p)
s        scalar     1 - 2 p
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from driftbandits.core.links import identity
from driftbandits.jit import compiled, leaf

Floats = NDArray[np.float64]

HIGHEST_DERIVATIVE = 12
LINEAR = False
growth, reward_range, steepest = identity.growth, identity.reward_range, identity.steepest


def _polynomials() -> Floats:
    """Coefficients of R_n, where sigma^(n) = q R_n(q) (times s when n is even).

    From q' = q s, s' = -2 q and s^2 = 1 - 4 q. This form keeps its digits when p is near 0 or 1,
    where the usual polynomial in p cancels.
    """
    order = HIGHEST_DERIVATIVE
    table = np.zeros((order + 1, order + 2))
    table[1, 0] = 1.0
    powers = np.arange(order + 2)
    for n in range(1, order):
        inner = table[n] * (1.0 + powers)  # R + q R'
        if n % 2 == 1:
            table[n + 1] = inner
        else:
            table[n + 1] = inner - 4.0 * np.roll(inner, 1) - 2.0 * np.roll(table[n], 1)
    return table


_POLYNOMIALS = _polynomials()
_EXPANSION = np.array([1.0 / math.factorial(n) for n in range(1, 11)])  # of expm1(x) / x


def _largest_derivatives() -> Floats:
    """sup over z of |sigma^(n)(z)| for n = 0.., from a fine grid, rounded up."""
    p = 1.0 / (1.0 + np.exp(-np.linspace(-12.0, 12.0, 24001)))
    q, s = p * (1.0 - p), 1.0 - 2.0 * p
    suprema = [1.0]
    for n in range(1, HIGHEST_DERIVATIVE + 1):
        value = q * np.polynomial.polynomial.polyval(q, _POLYNOMIALS[n])
        suprema.append(float(np.abs(value * s if n % 2 == 0 else value).max()) * 1.001)
    return np.array(suprema)


_SUPREMA = _largest_derivatives()


def checked_m(name: str, m: float | None) -> float:
    if name == "logistic":
        if m not in (None, 1):
            raise ValueError(f"m must be 1 for the logistic model; got {m!r}. Use link='binomial'.")
        return 1.0
    if m is not None and m != int(m):
        raise ValueError(f"m must be an integer for the binomial model; got {m!r}")
    return 1.0 if m is None else float(m)


def flattest(reach: float) -> float:
    return reach


def draw(rng: np.random.Generator, m: float, means: Floats) -> Floats:
    """0 or 1 for m = 1; whole numbers up to m otherwise."""
    return rng.binomial(int(m), means / m).astype(np.float64)


@leaf
def mean(m: float, z: float) -> float:
    e = math.exp(-abs(z))
    return m * ((1.0 if z >= 0.0 else e) / (1.0 + e))  # no branch: signs cannot be foretold


@leaf
def blur(variance: float) -> float:
    """After the normal distribution function that is nearest to sigma (MacKay 1992)."""
    return math.sqrt(1.0 + 0.125 * math.pi * variance)


@compiled
def slope(m: float, z: float) -> float:
    """e/(1+e)^2 and not p(1-p), which is 0 from z = 37 on."""
    e = math.exp(-abs(z))
    return m * e / ((1.0 + e) * (1.0 + e))


@compiled
def log_partition(m: float, z: float) -> float:
    return m * (max(z, 0.0) + math.log1p(math.exp(-abs(z))))


@leaf
def derivatives(m: float, z: float, order: int, out: Floats) -> None:
    e = math.exp(-abs(z))
    p = 1.0 / (1.0 + e)
    q = e * p * p
    s = (1.0 - e) * p if z < 0.0 else (e - 1.0) * p  # 1 - 2 sigma(z)
    out[0] = m * (p if z >= 0.0 else e * p)
    for n in range(1, order + 1):
        value = 0.0
        for i in range((n - 1) // 2, -1, -1):
            value = value * q + _POLYNOMIALS[n, i]
        out[n] = m * q * (value if n % 2 == 1 else value * s)


@compiled
def block_derivatives(
    m: float, z: Floats, size: int, order: int, scratch: Floats, out: Floats
) -> None:
    for lane in range(size):
        # e^-|z| as 1 + y, with y = expm1 of a 256th doubled eight times: y(2 + y) keeps every digit
        x = max(-abs(z[lane]), -40.0) / 256.0
        y = 1.0 + x / 10.0
        for k in range(9, 1, -1):
            y = 1.0 + x * y / k
        y *= x
        for _ in range(8):
            y *= 2.0 + y
        e = 1.0 + y
        p = 1.0 / (1.0 + e)
        sign = 1.0 if z[lane] >= 0.0 else -1.0
        scratch[0, lane] = e * p * p
        scratch[1, lane] = sign * (e - 1.0) * p
        out[0, lane] = 0.5 * m * (1.0 - scratch[1, lane])
    for n in range(1, order + 1):
        for lane in range(size):
            scratch[2, lane] = 0.0
        for i in range((n - 1) // 2, -1, -1):
            coefficient = _POLYNOMIALS[n, i]
            for lane in range(size):
                scratch[2, lane] = scratch[2, lane] * scratch[0, lane] + coefficient
        if n % 2 == 1:
            for lane in range(size):
                out[n, lane] = m * scratch[0, lane] * scratch[2, lane]
        else:
            for lane in range(size):
                out[n, lane] = m * scratch[0, lane] * scratch[2, lane] * scratch[1, lane]


@compiled
def quick_derivatives(
    m: float, z: Floats, size: int, order: int, scratch: Floats, out: Floats
) -> None:
    """Compute `block_derivatives` for order <= 2, without its divisions."""
    for lane in range(size):
        x = max(-abs(z[lane]), -40.0) * (1.0 / 256.0)
        y = _EXPANSION[9]
        for k in range(8, -1, -1):
            y = y * x + _EXPANSION[k]
        y *= x
        for _ in range(8):
            y *= 2.0 + y
        p = 1.0 / (2.0 + y)
        s = (y if z[lane] >= 0.0 else -y) * p
        scratch[0, lane] = m * (1.0 + y) * p * p
        scratch[1, lane] = s
        out[0, lane] = 0.5 * m * (1.0 - s)
    if order >= 1:
        for lane in range(size):
            out[1, lane] = scratch[0, lane]
    if order >= 2:
        for lane in range(size):
            out[2, lane] = scratch[0, lane] * scratch[1, lane]


@leaf
def derivative_bound(m: float, order: int, largest_z: float) -> float:
    return m * float(_SUPREMA[order])


@leaf
def spread(m: float, reward: float, mean: float) -> tuple[float, float]:
    """For a share Y in [0, 1] with mean p, Var(Y) = p(1-p) - E[Y(1-Y)]."""
    y, p = reward / m, mean / m
    return 4.0 * y * (1.0 - y), 4.0 * p * (1.0 - p)


@leaf
def dispersion(m: float, prior: float, seen: float, expected: float) -> float:
    """1 where rewards are 0 or m = 1, whatever was seen."""
    inner = prior * (1.0 - 1.0 / m) + seen
    return m * (1.0 - inner / (prior + expected))
