"""For how long one piece of work keeps the others from running.

Everything here is counted in processor time of the thread at work, which a busy machine does not
stretch. First the event loop: a service is asked for what it may be asked for, and the longest of
its turns are printed. Then the interpreter: while a piece of work goes on in one thread, another
one wakes up every .2 ms, and the most that the first one has done between two of its wakings is for
how long the interpreter was kept.

    python benchmarks/holds.py [--dims 100 200 400]
"""

from __future__ import annotations

import argparse
import asyncio
import asyncio.events
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import httpx
import msgspec
import numpy as np

import driftbandits as db
from driftbandits import wire
from driftbandits.agent import Agent
from driftbandits.service import server
from driftbandits.service.bodies import decoded
from driftbandits.service.serving import Service, Settings

_SWITCH_S = 0.0005  # as the service has it


def offer(dim: int, arms: int, number: int) -> list[dict[str, Any]]:
    x = np.random.default_rng(number).normal(size=(arms, dim))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return [{"id": f"a{i}", "x": row} for i, row in enumerate(x.tolist())]


class Turns:
    """The longest turn of an event loop, for each thing that was asked for."""

    def __init__(self) -> None:
        self.asked = "start"
        self._longest: dict[str, float] = {}
        run = asyncio.events.Handle._run

        def timed(handle: asyncio.events.Handle) -> None:
            began = time.thread_time()
            run(handle)
            spent = time.thread_time() - began
            self._longest[self.asked] = max(spent, self._longest.get(self.asked, 0.0))

        asyncio.events.Handle._run = timed  # type: ignore[method-assign]
        server._loop_factory = lambda: asyncio.new_event_loop  # whose turns can be timed

    def print(self) -> None:
        for asked, spent in sorted(self._longest.items(), key=lambda item: -item[1]):
            print(f"{asked:32} longest turn of the loop {spent * 1e3:6.1f} ms")


def ask_for_everything(dims: list[int]) -> None:
    turns = Turns()
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/log.db"
        service = Service(Settings(store, port=0, with_keys=False, snapshot_every=200))
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            with httpx.Client(base_url=service.announcement.address, timeout=600.0) as client:
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.05)
                for dim in (10, *dims):
                    use(client, turns, dim)
                path = f"/v1/policies/d{dims[0]}"
                turns.asked = "a body of 2 MB"
                client.post(
                    f"{path}/decisions", json={"event_id": "big", "arms": offer(100, 900, 1)}
                )
                turns.asked = "events"
                client.get(f"{path}/events?limit=10000")
                client.get(f"{path}/events?format=parquet&limit=100000")
                turns.asked = "a batch of 700, an erasure"
                batch = [{"event_id": f"b{i}", "arms": offer(10, 10, i % 9)} for i in range(700)]
                client.post("/v1/policies/d10/decisions:batch", json={"decisions": batch})
                client.post("/v1/policies/d10/erasures", json={"prefix": "b"})
        finally:
            service.stop()
            thread.join()
    turns.print()


def use(client: httpx.Client, turns: Turns, dim: int) -> None:
    path = f"/v1/policies/d{dim}"
    turns.asked = f"PUT, d = {dim}"
    client.put(path, json={"name": "auto", "dim": dim}).raise_for_status()
    turns.asked = f"110 pairs, 20 arms, d = {dim}"
    for i in range(110):
        body = {"event_id": f"e{i}", "arms": offer(dim, 20, i)}
        client.post(f"{path}/decisions", json=body).raise_for_status()
        client.post(f"{path}/rewards", json={"event_id": f"e{i}", "value": 1}).raise_for_status()
    turns.asked = f"GET, explanations, d = {dim}"
    client.get(path).raise_for_status()
    client.get(f"{path}/explanations?limit=50").raise_for_status()


def print_hold(label: str, work: Callable[[], object], *, times: int = 5) -> None:
    """For how long a piece of work keeps the interpreter, and what it takes in all."""
    clock = time.pthread_getcpuclockid(threading.get_ident())
    holds, totals = [], []
    for _ in range(times):
        seen, ended = list[float](), threading.Event()

        def watch(seen: list[float] = seen, ended: threading.Event = ended) -> None:
            while not ended.is_set():
                seen.append(time.clock_gettime(clock))
                time.sleep(0.0002)

        thread = threading.Thread(target=watch)
        thread.start()
        time.sleep(0.002)
        began = time.clock_gettime(clock)
        work()
        totals.append(time.clock_gettime(clock) - began)
        time.sleep(0.001)
        ended.set()
        thread.join()
        holds.append(max(np.diff([*seen, time.clock_gettime(clock)]), default=0.0))
    print(
        f"{label:32} keeps the interpreter {median(holds) * 1e3:6.1f} ms"
        f" of {median(totals) * 1e3:6.1f} ms",
        flush=True,
    )


def print_holds(dims: list[int]) -> None:
    sys.setswitchinterval(_SWITCH_S)
    for dim in dims:
        agent = Agent(db.policy("auto", dim=dim), seed=0)
        x = np.array([arm["x"] for arm in offer(dim, 20, 1)])

        def pair(agent: Agent = agent, x: Any = x) -> None:
            agent.update(agent.decide(x), 1.0)

        for _ in range(60):
            pair()
        content = agent.to_bytes()
        print_hold(f"decide and update, d = {dim}", pair, times=9)
        print_hold(f"snapshot, d = {dim}", agent.to_bytes)
        print_hold(f"from a snapshot, d = {dim}", lambda content=content: Agent.from_bytes(content))
    decoder = msgspec.json.Decoder(wire.DecisionRequest)
    body = json.dumps({"event_id": "e", "arms": offer(100, 900, 1)}).encode()
    print_hold("a body of 2 MB", lambda: decoded(body, decoder))
    escaped = body.replace(b'"a5"', b'"a\\u0035"')
    print_hold("a body of 2 MB, with escapes", lambda: decoded(escaped, decoder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dims", type=int, nargs="*", default=[100, 200, 400])
    options = parser.parse_args()
    print_holds(options.dims)
    ask_for_everything(options.dims)


if __name__ == "__main__":
    main()
