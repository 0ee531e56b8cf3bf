"""Decisions that were never shown, and policies that are frozen in one call."""

import pytest
from calls import (
    NEWS,
    arms,
    configure,
    counts,
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
from driftbandits.client import Client
from servers import Served


def withdraw(client, event_id):
    return client.post(f"{NEWS}/withdrawals", json={"event_id": event_id})


def test_a_decision_that_was_never_shown_is_taken_back(store_url):
    with Served(store_url, snapshot_every=7) as service:
        client = service.client
        configure(client, mode="online", epsilon=0)
        agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95), seed=3)
        for i in range(10):
            choice = agent.decide([arm["x"] for arm in arms(i)])
            ok(decide(client, f"e{i}", i))
            if i % 2:
                agent.withdraw(choice)
                assert ok(withdraw(client, f"e{i}")) == {"status": "withdrawn"}
                assert ok(withdraw(client, f"e{i}")) == {"status": "duplicate"}
                assert "withdrawn" in problem(reward(client, f"e{i}", 1), 409)["message"]
            else:
                agent.update(choice, 1)
                ok(reward(client, f"e{i}", 1))
                assert problem(withdraw(client, f"e{i}"), 409)["code"] == "conflict"
        told = ok(client.get(NEWS))
        assert told["theta_hat"] == agent.theta_hat.tolist()
        assert (told["pending"], told["counts"]["withdrawn"]) == (0, 5)
        explained = ok(client.get(f"{NEWS}/explanations/e1"))["decision"]
        assert (explained["outcome"]["kind"], explained["outcome"]["value"]) == ("withdrawn", None)
        assert [e["event_id"] for e in events(client) if e["kind"] == "withdrawn"] == [
            f"e{i}" for i in (1, 3, 5, 7, 9)
        ]
        assert client.get(f"{NEWS}/events", params={"format": "parquet"}).status_code == 200
        now = digest(client)
    assert verified(store_url) == {"news": now}


def test_no_default_is_learned_for_what_was_withdrawn(service):
    client = service.client
    configure(client, reward_wait_s=60)
    for event_id in ("shown", "never"):
        ok(decide(client, event_id))
    ok(withdraw(client, "never"))
    service.clock.pass_seconds(61)
    ok(decide(client, "other"))
    told = counts(client)
    assert (told["withdrawn"], told["defaults"]) == (1, 1)


def test_a_withdrawal_gives_back_what_it_took_out(client):
    configure(client, budget=0.5, bonus_scale=0.1)
    for i in range(20):
        ok(decide(client, f"e{i}", i, baseline="stay"))
    played = {e["event_id"]: e["arm"] for e in events(client) if e["kind"] == "decision"}
    beside = next(id for id, arm in played.items() if arm != "stay")
    before = ok(client.get(NEWS))["accounts"]["balance"]
    price = ok(client.get(f"{NEWS}/explanations/{beside}"))["decision"]["arms"][2]["score"]
    ok(withdraw(client, beside))
    after = ok(client.get(NEWS))["accounts"]["balance"]
    assert after - before == pytest.approx(min(max(price, 0.0), 1.0))


def test_places_of_a_list_are_withdrawn_one_by_one(client):
    ok(decide(client, "list", n=3))
    assert ok(withdraw(client, "list/2")) == {"status": "withdrawn"}
    assert ok(reward(client, "list", 1)) == {"status": "learned"}
    assert ok(client.get(NEWS))["pending"] == 1


def test_withdrawing_what_is_not_there(client):
    assert problem(withdraw(client, "nothing"), 404)["code"] == "unknown_decision"
    ok(decide(client, "e0"))
    ok(client.post(f"{NEWS}/erasures", json={"event_ids": ["e0"]}))
    assert withdraw(client, "e0").status_code == 410


@pytest.mark.parametrize("mode", ["online", "apprentice"])
def test_frozen_and_thawed_in_one_call(service, mode):
    client = service.client
    play(client, 10)
    configure(client, mode=mode, control=0.2, shares={"left": [0, 0.9]})
    before = ok(client.get(NEWS))
    frozen = ok(client.post(f"{NEWS}:freeze"))
    assert ok(client.post(f"{NEWS}:freeze")) == frozen, "it is as it was"
    configuration = frozen["configuration"]
    assert (configuration["mode"], configuration["fresh"], frozen["version"]) == (
        "frozen",
        False,
        before["version"] + 1,
    )
    assert (configuration["control"], configuration["shares"]) == (0.2, {"left": [0, 0.9]})
    ok(decide(client, "f"))
    assert ok(reward(client, "f", 1)) == {"status": "recorded"}
    with Client(service.address) as typed:
        assert typed.policy("news").theta_hat == before["theta_hat"]
        assert typed.thaw("news").configuration.mode == mode
        assert typed.thaw("news").version == before["version"] + 2
        typed.decide("news", arms(), event_id="t", baseline="left")
        assert typed.withdraw("news", "t").status == "withdrawn"
    assert client.post("/v1/policies/none:freeze").status_code == 404
    assert client.post(f"{NEWS}:melt").status_code == 404
