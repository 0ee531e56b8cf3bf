"""Several processes over one store."""

import random
import subprocess
import sys

import pytest
from calls import NEWS, arms, configure, counts, decide, digest, ok, reward, verified

import driftbandits as db
from driftbandits import store
from driftbandits.service import Settings, app, engine
from driftbandits.store import StoreError
from servers import Clock, Served, wait_until

MODES = ("online", "frozen")


def test_two_services_are_one(postgres_server):
    """Decided here, rewarded there; both hold the same state, as one alone would."""
    url = postgres_server.new_database()
    with Served(url) as one, Served(url) as two:
        configure(one.client)
        for i in range(20):
            ok(decide((one, two)[i % 2].client, f"e{i}", i))
            ok(reward((two, one)[i % 2].client, f"e{i}", i % 2))
        assert ok(decide(two.client, "e0")) == ok(decide(one.client, "e0"))
        assert digest(one.client) == digest(two.client)
        agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95, epsilon=0.2), seed=3)
        for i in range(20):
            agent.update(agent.decide([arm["x"] for arm in arms(i)]), i % 2)
        assert ok(two.client.get(NEWS))["theta_hat"] == agent.theta_hat.tolist()
        ok(one.client.post(f"{NEWS}/erasures", json={"event_ids": ["e3"]}))
        ok(decide(two.client, "e99"))
        assert digest(one.client) == digest(two.client)


def test_whatever_comes_two_services_and_a_replay_agree(postgres_server):
    """Requests of every kind in a random order, at either service, and a clock that wanders."""
    rng, clock, url = random.Random(8), Clock(), postgres_server.new_database()
    waits = {"reward_wait_s": 30, "default_reward": 0.5}
    with (
        Served(url, clock=clock, snapshot_every=40) as one,
        Served(url, clock=clock) as two,
    ):
        configure(one.client, **waits)

        def erase(client):
            body = {"event_ids": [f"e{rng.randrange(40)}"]}
            ok(client.post(f"{NEWS}/erasures", json=body))

        steps = (
            (0.45, lambda client: decide(client, f"e{rng.randrange(40)}", rng.randrange(2))),
            (0.37, lambda client: reward(client, f"e{rng.randrange(40)}", rng.choice((0, 1)))),
            (0.03, lambda client: configure(client, mode=rng.choice(MODES), **waits)),
            (0.01, lambda client: configure(client, discount=rng.choice((0.9, 0.8)), **waits)),
            (0.06, erase),
            (0.10, lambda client: clock.pass_seconds(rng.choice((1, 40, -20)))),
        )
        for step in rng.choices([s for _, s in steps], [weight for weight, _ in steps], k=150):
            step(rng.choice((one, two)).client)
        live = digest(one.client)
        assert digest(two.client) == live
        assert sum(counts(one.client).values()) > 80
    assert verified(url) == {"news": live}


def test_what_falls_due_is_learned_when_its_process_is_gone(shared_url, monkeypatch):
    """By another one that has never served the policy, and is not asked."""
    monkeypatch.setattr(engine, "_MAINTENANCE_EVERY_S", 0.05)
    clock = Clock()
    with Served(shared_url, clock=clock), store.open(shared_url) as log:
        with Served(shared_url, clock=clock) as other:
            configure(other.client, reward_wait_s=30, default_reward=0.5)
            ok(decide(other.client, "e1"))

        def kinds():
            with log.read() as session:
                return [event.kind for event in session.events("news")]

        assert kinds() == ["configured", "decision"]
        clock.pass_seconds(60)
        wait_until(lambda: kinds() == ["configured", "decision", "default"])
    verified(shared_url)


def test_a_file_is_served_by_one_process(tmp_path):
    """A second one is refused in words; when the first has ended another one may begin."""
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url) as one:
        with pytest.raises(StoreError, match=r"another process serves .* use PostgreSQL"):
            app(Settings(url, with_keys=False))
        second = [sys.executable, "-m", "driftbandits", "serve", "--store", url, "--port", "0"]
        ended = subprocess.run(second, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 1
        assert "another process serves" in ended.stderr
        ok(one.client.get("/healthz"))
    with Served(url) as another:
        ok(another.client.get("/healthz"))
