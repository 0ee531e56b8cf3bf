"""The last day by the minute of the decision, whenever rewards and defaults come."""

from calls import NEWS, configure, decide, digest, events, ok, reward, verified

import driftbandits as db
from driftbandits.service.observers import MOST_ARMS, OTHERS, History
from servers import Clock, Served, wait_until

MINUTE = 60


def minutes(client, **query):
    told = ok(client.get(f"{NEWS}/history", params=query))["minutes"]
    return [
        (m["decisions"], m["rewards"], m["reward_sum"], m["pending"])
        for m in told
        if m["decisions"] or not query
    ]


def test_rewards_count_in_the_minute_of_their_decision(store_url):
    clock = Clock()
    with Served(store_url, clock=clock) as service:
        client = service.client
        configure(client, reward_wait_s=600)
        for event_id in ("e1", "e2", "e3"):
            ok(decide(client, event_id))
        clock.pass_seconds(5 * MINUTE)
        ok(decide(client, "e4"))
        assert minutes(client) == [(3, 0, 0.0, 3), (1, 0, 0.0, 1)]
        ok(reward(client, "e1", 1))
        assert minutes(client) == [(3, 1, 1.0, 2), (1, 0, 0.0, 1)]
        clock.pass_seconds(6 * MINUTE)  # and e2 and e3 get their defaults
        ok(decide(client, "e5"))
        wait_until(lambda: ok(client.get(NEWS))["counts"]["defaults"] == 2)  # in portions
        assert minutes(client) == [(3, 3, 1.0, 0), (1, 0, 0.0, 1), (1, 0, 0.0, 1)]
        assert ok(reward(client, "e2", 1))["status"] == "late"
        assert minutes(client)[0] == (3, 3, 1.0, 0)
        before = ok(client.get(f"{NEWS}/history"))
        live = digest(client)
    with Served(store_url, clock=clock) as service:  # from the snapshot
        assert ok(service.client.get(f"{NEWS}/history")) == before
        ok(reward(service.client, "e4", 1))
        assert minutes(service.client)[1] == (1, 1, 1.0, 0)
        assert digest(service.client) != live
    assert verified(store_url)


def test_what_has_changed_can_be_asked_for(service):
    client = service.client
    for i in range(4):
        ok(decide(client, f"e{i}"))
        service.clock.pass_seconds(MINUTE)
    seen = ok(client.get(f"{NEWS}/history"))
    assert len(seen["minutes"]) == 4
    ok(reward(client, "e1", 1))
    changed = ok(client.get(f"{NEWS}/history", params={"since": seen["seq"]}))
    assert [m["at"] for m in changed["minutes"] if m["decisions"]] == [seen["minutes"][1]["at"]]
    assert changed["seq"] == seen["seq"] + 1
    again = ok(client.get(f"{NEWS}/history", params={"since": changed["seq"]}))
    assert (again["minutes"], again["arms"]) == ([], [])


def test_open_decisions_that_are_given_up_are_no_longer_pending(client):
    window = {"name": "SW-GLUCB", "discount": None, "window": 2}
    configure(client, **window)
    for i in range(6):
        ok(decide(client, f"e{i}"))
    assert minutes(client) == [(6, 0, 0.0, ok(client.get(NEWS))["pending"])]
    open_ids = [f"e{i}" for i in range(6)]
    ok(client.post(f"{NEWS}/erasures", json={"event_ids": open_ids}))
    assert minutes(client) == [(6, 0, 0.0, 0)]


def test_clipped_rewards_are_shown_as_they_are_learned(client):
    configure(client, name="LinUCB", discount=None, reward="rating:1..5")
    ok(decide(client, "e1"))
    ok(reward(client, "e1", 9))
    assert minutes(client)[0][2] == 5.0


def test_arms_are_counted_over_the_day(store_url):
    clock = Clock()
    with Served(store_url, clock=clock) as service:
        client = service.client
        configure(client)
        played = {}
        for i in range(30):
            arm = ok(decide(client, f"e{i}", i))["arm"]
            played[arm] = played.get(arm, 0) + 1
            clock.pass_seconds(3 * MINUTE)
        for i in range(30):
            ok(reward(client, f"e{i}", 1))
        told = ok(client.get(f"{NEWS}/history"))["arms"]
        assert {part["minutes"] for part in told} == {1, 20}
        assert [part["at"] for part in told] == sorted(part["at"] for part in told)
        for arm, count in played.items():
            rows = [part["arms"][arm] for part in told if arm in part["arms"]]
            assert sum(row["decisions"] for row in rows) == count
            assert sum(row["rewards"] for row in rows) == count
            assert sum(row["reward_sum"] for row in rows) == count
        clock.pass_seconds(25 * 60 * MINUTE)
        ok(decide(client, "last"))
        assert len(ok(client.get(f"{NEWS}/history"))["arms"]) == 1
    with Served(store_url, clock=clock) as service:
        assert len(ok(service.client.get(f"{NEWS}/history"))["arms"]) == 1
        assert len(events(service.client)) == 62


def test_arms_that_are_played_least_are_put_together():
    history = History()
    history.turn_to(0, 1, db.Agent(db.policy("LinUCB", dim=2)))
    for i in range(500):
        history.count_decision(0, f"often-{i % 3}")
        history.count_decision(0, f"once-{i}")
        history.count_reward(0, f"once-{i // 2}", 1.0)
    part = history.fine[0]
    assert len(part) == MOST_ARMS + 1
    assert sum(row.decisions for row in part.values()) == 1000
    assert sum(row.rewards for row in part.values()) == 500
    assert sum(part[f"often-{i}"].decisions for i in range(3)) == 500
    assert part[OTHERS].decisions == 500 - (MOST_ARMS - 3)


def test_an_erasure_takes_the_names_of_arms_out_of_its_minutes_alone(store_url):
    clock = Clock()
    with Served(store_url, clock=clock) as service:
        client = service.client
        configure(client)
        for i in range(3):
            ok(decide(client, f"e{i}"))
            ok(reward(client, f"e{i}", 1))
            clock.pass_seconds(MINUTE)
        ok(client.post(f"{NEWS}/erasures", json={"event_ids": ["e1"]}))
        told = ok(client.get(f"{NEWS}/history"))["arms"]
        assert [bool(part["arms"]) for part in told] == [True, False, True]
        assert told[1]["others"] == {"decisions": 1, "rewards": 1, "reward_sum": 1.0}
        before = digest(client)
    with Served(store_url, clock=clock) as service:
        assert ok(service.client.get(f"{NEWS}/history"))["arms"] == told
        assert digest(service.client) == before
    verified(store_url)
