"""What a user gives, checked where it enters.

A refusal is a ValueError that names the argument, what was given and what is allowed. Nothing is
converted that is not already what it should be: True, 2.0 and "2" are no integers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_DOUBLE = np.dtype(np.float64)
_LONGEST_TEXT = 300


def integer(label: str, value: Any, *, least: int, most: int | None = None) -> int:
    """`value` as an int of at least `least` and at most `most`.

    >>> integer("runs", 2.0, least=1)
    Traceback (most recent call last):
    ValueError: runs must be an integer of at least 1; got 2.0
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{label} must be an integer {limits}; got {value!r}")
    return int(value)


def number(
    label: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """`value` as a finite float within the bounds that are given.

    >>> number("delta", 2, above=0, below=1)
    Traceback (most recent call last):
    ValueError: delta must be a finite number greater than 0 and less than 1; got 2
    """
    bounds = [
        ("greater than", above, operator.gt),
        ("of at least", at_least, operator.ge),
        ("less than", below, operator.lt),
        ("at most", at_most, operator.le),
    ]
    given = [(words, bound, holds) for words, bound, holds in bounds if bound is not None]
    known = _float_or_nan(value)
    if not math.isfinite(known) or not all(holds(known, bound) for _, bound, holds in given):
        limits = " and ".join(f"{words} {bound:g}" for words, bound, _ in given)
        raise ValueError(f"{label} must be {f'a finite number {limits}'.strip()}; got {value!r}")
    return known


def _float_or_nan(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def flag(label: str, value: Any) -> bool:
    """`value` as a bool; 0 and 1 are refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{label} must be true or false; got {value!r}")
    return bool(value)


def choice(label: str, value: Any, allowed: Iterable[str]) -> str:
    """`value` as one of the names that are allowed."""
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        meant = perhaps(value, names) if isinstance(value, str) else ""
        raise ValueError(
            f"{label} must be one of {', '.join(names) or 'none'}; got {value!r}{meant}"
        )
    return value


def perhaps(given: str, allowed: Iterable[str]) -> str:
    """What may have been meant by a name that is not allowed.

    >>> perhaps("Horizn", ["arms", "horizon"])
    ', perhaps horizon'
    """
    names = {name.casefold(): name for name in allowed}
    nearest = get_close_matches(given.casefold(), list(names), n=1)
    return f", perhaps {names[nearest[0]]}" if nearest else ""


def floats(label: str, value: Any) -> Floats:
    """`value` as an array as kernels take it; numba would compile them again for another layout.

    An array that is one already is given back, not copied.
    """
    if isinstance(value, np.ndarray) and value.dtype is _DOUBLE and value.flags.carray:
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind in "USc" or (array.dtype.kind == "O" and array.ndim == 0):
            raise ValueError(f"these are of type {array.dtype}")
        return np.require(array, np.float64, ["C", "A", "W"])
    except (TypeError, ValueError, OverflowError) as error:
        given = brief(value)
        raise ValueError(f"{label} must be an array of numbers: {error}; got {given}") from None


def brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."


def array(label: str, value: Any, *, ndim: int, missing: bool = False) -> Floats:
    """`value` as finite `floats`, not empty; `missing` lets NaN through, never infinity."""
    values = floats(label, value)
    if values.ndim != ndim or 0 in values.shape:
        raise ValueError(
            f"{label} must be a {ndim}-dimensional array that is not empty; "
            f"got shape {values.shape}"
        )
    if np.isinf(values).any() or (not missing and np.isnan(values).any()):
        raise ValueError(f"{label} must be finite; got {'infinities' if missing else 'NaN or inf'}")
    return values


def generator(label: str, value: Any) -> np.random.Generator:
    """`value` as a source of randomness."""
    if not isinstance(value, np.random.Generator):
        raise ValueError(
            f"{label} must be a numpy.random.Generator, as numpy.random.default_rng(seed) makes; "
            f"got {type(value).__name__}"
        )
    return value
