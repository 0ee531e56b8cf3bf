"""What only reads: it waits for no lock, and sees everything that was acknowledged before."""

import time

import apsw
from calls import NEWS, configure, counts, decide, ok, play, reward

from servers import Served

PATHS = (
    "/v1/policies",
    NEWS,
    f"{NEWS}/versions",
    f"{NEWS}/history",
    f"{NEWS}/digest",
    f"{NEWS}/explanations",
    f"{NEWS}/events",
)


def test_reading_takes_no_lock(tmp_path):
    """Another process writes for as long as it likes; who asks what is known gets an answer."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        play(service.client, 5)
        before = [ok(service.client.get(path)) for path in PATHS]
        holder = apsw.Connection(f"{tmp_path}/log.db")
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert [ok(service.client.get(path)) for path in PATHS] == before
        assert time.monotonic() - began < 4.0  # or it would have waited for the lock
        holder.execute("ROLLBACK")
        holder.close()


def test_the_list_is_of_one_moment(tmp_path):
    """One transaction, however many policies there are."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        for i in range(5):
            configure(service.client, f"/v1/policies/p{i}")
        log, used = service.service.engine.store, []
        read = log.read

        def counted():
            used.append("read")
            return read()

        log.read = log.read_at_once = counted
        log.write = log.write_at_once = None
        assert len(ok(service.client.get("/v1/policies"))["policies"]) == 5
        assert used == ["read"]
        del log.read, log.read_at_once, log.write, log.write_at_once


def test_a_reader_sees_what_was_answered_elsewhere(store_url):
    with Served(store_url) as one, Served(store_url) as two:
        configure(one.client)
        for i in range(10):
            ok(decide(one.client, f"e{i}", i))
            assert counts(two.client)["decisions"] == i + 1
            ok(reward(two.client, f"e{i}", 1))
            assert counts(one.client)["rewards"] == i + 1
            (listed,) = ok(one.client.get("/v1/policies"))["policies"]
            assert listed["counts"] == counts(two.client)
