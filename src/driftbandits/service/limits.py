"""Limits that a deployment may set, and the room that bodies wait in."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from driftbandits.service.refusals import unavailable


class Limits(NamedTuple):
    """Limits that a deployment may set."""

    body_bytes: int = 2 * 1024 * 1024
    pending_per_key: int = 100_000
    rate_per_key: float | None = None
    waiting_bytes: int = 16 * 1024 * 1024
    """Bytes of bodies that are not answered yet. Decoded they take twenty times as much."""
    state_bytes: int = 64_000_000
    """Bytes of a policy's state, as estimated before it is accepted."""
    state_bytes_per_key: int = 1_000_000_000
    """Bytes of all policies that a key has configured."""


class Room:
    """Bytes of bodies that wait for their answers; no key gets more than half of the room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0
        self._of_key: Counter[str] = Counter()

    def take(self, key: str, size: int) -> None:
        """Reserve room for more bytes, or refuse. One body always has room."""
        if self.taken and self.taken + size > self._most:
            raise unavailable("overloaded", f"{self.taken} bytes of other requests wait already")
        if self._of_key[key] and self._of_key[key] + size > self._most // 2:
            raise unavailable("overloaded", f"{self._of_key[key]} bytes of this key wait already")
        self.taken += size
        self._of_key[key] += size

    def give_back(self, key: str, size: int) -> None:
        """Give room back."""
        self.taken -= size
        self._of_key[key] -= size
        if not self._of_key[key]:
            del self._of_key[key]
