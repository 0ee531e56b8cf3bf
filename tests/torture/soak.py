"""Half load for an hour, and what the server's memory does meanwhile.

    python tests/torture/soak.py [--minutes 60] [--pairs-per-second 1000]

Exits with 1 if the last quarter needs more memory than the second: the first one warms up.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

GROWTH_ALLOWED = 1.05


def memory_mib(pid: int) -> float:
    """What the process has allocated. Libraries do not count: they are private or shared
    according to who else runs them at the time."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = sum(int(n) for n in re.findall(r"^(?:Anonymous|Swap): +(\d+)", text, re.M))
    return kib / 1024


async def watch(pid: int, samples: list[float], *, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        samples.append(memory_mib(pid))
        print(f"{len(samples) * every_s:6.0f} s  {samples[-1]:7.1f} MiB", flush=True)


async def run(port: int, key: str, pid: int, options: argparse.Namespace) -> list[float]:
    import service

    await service.until_ready(port)
    await service.configure(port, key, "soak", "SW-GLUCB")
    servers = service.Servers([port], [pid], 0, key, [b"soak"])
    samples: list[float] = []
    seconds = 60 * options.minutes
    watching = asyncio.create_task(watch(pid, samples, every_s=max(1.0, seconds / 60)))
    rate = options.pairs_per_second
    game = await service.play(servers, rate=rate, seconds=seconds, callers=32, affinity=True)
    spent = time.perf_counter() - game.began
    watching.cancel()
    pairs = len(game.latencies) / 2
    p99 = quantiles(game.latencies, n=100)[98] * 1e3
    print(f"{pairs:.0f} pairs in {spent:.0f} s, {pairs / spent:.0f} a second, p99 {p99:.1f} ms")
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pairs-per-second", type=float, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        serve = [sys.executable, "-m", "driftbandits", "serve", "--port", "0"]
        server = subprocess.Popen(
            [*serve, "--store", f"sqlite:///{folder}/log.db"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            told = "".join(server.stdout.readline() for _ in range(3))
            port = int(re.search(r":(\d+)\n", told)[1])  # type: ignore[index]
            key = re.search(r"dbk_\S+", told)[0]  # type: ignore[index]
            samples = asyncio.run(run(port, key, server.pid, options))
        finally:
            server.terminate()
            server.wait()
    quarter = len(samples) // 4
    second, last = median(samples[quarter : 2 * quarter]), median(samples[3 * quarter :])
    print(f"memory: {second:.1f} MiB in the second quarter, {last:.1f} MiB in the last")
    sys.exit(last > GROWTH_ALLOWED * second)


if __name__ == "__main__":
    main()
