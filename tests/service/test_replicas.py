"""Several processes over one store."""

import random

from calls import NEWS, arms, configure, counts, decide, digest, ok, reward, verified

import driftbandits as db
from servers import Clock, Served

MODES = ("online", "frozen")


def test_two_services_are_one(store_url):
    """Decided here, rewarded there; both hold the same state, as one alone would."""
    with Served(store_url) as one, Served(store_url) as two:
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


def test_whatever_comes_two_services_and_a_replay_agree(store_url):
    """Requests of every kind in a random order, at either service, and a clock that wanders."""
    rng, clock = random.Random(8), Clock()
    waits = {"reward_wait_s": 30, "default_reward": 0.5}
    with (
        Served(store_url, clock=clock, snapshot_every=40) as one,
        Served(store_url, clock=clock) as two,
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
    assert verified(store_url) == {"news": live}
