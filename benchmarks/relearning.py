"""How fast decisions are while a changed configuration learns the whole log again.

A log of many events is written, d = 10 and 10 arms, through the store directly. A real server on
SQLite serves decide + reward pairs on a schedule; latencies count from it. Meanwhile a PUT changes
the penalty, and the log is learned again beside the version that decides. Prints the latencies
before, while it is learned and after, and how long that took.

    python benchmarks/relearning.py [--events 1000000] [--pairs-per-second 500] [--policy auto]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from statistics import quantiles
from typing import Any

import numpy as np
import uvloop

from driftbandits.policies import policy
from driftbandits.service import snapshots
from driftbandits.service.auth import new_key
from driftbandits.service.fold import Fold, Offer
from driftbandits.store import CONFIGURED, DECISION, REWARD, NewEvent, Snapshot, Store
from driftbandits.store import open as opened
from driftbandits.store.records import Configured, Rewarded, packed
from service import ARMS, DIM, PATH, Servers, asked, play, started, until_ready

NAME = "bench0"
SLICE_S = 5.0


def log_of(fold: Fold, record: Configured, pairs: int) -> Iterator[NewEvent]:
    rng = np.random.default_rng(0)
    now = time.time_ns()
    fold.configure(record, now)
    yield NewEvent(CONFIGURED, "", now, packed(record))
    arms = tuple(f"arm{k}" for k in range(ARMS))
    for i in range(pairs):
        offer = Offer(arms, rng.uniform(-0.3, 0.3, (ARMS, DIM)), -1, "")
        decided = fold.decide(f"old-{i}", offer, now)
        yield NewEvent(DECISION, f"old-{i}", now, packed(decided))
        value = float(rng.random() < 0.3)
        fold.reward(f"old-{i}", value, now)
        yield NewEvent(REWARD, f"old-{i}", now, packed(Rewarded(value, "")))


def write_log(store: Store, name: str, events: int) -> None:
    arguments = policy(name, dim=DIM, **memory_of(name)).arguments
    record = Configured(1, arguments, 1, "online", None, 0.0, None, None, True, "")
    fold = Fold(NAME)
    new_events = log_of(fold, record, events // 2)
    while page := list(islice(new_events, 20_000)):
        with store.write() as session:
            session.create(NAME)
            session.lock([NAME])
            fold.checksum = session.append(NAME, page).checksum
    with store.write() as session:
        content = snapshots.packed(fold)
        session.save_snapshot(Snapshot(NAME, fold.seq, fold.at_ns, False, content))


def memory_of(name: str) -> dict[str, Any]:
    return {"discount": 0.999} if name.startswith("D-") else {}


async def state(servers: Servers) -> dict[str, Any]:
    answer = await asked(servers.ports[0], servers.key, f"GET {PATH}/{NAME}")
    return dict(json.loads(answer.partition(b"\r\n\r\n")[2]))


async def measured(servers: Servers, options: argparse.Namespace) -> None:
    await until_ready(servers.ports[0])
    await slices(servers, options, "warming up", until_version=0)
    await slices(servers, options, "before", until_version=0)
    settings = {"name": options.policy, "dim": DIM, "lam": 2.0, **memory_of(options.policy)}
    began = time.perf_counter()
    body = json.dumps(settings).encode()
    change = asyncio.create_task(asked(servers.ports[0], servers.key, f"PUT {PATH}/{NAME}", body))
    await slices(servers, options, "learning again", until_version=2)
    assert (await change).split(b" ", 2)[1] in (b"202", b"200"), await change
    print(f"taken over within {time.perf_counter() - began:.1f} s")
    print("learned from", (await state(servers))["configuration"]["learned_from"], "outcomes")
    await slices(servers, options, "after", until_version=0)


async def slices(
    servers: Servers, options: argparse.Namespace, label: str, *, until_version: int
) -> None:
    latencies: list[float] = []
    stood_still = 0.0
    while True:
        rate = options.pairs_per_second
        game = await play(servers, rate=rate, seconds=SLICE_S, callers=32, follow=False)
        latencies += game.latencies
        stood_still += game.stood_still_s
        now = await state(servers)
        if now["version"] >= until_version:
            break
        if now.get("change"):
            told = f"  {now['change']['seq']:,} of {now['change']['of']:,}"
            print(told, file=sys.stderr, flush=True)
    cuts = quantiles(latencies, n=1000)
    print(
        f"{label:>16}: {len(latencies) // 2} pairs, p50 {cuts[499] * 1e3:.1f} ms, "
        f"p99 {cuts[989] * 1e3:.1f} ms, p99.9 {cuts[998] * 1e3:.1f} ms; "
        f"the callers stood still for {stood_still * 1e3:.0f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pairs-per-second", type=float, default=500)
    parser.add_argument("--policy", default="auto")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/bench.db"
        with opened(url) as store:
            key, kept = new_key("admin", now_ns=time.time_ns())
            with store.write() as session:
                session.add_key(kept)
            began = time.perf_counter()
            write_log(store, options.policy, options.events)
            print(f"{options.events:,} events written in {time.perf_counter() - began:.1f} s")
        server, port = started(url)
        try:
            servers = Servers([port], [server.pid], 0, key, [NAME.encode()])
            uvloop.run(measured(servers, options))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
