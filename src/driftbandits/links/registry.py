"""The reward models by name, and their kernels by number.

A reward model is a module with

    LINEAR                                  whether mu is the identity
    checked_m(name, m)                      the largest reward, or an error that says what it may be
    reward_range(m)                         the closed interval of rewards that it accepts
    steepest(reach), flattest(reach)        a z of |z| <= reach at which mu' is largest, smallest
    draw(rng, m, means)                     rewards with these means

and kernels

    mean(m, z)                              mu(z)
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

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from driftbandits.jit import leaf, one_of
from driftbandits.links import identity, logistic, poisson

REWARD_MODELS: Mapping[str, ModuleType] = {
    "logistic": logistic,
    "binomial": logistic,
    "identity": identity,
    "poisson": poisson,
}

MODULES = tuple(dict.fromkeys(REWARD_MODELS.values()))
"""In the order of the numbers by which kernels know them."""


def _of_every_model(name: str) -> Callable[..., Any]:
    """A kernel whose first argument is the number of a reward model."""
    return _of_models(name, [getattr(module, name) for module in MODULES])


def _of_models(name: str, functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    return leaf(one_of(name, dict(enumerate(functions))))


mean = _of_every_model("mean")
slope = _of_every_model("slope")
log_partition = _of_every_model("log_partition")
derivatives = _of_every_model("derivatives")
block_derivatives = _of_every_model("block_derivatives")
quick_derivatives = _of_models(
    "quick_derivatives",
    [getattr(module, "quick_derivatives", module.block_derivatives) for module in MODULES],
)
derivative_bound = _of_every_model("derivative_bound")
growth = _of_every_model("growth")
spread = _of_every_model("spread")
dispersion = _of_every_model("dispersion")
