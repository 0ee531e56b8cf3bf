"""The kinds of columns, and how their values become coordinates.

A text such as "cycle:24" names a kind, with what stands behind the colon as its argument. A column
of that kind is called with a value and gives pairs (coordinate, number); all other coordinates are
0. A missing value has a coordinate of its own and no other. Common values are looked up; everything
else goes through `_otherwise`.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from driftbandits.checks import brief, perhaps
from driftbandits.features.coordinates import Coordinates

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
BUCKETS = 32
LARGEST = 1e60
"""Numbers beyond are clipped: squares of products of two must still be numbers."""
LONGEST_LEVEL = 256
LONGEST_TEXT = 100_000
MOST_TAGS = 256
VALUES_A_BIN = 20
"""The number of values for each bin that are seen before the edges are set."""
SETTLED_AFTER = 1024
"""Offers after which the centre of a number stays."""
KEPT = 256
"""Values that a centre is made of."""
FAR = 2.0
"""Times the fitted range, from which a number is worth a warning."""
WIDEST = 4.0
"""Standard deviations from the centre beyond which a fitted number is clipped."""
_ORDINARY = 0.88  # share of the values that are not larger than the usual size
_LIMIT = 5.0  # sizes that an ordinary value may be away from the median, ...
_LIMIT_OF_ONE = 80.0  # ... and more while few values are known
_LARGEST_LOG = 700.0
MISSING, OTHER = "?", "other"
_WORD = re.compile(r"\w+")
_NOT_A_VALUE = ("NAType", "NaTType")  # of pandas, which compares to nothing

Pairs = list[tuple[int, float]]


class Kind(NamedTuple):
    """A kind and its argument."""

    name: str
    argument: Any = None


def kind_of(column: str, text: Any) -> Kind:
    """The kind that a text names.

    >>> kind_of("hour", "cycle:24")
    Kind(name='cycle', argument=24.0)
    """
    if isinstance(text, str):
        name, colon, rest = text.strip().partition(":")
        if name in COLUMNS:
            argument = COLUMNS[name].argument(rest if colon else None)
            if argument is not _WRONG:
                return Kind(name, argument)
    raise ValueError(
        f"the kind of column {column!r} must be one of {', '.join(KINDS)}; got {text!r}"
        f"{perhaps(str(text).partition(':')[0], COLUMNS)}"
    )


_WRONG = object()


def _count(rest: str | None, *, least: int, most: int) -> Any:
    if rest is None or not (rest.isascii() and rest.isdigit()) or len(rest) > 9:
        return _WRONG
    return int(rest) if least <= int(rest) <= most else _WRONG


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return math.nan


# -- values ----------------------------------------------------------------------------------------


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


def limited(numbers: Sequence[float]) -> list[float]:
    """The numbers, with those that lie far beyond the others moved to the end of their range."""
    median = sorted(numbers)[len(numbers) // 2]
    sizes = sorted(abs(x - median) for x in numbers if x != median)
    if not sizes:
        return list(numbers)
    usual = sizes[max(1, int(_ORDINARY * len(sizes))) - 1]
    away = (_LIMIT + _LIMIT_OF_ONE / len(sizes)) * usual
    return [min(max(x, median - away), median + away) for x in numbers]


def _refusal(column: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"column {column!r} must be {wanted}, or missing; got {brief(value)}")


# -- what fitting finds ----------------------------------------------------------------------------


def _ordinary(name: str, numbers: list[float]) -> list[float]:
    """The numbers without the weight of those far beyond the others; warn of these."""
    found = limited(numbers)
    far = [x for x, kept in zip(numbers, found, strict=True) if x != kept]
    if far:
        warnings.warn(
            f"column {name!r} has {len(far)} values far beyond the others, such as {far[-1]:.6g}: "
            "its scale is that of the others, and such values will be clipped",
            UserWarning,
            stacklevel=4,
        )
    return found


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _are_levels(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(level, str) for level in value)


def _are_edges(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_is_number, value))


# -- kinds -----------------------------------------------------------------------------------------


class Column:
    """A column of some kind; `fitted` is what `Features.fit` has found for it."""

    FITTED: ClassVar[Mapping[str, Callable[[Any], bool]]] = {}
    """The results of `fit`, with a check of each."""

    @staticmethod
    def argument(rest: str | None) -> Any:
        """Read the text behind the colon, None where there is no colon."""
        return None if rest is None else _WRONG

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        """Find what must be known of the values of a column, none of which is missing."""
        return {}

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

    def warn_of(self, value: float, low: float, high: float) -> None:
        self.book.warn_once(
            self.name,
            f"column {self.name!r} was {value:.6g}, far beyond the range {low:.4g} .. {high:.4g} "
            "that was fitted, and is clipped to that. agent.features_report() counts such values; "
            "if they are right, fit the features again.",
        )


class Number(Column):
    """number, log: a coordinate of its own; fitted, within [-1, 1].

    A number counts from its centre, for without it a product with a flag would be hard to tell from
    the flag. The centre is the mean of the last `KEPT` values, limited as by `limited`, after 1, 2,
    4, ... offers, and stays after `SETTLED_AFTER` of them.
    """

    FITTED: ClassVar = {"centre": _is_number, "scale": _is_positive}

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        numbers = [number_of(name, value) for value in values]
        if kind.name == "log":
            numbers = [signed_log(x) for x in numbers]
        numbers = _ordinary(name, [min(max(x, -LARGEST), LARGEST) for x in numbers])
        centre = math.fsum(numbers) / len(numbers)
        spread = math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / len(numbers))
        return {"centre": centre, "scale": WIDEST * (spread or 1.0)}

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
            x = (x - self.fitted["centre"]) / self.fitted["scale"]
            if abs(x) > FAR:
                self.warn_of(float(value), self.as_offered(-1.0), self.as_offered(1.0))
            return [(self.at, self.clipped(x, -1.0, 1.0))]
        return [(self.at, x - self.book.centres[self.name])]

    def as_offered(self, x: float) -> float:
        """The number whose coordinate is x."""
        if self.fitted is not None:
            x = self.fitted["centre"] + self.fitted["scale"] * x
        else:
            x += self.book.centres.get(self.name, 0.0)
        if self.turned is not None:
            return math.copysign(math.expm1(min(abs(x), _LARGEST_LOG)), x)
        return x

    @property
    def is_settled(self) -> bool:
        """True if the centre stays as it is."""
        return self.fitted is not None or self._seen()[0] >= SETTLED_AFTER

    def _seen(self) -> tuple[int, tuple[float, ...]]:
        """Offers, and the last numbers."""
        return self.book.seen.get(self.name, (0, ()))

    def note(self, values: Iterable[Any]) -> None:
        """Note the numbers of an offer, right or not, before any of them is encoded."""
        offers, seen = self._seen()
        new: list[float] = []
        for value in values:
            if isinstance(value, (int, float, np.integer, np.floating)) and not is_missing(value):
                x = float(min(max(value, -LARGEST), LARGEST))
                new.append(x if self.turned is None else self.turned(x))
        offers, seen = offers + 1, (*seen, *new)[-KEPT:]
        if offers & (offers - 1) == 0 or self.name not in self.book.centres:
            centre = math.fsum(limited(seen)) / len(seen) if seen else 0.0
            self.book.set(self.book.centres, self.name, centre)
        self.book.set(self.book.seen, self.name, (offers, () if offers >= SETTLED_AFTER else seen))


class Category(Column):
    """category: a coordinate for each level; fitted, one for all others."""

    FITTED: ClassVar = {"levels": _are_levels}

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        return {"levels": list(dict.fromkeys(level_of(name, value) for value in values))}

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

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        return super().fit(name, kind, [tag for value in values for tag in value])

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

    @staticmethod
    def argument(rest: str | None) -> Any:
        period = _number(rest)
        return period if period > 0.0 and math.isfinite(period) else _WRONG

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

    FITTED: ClassVar = {"edges": _are_edges}

    @staticmethod
    def argument(rest: str | None) -> Any:
        if rest is None or "," not in rest:
            return _count(rest, least=2, most=MOST_BINS)
        edges = tuple(_number(part) for part in rest.split(","))
        rising = all(a < b for a, b in itertools.pairwise(edges))
        finite = all(map(math.isfinite, edges))
        return edges if finite and rising and len(edges) < MOST_BINS else _WRONG

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        if isinstance(kind.argument, tuple):
            return {"edges": list(kind.argument)}
        numbers = [number_of(name, value) for value in values]
        return {"edges": list(quantile_edges(numbers, kind.argument))}

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

    FITTED: ClassVar = {"length": _is_positive}

    @staticmethod
    def argument(rest: str | None) -> Any:
        return _count(rest, least=1, most=MOST_BUCKETS)

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        lengths = [math.hypot(*(number_of(name, x) for x in value)) for value in values]
        return {"length": max(_ordinary(name, lengths)) or 1.0}

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
            if length > FAR * longest:
                self.warn_of(length, 0.0, longest)
            shrink = 1.0 / max(length, longest)
            return [(at, shrink * x) for at, x in zip(self.at, numbers, strict=True)]
        return [
            (at, self.clipped(x, -LARGEST, LARGEST)) for at, x in zip(self.at, numbers, strict=True)
        ]


class Text(Column):
    """text: words hashed to a few coordinates, of unit length in all."""

    @staticmethod
    def argument(rest: str | None) -> Any:
        return BUCKETS if rest is None else _count(rest, least=1, most=MOST_BUCKETS)

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


COLUMNS: Mapping[str, type[Column]] = {
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
