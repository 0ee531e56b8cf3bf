"""What a deployment may set, and the room that bodies wait in."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from driftbandits.service.refusals import unavailable


class Limits(NamedTuple):
    """What a deployment may set."""

    body_bytes: int = 2 * 1024 * 1024
    pending_per_key: int = 100_000
    rate_per_key: float | None = None
    waiting_bytes: int = 16 * 1024 * 1024
    """Of bodies that have come and are not answered. As numbers they take twenty times as much."""
    state_bytes: int = 64_000_000
    """Of a policy's state, as estimated before it is accepted."""
    state_bytes_per_key: int = 1_000_000_000
    """Of all policies that a key has configured."""


class Room:
    """For bodies between their arrival and their answer; no key gets more than half of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._of_key: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, key: str, size: int) -> None:
        """Have room for so many bytes more, or say that there is none. One body always has."""
        if self._taken and self._taken + size > self._most:
            raise unavailable("overloaded", f"{self._taken} bytes of other requests wait already")
        if self._of_key[key] and self._of_key[key] + size > self._most // 2:
            raise unavailable("overloaded", f"{self._of_key[key]} bytes of this key wait already")
        self._taken += size
        self._of_key[key] += size

    def give_back(self, key: str, size: int) -> None:
        self._taken -= size
        self._of_key[key] -= size
        if not self._of_key[key]:
            del self._of_key[key]
