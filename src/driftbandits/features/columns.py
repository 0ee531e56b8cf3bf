"""The kinds of columns, and how their values become coordinates.

A text such as "cycle:24" names a kind, with what stands behind the colon as its argument. A column
of that kind is called with a value and gives pairs (coordinate, number); all other coordinates are
0. A missing value has a coordinate of its own and no other.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
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
        with suppress(KeyError, ValueError):
            return Kind(name, COLUMNS[name].argument(rest if colon else None))
    raise ValueError(
        f"the kind of column {column!r} must be one of {', '.join(KINDS)}; got {text!r}"
        f"{perhaps(str(text).partition(':')[0], COLUMNS)}"
    )


def _count(rest: str | None, *, least: int, most: int) -> int:
    if rest is None or not (rest.isascii() and rest.isdigit()) or not least <= int(rest) <= most:
        raise ValueError
    return int(rest)


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
    if not isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
        raise _refusal(column, "a number", value)
    with suppress(OverflowError):
        if math.isfinite(number := float(value)):
            return number
    raise _refusal(column, "a finite number", value)


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


def _ordinary(name: str, numbers: list[float], given: Sequence[float]) -> list[float]:
    """The numbers without the weight of those far beyond the others; warn of these as given."""
    found = limited(numbers)
    far = [x for x, number, kept in zip(given, numbers, found, strict=True) if number != kept]
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


def _are(is_so: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(is_so, value))


# -- kinds -----------------------------------------------------------------------------------------


class Column:
    """A column of some kind; `fitted` is what `Features.fit` has found for it."""

    FITTED: ClassVar[Mapping[str, Callable[[Any], bool]]] = {}
    """The results of `fit`, with a check of each."""

    @staticmethod
    def argument(rest: str | None) -> Any:
        """Read the text behind the colon, None where there is no colon; raise if it is wrong."""
        if rest is not None:
            raise ValueError

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
            self.place(MISSING, " missing")

    def prepare(self) -> None:
        """Take the coordinates that are known beforehand."""

    def __call__(self, value: Any) -> Pairs:
        if is_missing(value):
            self.book.count("missing", self.name)
            return [(self.place(MISSING, " missing"), 1.0)]
        return self.pairs_of(value)

    def pairs_of(self, value: Any) -> Pairs:
        """The coordinates of a value that is not missing."""
        raise NotImplementedError

    def place(self, key: str, ending: str | None = None) -> int:
        """The coordinate of a key, whose name ends in the key unless in something else."""
        return self.book.place(self.name, key, self.name + (key if ending is None else ending))

    def clipped(self, x: float, low: float, high: float) -> float:
        if not low <= x <= high:
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
        given = [min(max(number_of(name, value), -LARGEST), LARGEST) for value in values]
        numbers = [signed_log(x) for x in given] if kind.name == "log" else given
        numbers = _ordinary(name, numbers, given)
        centre = math.fsum(numbers) / len(numbers)
        spread = math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / len(numbers))
        return {"centre": centre, "scale": WIDEST * (spread or 1.0)}

    def prepare(self) -> None:
        self.at = self.place("value", "")
        self.is_log = self.kind.name == "log"
        self.is_plain = self.fitted is None and not self.is_log

    def __call__(self, value: Any) -> Pairs:
        kind = type(value)
        if self.is_plain and (kind is float or kind is int) and -LARGEST <= value <= LARGEST:
            return [(self.at, value - self.book.centres[self.name])]  # most numbers, quickly
        return super().__call__(value)

    def pairs_of(self, value: Any) -> Pairs:
        x = self.clipped(number_of(self.name, value), -LARGEST, LARGEST)
        x = signed_log(x) if self.is_log else x
        if self.fitted is None:
            return [(self.at, x - self.book.centres[self.name])]
        x = (x - self.fitted["centre"]) / self.fitted["scale"]
        if abs(x) > FAR:
            self.warn_of(float(value), self.as_offered(-1.0), self.as_offered(1.0))
        return [(self.at, self.clipped(x, -1.0, 1.0))]

    def as_offered(self, x: float) -> float:
        """The number whose coordinate is x."""
        if self.fitted is not None:
            x = self.fitted["centre"] + self.fitted["scale"] * x
        else:
            x += self.book.centres.get(self.name, 0.0)
        return math.copysign(math.expm1(min(abs(x), _LARGEST_LOG)), x) if self.is_log else x

    @property
    def is_settled(self) -> bool:
        """True if the centre stays as it is."""
        return self.fitted is not None or self._seen()[0] >= SETTLED_AFTER

    def _seen(self) -> tuple[int, Sequence[float]]:
        """Offers, and the last numbers."""
        return self.book.seen.get(self.name, (0, ()))

    def note(self, values: Iterable[Any]) -> None:
        """Note the numbers of an offer, right or not, before any of them is encoded."""
        offers, seen = self._seen()
        new: list[float] = []
        for value in values:
            if isinstance(value, (int, float, np.integer, np.floating)) and not is_missing(value):
                x = float(min(max(value, -LARGEST), LARGEST))
                new.append(signed_log(x) if self.is_log else x)
        offers, seen = offers + 1, (*seen, *new)[-KEPT:]
        if offers & (offers - 1) == 0 or self.name not in self.book.centres:
            centre = math.fsum(limited(seen)) / len(seen) if seen else 0.0
            self.book.set(self.book.centres, self.name, centre)
        self.book.set(self.book.seen, self.name, (offers, () if offers >= SETTLED_AFTER else seen))


class Category(Column):
    """category: a coordinate for each level; fitted, one for all others."""

    FITTED: ClassVar = {"levels": _are(lambda level: isinstance(level, str))}

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        return {"levels": list(dict.fromkeys(level_of(name, value) for value in values))}

    def prepare(self) -> None:
        if self.fitted is not None:
            for level in self.fitted["levels"]:
                self.place(f"={level}")
            self.place(OTHER, f" {OTHER}")

    def __call__(self, value: Any) -> Pairs:
        if type(value) is str:  # most levels, quickly
            at = self.book.of(self.name).get("=" + value)
            if at is not None:
                return [(at, 1.0)]
        return super().__call__(value)

    def pairs_of(self, value: Any) -> Pairs:
        level = level_of(self.name, value)
        own, key = self.book.of(self.name), f"={level}"
        if self.fitted is not None and key not in own:
            self.book.count("shared", self.name)
            return [(own[OTHER], 1.0)]
        return [(self.place(key), 1.0)]


class Tags(Category):
    """tags: the coordinates of all levels of a list, each once; fitted, of unit length in all."""

    __call__ = Column.__call__  # a text is no list of levels

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        return super().fit(name, kind, [tag for value in values for tag in value])

    def pairs_of(self, value: Any) -> Pairs:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _refusal(self.name, "a list of levels", value)
        tags = list(value)
        if len(tags) > MOST_TAGS:
            raise ValueError(
                f"column {self.name!r} must have at most {MOST_TAGS} tags; got {len(tags)}"
            )
        levels = dict.fromkeys(level_of(self.name, tag) for tag in tags)
        if isinstance(value, (set, frozenset)):
            levels = dict.fromkeys(sorted(levels))  # sets have no order to go by
        found = dict(pair for level in levels for pair in super(Tags, self).pairs_of(level))
        shrink = 1.0 if self.fitted is None else 1.0 / math.sqrt(max(len(found), 1))
        return [(at, shrink * x) for at, x in found.items()]


class Flag(Column):
    """flag: 1 if true, 0 if false."""

    def prepare(self) -> None:
        self.at = self.place("value", "")

    def pairs_of(self, value: Any) -> Pairs:
        kinds = (bool, np.bool_, int, float, np.integer, np.floating)
        if isinstance(value, kinds) and value in (0, 1):
            return [(self.at, float(value))]
        raise _refusal(self.name, "true or false", value)


class Cycle(Column):
    """cycle:PERIOD: the sine and cosine of the time."""

    @staticmethod
    def argument(rest: str | None) -> float:
        period = float(rest or "")
        if not 0.0 < period < math.inf:
            raise ValueError
        return period

    def prepare(self) -> None:
        self.sine, self.cosine = self.place("sin", " sin"), self.place("cos", " cos")

    def pairs_of(self, value: Any) -> Pairs:
        period = self.kind.argument
        angle = 2.0 * math.pi / period * math.fmod(number_of(self.name, value), period)
        # Rounded, because a sine of 1e-16 in place of 0 would count as a value of the column
        return [(self.sine, round(math.sin(angle), 15)), (self.cosine, round(math.cos(angle), 15))]


class Bins(Column):
    """bins: a coordinate for each bin.

    Edges that are not given are set when enough values have been seen, such that about as many of
    these are in each bin; before, all values share one coordinate.
    """

    FITTED: ClassVar = {"edges": _are(_is_number)}

    @staticmethod
    def argument(rest: str | None) -> int | tuple[float, ...]:
        if rest is None or "," not in rest:
            return _count(rest, least=2, most=MOST_BINS)
        edges = tuple(map(float, rest.split(",")))
        rising = all(a < b for a, b in itertools.pairwise((-math.inf, *edges, math.inf)))
        if not rising or len(edges) >= MOST_BINS:
            raise ValueError
        return edges

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        if isinstance(kind.argument, tuple):
            return {"edges": list(kind.argument)}
        numbers = [number_of(name, value) for value in values]
        return {"edges": list(quantile_edges(numbers, kind.argument))}

    def prepare(self) -> None:
        edges = self.kind.argument if self.fitted is None else self.fitted["edges"]
        if not isinstance(edges, int):
            self.book.edges[self.name] = edges
        if self.fitted is not None:
            for number in range(len(edges) + 1):
                self._bin(number)

    def _bin(self, number: int) -> int:
        ends = ["-inf", *(f"{edge:g}" for edge in self.book.edges[self.name]), "inf"]
        return self.place(f"#{number}", f" {ends[number]}..{ends[number + 1]}")

    def pairs_of(self, value: Any) -> Pairs:
        x, book, bins = number_of(self.name, value), self.book, self.kind.argument
        edges = book.edges.get(self.name)
        if edges is not None:
            return [(self._bin(bisect_right(edges, x)), 1.0)]
        seen = (*book.values.get(self.name, ()), x)
        enough = len(seen) >= VALUES_A_BIN * bins
        if enough:
            book.set(book.edges, self.name, quantile_edges(seen, bins))
        book.set(book.values, self.name, () if enough else seen)
        return [(self.place("unset", " before its bins"), 1.0)]


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
    def argument(rest: str | None) -> int:
        return _count(rest, least=1, most=MOST_BUCKETS)

    @classmethod
    def fit(cls, name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
        lengths = [math.hypot(*(number_of(name, x) for x in value)) for value in values]
        return {"length": max(_ordinary(name, lengths, lengths)) or 1.0}

    def prepare(self) -> None:
        self.at = [self.place(f"[{i}]") for i in range(self.kind.argument)]

    def pairs_of(self, value: Any) -> Pairs:
        size = self.kind.argument
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)) or len(value) != size:
            raise _refusal(self.name, f"a list of {size} numbers", value)
        numbers = [number_of(self.name, x) for x in value]
        if self.fitted is None:
            numbers = [self.clipped(x, -LARGEST, LARGEST) for x in numbers]
        else:
            longest, length = self.fitted["length"], math.hypot(*numbers)
            if length > longest:
                self.book.count("clipped", self.name)
            if length > FAR * longest:
                self.warn_of(length, 0.0, longest)
            shrink = 1.0 / max(length, longest)
            numbers = [shrink * x for x in numbers]
        return list(zip(self.at, numbers, strict=True))


class Text(Column):
    """text: words hashed to a few coordinates, of unit length in all."""

    @staticmethod
    def argument(rest: str | None) -> int:
        return BUCKETS if rest is None else _count(rest, least=1, most=MOST_BUCKETS)

    def prepare(self) -> None:
        if self.fitted is not None:
            for number in range(self.kind.argument):
                self.place(f"~{number}")

    def pairs_of(self, value: Any) -> Pairs:
        if not isinstance(value, str) or len(value) > LONGEST_TEXT:
            raise _refusal(self.name, f"a text of at most {LONGEST_TEXT} characters", value)
        words = dict.fromkeys(_WORD.findall(value.lower()))
        found = Counter(self.book.bucket(self.name, word, self.kind.argument) for word in words)
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
