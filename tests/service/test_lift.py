"""The policy beside its control over HTTP: compared with the log, from snapshots, by day."""

import numpy as np
import pytest
from calls import (
    NEWS,
    configure,
    decide,
    digest,
    events,
    ok,
    problem,
    reward,
    verified,
)

from driftbandits import store
from driftbandits.client import Client
from driftbandits.core.sequences import boundary
from driftbandits.service.state import State
from servers import Clock, Served, wait_until

DAY = 86_400


def lift(client):
    return ok(client.get(f"{NEWS}/lift"))


def run(client, count, *, first=0, value=None, clock=None, **more):
    """Decisions with their rewards: controls earn 1 in every fourth, the policy in every second."""
    for i in range(first, first + count):
        told = ok(decide(client, f"e{i}", i, baseline="stay", **more))
        earned = float(i % (4 if told.get("control") else 2) == 0) if value is None else value
        ok(reward(client, f"e{i}", earned))
        if clock is not None:
            clock.pass_seconds(1)


def by_definition(client, share):
    """The difference of both sides from the events alone."""
    found = events(client)
    sides = {e["event_id"]: bool(e.get("control")) for e in found if e["kind"] == "decision"}
    outcomes = [(sides[e["event_id"]], e["value"]) for e in found if e["kind"] == "reward"]
    a, b, v, past = [], [], [], ([], [])
    for is_control, value in outcomes:
        guesses = [(0.25 + sum(side)) / (1 + len(side)) for side in past]
        a.append(guesses[0] + (0.0 if is_control else (value - guesses[0]) / (1 - share)))
        b.append(guesses[1] + ((value - guesses[1]) / share if is_control else 0.0))
        v.append((a[-1] - guesses[0]) ** 2 + (b[-1] - guesses[1]) ** 2)
        past[is_control].append(value)
    half = boundary(sum(v), scale=1 / min(share, 1 - share), risk=0.025) / len(outcomes)
    return np.mean(a) - np.mean(b), half, [len(side) for side in past]


def test_the_lift_is_what_the_log_says(store_url):
    with Served(store_url) as service:
        client = service.client
        configure(client)
        assert lift(client) == {"policy": "news", "seq": 1, "lift": None, "days": []}
        assert "lift" not in ok(client.get(NEWS))
        configure(client, control=0.3)
        run(client, 300)
        told = lift(client)
        found = told["lift"]
        value, half, (of_policy, of_control) = by_definition(client, 0.3)
        assert found["difference"]["value"] == pytest.approx(value, rel=1e-9)
        assert found["difference"]["low"] == pytest.approx(max(value - half, -1), rel=1e-6)
        assert found["difference"]["high"] == pytest.approx(min(value + half, 1), rel=1e-6)
        assert (found["policy"]["rewards"], found["control"]["rewards"]) == (of_policy, of_control)
        assert (
            of_policy + of_control == found["policy"]["decisions"] + found["control"]["decisions"]
        )
        assert 50 < of_control < 130
        assert (found["method"], found["better"], found["pending"]) == ("bounded", "higher", 0)
        assert found["relative"]["value"] > 0
        assert ok(client.get(NEWS))["lift"] == found
        with Client(service.address) as caller:
            assert caller.lift("news").lift.difference.value == pytest.approx(value)
            assert len(caller.history("news").minutes) >= 1
        live = digest(client)
    with Served(store_url) as service:  # from the snapshot
        assert lift(service.client) == told
        assert digest(service.client) == live
        run(service.client, 20, first=300)
        value, _, _ = by_definition(service.client, 0.3)
        assert lift(service.client)["lift"]["difference"]["value"] == pytest.approx(value)
        live = digest(service.client)
    assert verified(store_url) == {"news": live}


def test_verify_finds_a_snapshot_whose_lift_is_another(store_url):
    with Served(store_url) as service:
        configure(service.client, control=0.5)
        run(service.client, 30)
    with store.open(store_url) as log, log.write() as session:
        session.lock(["news"])
        kept = session.snapshots("news")[0]
        state = State.from_bytes(kept.content)
        state.observers.lift.total.sums[0] += 1.0
        session.save_snapshot(kept._replace(content=state.to_bytes()))
    with pytest.raises(AssertionError, match="not what its log gives"):
        verified(store_url)


def test_with_a_wait_only_what_is_whole_counts(store_url):
    """Rewards of 1 come at once and those of 0 never: a default is learned for them."""
    clock = Clock()
    with Served(store_url, clock=clock) as service:
        client = service.client
        configure(client, control=0.5, reward_wait_s=600)
        ones = 0
        for i in range(60):
            ok(decide(client, f"e{i}", i))
            if i % 3 == 0:
                ones += 1
                ok(reward(client, f"e{i}", 1))
            clock.pass_seconds(10)
        told = lift(client)["lift"]
        assert told["policy"]["rewards"] + told["control"]["rewards"] == 0
        assert told["difference"] is None
        assert (told["pending"], told["until"] is None) == (60, False)
        clock.pass_seconds(660)
        ok(decide(client, "last"))
        wait_until(lambda: lift(client)["lift"]["pending"] == 1)  # defaults come in portions
        told = lift(client)["lift"]
        assert told["policy"]["rewards"] + told["control"]["rewards"] == 60
        mean = sum(
            told[side]["rewards"] / 60 * ok_mean(client, side) for side in ("policy", "control")
        )
        assert mean == pytest.approx(ones / 60)
        live = digest(client)
    with Served(store_url, clock=clock) as service:
        assert lift(service.client)["lift"] == told
    assert verified(store_url) == {"news": live}


def ok_mean(client, side):
    """The plain mean of a side from the log."""
    found = events(client)
    sides = {e["event_id"]: bool(e.get("control")) for e in found if e["kind"] == "decision"}
    values = [
        e["value"]
        for e in found
        if e["kind"] in ("reward", "default") and sides[e["event_id"]] == (side == "control")
    ]
    return float(np.mean(values))


def test_a_refused_reward_does_not_hold_up_the_others(service):
    client = service.client
    configure(client, control=0.5, reward_wait_s=300)
    for i in range(4):
        ok(decide(client, f"e{i}", i))
    problem(reward(client, "e2", 7), 422)
    problem(reward(client, "e3", 7), 422)
    ok(reward(client, "e3", 1))  # in time
    service.clock.pass_seconds(400)
    ok(decide(client, "later"))
    wait_until(lambda: lift(client)["lift"]["pending"] == 1)
    told = lift(client)["lift"]
    assert told["policy"]["rewards"] + told["control"]["rewards"] == 3
    assert told["unknown"] == 1
    assert ok(reward(client, "e2", 1))["status"] == "learned"
    told = lift(client)["lift"]
    assert (told["unknown"], told["pending"]) == (1, 1)


def test_days_have_intervals_of_their_own(service):
    client = service.client
    configure(client, control=0.5)
    for day, value in enumerate((0.0, 1.0)):
        run(client, 40, first=100 * day, value=value)
        service.clock.pass_seconds(DAY)
    days = lift(client)["days"]
    assert [day["day"] for day in days] == ["2023-11-14", "2023-11-15"]
    assert [day["policy"]["rewards"] + day["control"]["rewards"] for day in days] == [40, 40]
    for day in days:
        found = day["difference"]
        assert found["low"] <= 0.0 <= found["high"]
    for later in range(40):
        service.clock.pass_seconds(DAY)
        ok(decide(client, f"d{later}"))
        ok(reward(client, f"d{later}", 1))
    assert len(lift(client)["days"]) == 31


def test_it_begins_again_where_rewards_cannot_be_compared(client):
    configure(client, control=0.5)
    run(client, 20)
    ok(decide(client, "open"))
    began = lift(client)["lift"]["since_seq"]
    configure(client, control=0.5, epsilon=0.1)  # this does not matter
    assert lift(client)["lift"]["since_seq"] == began
    configure(client, control=0.2, epsilon=0.1)
    told = lift(client)["lift"]
    assert (told["share"], told["policy"]["decisions"], told["pending"]) == (0.2, 0, 0)
    ok(reward(client, "open", 1))
    assert lift(client)["lift"]["pending"] == 0
    run(client, 10, first=50)
    last = lift(client)["lift"]
    configure(client, epsilon=0.1)  # the control ends, and what was found stays
    ok(decide(client, "after"))
    assert lift(client)["lift"] == last


def test_units_are_told_apart_and_costs_are_better_when_lower(client):
    configure(client, name="LinUCB", discount=None, control=0.5, reward="cost:0..10")
    run(client, 30, value=2.0)
    assert lift(client)["lift"]["better"] == "lower"
    assert lift(client)["lift"]["method"] == "bounded"
    run(client, 4, first=30, value=2.0, unit="anna")
    told = lift(client)["lift"]
    assert told["method"] == "asymptotic"
    assert told["difference"]["low"] is None
    sides = {
        e["control"] for e in events(client, after=61) if e["kind"] == "decision" if "unit" in e
    }
    assert len(sides) == 1


def test_what_is_erased_or_told_is_on_no_side(client):
    configure(client, control=0.5)
    for i in range(4):
        ok(decide(client, f"e{i}", i))
    ok(client.post(f"{NEWS}/erasures", json={"event_ids": ["e0"]}))
    told = lift(client)["lift"]
    assert (told["unknown"], told["pending"]) == (1, 3)
    assert ok(decide(client, "own", played="left"))["caller_decided"]
    assert ok(reward(client, "own", 1))["status"] == "learned"
    shown = decide(client, "e1", 1, played="left")  # as the caller had shown it
    assert ok(shown)["caller_decided"]
    told = lift(client)["lift"]
    assert (told["unknown"], told["pending"]) == (2, 2)
    ok(reward(client, "e2", 1))
    told = lift(client)["lift"]
    assert (told["unknown"], told["pending"]) == (2, 1)


def test_what_the_agent_forgets_is_waited_for_nevertheless(store_url):
    """A window of two rounds: by the agent's memory hardly an outcome would ever be in time."""
    clock = Clock()
    with Served(store_url, clock=clock) as service:
        client = service.client
        short = {"name": "SW-GLUCB", "discount": None, "window": 2}
        configure(client, **short, control=0.5, reward_wait_s=300)
        for i in range(10):
            ok(decide(client, f"e{i}", i))
            clock.pass_seconds(1)
        assert ok(client.get(NEWS))["pending"] == 2
        assert ok(reward(client, "e0", 1))["status"] == "late"
        clock.pass_seconds(400)
        ok(decide(client, "later"))
        wait_until(lambda: lift(client)["lift"]["pending"] == 1)
        told = lift(client)["lift"]
        assert told["policy"]["rewards"] + told["control"]["rewards"] == 10
        assert told["unknown"] == 0
        first = ok(client.get(f"{NEWS}/history"))["minutes"]
        assert sum(m["rewards"] for m in first) == 10
        assert sum(m["reward_sum"] for m in first) == 1.0
        live = digest(client)
    with Served(store_url, clock=clock) as service:
        assert lift(service.client)["lift"] == told
    assert verified(store_url) == {"news": live}
