"""A writer that dies, disks that fail or are slow, snapshots that are damaged."""

import functools
import time

import pytest
from calls import configure, decide, digest, ok, play, problem, reward

from driftbandits import store
from driftbandits.service.transactions import load
from servers import Served


@pytest.mark.parametrize("in_loop", [True, False])
def test_a_writer_that_dies_takes_the_process_with_it(tmp_path, in_loop):
    """Nobody is left hanging: requests fail, readiness flips, the server ends with an error."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        service.service.engine.store.write = functools.partial(die, in_loop)
        assert decide(service.client, "e1").status_code == 503
        service.join()
        assert service.code == 1


def die(in_loop, *, at_once=False):
    if at_once and not in_loop:
        raise store.StoreBusy("it has to be waited for")
    raise SystemExit("the writer is told to die")


def test_a_slow_disk_is_left_to_the_thread(service):
    """The loop has to answer others; it tries again after a while."""
    log, used = service.service.engine.store, []
    write = log.write

    def slowly(*, at_once=False):
        used.append("loop" if at_once else "thread")
        time.sleep(0.06 * at_once)
        return write(at_once=at_once)

    log.write = slowly
    for i in range(4):
        ok(decide(service.client, f"e{i}"))
    assert used == ["loop", "loop", "thread", "thread"]
    time.sleep(1.1)
    ok(decide(service.client, "later"))
    assert used[4:] == ["loop"]


def test_a_disk_that_fails_and_comes_back(service):
    client = service.client
    play(client, 5)
    before = digest(client)
    log = service.service.engine.store
    real = log.write

    def fails(*, at_once=False):
        raise store.StoreUnavailable("disk full")

    log.write = fails
    refused = decide(client, "new")
    assert problem(refused, 503)["code"] == "storage_unavailable"
    assert "retry-after" in refused.headers
    assert digest(client) == before
    log.write = real
    ok(decide(client, "new"))


def test_a_commit_that_fails_is_as_if_nothing_happened(service):
    """The fold had moved on; it is made again from the log."""
    client = service.client
    play(client, 5)
    before = digest(client)
    log = service.service.engine.store
    connection = log._write_connection()
    connection.set_commit_hook(lambda: True)  # rolls every commit back
    assert decide(client, "new").status_code >= 500
    assert reward(client, "e4", 1).status_code >= 500
    connection.set_commit_hook(None)
    assert digest(client) == before
    first = ok(decide(client, "new"))
    assert ok(decide(client, "new")) == first


@pytest.mark.parametrize("damage", ["flipped", "truncated", "other format", "empty"])
def test_a_bad_snapshot_falls_back(tmp_path, damage):
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, snapshot_every=20) as service:
        configure(service.client)
        play(service.client, 60)
        live = digest(service.client)
    with store.open(url) as log:
        for bad in (1, 2):
            with log.write() as session:
                kept = session.snapshots("news")
                assert len(kept) == 2
                content = bytearray(kept[bad - 1].content)
                content[len(content) // 2] ^= 1
                altered = {
                    "flipped": bytes(content),
                    "truncated": bytes(content[:-7]),
                    "other format": b"driftbandits-state-9\n" + bytes(content[21:]),
                    "empty": b"",
                }[damage]
                session.save_snapshot(kept[bad - 1]._replace(content=altered))
            with log.read() as session:
                assert load(session, "news").digest == live
    with Served(url) as service:
        assert digest(service.client) == live
