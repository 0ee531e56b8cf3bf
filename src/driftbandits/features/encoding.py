"""The encoding of an agent: features at work, with the coordinates that levels have been given.

What it holds is a function of what was encoded and committed, in order, so a replay gives the same
vectors. `encode` changes nothing for good: `commit` or `take_back` follows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.checks import brief, perhaps
from driftbandits.features.columns import COLUMNS, Column, Number, Pairs
from driftbandits.features.coordinates import UNLIMITED, Coordinates, Key
from driftbandits.features.spec import ARM, EVERY, ID, REFUSE, Features
from driftbandits.features.tables import ArmId, Offered, Record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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

    def dense(self, width: int) -> Floats:
        """The rows (K, width)."""
        sizes = [len(pairs) for pairs in self.own]
        at, values = _apart(list(itertools.chain.from_iterable(self.own)))
        at += np.repeat(width * np.arange(len(sizes)), sizes)
        rows = np.zeros(len(sizes) * width)
        np.add.at(rows, at, values)
        common = np.zeros(width)
        np.add.at(common, *_apart(self.shared))
        return rows.reshape(len(sizes), width) + common

    def moved(self, places: Mapping[int, int]) -> Encoded:
        """The same in other coordinates, without those that have none."""

        def renamed(pairs: Pairs) -> Pairs:
            return [(places[at], x) for at, x in pairs if at in places]

        return Encoded(self.arms, renamed(self.shared), [renamed(pairs) for pairs in self.own])


def _apart(pairs: Pairs) -> tuple[Ints, Floats]:
    if not pairs:
        return np.empty(0, dtype=np.int64), np.empty(0)
    at, values = zip(*pairs, strict=True)
    return np.array(at, dtype=np.int64), np.array(values, dtype=np.float64)


class Encoding:
    """Columns, crosses, and the book of coordinates."""

    def __init__(self, features: Features, kept: Mapping[str, Any] | None = None) -> None:
        self.features = features
        fitted = features.fitted
        limits = (features.limit, features.levels) if fitted is None else (UNLIMITED, UNLIMITED)
        self.book = Coordinates(limit=limits[0], levels=limits[1])
        self.contexts = self.arms = 0
        """How many were encoded and committed."""
        if kept is not None:
            self.book.revive(kept["book"])
            self.contexts, self.arms = kept["contexts"], kept["arms"]
        found: dict[str, Column] = {
            name: COLUMNS[kind.name](
                name, kind, self.book, None if fitted is None else fitted[name]
            )
            for name, kind in features.kinds().items()
        }
        self._of_context = [(name, found[name]) for name in features.context]
        self._slots = {name: number for number, name in enumerate(found)}
        self._of_arm = [
            (self._slots[name], name, found[name]) for name in features.arm if name != ID
        ]
        self._id, self._id_slot = found.get(ARM), self._slots.get(ARM, -1)
        self._known_context, self._known_arm = set(features.context), set(features.arm) - {ID}
        self._refuses = features.extra == REFUSE
        self._first_of_arm = len(features.context)
        self._shared_crosses: list[Cross] = []
        self._own_crosses: list[Cross] = []
        self._compile_crosses()
        if fitted is not None:
            self._take_all_crosses()
        self._shrink = 1.0
        if fitted is not None:
            count = len(found) + len(self._shared_crosses) + len(self._own_crosses)
            self._shrink = (1.0 - _ROUNDING) / math.sqrt(count)
        self.book.commit()
        self._pending = (0, 0)
        self._numbers = [
            (name, column, name in features.context)
            for name, column in found.items()
            if isinstance(column, Number)
        ]
        self._find_unsettled()

    def _find_unsettled(self) -> None:
        self._unsettled = [one for one in self._numbers if not one[1].is_settled]

    # -- crosses ---------------------------------------------------------------------------------

    def _compile_crosses(self) -> None:
        for first, second in self._pairs():
            a, b = self._slots[first], self._slots[second]
            owner = f"{first} x {second}"
            cross = Cross(owner, a, b, self.book.of(owner))
            of_arm = max(a, b) >= self._first_of_arm
            (self._own_crosses if of_arm else self._shared_crosses).append(cross)

    def _pairs(self) -> list[tuple[str, str]]:
        """The crosses with the star written out."""
        pairs: dict[tuple[str, str], None] = {}
        for first, second in self.features.cross:
            every = self.features.context if second == EVERY else (second,)
            pairs.update(dict.fromkeys((first, name) for name in every))
        return list(pairs)

    def _take_all_crosses(self) -> None:
        names = list(self._slots)
        for cross in (*self._shared_crosses, *self._own_crosses):
            first, second = (
                self.book.of(names[slot]).values() for slot in (cross.first, cross.second)
            )
            for i, j in itertools.product(tuple(first), tuple(second)):
                self._place(cross, i, j)

    def _place(self, cross: Cross, i: int, j: int) -> int:
        names = self.book.names
        return self.book.place(cross.owner, (i, j), f"{names[i]} x {names[j]}")

    def _multiply(self, cross: Cross, slots: list[Pairs], into: Pairs) -> None:
        places, second = cross.places, slots[cross.second]
        for i, x in slots[cross.first]:
            for j, y in second:
                at = places.get((i, j))
                into.append((self._place(cross, i, j) if at is None else at, x * y))

    # -- encoding --------------------------------------------------------------------------------

    def encode(self, context: Record | None, arms: Offered) -> Encoded:
        """The rows of the arms in a context; a refusal changes nothing."""
        before = len(self.book)
        try:
            return self._encode(context, arms)
        except BaseException:
            self.book.take_back(before)
            raise

    def _encode(self, context: Record | None, arms: Offered) -> Encoded:
        if self._unsettled:
            self._look(context, arms)
        slots: list[Pairs] = [[]] * len(self._slots)
        shared = self._encode_context(context, slots)
        own, shrink = [], self._shrink
        for id, row in arms:
            try:
                own.append(self._encode_arm(id, row, slots))
            except ValueError as error:
                raise ValueError(f"arm {brief(id)}: {error}") from None
        if shrink != 1.0:
            shared = [(at, shrink * x) for at, x in shared]
            own = [[(at, shrink * x) for at, x in pairs] for pairs in own]
        self._pending = (self._pending[0] + 1, self._pending[1] + len(arms))
        return Encoded(tuple([id for id, _ in arms]), shared, own)

    def _look(self, context: Record | None, arms: Offered) -> None:
        """Let numbers that have no lasting centre see what they are about to encode."""
        for name, column, of_context in self._unsettled:
            rows = [context] if of_context else [row for _, row in arms]
            column.look(row.get(name) for row in rows if row is not None)

    def _encode_context(self, context: Record | None, slots: list[Pairs]) -> Pairs:
        if context is None:
            context = _NO_COLUMNS
        if self._refuses and not context.keys() <= self._known_context:
            raise _unknown("context", context, self.features)
        shared: Pairs = []
        get = context.get
        for slot, (name, column) in enumerate(self._of_context):
            slots[slot] = pairs = column(get(name))
            shared += pairs
        for cross in self._shared_crosses:
            self._multiply(cross, slots, shared)
        return shared

    def _encode_arm(self, id: ArmId, row: Record | None, slots: list[Pairs]) -> Pairs:
        own: Pairs = []
        if row is None:
            if self._of_arm:
                wanted = ", ".join(name for _, name, _ in self._of_arm)
                raise ValueError(f"the columns {wanted} must be given; got an id alone")
            row = _NO_COLUMNS
        elif self._refuses and not row.keys() <= self._known_arm:
            raise _unknown("arm", row, self.features)
        get = row.get
        for slot, name, column in self._of_arm:
            slots[slot] = pairs = column(get(name))
            own += pairs
        if self._id is not None:
            slots[self._id_slot] = pairs = self._id(id)
            own += pairs
        for cross in self._own_crosses:
            self._multiply(cross, slots, own)
        return own

    def commit(self) -> None:
        """Keep what was encoded since the last commit."""
        self.contexts += self._pending[0]
        self.arms += self._pending[1]
        self._pending = (0, 0)
        self.book.commit()
        if self._unsettled:
            self._find_unsettled()

    def take_back(self, dimension: int) -> None:
        """Forget what was encoded since the last commit, when there were so many coordinates."""
        self._pending = (0, 0)
        self.book.take_back(dimension)

    def __len__(self) -> int:
        """The dimension."""
        return len(self.book)

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
        for table in ("values", "edges", "centres", "looks"):
            mine, theirs = getattr(book, table), getattr(other.book, table)
            theirs.update((name, kept) for name, kept in mine.items() if name in same)
        other._find_unsettled()
        kept_counts = same | crosses
        for label, count in book.counts.items():
            if label[1] in kept_counts:
                other.book.counts[label] = count
        other.contexts, other.arms = self.contexts, self.arms
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
        return {"book": self.book.to_dict(), "contexts": self.contexts, "arms": self.arms}


def _unknown(where: str, given: Record, features: Features) -> ValueError:
    known = features.context if where == "context" else features.arm
    name = next(name for name in given if name not in known)
    other = features.arm if where == "context" else features.context
    where_else = f", which is one of the {'arm' if where == 'context' else 'context'}'s"
    hint = where_else if name in other else perhaps(str(name), known)
    return ValueError(
        f"column {brief(name)} of the {where} is not known{hint}; known are "
        f"{', '.join(known) or 'none'}. To leave others out give Features(extra='ignore')."
    )
