"""Rewards that come late, defaults, clocks that jump, and forgetting by the clock."""

import time

import pytest
from calls import NEWS, arms, configure, decide, events, ok, reward

import driftbandits as db

DAY = 86_400.0


def test_a_default_is_learned_without_anybody_asking(service):
    configure(service.client, reward_wait_s=5, default_reward=0.5)
    ok(decide(service.client, "e1"))
    service.clock.pass_seconds(4.9)
    time.sleep(0.5)
    assert ok(service.client.get(NEWS))["pending"] == 1
    service.clock.pass_seconds(0.1)
    deadline = time.monotonic() + 20
    while ok(service.client.get(NEWS))["pending"] and time.monotonic() < deadline:
        time.sleep(0.05)
    last = events(service.client)[-1]
    assert (last["kind"], last["event_id"], last["value"]) == ("default", "e1", 0.5)


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_clock_that_jumps(service, jump):
    client = service.client
    configure(client, discount=None, half_life_s=3600, reward_wait_s=7 * DAY)
    for i in range(6):
        ok(decide(client, f"e{i}", i))
        service.clock.pass_seconds(jump if i == 2 else 1)
    for i in range(6):
        assert ok(reward(client, f"e{i}", 1))["status"] == "learned"
    times = [event["at"] for event in events(client)]
    assert times == sorted(times)


def test_forgetting_by_the_servers_clock(service):
    """A row's weight halves in half_life_s, however many decisions there were."""
    client = service.client
    configure(client, discount=None, half_life_s=100, epsilon=0)
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.5 ** (1 / 1000)), seed=3, clock="ticks")
    for i in range(8):
        answer = ok(decide(client, f"e{i}", i))
        choice = agent.decide([arm["x"] for arm in arms(i)])
        assert answer["scores"] == choice.scores.tolist()
        service.clock.pass_seconds(50)
        ok(reward(client, f"e{i}", 1))
        agent.tick(500)
        agent.update(choice, 1)
    told = ok(client.get(NEWS))
    assert told["theta_hat"] == agent.theta_hat.tolist()
    weights = [0.5 ** ((k + 1) / 2) for k in range(8)]
    expected = sum(weights) ** 2 / sum(w * w for w in weights)
    assert told["effective_sample_size"] == pytest.approx(expected, rel=1e-12)


def test_a_window_in_seconds(service):
    client = service.client
    configure(client, name="SW-GLUCB", discount=None, window_s=10)
    for i in range(30):
        ok(decide(client, f"e{i}", i))
        ok(reward(client, f"e{i}", 1))
        service.clock.pass_seconds(1)
    ok(decide(client, "pending"))
    assert ok(client.get(NEWS))["effective_sample_size"] == 9  # those of age 1 to 9 s
    service.clock.pass_seconds(10.1)
    assert ok(reward(client, "pending", 1))["status"] == "late"
