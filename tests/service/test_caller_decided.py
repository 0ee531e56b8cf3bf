"""Decisions that a caller has made by itself, because no answer came in time."""

import pytest
from calls import NEWS, configure, counts, decide, digest, events, ok, problem, reward, verified

from driftbandits import store
from driftbandits.evaluate import read_log, read_stored
from servers import Served


def shown(client):
    """What the log says was shown, the last word counts: arm, by whom, propensity."""
    made = [e for e in events(client) if e["kind"] in ("decision", "corrected")]
    return {
        e["event_id"]: (e["arm"], e.get("caller_decided", False), e["propensity"]) for e in made
    }


def other_than(arm):
    return next(name for name in ("left", "right", "stay") if name != arm)


def test_what_was_played_is_recorded_as_such_and_learned_from(both):
    client = both.client
    answer = ok(decide(client, "e1", played="stay"))
    assert (answer["arm"], answer["index"], answer["caller_decided"]) == ("stay", 2, True)
    assert answer["propensity"] == 1.0
    drawn = ok(decide(client, "e2", played="left", propensity=0.25))
    assert drawn["propensity"] == 0.25
    assert shown(client) == {"e1": ("stay", True, 1.0), "e2": ("left", True, 0.25)}

    before = ok(client.get(NEWS))["theta_hat"]
    assert ok(reward(client, "e1", 1)) == {"status": "learned"}
    learned = ok(client.get(NEWS))["theta_hat"]
    assert learned != before
    # Features of "stay" and a reward of 1: the mean of just this arm has gone up.
    assert learned[0] * -0.3 + learned[1] * 0.4 > before[0] * -0.3 + before[1] * 0.4
    assert counts(client)["caller_decided"] == 2
    explained = ok(client.get(f"{NEWS}/explanations/e1"))["decision"]
    assert (explained["index"], explained["caller_decided"]) == (2, True)


def test_the_same_told_again_and_the_request_that_was_on_its_way_give_the_same(both):
    client = both.client
    told = ok(decide(client, "e1", played="stay"))
    assert ok(decide(client, "e1", played="stay")) == told
    assert ok(decide(client, "e1")) == told  # it had waited in some buffer
    assert problem(decide(client, "e1", played="left"), 409)["code"] == "conflict"
    assert problem(decide(client, "e1", played="stay", propensity=0.5), 409)
    assert problem(decide(client, "e1", 3, played="stay"), 409)  # other arms
    assert shown(client) == {"e1": ("stay", True, 1.0)}
    assert counts(client)["decisions"] == 1


def test_what_was_decided_as_well_is_corrected_to_what_was_shown(both):
    client = both.client
    decided = ok(decide(client, "e1"))
    shown_arm = other_than(decided["arm"])
    corrected = ok(decide(client, "e1", played=shown_arm))
    assert (corrected["arm"], corrected["caller_decided"]) == (shown_arm, True)
    assert ok(decide(client, "e1", played=shown_arm)) == corrected
    assert ok(decide(client, "e1")) == corrected
    state = ok(client.get(NEWS))
    assert state["pending"] == 1
    assert (state["counts"]["decisions"], state["counts"]["corrected"]) == (1, 1)
    assert [e["kind"] for e in events(client)[1:3]] == ["decision", "corrected"]
    assert ok(reward(client, "e1", 1)) == {"status": "learned"}
    assert ok(reward(client, "e1", 1)) == {"status": "duplicate"}
    assert shown(client) == {"e1": (shown_arm, True, 1.0)}
    (one,) = ok(client.get(f"{NEWS}/explanations"))["decisions"]
    assert one["arms"][one["index"]]["id"] == shown_arm
    assert one["outcome"]["value"] == 1


def test_a_correction_learns_what_a_told_decision_would_have(tmp_path):
    """Beside a service that knew at once: only the round of the withdrawn decision is between."""
    states = []
    for corrects in (False, True):
        with Served(f"sqlite:///{tmp_path}/{corrects}.db") as service:
            configure(service.client, name="LinUCB", discount=None, epsilon=0.0)
            if corrects:
                arm = ok(decide(service.client, "e1"))["arm"]
            told = other_than(arm) if corrects else None
            if not corrects:
                arm = ok(decide(service.client, "other"))["arm"]
                told = other_than(arm)
            ok(decide(service.client, "e1", played=told))
            ok(reward(service.client, "e1", 1))
            states.append(ok(service.client.get(NEWS))["theta_hat"])
    assert states[0] == states[1]


def test_what_was_learned_already_stays_and_the_log_knows_better(both):
    client = both.client
    decided = ok(decide(client, "e1"))
    ok(reward(client, "e1", 1))
    before = ok(client.get(NEWS))["theta_hat"]
    shown_arm = other_than(decided["arm"])
    assert ok(decide(client, "e1", played=shown_arm))["arm"] == shown_arm
    state = ok(client.get(NEWS))
    assert (state["theta_hat"], state["pending"]) == (before, 0)
    assert shown(client) == {"e1": (shown_arm, True, 1.0)}
    assert ok(client.get(f"{NEWS}/explanations/e1"))["decision"]["index"] != decided["index"]


def test_logs_that_are_evaluated_have_what_was_shown(both, tmp_path):
    client = both.client
    first = ok(decide(client, "e1"))
    ok(decide(client, "e2"))
    shown_arm = other_than(first["arm"])
    ok(decide(client, "e1", played=shown_arm, propensity=0.5))
    ok(reward(client, "e1", 1))
    path = tmp_path / "events.parquet"
    path.write_bytes(client.get(f"{NEWS}/events", params={"format": "parquet"}).content)
    with store.open(both.url) as log, log.read() as session:
        stored = read_stored(session, "news")
    for read in (stored, read_log(path)):
        row = next(row for row in read if row.event_id == "e1")
        assert row.arm_ids[row.chosen] == shown_arm
        assert (row.propensity, row.reward) == (0.5, 1.0)
        assert len(list(read)) == 2


@pytest.mark.parametrize("mode", ["apprentice", "frozen"])
def test_other_modes_take_it_too(both, mode):
    client = both.client
    configure(client, mode=mode)
    assert ok(decide(client, "e1", played="right"))["arm"] == "right"
    decided = ok(decide(client, "e2", baseline="left"))
    told = other_than(decided["arm"])
    assert ok(decide(client, "e2", baseline="left", played=told))["arm"] == told
    kept = {"apprentice": "learned", "frozen": "recorded"}[mode]
    assert ok(reward(client, "e1", 1)) == {"status": kept}
    assert ok(reward(client, "e2", 0)) == {"status": kept}


def test_a_default_is_waited_for_from_the_correction_on(both):
    client, clock = both.client, both.clock
    configure(client, reward_wait_s=10.0)
    arm = ok(decide(client, "e1"))["arm"]
    clock.pass_seconds(8)
    ok(decide(client, "e1", played=other_than(arm)))
    clock.pass_seconds(8)
    assert ok(decide(client, "e2"))
    assert counts(client)["defaults"] == 0
    clock.pass_seconds(3)
    ok(decide(client, "e3"))
    assert counts(client)["defaults"] == 1


def test_corrections_can_be_erased(both):
    client = both.client
    arm = ok(decide(client, "e1"))["arm"]
    ok(decide(client, "e1", played=other_than(arm)))
    assert ok(client.post(f"{NEWS}/erasures", json={"event_ids": ["e1"]})) == {"erased": 2}
    assert problem(decide(client, "e1", played=arm), 410)
    assert ok(client.get(NEWS))["pending"] == 0


def test_a_batch_may_tell_some_and_ask_for_others(both):
    from calls import arms

    body = {
        "decisions": [
            {"event_id": "e1", "arms": arms()},
            {"event_id": "e1", "arms": arms(), "played": "stay"},
            {"event_id": "e2", "arms": arms(), "played": "left"},
            {"event_id": "e2", "arms": arms(), "played": "right"},
        ]
    }
    results = ok(both.client.post(f"{NEWS}/decisions:batch", json=body))["results"]
    assert [one["status"] for one in results] == [200, 200, 200, 409]
    assert {id: arm for id, (arm, _, _) in shown(both.client).items()} == {
        "e1": "stay",
        "e2": "left",
    }


def test_what_was_shown_counts_when_columns_are_gone(both):
    """The request has a column that the policy had when it decided, and has not any more."""
    features = {"arm": {"k": "category", "p": "number"}}
    body = {
        "event_id": "e1",
        "arms": [
            {"id": "a", "features": {"k": "x", "p": 1.0}},
            {"id": "b", "features": {"k": "y", "p": 2.0}},
        ],
    }
    client = both.client
    ok(client.put(NEWS, json={"name": "auto", "features": features, "reward": "click"}))
    decided = ok(client.post(f"{NEWS}/decisions", json=body))
    other = "b" if decided["arm"] == "a" else "a"
    without = {"name": "auto", "features": {"arm": {"k": "category"}}, "reward": "click"}
    ok(client.put(NEWS, json=without))
    told = {**body, "played": other}
    first = ok(client.post(f"{NEWS}/decisions", json=told))
    assert (first["arm"], first["caller_decided"]) == (other, True)
    assert ok(client.post(f"{NEWS}/decisions", json=told)) == first
    assert ok(reward(client, "e1", 1)) == {"status": "learned"}
    log = events(client)
    (corrected,) = [event for event in log if event["kind"] == "corrected"]
    assert corrected["arms"][0]["features"] == {"k": "x", "p": 1.0}
    explained = ok(client.get(f"{NEWS}/explanations/e1"))["decision"]
    assert explained["arms"][explained["index"]]["id"] == other


def test_refusals_name_the_field(refusing):
    for more, path in (
        ({"played": "nobody"}, "$.played"),
        ({"played": "left", "n": 2}, "$.n"),
        ({"propensity": 0.5}, "$.propensity"),
        ({"played": "left", "propensity": 0.0}, "$.propensity"),
        ({"played": "left", "propensity": 1.5}, "$.propensity"),
    ):
        assert problem(decide(refusing, "e1", **more), 422)["path"] == path


def test_two_processes_agree_on_a_correction(postgres_server):
    url = postgres_server.new_database()
    with Served(url) as one, Served(url) as other:
        configure(one.client)
        arm = ok(decide(one.client, "e1"))["arm"]
        told = other_than(arm)
        assert ok(decide(other.client, "e1", played=told))["arm"] == told
        assert ok(decide(one.client, "e1"))["arm"] == told
        assert ok(reward(one.client, "e1", 1)) == {"status": "learned"}
        assert digest(one.client) == digest(other.client)
    verified(url)
