"""The kinds of columns: what a text such as "cycle:24" says of how a value becomes numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from driftbandits.checks import perhaps

KINDS: Mapping[str, str] = {
    "number": "a number as it is",
    "log": "a number x as sign(x) log(1 + |x|): prices, counts, anything with a long tail",
    "category": "a text or a whole number that names one of several levels",
    "cycle:PERIOD": "a time that comes round: cycle:24 for hours, cycle:7 for weekdays",
    "bins:N": "a number as one of N bins of equally many values; bins:18,30,65 gives the edges",
    "flag": "true or false",
    "tags": "a list of levels, any number of them",
    "vector:N": "a list of N numbers, as an embedding is",
    "text": "words, hashed to 32 coordinates; text:N to N of them",
}
MOST_BINS = 100
MOST_BUCKETS = 4096
_BUCKETS = 32


class Kind(NamedTuple):
    """A kind and what stands behind its colon."""

    name: str
    argument: Any = None

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers with a coordinate of their own."""
        return self.name in ("number", "log")


def kind_of(column: str, text: Any) -> Kind:
    """The kind that a text names.

    >>> kind_of("hour", "cycle:24")
    Kind(name='cycle', argument=24.0)
    """
    if isinstance(text, str):
        name, colon, rest = text.strip().partition(":")
        read = _ARGUMENTS.get(name)
        if read is not None:
            argument = read(rest if colon else None)
            if argument is not _WRONG:
                return Kind(name, argument)
    raise ValueError(
        f"the kind of column {column!r} must be one of {', '.join(KINDS)}; got {text!r}"
        f"{perhaps(str(text).partition(':')[0], _ARGUMENTS)}"
    )


_WRONG = object()


def _nothing(rest: str | None) -> Any:
    return None if rest is None else _WRONG


def _period(rest: str | None) -> Any:
    period = _number(rest)
    return period if period > 0.0 and math.isfinite(period) else _WRONG


def _bins(rest: str | None) -> Any:
    if rest is not None and "," in rest:
        edges = tuple(_number(part) for part in rest.split(","))
        rising = all(a < b for a, b in itertools.pairwise(edges))
        finite = all(map(math.isfinite, edges))
        return edges if finite and rising and len(edges) < MOST_BINS else _WRONG
    return _count(rest, least=2, most=MOST_BINS)


def _size(rest: str | None) -> Any:
    return _count(rest, least=1, most=MOST_BUCKETS)


def _buckets(rest: str | None) -> Any:
    return _BUCKETS if rest is None else _size(rest)


def _count(rest: str | None, *, least: int, most: int) -> Any:
    if rest is None or not (rest.isascii() and rest.isdigit()) or len(rest) > 9:
        return _WRONG
    return int(rest) if least <= int(rest) <= most else _WRONG


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return math.nan


_ARGUMENTS: Mapping[str, Callable[[str | None], Any]] = {
    "number": _nothing,
    "log": _nothing,
    "category": _nothing,
    "cycle": _period,
    "bins": _bins,
    "flag": _nothing,
    "tags": _nothing,
    "vector": _size,
    "text": _buckets,
}
