"""Reward models: E[X | a] = mu(a . theta), the derivative of a log-partition b.

Notation
--------
z        scalar     a . theta
b(z)     scalar     log-partition, `log_partition`
mu(z)    scalar     mean reward, b'
mu'(z)   scalar     slope, b''
m        scalar     largest reward, Assumption `assumption_noise` (closed interval [0, m])
k_mu     scalar     largest slope over |z| <= L S, Assumption `assumption_c_mu`
c_mu     scalar     smallest slope over the same interval; the theory needs c_mu > 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits.jit import compiled, leaf

Floats = NDArray[np.float64]

LOGISTIC, IDENTITY, POISSON = 0, 1, 2
_CODES = {"logistic": LOGISTIC, "binomial": LOGISTIC, "identity": IDENTITY, "poisson": POISSON}

HIGHEST_DERIVATIVE = 12
"""mu and its derivatives up to this order are available to the kernels."""


def _logistic_polynomials() -> Floats:
    """Coefficients of R_n, where sigma^(n) = q R_n(q) (times 1-2p when n is even), q = p(1-p).

    From q' = q s, s' = -2 q and s^2 = 1 - 4 q with s = 1 - 2p. This form keeps its digits when p
    is near 0 or 1, where the usual polynomial in p cancels.
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


_LOGISTIC_POLYNOMIALS = _logistic_polynomials()


def _largest_derivatives() -> Floats:
    """sup over z of |sigma^(n)(z)| for n = 0.., from a fine grid, rounded up."""
    p = 1.0 / (1.0 + np.exp(-np.linspace(-12.0, 12.0, 24001)))
    q, s = p * (1.0 - p), 1.0 - 2.0 * p
    suprema = [1.0]
    for n in range(1, HIGHEST_DERIVATIVE + 1):
        value = q * np.polynomial.polynomial.polyval(q, _LOGISTIC_POLYNOMIALS[n])
        suprema.append(float(np.abs(value * s if n % 2 == 0 else value).max()) * 1.001)
    return np.array(suprema)


_LOGISTIC_SUPREMA = _largest_derivatives()


@leaf
def sigmoid(z: float) -> float:
    e = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else e) / (1.0 + e)  # no branch: signs cannot be foretold


@leaf
def mean(code: int, m: float, z: float) -> float:
    """mu(z)."""
    if code == LOGISTIC:
        return m * sigmoid(z)
    if code == IDENTITY:
        return z
    return math.exp(z)


@compiled
def slope(code: int, m: float, z: float) -> float:
    """mu'(z); e/(1+e)^2 and not p(1-p), which is 0 from z = 37 on."""
    if code == LOGISTIC:
        e = math.exp(-abs(z))
        return m * e / ((1.0 + e) * (1.0 + e))
    if code == IDENTITY:
        return 1.0
    return math.exp(z)


@compiled
def log_partition(code: int, m: float, z: float) -> float:
    """b(z), with b' = mu."""
    if code == LOGISTIC:
        return m * (max(z, 0.0) + math.log1p(math.exp(-abs(z))))
    if code == IDENTITY:
        return 0.5 * z * z
    return math.exp(z)


@leaf
def derivatives(code: int, m: float, z: float, order: int, out: Floats, row: int) -> None:
    """out[row, n] = mu^(n)(z) for n = 0..order."""
    if code == IDENTITY:
        out[row, 0] = z
        for n in range(1, order + 1):
            out[row, n] = 1.0 if n == 1 else 0.0
    elif code == POISSON:
        e = math.exp(z)
        for n in range(order + 1):
            out[row, n] = e
    else:
        e = math.exp(-abs(z))
        p = 1.0 / (1.0 + e)
        q = e * p * p
        s = (1.0 - e) * p if z < 0.0 else (e - 1.0) * p  # 1 - 2 sigma(z)
        out[row, 0] = m * (p if z >= 0.0 else e * p)
        for n in range(1, order + 1):
            value = 0.0
            for i in range((n - 1) // 2, -1, -1):
                value = value * q + _LOGISTIC_POLYNOMIALS[n, i]
            out[row, n] = m * q * (value if n % 2 == 1 else value * s)


@compiled
def block_derivatives(
    code: int, m: float, z: Floats, size: int, order: int, scratch: Floats, out: Floats
) -> None:
    """out[n, lane] = mu^(n)(z[lane]): `derivatives` for many points, in loops that vectorise.

    scratch has three rows of lanes.
    """
    if code != LOGISTIC:
        for lane in range(size):
            value = z[lane] if code == IDENTITY else math.exp(z[lane])
            for n in range(order + 1):
                out[n, lane] = value
                if code == IDENTITY and n > 0:
                    out[n, lane] = 1.0 if n == 1 else 0.0
        return
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
            coefficient = _LOGISTIC_POLYNOMIALS[n, i]
            for lane in range(size):
                scratch[2, lane] = scratch[2, lane] * scratch[0, lane] + coefficient
        if n % 2 == 1:
            for lane in range(size):
                out[n, lane] = m * scratch[0, lane] * scratch[2, lane]
        else:
            for lane in range(size):
                out[n, lane] = m * scratch[0, lane] * scratch[2, lane] * scratch[1, lane]


@leaf
def derivative_bound(code: int, m: float, order: int, largest_z: float) -> float:
    """An upper bound of |mu^(order)(z)| over z <= largest_z."""
    if code == LOGISTIC:
        return m * float(_LOGISTIC_SUPREMA[order])
    if code == IDENTITY:
        return 0.0 if order > 1 else 1.0
    return math.exp(largest_z)


@compiled
def _map(function_number: int, code: int, m: float, z: Floats) -> Floats:
    out = np.empty_like(z)
    for i in range(z.size):
        if function_number == 0:
            out[i] = mean(code, m, z[i])
        elif function_number == 1:
            out[i] = slope(code, m, z[i])
        else:
            out[i] = log_partition(code, m, z[i])
    return out


@dataclass(frozen=True)
class Link:
    """One reward model. Make it with `link`.

    >>> bernoulli = link("logistic")
    >>> float(bernoulli.mean(0.0)), bernoulli.k_mu(L=1.0, S=1.0)
    (0.5, 0.25)
    """

    name: str
    m: float

    @property
    def code(self) -> int:
        """The number by which kernels know this model."""
        return _CODES[self.name]

    def mean(self, z: ArrayLike) -> Floats:
        return self._apply(0, z)

    def slope(self, z: ArrayLike) -> Floats:
        return self._apply(1, z)

    def log_partition(self, z: ArrayLike) -> Floats:
        return self._apply(2, z)

    def _apply(self, function_number: int, z: ArrayLike) -> Floats:
        points = np.asarray(z, dtype=np.float64)
        flat = np.ascontiguousarray(points).ravel()
        return _map(function_number, self.code, self.m, flat).reshape(points.shape)

    def k_mu(self, *, L: float, S: float) -> float:
        """Largest slope for ||a|| <= L, ||theta|| <= S."""
        where = {LOGISTIC: 0.0, IDENTITY: 0.0, POISSON: L * S}[self.code]
        return float(self.slope(where))

    def c_mu(self, *, L: float, S: float) -> float:
        """Smallest slope for ||a|| <= L, ||theta|| <= S; refused when it vanishes."""
        # beyond 700 the exponential leaves the range of a double on one side or the other
        c = float(self.slope(-L * S)) if L * S < 700.0 or self.code == IDENTITY else 0.0
        if not c > 0.0:
            raise ValueError(
                f"L * S = {L * S:g} is too large for the {self.name} model: its smallest slope "
                "c_mu vanishes or its largest overflows, and Assumption 4 needs "
                "0 < c_mu <= k_mu < infinity. Give smaller S or L, or rescale the actions."
            )
        return c

    def reward_range(self) -> tuple[float, float]:
        """The closed interval of rewards that the model accepts."""
        return 0.0, self.m

    def draw(self, rng: np.random.Generator, z: ArrayLike) -> Floats:
        """Rewards with mean mu(z), one for each entry of z.

        logistic: 0 or 1; binomial: 0..m; poisson: counts, those above m recorded as m;
        identity: 0 or m with mean z, so z must lie in [0, m].
        """
        points = np.asarray(z, dtype=np.float64)
        if not np.isfinite(points).all():
            raise ValueError("z must be finite")
        if self.code == IDENTITY:
            if points.size and (points.min() < 0.0 or points.max() > self.m):
                raise ValueError(
                    f"z must lie in [0, {self.m:g}] for the identity model, whose rewards are "
                    f"bounded by m; got values from {points.min():g} to {points.max():g}"
                )
            return np.where(rng.random(points.shape) * self.m < points, self.m, 0.0)
        if self.code == POISSON:
            return np.minimum(rng.poisson(self.mean(points)), self.m).astype(np.float64)
        return rng.binomial(int(self.m), self.mean(points) / self.m).astype(np.float64)


def link(name: str, *, m: float | None = None) -> Link:
    """The reward model `name`: logistic, binomial, identity or poisson.

    m is the largest reward. It is 1 for logistic, an integer for binomial (ratings 0..m), 1 unless
    given for identity, and must be given for poisson: counts are neither bounded nor
    subgaussian, so m is then the largest count accepted and the confidence radius a heuristic.
    """
    if not isinstance(name, str) or name not in _CODES:
        raise ValueError(f"link must be one of {', '.join(sorted(_CODES))}; got {name!r}")
    if m is None:
        if name == "poisson":
            raise ValueError("m must be given for the poisson model: the largest count accepted")
        m = 1.0
    _check_m(name, m)
    return Link(name, float(m))


def _check_m(name: str, m: Any) -> None:
    if isinstance(m, bool) or not isinstance(m, (int, float, np.integer, np.floating)):
        raise ValueError(f"m must be a positive number; got {m!r}")
    if not (math.isfinite(m) and m > 0):
        raise ValueError(f"m must be positive and finite; got {m!r}")
    if name == "logistic" and m != 1:
        raise ValueError(f"m must be 1 for the logistic model; got {m!r}. Use link='binomial'.")
    if name == "binomial" and m != int(m):
        raise ValueError(f"m must be an integer for the binomial model; got {m!r}")
