"""A log of a year: how long a start, a replay and an archive take, and in how much memory.

Writes a log of so many events into a new SQLite file, through the same fold that serves decisions,
so that it replays; its last snapshot is as old as one may be. Then a server is started on it and
killed, `verify` replays all of it, `log archive` moves the older nine tenths into Parquet files,
and `verify` replays both together. Every command is a process of its own, whose greatest memory
is printed.

    python benchmarks/year.py [--events 10000000] [--folder FOLDER] [--start-only]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from driftbandits import store
from driftbandits.service import snapshots
from driftbandits.service.offers import Offer
from driftbandits.store import DECISION, NewEvent, Session, Snapshot
from driftbandits.store.records import Rewarded, packed

POLICY, SNAPSHOT_EVERY, PAGE = "year", 20_000, 4000
DAY_NS = 86_400_000_000_000
ARMS = ("a", "b", "c")
PROGRAM = (sys.executable, "-m", "driftbandits")


def started(url: str) -> tuple[subprocess.Popen[str], str, float]:
    """A server, its address, and how long it took until it was ready."""
    began = time.perf_counter()
    server = subprocess.Popen(
        [*PROGRAM, "serve", "--no-auth", "--port", "0", "--store", url],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    address = re.search(r"http://\S+", server.stdout.readline())[0]  # type: ignore[index]
    while httpx.get(f"{address}/readyz").status_code != 200:
        time.sleep(0.02)
    return server, address, time.perf_counter() - began


def configured(url: str, name: str) -> None:
    server, address, _ = started(url)
    settings = {"name": name, "dim": 2} | ({"discount": 0.999} if name.startswith("D-") else {})
    httpx.put(f"{address}/v1/policies/{POLICY}", json=settings, timeout=300).raise_for_status()
    server.terminate()
    server.wait()


class Year:
    """A log that grows by pairs of a decision and its reward, spread over a year."""

    def __init__(self, session: Session, events: int) -> None:
        self.fold = snapshots.load(session, POLICY)
        self._step_ns = 365 * DAY_NS // events
        self._at_ns = time.time_ns() - 365 * DAY_NS
        self._rng = random.Random(7)
        generator = np.random.default_rng(7)
        self._offers = [
            Offer(ARMS, generator.uniform(-0.5, 0.5, (3, 2)), -1, "") for _ in range(256)
        ]

    def page(self, count: int) -> list[NewEvent]:
        made = []
        fold = self.fold
        for _ in range(count // 2):
            event_id = f"visit-{fold.seq}"
            self._at_ns += 2 * self._step_ns
            offer = self._offers[fold.seq % 256]
            record = fold.decide(event_id, offer, self._at_ns)
            made.append(NewEvent(DECISION, event_id, fold.at_ns, packed(record)))
            value = float(self._rng.random() < 0.3)
            kind = fold.reward(event_id, value, self._at_ns)
            made.append(NewEvent(kind, event_id, fold.at_ns, packed(Rewarded(value, ""))))
        return made


def rewind(session: Session, at_ns: int) -> None:
    """Let the log begin a year ago: time never goes back in it."""
    number = session.number(POLICY)
    (event,) = session.events(POLICY, after=0, limit=1)
    session.run("DELETE FROM event WHERE policy = ?", (number,))
    session.run("DELETE FROM snapshot WHERE policy = ?", (number,))
    session.run(
        "UPDATE policy SET head = 0, at_ns = 0, checksum = ? WHERE number = ?",
        (store.START, number),
    )
    session._rows.clear()
    session.append(POLICY, [NewEvent(event.kind, "", at_ns, event.body)])


def write(url: str, events: int) -> None:
    with store.open(url) as log:
        with log.write() as session:
            session.lock([POLICY])
            rewind(session, time.time_ns() - 366 * DAY_NS)
        with log.read() as session:
            year = Year(session, events)
        fold, last = year.fold, events - events % SNAPSHOT_EVERY - 1
        while fold.seq < events:
            made = year.page(min(PAGE, events - fold.seq + 1))
            with log.write() as session:
                session.lock([POLICY])
                fold.checksum = session.append(POLICY, made).checksum
                if fold.seq >= last > fold.seq - PAGE:
                    content = snapshots.packed(fold)
                    session.save_snapshot(Snapshot(POLICY, fold.seq, fold.at_ns, False, content))
            if fold.seq % (PAGE * 250) < PAGE:
                log.maintain()
                print(f"  {fold.seq:,} events written", flush=True)


def told(*arguments: str) -> tuple[float, float, str]:
    """Seconds, MiB at most, and what a command printed."""
    began = time.perf_counter()
    command = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    said = command.stdout.read()
    _, status, usage = os.wait4(command.pid, 0)
    assert status == 0, said
    return time.perf_counter() - began, usage.ru_maxrss / 1024, said.strip()


def size_of(path: Path) -> str:
    return f"{sum(f.stat().st_size for f in [path, *path.rglob('*')] if f.is_file()) / 1e6:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--policy", default="D-LinUCB")
    parser.add_argument("--folder", type=Path, help="instead of a temporary one")
    parser.add_argument("--start-only", action="store_true", help="no replays and no archive")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    file, archive = folder / "year.db", folder / "archive"
    url = f"sqlite:///{file}"
    try:
        configured(url, options.policy)
        began = time.perf_counter()
        write(url, options.events)
        spent = time.perf_counter() - began
        print(f"{options.events:,} events written in {spent:.0f} s, {size_of(file)}", flush=True)
        for _ in range(3):
            server, address, seconds = started(url)
            arms = [{"id": arm, "x": [0.1, 0.2]} for arm in ARMS]
            asked = time.perf_counter()
            answer = httpx.post(
                f"{address}/v1/policies/{POLICY}/decisions",
                json={"event_id": f"new-{time.time_ns()}", "arms": arms},
            )
            answer.raise_for_status()
            first_ms = (time.perf_counter() - asked) * 1e3
            print(f"start {seconds:.2f} s, first decision {first_ms:.0f} ms", flush=True)
            server.kill()
            server.wait()
        if options.start_only:
            return
        archived = ("--to", str(archive), "--before-days", "36.5")
        for what, arguments in (
            ("verify", ("verify", "--store", url)),
            ("log archive", ("log", "archive", "--store", url, "--policy", POLICY, *archived)),
            (
                "log archive, nothing new",
                ("log", "archive", "--store", url, "--policy", POLICY, *archived),
            ),
            ("verify of the store alone", ("verify", "--store", url)),
            ("verify of both", ("verify", "--store", url, "--archive", str(archive))),
        ):
            seconds, mib, said = told(*arguments)
            print(f"{what}: {seconds:.0f} s, {mib:.0f} MiB at most: {said}", flush=True)
        copy = folder / "copy.db"
        told("backup", "--store", url, "--to", f"sqlite:///{copy}")
        print(f"archive {size_of(archive)}; a backup of the store that is left {size_of(copy)}")
        _, _, seconds = started_and_killed(f"sqlite:///{copy}")
        print(f"start of that copy {seconds:.2f} s")
    finally:
        shutil.rmtree(folder)


def started_and_killed(url: str) -> tuple[subprocess.Popen[str], str, float]:
    server, address, seconds = started(url)
    server.kill()
    server.wait()
    return server, address, seconds


if __name__ == "__main__":
    main()
