"""Rewards in the caller's units over HTTP: clipped and counted, or refused and still awaited."""

import pytest
from calls import (
    CONFIGURATION,
    NEWS,
    arms,
    configure,
    counts,
    decide,
    digest,
    events,
    ok,
    problem,
    reward,
    verified,
)

import driftbandits as db
from servers import Clock, Served


def learn_what_is_due(client, clock, seconds):
    clock.pass_seconds(seconds)
    ok(decide(client, f"later-{clock.now_ns}"))


def test_a_refused_reward_never_becomes_a_default(store_url):
    clock = Clock()
    with Served(store_url, clock=clock) as service:
        client = service.client
        configure(client, reward_wait_s=5)
        for event_id in ("e1", "e2", "e3"):
            ok(decide(client, event_id))
        assert problem(reward(client, "e2", 7), 422)["path"] == "$.value"
        assert problem(reward(client, "e2", 1e300), 422)["path"] == "$.value"
        learn_what_is_due(client, clock, 60)
        defaults = [event["event_id"] for event in events(client) if event["kind"] == "default"]
        assert defaults == ["e1", "e3"]
        assert (counts(client)["refused"], ok(client.get(NEWS))["pending"]) == (1, 2)
    with Served(store_url, clock=clock) as service:  # from the snapshot
        client = service.client
        learn_what_is_due(client, clock, 1)
        assert ok(reward(client, "e2", 1))["status"] == "learned"
        assert problem(reward(client, "e2", 1e300), 422)["path"] == "$.value"
        live = digest(client)
    assert verified(store_url) == {"news": live}


def test_rewards_are_clipped_and_counted(client):
    settings = {"name": "SW-LinUCB", "discount": None, "window": 50, "epsilon": 0.0}
    configure(client, **settings, reward="rating:1..5")
    agent = db.Agent(db.policy("SW-LinUCB", dim=2, window=50, reward="rating:1..5"), seed=3)
    agent.warns = False
    for i, value in enumerate([9, 3, -4, 5, 1]):
        answer = ok(decide(client, f"e{i}", i))
        choice = agent.decide([arm["x"] for arm in arms(i)])
        assert answer["scores"] == choice.scores.tolist()
        agent.update(choice, value)
        learned = ok(reward(client, f"e{i}", value))
        assert learned["status"] == "learned"
        assert learned.get("clipped", False) == (value in (9, -4))
    assert counts(client)["clipped"] == agent.clipped == 2
    assert ok(reward(client, "e0", 9))["status"] == "duplicate"
    assert reward(client, "e0", 5).status_code == 409
    explained = ok(client.get(f"{NEWS}/explanations"))["decisions"][0]
    assert [arm["mean"] for arm in explained["arms"]] == choice.means.tolist()
    metrics = client.get("/metrics").text
    assert 'driftbandits_rewards_clipped_total{policy="news"} 2.0' in metrics
    assert 'kind="clipped"' not in metrics
    configuration = ok(client.get(NEWS))["configuration"]["arguments"]
    assert (configuration["reward"], configuration["outside"]) == ("rating:1..5", "clip")


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"reward": "stars:1..5"}, "$.reward"),
        ({"reward": "amount"}, "$.reward"),
        ({"reward": "click", "link": "identity"}, "$.link"),
        ({"outside": "clip"}, "$.outside"),
        ({"reward": "click", "outside": "drop"}, "$.outside"),
        ({"reward": "rating:1..5", "reward_wait_s": 5}, "$.default_reward"),
        ({"name": "auto"}, "$.discount"),
    ],
)
def test_a_bad_reward_of_a_configuration_names_the_field(refusing, settings, path):
    answer = refusing.put(NEWS, json={**CONFIGURATION, **settings})
    assert problem(answer, 422)["path"] == path


def test_what_an_unbounded_amount_may_be(client):
    own = "/v1/policies/own"
    ok(client.put(own, json={"name": "auto", "dim": 2, "reward": "cost", "outside": "refuse"}))
    for i, value in enumerate([-70.5, 1e9, 12]):
        ok(decide(client, f"e{i}", i, policy=own))
        assert ok(reward(client, f"e{i}", value, policy=own))["status"] == "learned"
    ok(decide(client, "e9", policy=own))
    assert "[-1e+09, 1e+09]" in problem(reward(client, "e9", 2e9, policy=own), 422)["message"]
