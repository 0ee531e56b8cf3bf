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
"""

from driftbandits.links.logistic import HIGHEST_DERIVATIVE
from driftbandits.links.model import Link, link
from driftbandits.links.registry import (
    MODULES,
    REWARD_MODELS,
    block_derivatives,
    derivative_bound,
    derivatives,
    dispersion,
    growth,
    log_partition,
    mean,
    quick_derivatives,
    slope,
    spread,
)

__all__ = [
    "HIGHEST_DERIVATIVE",
    "MODULES",
    "REWARD_MODELS",
    "Link",
    "block_derivatives",
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
