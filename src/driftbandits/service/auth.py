"""Keys, roles, tenants and limits: who may do what, how often, and how much of it at a time."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, get_args
from urllib.parse import urlsplit

from driftbandits.api.operations import Role
from driftbandits.service.refusals import Refused, unavailable
from driftbandits.store import Key, Store

ROLES = READER, WRITER, ADMIN = get_args(Role)

_RANK = {role: rank for rank, role in enumerate(ROLES)}
_MARK = "dbk"
REFRESH_EVERY_S = 1.0
_OLD_S = 10.0
"""Keys that were not read again within this time are not trusted."""


class Caller(NamedTuple):
    """The key that a request came with, and what it may do."""

    key: str
    role: str
    prefix: str

    def check(self, role: str, policy: str) -> None:
        """Refuse what this key may not do; `policy` is "" where the request is about no one."""
        if _RANK[self.role] < _RANK[role]:
            raise Refused(403, "forbidden", f"this needs a key with the role {role}")
        if policy and not policy.startswith(self.prefix):
            about = f"this key is for policies that begin with {self.prefix!r}"
            raise Refused(403, "other_tenant", about)

    def may_see(self, policy: str) -> bool:
        return policy.startswith(self.prefix)


NOBODY = Caller("", ADMIN, "")
"""The caller of a service that runs without keys."""


def new_key(role: str, *, prefix: str = "", label: str = "", now_ns: int) -> tuple[str, Key]:
    """The token, which is shown once, and what is stored of it."""
    if role not in ROLES:
        raise ValueError(f"role must be one of {', '.join(ROLES)}; got {role!r}")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return f"{_MARK}_{id}_{secret}", Key(id, _hash(secret), role, prefix, label, now_ns, 0)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def make_first_admin_key(store: Store, *, now_ns: int) -> str | None:
    """Make an admin key where there is no key yet; its token."""
    with store.write() as session:
        if session.api_keys():
            return None
        token, key = new_key(ADMIN, label="first", now_ns=now_ns)
        session.add_key(key)
        return token


class Keyring:
    """The keys in use, read again from the store every second; without a store nobody needs one."""

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self._keys: dict[str, Key] = {}
        self._read_at = -_OLD_S

    def refresh(self) -> None:
        """Read the keys; blocks."""
        assert self.store is not None
        with self.store.read() as session:
            self._keys = {key.id: key for key in session.api_keys() if not key.revoked_ns}
        self._read_at = time.monotonic()

    def caller(self, headers: Sequence[tuple[bytes, bytes]], authorization: bytes) -> Caller:
        """Return the caller whose key a request has, or refuse it."""
        if self.store is None:
            _check_local(headers)
            return NOBODY
        if time.monotonic() - self._read_at >= _OLD_S:
            raise unavailable("storage_unavailable", "the keys cannot be read at present")
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Refused(401, "unauthorized", "give a key: Authorization: Bearer dbk_...")
        mark, _, rest = token.strip().partition("_")
        id, _, secret = rest.partition("_")
        key = self._keys.get(id)
        stored = key.hash if key is not None else bytes(32)
        if not hmac.compare_digest(_hash(secret), stored) or key is None or mark != _MARK:
            raise Refused(401, "unauthorized", "this key is not known, or it was revoked")
        return Caller(key.id, key.role, key.prefix)


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


class RateLimit:
    """A limit of requests a second for each key; a second's worth may come at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = max(rate, 1.0)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> None:
        now = time.monotonic()
        left, since = self._left.get(key, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        if left < 1.0:
            self._left[key] = (left, now)
            raise Refused(
                429,
                "rate_limited",
                f"this key may send {self._rate:g} requests a second",
                retry_after_s=max(1, round((1.0 - left) / self._rate)),
            )
        self._left[key] = (left - 1.0, now)


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


def is_loopback(host: str) -> bool:
    """Return whether the address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_local(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse what a page of another site may have sent; a service without keys trusts the rest."""
    named = {name: value.decode("latin-1") for name, value in headers if name != b"host"}
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    host, origin = hosts[0] if len(hosts) == 1 else "", named.get(b"origin")
    try:
        name = urlsplit(f"//{host}").hostname
        site = host if origin is None else urlsplit(origin).netloc
    except ValueError as error:
        raise Refused(400, "malformed", f"Host or Origin is no address: {error}") from None
    if not is_loopback(name or ""):
        raise Refused(403, "other_host", "without keys only a loopback address is answered")
    if site != host:
        raise Refused(403, "other_origin", "without keys no other site's page is answered")
