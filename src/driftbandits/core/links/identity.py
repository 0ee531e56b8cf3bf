"""Linear rewards: mu(z) = z."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from driftbandits.jit import compiled, leaf

Floats = NDArray[np.float64]

LINEAR = True


def checked_m(name: str, m: float | None) -> float:
    return 1.0 if m is None else float(m)


def reward_range(m: float) -> tuple[float, float]:
    return 0.0, m


def steepest(reach: float) -> float:
    return 0.0


def flattest(reach: float) -> float:
    return 0.0


def draw(rng: np.random.Generator, m: float, means: Floats) -> Floats:
    """0 or m, so the means must lie in [0, m]."""
    if means.size and (means.min() < 0.0 or means.max() > m):
        raise ValueError(
            f"z must lie in [0, {m:g}] for the identity model, whose rewards are "
            f"bounded by m; got values from {means.min():g} to {means.max():g}"
        )
    return np.where(rng.random(means.shape) * m < means, m, 0.0)


@leaf
def mean(m: float, z: float) -> float:
    return z


@leaf
def blur(variance: float) -> float:
    return 1.0


@compiled
def slope(m: float, z: float) -> float:
    return 1.0


@compiled
def log_partition(m: float, z: float) -> float:
    return 0.5 * z * z


@leaf
def derivatives(m: float, z: float, order: int, out: Floats) -> None:
    out[0] = z
    for n in range(1, order + 1):
        out[n] = 1.0 if n == 1 else 0.0


@compiled
def block_derivatives(
    m: float, z: Floats, size: int, order: int, scratch: Floats, out: Floats
) -> None:
    for lane in range(size):
        out[0, lane] = z[lane]
        for n in range(1, order + 1):
            out[n, lane] = 1.0 if n == 1 else 0.0


@leaf
def derivative_bound(m: float, order: int, largest_z: float) -> float:
    return 0.0 if order > 1 else 1.0


@leaf
def growth(reach: float) -> float:
    return 1.0


@leaf
def spread(m: float, reward: float, mean: float) -> tuple[float, float]:
    return (reward - mean) ** 2, 1.0


@leaf
def dispersion(m: float, prior: float, seen: float, expected: float) -> float:
    """Begin with the largest variance of rewards in [0, m]."""
    return (prior * (0.25 * m * m) + seen) / (prior + expected)
