"""Votes for less votes against: mu(z) = sinh(z), where e^z / 2 are for and e^-z / 2 against."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from driftbandits.jit import compiled, leaf

Floats = NDArray[np.float64]

LINEAR = False


def checked_m(name: str, m: float | None) -> float:
    if m is None:
        raise ValueError("m must be given for the votes model: the largest difference accepted")
    return float(m)


def reward_range(m: float) -> tuple[float, float]:
    return -m, m


def steepest(reach: float) -> float:
    return reach


def flattest(reach: float) -> float:
    return 0.0


def draw(rng: np.random.Generator, m: float, means: Floats) -> Floats:
    z = np.arcsinh(means)
    difference = rng.poisson(np.exp(z) / 2) - rng.poisson(np.exp(-z) / 2)
    return np.clip(difference, -m, m).astype(np.float64)


@leaf
def mean(m: float, z: float) -> float:
    return math.sinh(z)


@leaf
def blur(variance: float) -> float:
    return 1.0


@compiled
def slope(m: float, z: float) -> float:
    return math.cosh(z)


@compiled
def log_partition(m: float, z: float) -> float:
    return math.cosh(z)


@leaf
def derivatives(m: float, z: float, order: int, out: Floats) -> None:
    for n in range(order + 1):
        out[n] = math.sinh(z) if n % 2 == 0 else math.cosh(z)


@compiled
def block_derivatives(
    m: float, z: Floats, size: int, order: int, scratch: Floats, out: Floats
) -> None:
    for lane in range(size):
        for n in range(order + 1):
            out[n, lane] = math.sinh(z[lane]) if n % 2 == 0 else math.cosh(z[lane])


@leaf
def derivative_bound(m: float, order: int, z: float) -> float:
    return math.cosh(z)


@leaf
def growth(reach: float) -> float:
    return math.exp(reach)


@leaf
def spread(m: float, reward: float, mean: float) -> tuple[float, float]:
    return (reward - mean) ** 2, math.sqrt(1.0 + mean * mean)


@leaf
def dispersion(m: float, prior: float, seen: float, expected: float) -> float:
    return (prior + seen) / (prior + expected)
