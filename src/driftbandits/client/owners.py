"""Which process of a service serves which policy, as far as this client was told.

Several processes may share a store, and each policy is served by one of them. Another one hands a
request on, which costs both; a caller that says `Prefer: redirect` is told where to go instead. The
client remembers that and goes there by itself. Whatever goes wrong on the way leads back to the
address that it was given, and for a while it asks for no other. This is about decisions and
rewards; what is asked for more rarely goes to the given address.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Self
from urllib.parse import urlsplit

REST_S = 5.0
"""After something went wrong. While an owner is being replaced the others wait for it."""

_PREFER = {"prefer": "redirect"}
_MOST_HOPS = 3
_MOVED = 307
_AWAY = frozenset({502, 503, 504})
_POLICY = re.compile(r"/v1/policies/([^/:?]+)/(?:decisions|rewards)\b")
_PATIENCE_S = 3.0
"""With an owner. One that stands still has been replaced by then, and the others know by whom."""


class Owners:
    """The address of the owner of each policy, for any thread.

    Only where the service is asked without a proxy that has TLS or a path of its own: behind one
    the processes may not be reached, and a key is not sent in the clear where it was not before.
    """

    def __init__(self, url: str) -> None:
        given = urlsplit(url)
        self._may_follow = given.scheme == "http" and given.path in ("", "/")
        self._address_of: dict[str, str] = {}
        self._rests_until = 0.0
        self._lock = threading.Lock()

    @property
    def follows(self) -> bool:
        return self._may_follow and time.monotonic() >= self._rests_until

    def address_of(self, policy: str) -> str:
        """ "" is the one that was given."""
        return self._address_of.get(policy, "")

    def note(self, policy: str, address: str) -> None:
        with self._lock:
            self._address_of[policy] = address

    def forget(self, address: str) -> None:
        """Ask nobody there any more, until it is named again."""
        with self._lock:
            kept = {name: at for name, at in self._address_of.items() if at != address}
            self._address_of = kept

    def rest(self) -> None:
        self._rests_until = time.monotonic() + REST_S

    def way(self, path: str) -> Way:
        """Of one try of a request."""
        return Way(self, path)


class Way:
    """Where a request is sent to next, until somebody answers it; use it with `with`."""

    def __init__(self, owners: Owners, path: str) -> None:
        self._owners = owners
        self._path = path
        found = _POLICY.match(path)
        self._policy = found[1] if found and owners.follows else ""
        self._address = owners.address_of(self._policy)
        self._hops = 0

    @property
    def target(self) -> str:
        return self._address + self._path

    @property
    def headers(self) -> dict[str, str] | None:
        return _PREFER if self._policy else None

    def timeout(self, usual: float) -> float:
        """Seconds that this try may take."""
        return min(usual, _PATIENCE_S) if self._address else usual

    def ends(self, status: int, location: str | None) -> bool:
        """Whether this is the answer; if not, the target is another now."""
        if status != _MOVED or not self._policy:
            if self._address and status in _AWAY:
                self._owners.forget(self._address)
            return True
        self._hops += 1
        to = urlsplit(location or "")
        if to.scheme == "http" and to.netloc and self._hops < _MOST_HOPS:
            self._address = f"http://{to.netloc}"
            self._owners.note(self._policy, self._address)
        else:
            self._give_up()
        return False

    def _give_up(self) -> None:
        self._owners.forget(self._address)
        self._owners.rest()
        self._policy = self._address = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._address:  # it was no answer, or none in time
            self._give_up()
