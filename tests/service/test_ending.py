"""How a service ends: what has come is answered, and what was learned is kept."""

import signal
import threading
import time

import apsw
import httpx
import pytest
from calls import configure, decide, digest, ok, play, verified

from driftbandits import store
from driftbandits.service import Settings
from driftbandits.service.server import Server
from servers import Process, Served


def test_who_waits_while_it_ends_is_answered(tmp_path):
    path, answers = tmp_path / "log.db", []
    with Served(f"sqlite:///{path}") as service:
        configure(service.client)
        holder = apsw.Connection(str(path))
        holder.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=lambda: answers.append(decide(service.client, "e1")))
        waiting.start()
        while not service.service.engine.waiting and not service.service.engine._at_work:
            time.sleep(0.01)
        service.server.stop()
        time.sleep(0.5)
        holder.execute("ROLLBACK")
        holder.close()
        waiting.join(20.0)
        service.join()
    (answer,) = answers
    assert ok(answer)["event_id"] == "e1"
    assert answer.headers["connection"] == "close"
    assert service.code == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_a_signal_ends_it_with_a_snapshot(tmp_path, number, code):
    url = f"sqlite:///{tmp_path}/log.db"
    process = Process(url, "--no-auth")
    with httpx.Client(base_url=process.address, timeout=30.0) as client:
        configure(client)
        play(client, 5)
        live = digest(client)
        process.send_signal(number)
        assert process.wait() == code
    assert verified(url) == {"news": live}
    with store.open(url) as log, log.read() as session:
        (snapshot,) = session.snapshots("news")
        assert snapshot.seq == session.head("news").seq


def test_it_ends_although_the_store_never_came(tmp_path):
    """A signal must end a service that still waits for its disk."""
    made = Server(Settings(f"sqlite:///{tmp_path}/log.db", with_keys=False))

    def away():
        raise store.StoreUnavailable("the disk is away")

    made.service.engine._open_store = away
    running = threading.Thread(target=made.run)
    running.start()
    time.sleep(0.3)
    made.stop()
    running.join(10.0)
    assert not running.is_alive()
