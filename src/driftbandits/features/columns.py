"""How the value of a column becomes coordinates, for each kind.

A column is called with a value and gives pairs (coordinate, number); all other coordinates are 0.
A value that is missing has a coordinate of its own and no other. What is common is done by
looking it up; everything else goes through `_otherwise`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from driftbandits.checks import brief
from driftbandits.features.coordinates import Coordinates
from driftbandits.features.kinds import Kind

Pairs = list[tuple[int, float]]

LARGEST = 1e60
"""Numbers beyond are clipped: squares of products of two must still be numbers."""
LONGEST_LEVEL = 256
LONGEST_TEXT = 100_000
MOST_TAGS = 256
VALUES_A_BIN = 20
"""How many values are seen for each bin before the edges are set."""
LAST_LOOK = 1024
"""Offers after which the centre of a number stays."""
MISSING, OTHER = "?", "other"
_WORD = re.compile(r"\w+")
_NOT_A_VALUE = ("NAType", "NaTType")  # of pandas, which compares to nothing


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has for them."""
    if value is None or type(value).__name__ in _NOT_A_VALUE:
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def level_of(column: str, value: Any) -> str:
    """The name of a level: 3, 3.0 and "3" are the same."""
    if isinstance(value, str):
        if len(value) > LONGEST_LEVEL:
            raise ValueError(
                f"column {column!r} must have levels of at most {LONGEST_LEVEL} characters; "
                f"got {len(value)}: {value[:20]!r}..."
            )
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)) and abs(int(value)) < 10**LONGEST_LEVEL:
        return str(int(value))
    if isinstance(value, (float, np.floating)) and math.isfinite(value):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    raise _refusal(column, "a text or a whole number that names a level", value)


def number_of(column: str, value: Any) -> float:
    """A finite number."""
    if isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        raise _refusal(column, "a finite number", value)
    raise _refusal(column, "a number", value)


def signed_log(x: float) -> float:
    """sign(x) log(1 + |x|)."""
    return math.copysign(math.log1p(abs(x)), x)


def _refusal(column: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"column {column!r} must be {wanted}, or missing; got {brief(value)}")


class Column:
    """A column of some kind; `fitted` is what `Features.fit` has found for it."""

    def __init__(
        self, name: str, kind: Kind, book: Coordinates, fitted: Mapping[str, Any] | None
    ) -> None:
        self.name, self.kind, self.book, self.fitted = name, kind, book, fitted
        self.prepare()
        if fitted is not None:
            self.missing()

    def prepare(self) -> None:
        """Take the coordinates that are known beforehand."""

    def __call__(self, value: Any) -> Pairs:
        raise NotImplementedError

    def missing(self) -> Pairs:
        return [(self.place(MISSING, f"{self.name} missing"), 1.0)]

    def note_missing(self) -> Pairs:
        self.book.count("missing", self.name)
        return self.missing()

    def place(self, key: str, name: str) -> int:
        return self.book.place(self.name, key, name)

    def clipped(self, x: float, low: float, high: float) -> float:
        if low <= x <= high:
            return x
        self.book.count("clipped", self.name)
        return min(max(x, low), high)


class Number(Column):
    """number, log: a coordinate of its own; fitted, within [-1, 1].

    A number counts from its centre, for without it a product with a flag would be hard to tell from
    the flag. The centre is the mean of the values so far, after 1, 2, 4, ... offers, and stays
    after `LAST_LOOK` of them.
    """

    def prepare(self) -> None:
        self.at = self.place("value", self.name)
        self.turned = signed_log if self.kind.name == "log" else None
        # whether the number can be taken as it is, but for the centre
        self.plain = self.turned is None and self.fitted is None

    def __call__(self, value: Any) -> Pairs:
        kind = type(value)
        if (kind is float or kind is int) and -LARGEST <= value <= LARGEST:
            if self.plain:
                return [(self.at, value - self.book.centres[self.name])]
        elif is_missing(value):
            return self.note_missing()
        x = self.clipped(number_of(self.name, value), -LARGEST, LARGEST)
        if self.turned is not None:
            x = self.turned(x)
        if self.fitted is not None:
            x = self.clipped((x - self.fitted["centre"]) / self.fitted["scale"], -1.0, 1.0)
            return [(self.at, x)]
        return [(self.at, x - self.book.centres[self.name])]

    @property
    def is_settled(self) -> bool:
        """Whether the centre stays as it is."""
        return self.fitted is not None or self._looked()[0] >= LAST_LOOK

    def _looked(self) -> tuple[int, int, float]:
        """Offers, numbers and their sum."""
        return self.book.looks.get(self.name, (0, 0, 0.0))

    def look(self, values: Iterable[Any]) -> None:
        """Note the numbers of an offer, right or not, before any of them is encoded."""
        offers, count, total = self._looked()
        for value in values:
            if isinstance(value, (int, float, np.integer, np.floating)) and not is_missing(value):
                x = float(min(max(value, -LARGEST), LARGEST))
                count, total = count + 1, total + (x if self.turned is None else self.turned(x))
        offers += 1
        self.book.set(self.book.looks, self.name, (offers, count, total))
        if offers & (offers - 1) == 0 or self.name not in self.book.centres:
            self.book.set(self.book.centres, self.name, total / count if count else 0.0)


class Category(Column):
    """category: a coordinate for each level; fitted, one for all others."""

    def prepare(self) -> None:
        if self.fitted is not None:
            for level in self.fitted["levels"]:
                self.place(f"={level}", f"{self.name}={level}")
            self.place(OTHER, f"{self.name} {OTHER}")
        self.known: dict[str, Pairs] = {}  # levels with coordinates of their own

    def __call__(self, value: Any) -> Pairs:
        if type(value) is str:
            pairs = self.known.get(value)
            if pairs is not None:
                return pairs
        if is_missing(value):
            return self.note_missing()
        level = level_of(self.name, value)
        pairs = self.known.get(level)
        return self._otherwise(level) if pairs is None else pairs

    def _otherwise(self, level: str) -> Pairs:
        key = f"={level}"
        own = self.book.of(self.name)
        if self.fitted is not None and key not in own:
            self.book.count("shared", self.name)
            return [(own[OTHER], 1.0)]
        pairs = [(self.place(key, f"{self.name}={level}"), 1.0)]
        if key in own:
            self.book.set(self.known, level, pairs)
        return pairs


class Tags(Category):
    """tags: the coordinates of all levels of a list, each once; fitted, of unit length in all."""

    def __call__(self, value: Any) -> Pairs:
        if is_missing(value):
            return self.note_missing()
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _refusal(self.name, "a list of levels", value)
        listed = list(value)
        if len(listed) > MOST_TAGS:
            raise ValueError(
                f"column {self.name!r} must have at most {MOST_TAGS} tags; got {len(listed)}"
            )
        levels = dict.fromkeys(level_of(self.name, tag) for tag in listed)
        if isinstance(value, (set, frozenset)):
            levels = dict.fromkeys(sorted(levels))  # sets have no order to go by
        found: dict[int, float] = {}
        for level in levels:
            for at, x in self.known.get(level) or self._otherwise(level):
                found[at] = x
        shrink = 1.0 if self.fitted is None else 1.0 / math.sqrt(max(len(found), 1))
        return [(at, shrink * x) for at, x in found.items()]


class Flag(Column):
    """flag: 1 if true, 0 if false."""

    def prepare(self) -> None:
        self.at = self.place("value", self.name)
        self.pairs = [(self.at, 0.0)], [(self.at, 1.0)]

    def __call__(self, value: Any) -> Pairs:
        if value is True or value is False:
            return self.pairs[value]
        if is_missing(value):
            return self.note_missing()
        if isinstance(value, (np.bool_, int, float, np.integer, np.floating)) and value in (0, 1):
            return self.pairs[int(value)]
        raise _refusal(self.name, "true or false", value)


class Cycle(Column):
    """cycle:PERIOD: the sine and cosine of the time."""

    def prepare(self) -> None:
        self.pace = 2.0 * math.pi / self.kind.argument
        self.sine = self.place("sin", f"{self.name} sin")
        self.cosine = self.place("cos", f"{self.name} cos")

    def __call__(self, value: Any) -> Pairs:
        if is_missing(value):
            return self.note_missing()
        angle = self.pace * math.fmod(number_of(self.name, value), self.kind.argument)
        return [(self.sine, math.sin(angle)), (self.cosine, math.cos(angle))]


class Bins(Column):
    """bins: a coordinate for each bin.

    Edges that are not given are set when enough values have been seen, such that about as many of
    these are in each bin; before, all values share one coordinate.
    """

    def prepare(self) -> None:
        argument = self.kind.argument
        edges = self.book.edges
        if isinstance(argument, tuple):
            edges[self.name] = argument
        elif self.fitted is not None:
            edges[self.name] = tuple(self.fitted["edges"])
        if self.fitted is not None:
            for number in range(len(edges[self.name]) + 1):
                self._bin(number)

    def _bin(self, number: int) -> int:
        key = f"#{number}"
        known = self.book.of(self.name).get(key)
        if known is not None:
            return known
        ends = ["-inf", *(f"{edge:g}" for edge in self.book.edges[self.name]), "inf"]
        return self.place(key, f"{self.name} {ends[number]}..{ends[number + 1]}")

    def __call__(self, value: Any) -> Pairs:
        if is_missing(value):
            return self.note_missing()
        x = number_of(self.name, value)
        edges = self.book.edges.get(self.name)
        if edges is None:
            return [(self._before(x), 1.0)]
        return [(self._bin(bisect_right(edges, x)), 1.0)]

    def _before(self, x: float) -> int:
        """Note a value; set the edges when there are enough."""
        book, bins = self.book, self.kind.argument
        seen = (*book.values.get(self.name, ()), x)
        enough = len(seen) >= VALUES_A_BIN * bins
        if enough:
            book.set(book.edges, self.name, quantile_edges(seen, bins))
        book.set(book.values, self.name, () if enough else seen)
        return self.place("unset", f"{self.name} before its bins")


def quantile_edges(values: Iterable[float], bins: int) -> tuple[float, ...]:
    """Edges between which about as many of the values lie; fewer where values repeat."""
    ordered = sorted(values)
    n = len(ordered)
    edges = dict.fromkeys(ordered[n * k // bins] for k in range(1, bins))
    return tuple(edge for edge in edges if edge > ordered[0])


class Vector(Column):
    """vector:N: a coordinate for each place; fitted, of at most unit length."""

    def prepare(self) -> None:
        self.at = [self.place(f"[{i}]", f"{self.name}[{i}]") for i in range(self.kind.argument)]

    def __call__(self, value: Any) -> Pairs:
        if is_missing(value):
            return self.note_missing()
        size = self.kind.argument
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)) or len(value) != size:
            raise _refusal(self.name, f"a list of {size} numbers", value)
        numbers = [number_of(self.name, x) for x in value]
        if self.fitted is not None:
            longest = self.fitted["length"]
            length = math.hypot(*numbers)
            if length > longest:
                self.book.count("clipped", self.name)
            shrink = 1.0 / max(length, longest)
            return [(at, shrink * x) for at, x in zip(self.at, numbers, strict=True)]
        return [
            (at, self.clipped(x, -LARGEST, LARGEST)) for at, x in zip(self.at, numbers, strict=True)
        ]


class Text(Column):
    """text: words hashed to a few coordinates, of unit length in all."""

    def prepare(self) -> None:
        if self.fitted is not None:
            for number in range(self.kind.argument):
                self.place(f"~{number}", f"{self.name}~{number}")

    def __call__(self, value: Any) -> Pairs:
        if is_missing(value):
            return self.note_missing()
        if not isinstance(value, str) or len(value) > LONGEST_TEXT:
            wanted = f"a text of at most {LONGEST_TEXT} characters"
            raise _refusal(self.name, wanted, value)
        found: dict[int, float] = {}
        for word in dict.fromkeys(_WORD.findall(value.lower())):
            at = self.book.bucket(self.name, word, self.kind.argument)
            found[at] = found.get(at, 0.0) + 1.0
        length = math.sqrt(sum(x * x for x in found.values()))
        return [(at, x / length) for at, x in found.items()]


COLUMNS: Mapping[str, Callable[..., Column]] = {
    "number": Number,
    "log": Number,
    "category": Category,
    "cycle": Cycle,
    "bins": Bins,
    "flag": Flag,
    "tags": Tags,
    "vector": Vector,
    "text": Text,
}
