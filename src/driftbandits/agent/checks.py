"""What an agent is given, checked where it enters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_DOUBLE = np.dtype(np.float64)


def numbers(label: str, given: Any) -> Floats:
    """An array as kernels take it; other layouts would make numba compile them once more."""
    if isinstance(given, np.ndarray) and given.dtype is _DOUBLE and given.flags.carray:
        return given
    try:
        array = np.asarray(given)
        if array.dtype.kind in "USc" or (array.dtype.kind == "O" and array.ndim == 0):
            raise ValueError(f"these are of type {array.dtype}")
        return np.require(array, np.float64, ["C", "A", "W"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{label} must be an array of numbers: {error}; got {given!r}") from None


def check_count(label: str, value: Any, *, least: int, most: int | None = None) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise ValueError(f"{label} must be an integer {limit}; got {value!r}")


def checked_ages(ages: ArrayLike, count: int) -> NDArray[np.int64]:
    given = np.atleast_1d(numbers("ages", ages))
    whole = np.isfinite(given).all() and (given >= 0).all() and (given == np.floor(given)).all()
    if given.shape != (count,) or not whole or (given.size and given.max() > 2.0**52):
        raise ValueError(f"ages must be {count} whole numbers of at least 0; got {ages!r}")
    return given.astype(np.int64)


def refusal(actions: Floats, longest: float) -> ValueError:
    """What is wrong with actions that a policy does not accept."""
    finite = np.isfinite(actions).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        return ValueError(f"actions must be finite; got {actions[bad]} in row {bad}")
    scale = float(np.abs(actions).max()) or 1.0
    lengths = scale * np.sqrt(((actions / scale) ** 2).sum(axis=1))
    bad = int(np.argmax(lengths))
    return ValueError(
        f"actions must not be longer than L = {longest:g}; row {bad} has length "
        f"{lengths[bad]:.6g}. Give a larger L, or too_long='rescale'."
    )
