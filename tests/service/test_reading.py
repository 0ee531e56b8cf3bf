"""What only reads: it waits for no lock, and sees everything that was acknowledged before."""

import time

import apsw
import numpy as np
from calls import NEWS, arms, configure, counts, decide, digest, ok, play, reward, verified

import driftbandits as db
from driftbandits.client import Client, Hypothesis
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

        def counted(**how):
            used.append("read")
            return read(**how)

        log.read, log.write = counted, None
        assert len(ok(service.client.get("/v1/policies"))["policies"]) == 5
        assert used == ["read"]
        del log.read, log.write


def test_a_reader_sees_what_was_answered_elsewhere(shared_url):
    with Served(shared_url) as one, Served(shared_url) as two:
        configure(one.client)
        for i in range(10):
            ok(decide(one.client, f"e{i}", i))
            assert counts(two.client)["decisions"] == i + 1
            ok(reward(two.client, f"e{i}", 1))
            assert counts(one.client)["rewards"] == i + 1
            (listed,) = ok(one.client.get("/v1/policies"))["policies"]
            assert listed["counts"] == counts(two.client)


def test_what_is_believed_is_told_and_changes_nothing(tmp_path):
    agent = db.Agent(db.policy("auto", dim=2, epsilon=0.2), seed=3)
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url) as service:
        configure(service.client, name="auto", discount=None)
        assert "beliefs" not in ok(service.client.get(NEWS))
        for i in range(40):
            ok(decide(service.client, f"e{i}", i))
            choice = agent.decide(np.array([arm["x"] for arm in arms(i)]))
            if i % 4:
                agent.update(choice, i % 2)
                ok(reward(service.client, f"e{i}", i % 2))
        before = digest(service.client)
        with Client(service.address) as client:
            told = client.policy("news").beliefs
        assert told == [Hypothesis(*one) for one in agent.beliefs]
        assert {one.path for one in told} == {"constant", "wandering", "turning"}
        assert digest(service.client) == before
        configure(service.client, name="LinUCB")
        assert "beliefs" not in ok(service.client.get(NEWS))
        live = digest(service.client)
    assert verified(url) == {"news": live}
