"""How many durable decide + reward pairs a second the service answers, and how fast.

A real server process on SQLite, d = 10, 10 arms, and this process as its callers: each keeps one
connection, sends a decision, then its reward, and so on. Prints and writes JSON.

    python benchmarks/service.py [--pairs-per-second 2000] [--seconds 20] [--callers 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles

DIM, ARMS = 10, 10


class Caller:
    """One connection that speaks just enough HTTP to cost the callers' core little."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._key = key

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def post(self, path: str, body: bytes) -> bytes:
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self._key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer)
        assert length is not None, answer
        content = await self._reader.readexactly(int(length[1]))
        assert answer.startswith(b"HTTP/1.1 200"), (answer, content)
        return content


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


async def play(port: int, key: str, *, rate: float, seconds: float, callers: int) -> list[float]:
    """Latencies of decisions and rewards; pairs start on a schedule, late ones count from it."""
    rng = random.Random(0)
    offers = bodies(rng, 256)
    latencies: list[float] = []
    total = int(rate * seconds)
    number = iter(range(total))
    began = time.perf_counter() + 0.1
    run = f"{time.time_ns():x}"

    async def call() -> None:
        caller = Caller(port, key)
        await caller.connect()
        for n in number:
            start = began + n / rate
            wait = start - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            event_id = f"{run}-{n}".encode()
            body = b'{"event_id":"%b","arms":%b}' % (event_id, offers[n % len(offers)])
            await caller.post("/v1/policies/bench/decisions", body)
            middle = time.perf_counter()
            latencies.append(middle - start)
            reward = b'{"event_id":"%b","value":%d}' % (event_id, rng.random() < 0.3)
            await caller.post("/v1/policies/bench/rewards", reward)
            latencies.append(time.perf_counter() - middle)

    await asyncio.gather(*(call() for _ in range(callers)))
    return latencies


async def configure(port: int, key: str, name: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    settings = {"name": name, "dim": DIM}
    settings |= {"window": 1000} if name.startswith("SW") else {}
    settings |= {"discount": 0.999} if name.startswith("D-") else {}
    body = json.dumps(settings).encode()
    writer.write(
        f"PUT /v1/policies/bench HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    answer = await reader.read()
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


async def measure(
    port: int, key: str, pid: int, options: argparse.Namespace
) -> tuple[list[float], float, float]:
    """Latencies, seconds, and processor seconds of the server."""
    await until_ready(port)
    await configure(port, key, options.policy)
    await play(port, key, rate=200, seconds=2, callers=8)
    began, before = time.perf_counter(), cpu_seconds(pid)
    latencies = await play(
        port,
        key,
        rate=options.pairs_per_second,
        seconds=options.seconds,
        callers=options.callers,
    )
    return latencies, time.perf_counter() - began, cpu_seconds(pid) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs-per-second", type=float, default=2000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--store", help="instead of SQLite in a new folder")
    parser.add_argument("--out", type=Path, default=Path("results/service.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or f"sqlite:///{folder}/bench.db"
        server = subprocess.Popen(
            [sys.executable, "-m", "driftbandits", "serve", "--port", "0", "--store", store],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        try:
            assert server.stdout is not None
            told = "".join(server.stdout.readline() for _ in range(3))
            port = int(re.search(r":(\d+)\n", told)[1])  # type: ignore[index]
            key = re.search(r"dbk_\S+", told)[0]  # type: ignore[index]
            latencies, spent, cpu = asyncio.run(measure(port, key, server.pid, options))
        finally:
            server.terminate()
            server.wait()
    pairs = len(latencies) / 2
    cuts = quantiles(latencies, n=1000)
    result = {
        "policy": options.policy,
        "store": store.split(":")[0],
        "pairs": pairs,
        "asked_pairs_per_second": options.pairs_per_second,
        "p50_ms": cuts[499] * 1e3,
        "p99_ms": cuts[989] * 1e3,
        "p999_ms": cuts[998] * 1e3,
        "reached_pairs_per_second": pairs / spent,
        "server_cpu_us_per_pair": cpu / pairs * 1e6,
    }
    for name, value in result.items():
        print(f"{name:24} {value:.4g}" if isinstance(value, float) else f"{name:24} {value}")
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
