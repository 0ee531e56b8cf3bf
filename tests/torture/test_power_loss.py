"""Power fails at any moment, writes are torn, bits flip."""

import random
import shutil
from collections import Counter
from pathlib import Path

import apsw
import httpx
import msgspec
import pytest
from disk import Disk
from load import POLICY, asking, configure, digest, size_of_test

from driftbandits import store
from driftbandits.service.state import State
from driftbandits.service.transactions import load
from driftbandits.service.verifying import verify
from driftbandits.store.records import unpacked
from servers import Served

pytestmark = pytest.mark.compiled

LOSSES = size_of_test("POWER_LOSSES", short=60)
FLIPS = size_of_test("FLIPS", short=60)
EVENTS = size_of_test("EVENTS", short=60)


class Life:
    """A service that worked on a recorded disk, with the moment at which each answer came."""

    def __init__(self, folder: Path, name: str) -> None:
        self.disk = Disk(name)
        self.told: list[tuple[int, str, str, float]] = []
        url = f"sqlite:///{folder}/log.db"
        with Served(url, vfs=name, snapshot_every=20) as service:
            configure(service.address)
            with httpx.Client(base_url=service.address, timeout=300.0) as client:
                for i in range(EVENTS):
                    self._event(client, i)
                    if i % 17 == 16:
                        service.service.engine.store.maintain()
            self.digest = digest(service.address)
            with store.open(url) as log, log.read() as session:
                self.events = list(session.all_events("news"))
            self.files = {path.name: path.read_bytes() for path in folder.iterdir()}

    def _event(self, client: httpx.Client, i: int) -> None:
        answer = client.post(f"{POLICY}/decisions", json=asking(f"e{i}", i))
        assert answer.status_code == 200, answer.text
        self.told.append((self.disk.moment, "decision", f"e{i}", answer.json()["index"]))
        if i % 3:
            body = {"event_id": f"e{i - i % 2}", "value": 1.0}
            answer = client.post(f"{POLICY}/rewards", json=body)
            assert answer.status_code == 200, answer.text
            self.told.append((self.disk.moment, "reward", body["event_id"], 1.0))


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    return Life(tmp_path_factory.mktemp("life"), "recorded")


def events_of(log):
    with log.read() as session:
        return list(session.all_events("news")) if "news" in session.policies() else []


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9], ids=["dropped", "half", "torn"])
def test_power_loss_loses_nothing_acknowledged(life, tmp_path, kept, record_property):
    """Unsynced writes are dropped, some or all of them; one of those that are left is torn."""
    chance = random.Random(kept)
    last, lost_some = life.disk.moment, 0
    for i in range(LOSSES // 3):
        moment, folder = chance.randrange(last), tmp_path / str(i)
        life.disk.left_by_power_loss(moment, folder, chance=chance, kept=kept)
        with store.open(f"sqlite:///{folder}/log.db") as log:
            found = events_of(log)
            assert not any(verdict.faults for verdict in verify(log))
        assert found == life.events[: len(found)]
        lost_some += len(found) < len(life.events)
        values = {
            (event.kind, event.event_id): unpacked(event.kind, event.body)
            for event in found
            if event.kind in ("decision", "reward")
        }
        for at, kind, event_id, value in life.told:
            if at <= moment:
                record = values[kind, event_id]
                assert (record.index if kind == "decision" else record.value) == value
        shutil.rmtree(folder)
    assert lost_some > LOSSES // 6  # or nothing was tried
    record_property("moments", LOSSES // 3)


def test_the_disk_would_show_a_missing_sync(tmp_path):
    """The same loss of power takes a commit that was not synced."""
    disk = Disk("unsynced")
    connection = apsw.Connection(str(tmp_path / "log.db"), vfs="unsynced")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL; CREATE TABLE t (n)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("PRAGMA synchronous = NORMAL; INSERT INTO t VALUES (2)")
    disk.left_by_power_loss(disk.moment, tmp_path / "left", chance=random.Random(0), kept=0.0)
    connection.close()
    left = apsw.Connection(str(tmp_path / "left" / "log.db"))
    assert left.execute("SELECT n FROM t").fetchall() == [(1,)]
    left.close()


@pytest.fixture(scope="module")
def states(life):
    """The digest after each event: what a service may know."""
    state, digests = State("news"), {}
    for event in life.events:
        state.replay([event])
        digests[state.seq] = state.digest
    assert digests[len(life.events)] == life.digest
    return digests


@pytest.mark.parametrize("file", ["log.db", "log.db-wal"])
def test_flipped_bits_are_never_learned(life, states, tmp_path, file, record_property):
    """A flip is found, or it hit nothing that the log says. In the write-ahead log SQLite may take
    it for the end: what came after is gone, and what is left is a log."""
    chance, outcomes = random.Random(file), Counter()
    for i in range(FLIPS // 2):
        folder = tmp_path / str(i)
        folder.mkdir()
        for name in ("log.db", "log.db-wal"):
            (folder / name).write_bytes(life.files[name])
        flip(folder / file, chance)
        outcomes[outcome(life, states, f"sqlite:///{folder}/log.db")] += 1
        shutil.rmtree(folder)
    for name, count in sorted(outcomes.items()):
        record_property(f"{name} in {file}", count)
    assert outcomes["found"] + outcomes["shorter"] > 0
    if file == "log.db":
        assert outcomes["shorter"] == 0


def flip(path, chance):
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def outcome(life, states, url):
    try:
        with store.open(url) as log:
            learned(log, states)
            verdicts = verify(log)
            events = events_of(log)
    except store.StoreError:
        return "found"
    if any(verdict.faults for verdict in verdicts):
        return "found"
    assert events == life.events[: len(events)]
    return "harmless" if len(events) == len(life.events) else "shorter"


def learned(log, states):
    """What a service would serve from is a state that there was."""
    with log.read() as session:
        if "news" not in session.policies():
            return
        try:
            state = load(session, "news")
        except msgspec.DecodeError:
            return
    assert state.seq == 0 or state.digest == states[state.seq]
