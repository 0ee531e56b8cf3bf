"""The encoding of an agent: features at work, with the coordinates that levels have been given.

What it holds is a function of what was encoded and committed, in order, so a replay gives the same
vectors. `encode` changes nothing for good: `commit` or `take_back` follows.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.checks import brief, perhaps
from driftbandits.features.columns import COLUMNS, Column, Number, Pairs
from driftbandits.features.coordinates import UNLIMITED, Coordinates, Key
from driftbandits.features.inputs import (
    ID,
    ArmId,
    Offered,
    Record,
    arms_of,
    check_columns,
    check_count,
    is_frame,
    offered,
    offers_of,
    record_of,
    records_of,
)
from driftbandits.features.spec import ARM, EVERY, IGNORE, Features

Floats = NDArray[np.float64]
_NO_COLUMNS: Record = {}
_ROUNDING = 1e-12  # by which a sum of squares may come out too large


class Cross(NamedTuple):
    """A product of two columns, by their slots."""

    owner: str
    first: int
    second: int
    places: dict[Key, int]


class Encoded(NamedTuple):
    """Rows of coordinates, without the zeros."""

    arms: tuple[ArmId, ...]
    shared: Pairs  # what all rows have
    own: list[Pairs]  # what each row has besides
    coordinates: int = 0  # how many there were when the rows were read

    def dense(self, width: int) -> Floats:
        """The rows (K, width)."""
        common, rows = np.zeros(width), np.zeros((len(self.own), width))
        for row, pairs in [(common, self.shared), *zip(rows, self.own, strict=True)]:
            for at, x in pairs:
                row[at] += x
        return rows + common

    def moved(self, places: Mapping[int, int]) -> Encoded:
        """Return the rows in other coordinates, without those that have none."""

        def renamed(pairs: Pairs) -> Pairs:
            return [(places[at], x) for at, x in pairs if at in places]

        return self._replace(
            shared=renamed(self.shared), own=[renamed(pairs) for pairs in self.own]
        )


class ColumnReport(NamedTuple):
    """One column, or a cross of two."""

    name: str
    kind: str
    coordinates: int  # of its own, those that levels share included
    missing: float  # share of the values
    clipped: float  # and limited by the policy
    shared: float
    sharing: int  # how many different levels share coordinates, as far as they were told apart


class Report(NamedTuple):
    """All columns of an encoding, and the dimension."""

    columns: tuple[ColumnReport, ...]
    dim: int
    room: int  # the dimension of the model, which grows in steps
    limit: int
    contexts: int
    arms: int

    def __str__(self) -> str:
        heads = ["", "kind", "coordinates", "missing", "clipped", "shared", "levels that share"]
        rows = [
            [c.name, c.kind, str(c.coordinates), *(f"{x:.1%}" for x in c[3:6]), str(c.sharing)]
            for c in self.columns
        ]
        return "\n".join(
            [
                f"{self.dim} coordinates of at most {self.limit}, in a model of {self.room}: a "
                f"reward costs about {self.room**2:,} multiplications for each memory",
                f"{self.contexts} contexts and {self.arms} arms read",
                *aligned([heads, *rows]),
            ]
        )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, two blanks between columns: the first to the left, others to the right.

    >>> print("\\n".join(aligned([["arm", "mean"], ["a", "12345.6"]])))
    arm     mean
    a    12345.6
    """
    first, *sizes = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for name, *cells in rows:
        padded = (f"{cell:>{size}}" for cell, size in zip(cells, sizes, strict=True))
        lines.append("  ".join([f"{name:<{first}}", *padded]).rstrip())
    return lines


class Encoding:
    """Columns, crosses, and the book of coordinates."""

    def __init__(self, features: Features, kept: Mapping[str, Any] | None = None) -> None:
        self.features = features
        fitted = features.fitted
        limits = (features.limit, features.levels) if fitted is None else (UNLIMITED, UNLIMITED)
        self.book = Coordinates(limit=limits[0], levels=limits[1])
        if kept is not None:
            self.book.revive(kept)
        self._columns: dict[str, Column] = {
            name: COLUMNS[kind.name](name, kind, self.book, fitted and fitted[name])
            for name, kind in features.kinds().items()
        }
        self._names = list(self._columns)
        count = len(features.context)
        slots = [(slot, name, column) for slot, (name, column) in enumerate(self._columns.items())]
        self._of_context, self._of_arm = slots[:count], slots[count:]
        self._id = self._columns.get(ARM)
        self._arm_columns = [name for name in features.arm if name != ID]
        self._shared_crosses: list[Cross] = []
        self._own_crosses: list[Cross] = []
        self._compile_crosses()
        self._shrink = 1.0
        if fitted is not None:
            crosses = (*self._shared_crosses, *self._own_crosses)
            for cross in crosses:
                self._take_all(cross)
            self._shrink = (1.0 - _ROUNDING) / math.sqrt(len(slots) + len(crosses))
        self.book.commit()
        self._find_unsettled()

    @property
    def contexts(self) -> int:
        """The number of contexts that were encoded."""
        return self.book.counts.get(("read", "contexts"), 0)

    @property
    def arms(self) -> int:
        """The number of arms that were encoded."""
        return self.book.counts.get(("read", "arms"), 0)

    def _find_unsettled(self) -> None:
        self._unsettled = [
            (name, column)
            for name, column in self._columns.items()
            if isinstance(column, Number) and not column.is_settled
        ]

    # -- crosses ---------------------------------------------------------------------------------

    def _compile_crosses(self) -> None:
        pairs: dict[tuple[str, str], None] = {}
        for first, second in self.features.cross:
            every = self.features.context if second == EVERY else (second,)
            pairs.update(dict.fromkeys((first, name) for name in every))
        for first, second in pairs:
            a, b = self._names.index(first), self._names.index(second)
            owner = f"{first} x {second}"
            of_arm = max(a, b) >= len(self._of_context)
            crosses = self._own_crosses if of_arm else self._shared_crosses
            crosses.append(Cross(owner, a, b, self.book.of(owner)))

    def _take_all(self, cross: Cross) -> None:
        """Give a cross the coordinates of all its products."""
        slots = (cross.first, cross.second)
        first, second = (tuple(self.book.of(self._names[slot]).values()) for slot in slots)
        for i, j in itertools.product(first, second):
            self._place(cross, i, j)

    def _place(self, cross: Cross, i: int, j: int) -> int:
        names = self.book.names
        return self.book.place(cross.owner, (i, j), f"{names[i]} x {names[j]}")

    # -- reading ---------------------------------------------------------------------------------

    def read(self, context: Any, arms: Any) -> Encoded:
        """The rows of one decision: a context and the arms to choose from, as people have them."""
        return self.encode(self._context(context), offered(arms, self._arm_columns))

    def read_many(self, contexts: Any, arms: Any) -> list[Encoded]:
        """The rows of several decisions, whose arms are the same for all or a list for each."""
        rows = self._contexts(contexts)
        return self._encode_rows(rows, offers_of(arms, len(rows), self._arm_columns))

    def read_plays(self, contexts: Any, arms: Any) -> list[Encoded]:
        """The rows of what was played: a context and one arm each."""
        played = arms_of(arms, self._arm_columns)
        rows = self._contexts(contexts, len(played))
        check_count("arm", len(played), len(rows))
        return self._encode_rows(rows, [[arm] for arm in played])

    def _encode_rows(
        self, rows: Sequence[Record | None], offers: Sequence[Offered]
    ) -> list[Encoded]:
        found = []
        for number, (context, arms) in enumerate(zip(rows, offers, strict=True)):
            try:
                found.append(self.encode(context, arms))
            except ValueError as error:
                raise ValueError(f"row {number}: {error}") from None
        return found

    def _context(self, context: Any) -> Record | None:
        if context is None and not self.features.context:
            return None
        if is_frame(context):
            check_columns("context", context, self.features.context)
        return record_of(context, "context")

    def _contexts(self, contexts: Any, count: int | None = None) -> Sequence[Record | None]:
        if contexts is None and not self.features.context and count is not None:
            return [None] * count
        check_columns("context", contexts, self.features.context)
        return records_of(contexts, "context")

    # -- encoding --------------------------------------------------------------------------------

    def encode(self, context: Record | None, arms: Offered) -> Encoded:
        """The rows of the arms in a context."""
        if self._unsettled:
            self._note(context, arms)
        slots: list[Pairs] = [[]] * len(self._columns)
        shared = self._encode_row("context", context or _NO_COLUMNS, slots)
        own, shrink = [], self._shrink
        for id, row in arms:
            try:
                if row is None and self._arm_columns:
                    wanted = ", ".join(self._arm_columns)
                    raise ValueError(f"the columns {wanted} must be given; got an id alone")
                own.append(self._encode_row("arm", row or _NO_COLUMNS, slots, id))
            except ValueError as error:
                raise ValueError(f"arm {brief(id)}: {error}") from None
        if shrink != 1.0:
            shared = [(at, shrink * x) for at, x in shared]
            own = [[(at, shrink * x) for at, x in pairs] for pairs in own]
        self.book.count("read", "contexts")
        self.book.count("read", "arms", len(arms))
        return Encoded(tuple([id for id, _ in arms]), shared, own, len(self.book))

    def _note(self, context: Record | None, arms: Offered) -> None:
        """Let numbers that have no lasting centre see what they are about to encode."""
        for name, column in self._unsettled:
            rows = [context] if name in self.features.context else [row for _, row in arms]
            column.note(row.get(name) for row in rows if row is not None)

    def _encode_row(
        self, where: str, row: Record, slots: list[Pairs], id: ArmId | None = None
    ) -> Pairs:
        """The coordinates of a context, or of an arm in the context that `slots` hold."""
        features, of_context = self.features, where == "context"
        known = features.context if of_context else features.arm
        if features.extra != IGNORE and not row.keys() <= known.keys():
            _refuse_unknown(where, row, features)
        pairs: Pairs = []
        for slot, name, column in self._of_context if of_context else self._of_arm:
            slots[slot] = found = column(id if column is self._id else row.get(name))
            pairs += found
        for cross in self._shared_crosses if of_context else self._own_crosses:
            places, second = cross.places, slots[cross.second]
            for i, x in slots[cross.first]:
                for j, y in second:
                    at = places.get((i, j))
                    pairs.append((self._place(cross, i, j) if at is None else at, x * y))
        return pairs

    def as_offered(self, at: int, x: float) -> float:
        """A coordinate in the units of its column, where that is a number; to twelve digits."""
        owner, key = self.book.keys[at]
        column = self._columns.get(owner)
        if isinstance(column, Number) and key == "value":
            return float(f"{column.as_offered(x / self._shrink):.12g}")
        return x

    def commit(self) -> None:
        """Keep what was encoded since the last commit."""
        self.book.commit()
        if self._unsettled:
            self._find_unsettled()

    def take_back(self, dimension: int) -> None:
        """Forget what was encoded since the last commit, when there were so many coordinates."""
        self.book.take_back(dimension)

    def __len__(self) -> int:
        """The dimension."""
        return len(self.book)

    @property
    def names(self) -> list[str]:
        """The names of the coordinates."""
        return self.book.names

    def take_warnings(self) -> list[str]:
        """The warnings of values that were clipped, once."""
        return self.book.take_warnings()

    def carried_to(self, features: Features) -> tuple[Encoding, dict[int, int]]:
        """The encoding of other features, and where the coordinates that both have are in it.

        A column is the same if its name and kind are; what all columns share has no equal.
        """
        self._check_carries(features)
        other, book = Encoding(features), self.book
        kinds = features.kinds()
        same = {name for name, kind in self.features.kinds().items() if kinds.get(name) == kind}
        crosses = {cross.owner for cross in (*other._shared_crosses, *other._own_crosses)}
        places: dict[int, int] = {}
        for at, ((owner, key), name) in enumerate(zip(book.keys, book.names, strict=True)):
            if isinstance(key, str):
                if owner in same or owner in crosses:
                    places[at] = other.book.place(owner, key, name)
            elif owner in crosses and key[0] in places and key[1] in places:
                places[at] = other.book.place(owner, (places[key[0]], places[key[1]]), name)
        for table in ("values", "edges", "centres", "seen"):
            mine, theirs = getattr(book, table), getattr(other.book, table)
            theirs.update((name, value) for name, value in mine.items() if name in same)
        other._find_unsettled()
        kept = {*same, *crosses, "contexts", "arms"}
        other.book.counts.update((of, n) for of, n in book.counts.items() if of[1] in kept)
        other.book.commit()
        return other, places

    def _check_carries(self, features: Features) -> None:
        if features.is_fitted or self.features.is_fitted:
            raise ValueError(
                "features that were fitted are frozen: with_features takes those that were not"
            )
        for name in ("limit", "levels"):
            given, least = getattr(features, name), getattr(self.features, name)
            if given < least:
                raise ValueError(f"{name} must be at least {least}, as it was; got {given}")

    def to_dict(self) -> dict[str, Any]:
        return self.book.to_dict()


def report_on(encoding: Encoding, *, room: int, limited: Mapping[int, int]) -> Report:
    """The report of an encoding in a model of `room` coefficients.

    `limited` is how many values of a coordinate the policy has limited.
    """
    features, book = encoding.features, encoding.book
    counts = Counter(book.counts)
    for at, count in limited.items():
        counts["clipped", book.keys[at][0]] += count
    kinds = {**features.context, **features.arm}
    columns = []
    for owner, places in book.places.items():
        if owner == "":
            continue
        times = max(encoding.contexts if owner in features.context else encoding.arms, 1)
        kind = kinds.get(owner, "cross" if " x " in owner else "category")
        missing, clipped, shared = (min(counts[what, owner] / times, 1.0) for what in _COUNTED)
        sharing = book.sharers_of(owner)
        columns.append(ColumnReport(owner, kind, len(places), missing, clipped, shared, sharing))
    dimensions = len(book), room, features.limit
    return Report(tuple(columns), *dimensions, encoding.contexts, encoding.arms)


_COUNTED = ("missing", "clipped", "shared")


def _refuse_unknown(where: str, given: Record, features: Features) -> None:
    known, other, others = features.context, features.arm, "arm"
    if where == "arm":
        known, other, others = other, known, "context"
    for name in given:
        if name not in known and name not in features.ignored:
            hint = (
                f", which is one of the {others}'s" if name in other else perhaps(str(name), known)
            )
            raise ValueError(
                f"column {brief(name)} of the {where} is not known{hint}; known are "
                f"{', '.join(known) or 'none'}. extra='ignore' in the features leaves others out."
            )
