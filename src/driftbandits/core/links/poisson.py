"""Counts: mu(z) = e^z. m is the largest count accepted, and bounds no mean."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from driftbandits.core.links import identity
from driftbandits.jit import compiled, leaf

Floats = NDArray[np.float64]

LINEAR = False
reward_range = identity.reward_range
blur = identity.blur  # where little is known, the mean of exp is ruled by what is hardly possible


def checked_m(name: str, m: float | None) -> float:
    if m is None:
        raise ValueError("m must be given for the poisson model: the largest count accepted")
    return float(m)


def steepest(reach: float) -> float:
    return reach


def flattest(reach: float) -> float:
    return -reach


def draw(rng: np.random.Generator, m: float, means: Floats) -> Floats:
    """Counts, those above m recorded as m."""
    return np.minimum(rng.poisson(means), m).astype(np.float64)


@leaf
def mean(m: float, z: float) -> float:
    return math.exp(z)


slope = log_partition = mean


@leaf
def derivatives(m: float, z: float, order: int, out: Floats) -> None:
    e = math.exp(z)
    for n in range(order + 1):
        out[n] = e


@compiled
def block_derivatives(
    m: float, z: Floats, size: int, order: int, scratch: Floats, out: Floats
) -> None:
    for lane in range(size):
        e = math.exp(z[lane])
        for n in range(order + 1):
            out[n, lane] = e


@leaf
def derivative_bound(m: float, order: int, largest_z: float) -> float:
    return math.exp(largest_z)


@leaf
def growth(reach: float) -> float:
    return math.exp(reach)


@leaf
def spread(m: float, reward: float, mean: float) -> tuple[float, float]:
    return (reward - mean) ** 2, mean


@leaf
def dispersion(m: float, prior: float, seen: float, expected: float) -> float:
    return (prior + seen) / (prior + expected)
