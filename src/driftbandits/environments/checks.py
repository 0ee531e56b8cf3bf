"""Checks of the values that a user gives to a world."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def integer(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """`value` as an int in least..most; True, 2.0 and "2" are refused, not converted."""
    allowed = f"an integer of at least {least}" if most is None else f"an integer {least}..{most}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be {allowed}; got {value!r}")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} must be {allowed}; got {value!r}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """`value` as a finite float above 0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.integer, np.floating))
        or not (math.isfinite(value) and value > 0)
    ):
        raise ValueError(f"{name} must be a positive finite number; got {value!r}")
    return float(value)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    names = sorted(allowed)
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}; got {value!r}")
    return str(value)


def array(name: str, value: Any, *, ndim: int, missing: bool = False) -> NDArray[np.float64]:
    """`value` as a finite, contiguous float64 array; `missing` lets NaN through, never infinity."""
    try:
        result = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a {ndim}-dimensional array of numbers; {error}") from None
    if result.ndim != ndim or 0 in result.shape:
        raise ValueError(
            f"{name} must be a {ndim}-dimensional array that is not empty; got shape {result.shape}"
        )
    if np.isinf(result).any() or (not missing and np.isnan(result).any()):
        raise ValueError(f"{name} must be finite; got {'infinities' if missing else 'NaN or inf'}")
    return result


def generator(rng: Any) -> np.random.Generator:
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng must be a numpy.random.Generator, as numpy.random.default_rng(seed) makes; "
            f"got {type(rng).__name__}"
        )
    return rng
