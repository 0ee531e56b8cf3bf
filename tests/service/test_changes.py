"""A changed configuration keeps what was learned."""

import numpy as np
import pytest
from calls import (
    CONFIGURATION,
    NEWS,
    arms,
    configure,
    decide,
    digest,
    events,
    ok,
    play,
    problem,
    reward,
    verified,
)

import driftbandits as db
from driftbandits.service import relearning
from servers import Served, wait_until

# -- carried over --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.02},
        {"bonus_scale": 0.3, "delta": 0.2},
        {"seed": 99, "control": 0.25},
        {"mode": "apprentice", "reward_wait_s": 60, "default_reward": 0.5},
        {"too_long": "rescale", "projection": "none"},
    ],
)
def test_what_does_not_touch_the_estimate_carries_the_state_over(both, change):
    client = both.client
    play(client, 30)
    ok(decide(client, "open"))
    before = ok(client.get(NEWS))
    after = configure(client, **change)
    assert (after["version"], after["theta_hat"]) == (2, before["theta_hat"])
    assert (after["round"], after["pending"]) == (before["round"], before["pending"])
    said = after["configuration"]
    assert (said["how"], said["fresh"]) == ("carried", False)
    assert said["learned_from"] == before["counts"]["rewards"]
    assert ok(reward(client, "open", 1))["status"] == "learned"
    play(client, 10, first=40) if "mode" not in change else None


def test_fresh_starts_from_nothing_once(client):
    play(client, 20)
    ok(decide(client, "open"))
    begun = configure(client, fresh=True)
    assert (begun["version"], begun["round"], begun["theta_hat"]) == (2, 0, [0.0, 0.0])
    assert (begun["configuration"]["how"], begun["configuration"]["learned_from"]) == ("fresh", 0)
    assert configure(client, fresh=True)["version"] == 2  # sent again, as a client does
    assert ok(reward(client, "open", 1))["status"] == "late"


# -- learned again from the log ------------------------------------------------------------------


def changed(client, policy=NEWS):
    """Wait until a change that is learned again has taken over."""
    wait_until(lambda: "change" not in ok(client.get(policy)))
    return ok(client.get(policy))


def witness(events, **arguments):
    """The definition: an agent with those arguments that lives through the log."""
    agent = db.Agent(db.policy(**{**ARGUMENTS, **arguments}), seed=3)
    numbers = {}
    for event in events:
        if event["kind"] == "decision":
            actions = [arm["x"] for arm in event["arms"]]
            decision = agent.decide(actions, played=event["index"])
            numbers[event["event_id"]] = decision.id
        elif event["kind"] in ("reward", "default", "late") and event["event_id"] in numbers:
            agent.update(numbers.pop(event["event_id"]), event["value"])
    return agent


ARGUMENTS = {key: value for key, value in CONFIGURATION.items() if key != "seed"}


@pytest.mark.parametrize("change", [{"discount": 0.8}, {"lam": 3.0}, {"link": "identity"}])
def test_what_touches_the_estimate_is_learned_again(both, change):
    client = both.client
    play(client, 40)
    ok(decide(client, "open"))
    configure(client, **change)
    after = changed(client)
    said = after["configuration"]
    assert (after["version"], said["how"], said["fresh"]) == (2, "relearned", False)
    agent = witness(events(client), **change)
    np.testing.assert_allclose(after["theta_hat"], agent.theta_hat, rtol=1e-9)
    assert after["round"] == agent.issued
    assert said["learned_from"] == after["counts"]["rewards"]
    assert ok(reward(client, "open", 1))["status"] == "learned"  # of version 1, by version 2
    play(client, 10, first=50)
    agent = witness(events(client), **change)
    np.testing.assert_allclose(ok(client.get(NEWS))["theta_hat"], agent.theta_hat, rtol=1e-9)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "SW-GLUCB", "dim": 2, "window": 30, "seed": 3},
        {"name": "D-GLUCB", "dim": 2, "half_life_s": 60, "seed": 3},
    ],
)
def test_another_policy_learns_from_the_log_of_the_first(both, body):
    play(both.client, 40)
    ok(both.client.put(NEWS, json=body))
    said = changed(both.client)["configuration"]
    assert (said["arguments"]["name"], said["how"]) == (body["name"], "relearned")
    assert said["learned_from"] > 0
    play(both.client, 5, first=40)


def test_decisions_of_a_version_that_is_gone_are_learned_by_a_longer_memory(both):
    """What a fresh start had let go of is in the log, and its rewards too."""
    client = both.client
    play(client, 8)
    ok(decide(client, "old"))
    ok(decide(client, "older"))
    configure(client, fresh=True)
    assert ok(reward(client, "old", 1))["status"] == "late"
    ok(decide(client, "new"))
    configure(client, lam=2.0)
    after = changed(client)
    agent = witness(events(client), lam=2.0)
    np.testing.assert_allclose(after["theta_hat"], agent.theta_hat, rtol=1e-9)
    assert ok(reward(client, "older", 1))["status"] == "learned"
    assert reward(client, "old", 0).status_code == 409  # has one


def test_what_was_frozen_stays_so(both):
    client = both.client
    play(client, 10)
    configure(client, mode="frozen")
    ok(decide(client, "frozen"))
    ok(reward(client, "frozen", 1))
    learned = ok(client.get(NEWS))["counts"]["rewards"] - 1
    configure(client, lam=2.0)
    after = changed(client)
    assert (after["configuration"]["learned_from"], after["configuration"]["mode"]) == (
        learned,
        "online",
    )


def test_a_configuration_that_can_read_nothing_is_refused(client):
    play(client, 10)
    before = digest(client)
    body = {"name": "D-GLUCB", "dim": 3, "discount": 0.9}
    told = problem(client.put(NEWS, json=body), 422)
    assert told["path"] == "$.fresh"
    assert '"fresh": true' in told["message"]
    told = problem(client.put(NEWS, json={**body, "dry_run": True}), 422)
    assert digest(client) == before
    begun = ok(client.put(NEWS, json={**body, "fresh": True}))
    assert (begun["version"], begun["configuration"]["how"]) == (2, "fresh")


def test_a_feature_that_is_new_or_gone_is_learned_again(both):
    client, shop = both.client, "/v1/policies/shop"
    features = {"context": {"age": "number", "country": "category"}, "arm": {"price": "log"}}
    ok(client.put(shop, json={"name": "auto", "features": features, "seed": 1}))
    for i in range(20):
        body = {
            "event_id": f"v{i}",
            "context": {"age": 20 + i, "country": f"c{i % 3}"},
            "arms": [{"id": "a", "features": {"price": 5}}, {"id": "b", "features": {"price": 50}}],
        }
        ok(client.post(f"{shop}/decisions", json=body))
        ok(reward(client, f"v{i}", i % 2, shop))
    fewer = {"context": {"age": "number", "hour": "cycle:24"}, "arm": {"price": "log"}}
    ok(client.put(shop, json={"name": "auto", "features": fewer}))
    after = changed(client, shop)
    assert after["configuration"]["learned_from"] == 20
    assert not any("country" in name for name in after["names"])


def test_what_can_be_read_in_part_is_learned_in_part(both):
    client = both.client
    long = [{"id": "a", "x": [0.9, 0.2]}, {"id": "b", "x": [0.1, 0.1]}]
    for i in range(10):
        body = {"event_id": f"l{i}", "arms": long if i < 4 else arms(i)}
        ok(client.post(f"{NEWS}/decisions", json=body))
        ok(reward(client, f"l{i}", 1))
    configure(client, L=0.9)
    after = changed(client)
    assert after["configuration"]["learned_from"] == 6


def test_a_dry_run_says_what_would_happen_and_changes_nothing(client):
    play(client, 10)
    before = digest(client)

    def told(**change):
        return configure(client, dry_run=True, **change)["change"]

    assert (told()["how"], told()["version"]) == ("none", 1)
    assert (told(epsilon=0.1)["how"], told(epsilon=0.1)["version"]) == ("carried", 2)
    again = told(lam=2.0, discount=0.5)
    assert (again["how"], again["arguments"]) == ("relearned", ["discount", "lam"])
    assert told(lam=2.0, fresh=True)["how"] == "fresh"
    assert digest(client) == before
    body = {**CONFIGURATION, "dry_run": True}
    assert problem(client.put("/v1/policies/other", json=body), 404)["code"] == "unknown_policy"


def test_versions_are_brought_back(both):
    client = both.client
    play(client, 20)
    first = ok(client.get(NEWS))["theta_hat"]
    configure(client, lam=3.0, epsilon=0.5)
    changed(client)
    told = ok(client.post(f"{NEWS}/versions/1:restore", json={"dry_run": True}))
    assert (told["version"], told["change"]["how"]) == (2, "relearned")
    ok(client.post(f"{NEWS}/versions/1:restore", json={}))
    after = changed(client)
    assert after["version"] == 3
    assert after["configuration"]["arguments"]["epsilon"] == 0.2
    np.testing.assert_allclose(after["theta_hat"], first, rtol=1e-9)
    assert problem(client.post(f"{NEWS}/versions/9:restore", json={}), 404)["code"] == (
        "unknown_version"
    )
    assert problem(client.post(f"{NEWS}/versions/x:restore", json={}), 422)["path"] == "version"


# -- frozen meanwhile ----------------------------------------------------------------------------


@pytest.fixture
def slowly(monkeypatch):
    """What is learned again takes an event each fifth of a second, until this is called."""
    monkeypatch.setattr(relearning, "_PORTION_S", 0.0)
    monkeypatch.setattr(relearning, "_PAUSE_S", 0.2)
    return monkeypatch.undo


def begin_change(client, **change):
    answer = client.put(NEWS, json={**CONFIGURATION, **change})
    assert answer.status_code == 202, answer.text
    return answer.json()["change"]


def test_a_change_waits_while_the_policy_is_frozen(store_url, slowly):
    with Served(store_url) as service:
        client = service.client
        configure(client)
        play(client, 60)
        assert "held" not in begin_change(client, lam=2.0)
        frozen = ok(client.post(f"{NEWS}:freeze"))
        assert (frozen["version"], frozen["configuration"]["mode"]) == (2, "frozen")
        assert frozen["change"]["held"] is True
        assert ok(client.post(f"{NEWS}:freeze"))["version"] == 2
        slowly()
        learned = frozen["configuration"]["learned_from"]
        wait_until(lambda: ok(client.get(NEWS))["change"]["learned_from"] == learned)
        ok(decide(client, "meanwhile"))
        assert ok(reward(client, "meanwhile", 1)) == {"status": "recorded"}
        still = ok(client.get(NEWS))
        assert (still["version"], still["theta_hat"]) == (2, frozen["theta_hat"])
    with Served(store_url) as service:
        client = service.client
        assert ok(client.get(NEWS))["change"]["held"] is True
        ok(client.post(f"{NEWS}:thaw"))
        after = changed(client)
        assert (after["version"], after["configuration"]["mode"]) == (4, "online")
        assert after["configuration"]["arguments"]["lam"] == 2.0
        unfrozen = [event for event in events(client) if event.get("event_id") != "meanwhile"]
        agent = witness(unfrozen, lam=2.0)
        np.testing.assert_allclose(after["theta_hat"], agent.theta_hat, rtol=1e-9)
        assert [v["how"] for v in ok(client.get(f"{NEWS}/versions"))["versions"]] == [
            "fresh",
            "carried",
            "carried",
            "relearned",
        ]
        play(client, 5, first=100)
        assert verified(store_url)["news"] == digest(client)


def test_a_change_that_waits_can_be_called_off_or_replaced(both, slowly):
    client = both.client
    play(client, 60)
    begin_change(client, lam=2.0)
    ok(client.post(f"{NEWS}:freeze"))
    assert begin_change(client, lam=2.0)["held"] is True, "the same request again"
    assert configure(client, mode="frozen").get("change") is None, "what is there: called off"
    begin_change(client, lam=3.0)  # asked for while it is frozen, and says that it shall be online
    assert "held" not in ok(client.get(NEWS))["change"]
    held = ok(client.post(f"{NEWS}:freeze"))
    assert (held["version"], held["change"]["held"]) == (3, True)
    slowly()
    ok(client.post(f"{NEWS}:thaw"))
    after = changed(client)
    assert (after["version"], after["configuration"]["arguments"]["lam"]) == (5, 3.0)


def test_what_is_asked_for_while_frozen_takes_over(both):
    """A configuration is the last word, and it says `online` unless it says otherwise."""
    client = both.client
    play(client, 20)
    ok(client.post(f"{NEWS}:freeze"))
    configure(client, lam=2.0)
    after = changed(client)
    assert (after["version"], after["configuration"]["mode"]) == (3, "online")
