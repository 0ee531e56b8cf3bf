"""Arguments, errors, optional packages and files: what every room needs and nothing else.

A refusal is a ValueError that names the argument, what was given and what is allowed. Nothing is
converted that is not already what it should be: True, 2.0 and "2" are no integers.

numpy is imported where an array is checked: the HTTP client uses this module without it.
"""

from __future__ import annotations

import errno
import math
import operator
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

PART = ".part"
"""The ending of the name of a file that is still being written."""

_LONGEST_TEXT = 300


def integer(label: str, value: Any, *, least: int, most: int | None = None) -> int:
    """`value` as an int of at least `least` and at most `most`.

    >>> integer("runs", 2.0, least=1)
    Traceback (most recent call last):
    ValueError: runs must be an integer of at least 1; got 2.0
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
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
    known = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            known = float(value)
    if not math.isfinite(known) or not all(holds(known, bound) for _, bound, holds in given):
        limits = " and ".join(f"{words} {bound:g}" for words, bound, _ in given)
        raise ValueError(f"{label} must be {f'a finite number {limits}'.strip()}; got {value!r}")
    return known


def flag(label: str, value: Any) -> bool:
    """`value` as a bool; 0 and 1 are refused."""
    import numpy as np

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
    """Suggest the allowed name that is nearest to a name that is not allowed.

    >>> perhaps("Horizn", ["arms", "horizon"])
    ', perhaps horizon'
    """
    found = nearest(given, allowed)
    return f", perhaps {found}" if found else ""


def nearest(given: str, allowed: Iterable[str]) -> str | None:
    """The name that is spelled most nearly like the one given; None where none is near."""
    names = {name.casefold(): name for name in allowed}
    found = get_close_matches(given.casefold(), list(names), n=1)
    return names[found[0]] if found else None


def listed(label: str, value: Any) -> list[Any]:
    """Return the items of a list, or of what else can be gone through and is no text."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ValueError(f"{label} must be a list; got {brief(value)}")
    return list(value)


def floats(label: str, value: Any) -> Floats:
    """`value` as an array as kernels take it; numba would compile them again for another layout.

    An array that is one already is given back, not copied.
    """
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.flags.carray:
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
    import numpy as np

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
    import numpy as np

    if not isinstance(value, np.random.Generator):
        raise ValueError(
            f"{label} must be a numpy.random.Generator, as numpy.random.default_rng(seed) makes; "
            f"got {type(value).__name__}"
        )
    return value


class SpecError(ValueError):
    """A spec that cannot be run; the message names the key."""


class RunFailed(RuntimeError):
    """Runs that could not be finished."""


def load(module: str, need: str, *, extra: str = "all") -> Any:
    """A module of an optional package; without it, an error that says the need and the cure.

    >>> load("no_such_package", "Dreams need no_such_package", extra="sleep")
    Traceback (most recent call last):
    ImportError: Dreams need no_such_package: pip install 'driftbandits[sleep]'
    """
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"{need}: pip install 'driftbandits[{extra}]'") from None


def needed(who: str, *packages: str, extra: str) -> None:
    """Refuse to go on without these packages, none of which is imported.

    >>> needed("Dreams", "json", "no_such_package", extra="sleep")
    Traceback (most recent call last):
    ImportError: Dreams need no_such_package: pip install 'driftbandits[sleep]'
    """
    for package in packages:
        if find_spec(package) is None:
            raise ImportError(f"{who} need {package}: pip install 'driftbandits[{extra}]'")


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` in one step when all of it is on disk.

    Files written one after the other also appear one after the other.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    part = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}{PART}")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    # Without this the new name of a file may be lost, or come to disk after a later one's.
    if hasattr(os, "O_DIRECTORY"):  # Windows cannot open a folder
        descriptor = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file in one step, so that a crash leaves the old one or the new one."""
    with whole_file(path) as file:
        file.write(content)
