"""Reward models: E[X | a] = mu(a . theta), the derivative of a log-partition b.

Notation
--------
z        scalar     a . theta
b(z)     scalar     log-partition, `log_partition`           eq_log_likelihood
mu(z)    scalar     mean reward, b'
mu'(z)   scalar     slope, b''
m        scalar     largest reward, in the closed interval [0, m]      assumption_noise
k_mu     scalar     largest slope over |z| <= L S                      assumption_c_mu
c_mu     scalar     smallest slope over the same interval; the theory needs c_mu > 0

A reward model is a module with

    LINEAR                                  whether mu is the identity
    checked_m(name, m)                      the largest reward, or an error that says what it may be
    reward_range(m)                         the closed interval of rewards that it accepts
    steepest(reach), flattest(reach)        a z of |z| <= reach at which mu' is largest, smallest
    draw(rng, m, means)                     rewards with these means

and kernels

    mean(m, z)                              mu(z)
    blur(variance)                          b such that mu(z / b) is about the mean of mu over a
                                            normal distribution about z
    slope(m, z)                             mu'(z)
    log_partition(m, z)                     b(z), with b' = mu
    derivatives(m, z, order, out)           out[n] = mu^(n)(z) for n = 0..order
    block_derivatives(m, z, size, order, scratch, out)
                                            out[n, lane] = mu^(n)(z[lane]), in loops that vectorise;
                                            scratch has three rows of lanes
    quick_derivatives(m, z, size, order, scratch, out)
                                            the same for order <= 2 to within 1e-15 m, if there is
                                            a quicker way; large models use it
    derivative_bound(m, order, largest_z)   an upper bound of |mu^(order)(z)| over z <= largest_z
    growth(reach)                           by what that bound may grow as z does by `reach`
    spread(m, reward, mean)                 what a reward tells of the dispersion: seen, expected
    dispersion(m, prior, seen, expected)    variance of the rewards over what the model says, from
                                            sums of these and a prior that counts as `prior` rewards

|mu''| <= mu' has to hold: the damping of Newton's steps rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.core.links import identity, logistic, poisson
from driftbandits.core.links.logistic import HIGHEST_DERIVATIVE
from driftbandits.jit import compiled_for, leaf, one_of

__all__ = [
    "HIGHEST_DERIVATIVE",
    "MODULES",
    "REWARD_MODELS",
    "Link",
    "block_derivatives",
    "blur",
    "derivative_bound",
    "derivatives",
    "dispersion",
    "growth",
    "link",
    "log_partition",
    "mean",
    "quick_derivatives",
    "slope",
    "spread",
]

Floats = NDArray[np.float64]

REWARD_MODELS: Mapping[str, ModuleType] = {
    "logistic": logistic,
    "binomial": logistic,
    "identity": identity,
    "poisson": poisson,
}

MODULES = tuple(dict.fromkeys(REWARD_MODELS.values()))
"""In the order of the numbers by which kernels know them."""


def _of_every_model(name: str, otherwise: str = "") -> Callable[..., Any]:
    """A kernel whose first argument is the number of a reward model."""
    functions = [
        getattr(module, name, None) or getattr(module, otherwise or name) for module in MODULES
    ]
    return leaf(one_of(name, dict(enumerate(functions))))


mean = _of_every_model("mean")
blur = _of_every_model("blur")
slope = _of_every_model("slope")
log_partition = _of_every_model("log_partition")
derivatives = _of_every_model("derivatives")
block_derivatives = _of_every_model("block_derivatives")
quick_derivatives = _of_every_model("quick_derivatives", otherwise="block_derivatives")
derivative_bound = _of_every_model("derivative_bound")
growth = _of_every_model("growth")
spread = _of_every_model("spread")
dispersion = _of_every_model("dispersion")


# -- one reward model as Python sees it ------------------------------------------------------------

_LARGEST_EXPONENT = 700.0  # beyond it the exponential leaves the range of a double


def _for_each(function: Callable[..., float]) -> Callable[..., Floats]:
    def for_each(code: int, m: float, z: Floats) -> Floats:
        out = np.empty_like(z)
        for i in range(z.size):
            out[i] = function(code, m, z[i])
        return out

    return compiled_for(function.__name__)(for_each)


_means, _slopes, _log_partitions = map(_for_each, (mean, slope, log_partition))


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
    def module(self) -> ModuleType:
        """The functions of this model."""
        return REWARD_MODELS[self.name]

    @property
    def code(self) -> int:
        """The number by which kernels know this model."""
        return MODULES.index(self.module)

    @property
    def linear(self) -> bool:
        return bool(self.module.LINEAR)

    def mean(self, z: ArrayLike) -> Floats:
        return self._mapped(_means, z)

    def slope(self, z: ArrayLike) -> Floats:
        return self._mapped(_slopes, z)

    def log_partition(self, z: ArrayLike) -> Floats:
        return self._mapped(_log_partitions, z)

    def _mapped(self, kernel: Callable[..., Floats], z: ArrayLike) -> Floats:
        points = np.asarray(z, dtype=np.float64)
        flat = np.ascontiguousarray(points).ravel()
        return kernel(self.code, self.m, flat).reshape(points.shape)

    def k_mu(self, *, L: float, S: float) -> float:
        """Largest slope for ||a|| <= L, ||theta|| <= S."""
        return float(self.slope(self.module.steepest(L * S)))

    def c_mu(self, *, L: float, S: float) -> float:
        """Smallest slope for ||a|| <= L, ||theta|| <= S; refused when it vanishes."""
        flattest = self.module.flattest(L * S)
        c = float(self.slope(flattest)) if L * S < _LARGEST_EXPONENT or self.linear else 0.0
        if not c > 0.0:
            raise ValueError(
                f"L * S = {L * S:g} is too large for the {self.name} model: its smallest slope "
                "c_mu vanishes or its largest overflows, and Assumption 4 needs "
                "0 < c_mu <= k_mu < infinity. Give smaller S or L, or rescale the actions."
            )
        return c

    def reward_range(self) -> tuple[float, float]:
        """The closed interval of rewards that the model accepts."""
        low, high = self.module.reward_range(self.m)
        return low, high

    def draw(self, rng: np.random.Generator, z: ArrayLike) -> Floats:
        """Rewards with mean mu(z), one for each entry of z.

        logistic: 0 or 1; binomial: 0..m; poisson: counts, those above m recorded as m;
        identity: 0 or m with mean z, so z must lie in [0, m].
        """
        points = np.asarray(z, dtype=np.float64)
        if not np.isfinite(points).all():
            raise ValueError("z must be finite")
        drawn: Floats = self.module.draw(rng, self.m, self.mean(points))
        return drawn


def link(name: str, *, m: float | None = None) -> Link:
    """The reward model `name`: logistic, binomial, identity or poisson.

    m is the largest reward. It is 1 for logistic, an integer for binomial (ratings 0..m), 1 unless
    given for identity, and must be given for poisson: counts are neither bounded nor
    subgaussian, so m is then the largest count accepted and the confidence radius a heuristic.
    """
    module = REWARD_MODELS[checks.choice("link", name, sorted(REWARD_MODELS))]
    if m is not None:
        checks.number("m", m, above=0)
    return Link(name, float(module.checked_m(name, m)))
