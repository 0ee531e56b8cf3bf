"""The meaning of each coordinate: a book that gains a line when a level appears.

A coordinate belongs to an owner, a column or a cross of two, and has a key within it. Every owner
has coordinates of its own up to `levels` of them; what comes later shares SHARED further ones of
that owner, by a hash. When the book itself is nearly full, all that is new shares its last lines.
Whatever is shared is counted.

What an encoding writes can be taken back until it is committed, so that a refused value changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

Key = str | tuple[int, int]

SHARED = 16
"""Coordinates that the levels of one owner share when it has no more of its own."""
MOST_SHARERS = 1000
"""The number of sharing levels that the report tells apart."""
UNLIMITED = 2**40
_ABSENT = object()
_COMMON = ""
_KEPT = ("counts", "sharers", "values", "edges", "centres", "seen")


class Coordinates:
    """Coordinates by owner and key, their names, and what was counted."""

    def __init__(self, *, limit: int, levels: int) -> None:
        self.limit, self.levels = limit, levels
        self.names: list[str] = []
        self.keys: list[tuple[str, Key]] = []
        self.places: dict[str, dict[Key, int]] = {}
        self.counts: dict[tuple[str, str], int] = {}  # (what, owner)
        self.sharers: dict[tuple[str, int], bool] = {}
        self.values: dict[str, Sequence[float]] = {}  # seen by columns whose bins are not set
        self.edges: dict[str, Sequence[float]] = {}  # of bins
        self.centres: dict[str, float] = {}  # of numbers, and what they are made of:
        self.seen: dict[str, tuple[int, Sequence[float]]] = {}  # offers, the last numbers
        self._unsaid: list[str] = []  # warnings
        # What comes when the book is full shares the coordinates from here on.
        self._common_from = limit - max(1, min(64, limit // 8))
        self._journal: list[tuple[dict[Any, Any], Any, Any]] = []

    def __len__(self) -> int:
        """The dimension: coordinates that mean something."""
        return len(self.names)

    # -- giving coordinates ----------------------------------------------------------------------

    def of(self, owner: str) -> dict[Key, int]:
        """The coordinates of an owner by key."""
        return self.places.setdefault(owner, {})

    def place(self, owner: str, key: Key, name: str) -> int:
        """The coordinate of a key, a new one if there is none."""
        own = self.of(owner)
        known = own.get(key)
        if known is not None:
            return known
        room = len(self.names) < self._common_from
        if room and len(own) < self.levels:
            return self._new(owner, key, name)
        self.count("shared", owner)
        return self.bucket(owner, name, SHARED)

    def bucket(self, owner: str, word: str, buckets: int) -> int:
        """The coordinate that a word shares with others."""
        hashed = crc32(word.encode("utf-8", "surrogatepass"))
        if (owner, hashed) not in self.sharers and len(self.sharers) < MOST_SHARERS:
            self.set(self.sharers, (owner, hashed), True)
        bucket = f"~{hashed % buckets}"
        known = self.of(owner).get(bucket)
        if known is not None:
            return known
        if len(self.names) < self._common_from:
            return self._new(owner, bucket, f"{owner}{bucket}")
        return self._common(hashed)

    def _common(self, hashed: int) -> int:
        """One of the last lines of the book, which all owners share."""
        while len(self.names) < self.limit:
            number = len(self.names) - self._common_from
            self._new(_COMMON, f"~{number}", f"shared~{number}")
        return self._common_from + hashed % (self.limit - self._common_from)

    def _new(self, owner: str, key: Key, name: str) -> int:
        at = len(self.names)
        self.names.append(name)
        self.keys.append((owner, key))
        self.set(self.of(owner), key, at)
        return at

    # -- counting --------------------------------------------------------------------------------

    def count(self, what: str, owner: str, times: int = 1) -> None:
        self.set(self.counts, (what, owner), self.counts.get((what, owner), 0) + times)

    def warn_once(self, owner: str, text: str) -> None:
        """Prepare a warning, unless there was one of this owner."""
        if ("warned", owner) not in self.counts:
            self.count("warned", owner)
            self._unsaid.append(text)

    def take_warnings(self) -> list[str]:
        said, self._unsaid = self._unsaid, []
        return said

    # -- taking back -----------------------------------------------------------------------------

    def set(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """table[key] := value, until it is taken back."""
        self._journal.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def commit(self) -> None:
        self._journal.clear()

    def take_back(self, dimension: int) -> None:
        """Be as after the last commit, when the book had so many lines."""
        while self._journal:
            table, key, before = self._journal.pop()
            if before is _ABSENT:
                del table[key]
            else:
                table[key] = before
        del self.names[dimension:], self.keys[dimension:]
        self._unsaid.clear()

    # -- keeping ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data, but for tuples."""
        coordinates = [(*key, name) for key, name in zip(self.keys, self.names, strict=True)]
        tables = {name: list(getattr(self, name).items()) for name in _KEPT}
        return {"coordinates": coordinates, **tables}

    def revive(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `to_dict` gave."""
        for owner, key, name in kept["coordinates"]:
            self._new(owner, _hashable(key), name)
        for name in _KEPT:
            getattr(self, name).update((_hashable(key), value) for key, value in kept[name])
        self.commit()

    def sharers_of(self, owner: str) -> int:
        """The number of levels of an owner that share coordinates, as far as they were counted."""
        return sum(1 for known, _ in self.sharers if known == owner)


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key
