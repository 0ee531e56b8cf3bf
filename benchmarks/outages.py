"""How long a shop's calls take while the service is killed, paused or slow, and what the log has.

A real server process on SQLite. Visitors come for a while to a shop that calls `decide` with a
fallback and `reward` with a budget, from threads with `Client` and from tasks with `AsyncClient`.
Meanwhile the server is killed and started again, stopped (SIGSTOP) and continued, or its answers
are held back by a proxy. At the end the log is compared with what was shown and brought.
Prints and writes JSON.

    python benchmarks/outages.py [--seconds 10] [--visitors 8]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from driftbandits.client import AsyncClient, Client

ARMS = {"a": [1.0, 0.0], "b": [0.0, 0.5], "c": [0.4, 0.4]}
BUDGET_S = 0.25
POLICY = "shop"


class Server:
    """A `driftbandits serve` that can be stopped, killed, and started again at its address."""

    def __init__(self, folder: Path) -> None:
        self._store = f"sqlite:///{folder / 'log.db'}"
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "driftbandits", "serve", "--no-auth"]
        self._process = subprocess.Popen(
            [*command, "--store", self._store, "--port", str(self.port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        found = re.search(r"http://\S+:(\d+)", self._process.stdout.readline())
        assert found is not None
        self.url, self.port = found[0], int(found[1])
        while True:
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)


class Proxy:
    """Passes bytes on; answers of the server only after `delay_s`."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, held_back: bool) -> None:
        try:
            while data := source.recv(65536):
                if held_back:
                    time.sleep(self.delay_s)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def close(self) -> None:
        self._listener.close()


class Shop:
    """What visitors were shown and brought, and how long their calls took."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shown: dict[str, str] = {}
        self.told: set[str] = set()
        self.brought: dict[str, float] = {}
        self.seconds: list[float] = []
        self.is_open = True
        self._count = 0

    def next_visitor(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}-{os.urandom(4).hex()}"

    def note(self, decision: Any, began: float) -> None:
        self.seconds.append(time.perf_counter() - began)
        self.shown[decision.event_id] = decision.arm
        if decision.caller_decided:
            self.told.add(decision.event_id)

    def note_reward(self, event_id: str, value: float, began: float) -> None:
        self.seconds.append(time.perf_counter() - began)
        self.brought[event_id] = value

    @staticmethod
    def value(event_id: str) -> float:
        return float(event_id.endswith(tuple("01234567")))


def visit(shop: Shop, client: Client, pause_s: float) -> None:
    while shop.is_open:
        event_id = shop.next_visitor()
        began = time.perf_counter()
        decision = client.decide(POLICY, ARMS, event_id=event_id, fallback="b", budget=BUDGET_S)
        shop.note(decision, began)
        value, began = shop.value(event_id), time.perf_counter()
        client.reward(POLICY, event_id, value, budget=BUDGET_S)
        shop.note_reward(event_id, value, began)
        time.sleep(pause_s)


async def visit_async(shop: Shop, client: AsyncClient, pause_s: float) -> None:
    while shop.is_open:
        event_id = shop.next_visitor()
        began = time.perf_counter()
        decision = await client.decide(
            POLICY, ARMS, event_id=event_id, fallback="b", budget=BUDGET_S
        )
        shop.note(decision, began)
        value, began = shop.value(event_id), time.perf_counter()
        await client.reward(POLICY, event_id, value, budget=BUDGET_S)
        shop.note_reward(event_id, value, began)
        await asyncio.sleep(pause_s)


def run(
    shop: Shop,
    url: str,
    trouble: Callable[[], None],
    *,
    visitors: int,
    pause_s: float = 0.05,
    asynchronous: bool = False,
) -> int:
    """Let visitors come while there is trouble; how many calls were not sent in the end."""

    def bring_trouble() -> None:
        try:
            trouble()
        finally:
            shop.is_open = False

    troubling = threading.Thread(target=bring_trouble)
    if asynchronous:

        async def all_visits() -> int:
            async with AsyncClient(url) as client:
                troubling.start()
                await asyncio.gather(*(visit_async(shop, client, pause_s) for _ in range(visitors)))
                return await client.flush(60.0)

        left = asyncio.run(all_visits())
    else:
        with Client(url) as client:
            threads = [
                threading.Thread(target=visit, args=(shop, client, pause_s))
                for _ in range(visitors)
            ]
            for thread in (troubling, *threads):
                thread.start()
            for thread in threads:
                thread.join()
            left = client.flush(60.0)
    troubling.join()
    return left


def lost(shop: Shop, url: str) -> dict[str, int]:
    """How many decisions the log does not have as they were shown, and rewards as they came."""
    shown: dict[str, str] = {}
    learned: dict[str, float] = {}
    corrected = 0
    with Client(url) as client:
        after = 0
        while True:
            page = client.events(POLICY, after=after, limit=5000)
            for event in page.events:
                corrected += event.kind == "corrected"
                if event.kind in ("decision", "corrected"):
                    shown[event.event_id] = event.arm or ""
                elif event.kind in ("reward", "late") and event.value is not None:
                    learned[event.event_id] = event.value
            if not page.events:
                break
            after = page.next
    return {
        "decisions": sum(shown.get(event_id) != arm for event_id, arm in shop.shown.items()),
        "rewards": sum(learned.get(event_id) != value for event_id, value in shop.brought.items()),
        "corrected": corrected,
    }


def figures(shop: Shop, left: int, url: str) -> dict[str, Any]:
    ordered = sorted(shop.seconds)
    return {
        "calls": len(ordered),
        "fallbacks": len(shop.told),
        "p50_ms": round(1e3 * ordered[len(ordered) // 2], 2),
        "longest_ms": round(1e3 * ordered[-1], 1),
        "beyond_budget": sum(seconds > BUDGET_S for seconds in ordered),
        "unsent": left,
        "lost": lost(shop, url),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--visitors", type=int, default=8)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        proxy = Proxy(server.port)
        with Client(server.url) as client:
            client.put_policy(POLICY, "D-GLUCB", dim=2, discount=0.99, epsilon=0.1)

        troubles = {
            "killed": (server.kill, server.start),
            "paused": (server.pause, server.go_on),
            "slow": tuple(partial(setattr, proxy, "delay_s", delay) for delay in (0.4, 0.0)),
        }

        def bring(begin: Callable[[], None], end: Callable[[], None]) -> None:
            for seconds, happens in ((1.0, begin), (given.seconds, end)):
                time.sleep(seconds)
                happens()
            time.sleep(2.0)

        try:
            for kind, (begin, end) in troubles.items():
                for asynchronous in (False, True):
                    name = f"{kind}, {'AsyncClient' if asynchronous else 'Client'}"
                    shop = Shop(kind)
                    left = run(
                        shop,
                        proxy.url if kind == "slow" else server.url,
                        partial(bring, begin, end),
                        visitors=given.visitors,
                        asynchronous=asynchronous,
                    )
                    results[name] = figures(shop, left, server.url)
                    print(name, json.dumps(results[name]), flush=True)
        finally:
            proxy.close()
            server.kill()
    out = Path("results")
    out.mkdir(exist_ok=True)
    (out / "outages.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
