"""What is erased is gone, and what it taught stays."""

import json

import pytest
from calls import (
    NEWS,
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

from driftbandits import store
from servers import Clock, Served, wait_until

DAY = 86_400.0


def test_erasure_takes_a_persons_events_and_leaves_what_was_learned(store_url):
    with Served(store_url) as service:
        client = service.client
        configure(client)
        for i in range(6):
            ok(decide(client, f"ann:{i}", i))
            ok(decide(client, f"bob:{i}", i))
            if i < 4:
                ok(reward(client, f"ann:{i}", 1))
                ok(reward(client, f"bob:{i}", 0))
        ok(reward(client, "ann:0", 1))
        before = ok(client.get(NEWS))
        told = ok(client.post(f"{NEWS}/erasures", json={"prefix": "ann:"}))
        assert told == {"erased": 6 + 4 + 1}
        after = ok(client.get(NEWS))
        assert after["theta_hat"] == before["theta_hat"]
        assert after["pending"] == before["pending"] - 2
        assert problem(decide(client, "ann:0"), 410)["code"] == "erased"
        assert problem(reward(client, "ann:5", 1), 410)["code"] == "erased"
        assert ok(decide(client, "bob:0", 0))["event_id"] == "bob:0"
        listed = events(client)
        assert sum(event.get("erased", False) for event in listed) == 11
        assert "ann" not in json.dumps(listed)
        assert ok(client.post(f"{NEWS}/erasures", json={"prefix": "ann:"})) == {"erased": 0}
        play(client, 5, first=100)
        live = digest(client)
    assert verified(store_url) == {"news": live}
    with Served(store_url) as service:
        assert digest(service.client) == live
        assert problem(decide(service.client, "ann:0"), 410)
    with store.open(store_url) as log, log.read() as session:
        stored = list(session.all_events("news"))
        assert not any(b"ann:" in event.body or "ann:" in event.event_id for event in stored)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "$"),
        ({"older_than_days": -1}, "$.older_than_days"),
        ({"older_than_days": 1e308}, "$.older_than_days"),
        ({"prefix": ""}, "$.prefix"),
        ({"event_ids": ["a b"]}, "$.event_ids[0]"),
    ],
)
def test_bad_erasures_name_the_field(refusing, body, path):
    assert problem(refusing.post(f"{NEWS}/erasures", json=body), 422)["path"] == path


def test_retention_erases_what_is_old(tmp_path):
    clock = Clock()
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, clock=clock) as service:
        configure(service.client)
        play(service.client, 5)
        clock.pass_seconds(10 * DAY)
        play(service.client, 5, first=50)
        theta = ok(service.client.get(NEWS))["theta_hat"]
    with Served(url, clock=clock, retention_days=5) as service:
        wait_until(lambda: counts(service.client)["erased"])
        told = events(service.client)
        assert all(
            event.get("erased", False) == (event["at"] < "2023-11-20")
            for event in told
            if event["kind"] not in ("configured", "erased")
        )
        assert ok(service.client.get(NEWS))["theta_hat"] == theta
        live = digest(service.client)
    assert verified(url) == {"news": live}
