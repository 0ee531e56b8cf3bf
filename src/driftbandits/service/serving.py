"""A server process, from its settings to its end."""

from __future__ import annotations

import ipaddress
import socket
import sys
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from driftbandits import store
from driftbandits.service.app import Application
from driftbandits.service.auth import Keyring, make_first_admin_key
from driftbandits.service.engine import Engine
from driftbandits.service.hosts import is_loopback
from driftbandits.service.limits import Limits
from driftbandits.service.server import Server, listen

_SWITCH_S = 0.0005
"""How long the event loop and the writer keep the interpreter from one another."""


class Settings(NamedTuple):
    """What a server is started with."""

    store: str
    host: str = "127.0.0.1"
    port: int = 8080
    with_keys: bool = True
    limits: Limits = Limits()
    queue_limit: int = 2000
    snapshot_every: int = 20_000
    retention_days: float | None = None
    access_log: bool = False
    vfs: str | None = None
    clock: Callable[[], int] = time.time_ns
    advertise: str | None = None
    """Where other processes of the same store reach this one."""


class Announcement(NamedTuple):
    """What a person has to know once the server listens."""

    address: str
    store: str
    first_key: str | None


def check_address(host: str, *, with_keys: bool) -> None:
    """Without keys nobody but this machine may reach the service."""
    if not with_keys and not is_loopback(host):
        raise ValueError(
            f"host must be a loopback address when there are no keys; got {host!r}. "
            "Leave out --no-auth, or serve on 127.0.0.1."
        )


def check_advertised(address: str | None) -> None:
    """Where other processes are told to ask must be an address that they can ask."""
    if address is None:
        return
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(f"advertise must be like http://HOST:PORT; got {address!r}")


def _reachable(host: str, port: int, address: str) -> str:
    """The address itself, unless it stands for all that this machine has."""
    is_any = ipaddress.ip_address(host).is_unspecified
    return f"http://{socket.gethostname()}:{port}" if is_any else address


class Service:
    """A server that listens, and is not yet running."""

    def __init__(self, settings: Settings) -> None:
        check_address(settings.host, with_keys=settings.with_keys)
        first_key, keyring = None, None
        if settings.with_keys:
            keys = store.open(settings.store, vfs=settings.vfs)
            first_key = make_first_admin_key(keys, now_ns=settings.clock())
            keyring = Keyring(keys)
            keyring.refresh()
        listener = listen(settings.host, settings.port)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}"
        check_advertised(settings.advertise)
        me = store.leases.this_process(settings.advertise or _reachable(host, port, address))
        self.engine = Engine(
            lambda: store.open(settings.store, vfs=settings.vfs, process=me.id),
            me=me,
            clock=settings.clock,
            queue_limit=settings.queue_limit,
            snapshot_every=settings.snapshot_every,
            retention_days=settings.retention_days,
            on_death=self.stop,
        )
        application = Application(
            self.engine,
            keyring=keyring,
            limits=settings.limits,
            access_log=settings.access_log,
        )
        self._server = Server(application, listener)
        self.announcement = Announcement(address, settings.store, first_key)

    def run(self) -> int:
        """Serve until a signal or `stop` ends it; the exit code."""
        sys.setswitchinterval(_SWITCH_S)
        self._server.run()
        return 1 if self.engine.dead else 0

    def stop(self) -> None:
        """Answer what waits, and end."""
        self._server.stop()
