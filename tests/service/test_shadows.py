"""Shadows: configurations that decide beside the one that is played, and take over in one call."""

import numpy as np
import pytest
from calls import (
    CONFIGURATION,
    NEWS,
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
from driftbandits import store
from driftbandits.client import Client
from driftbandits.service.relearning import Agreement, Follower
from servers import Served, wait_until

BOLD = {"name": "LinUCB", "dim": 2, "bonus_scale": 0.3}
SHADOW = f"{NEWS}/shadows/bold"


def caught_up(client, name="bold"):
    """The shadow, when it has come to the end of the log."""

    def found():
        listed = ok(client.get(f"{NEWS}/shadows"))["shadows"]
        return next(shadow for shadow in listed if shadow["name"] == name)

    wait_until(lambda: found()["seq"] == found()["of"])
    return found()


def witness(client, seed, **arguments):
    """By the definition: what the shadow would have played, and what it has learned."""
    agent = db.Agent(db.policy(**arguments), seed=seed)
    numbers, waiting, agreed, compared = {}, {}, 0, []
    for event in [one for one in events(client) if not one.get("erased")]:
        if event["kind"] == "decision":
            actions = [arm["x"] for arm in event["arms"]]
            choice = agent.decide(actions, played=event["index"])
            numbers[event["event_id"]] = choice.id
            agrees = choice.index == event["index"]
            agreed += agrees
            weight, m = agrees / event["propensity"], choice.means
            waiting[event["event_id"]] = weight, m[event["index"]], m[choice.index]
        elif event["kind"] == "reward" and event["event_id"] in numbers:
            agent.update(numbers.pop(event["event_id"]), event["value"])
            compared.append((*waiting.pop(event["event_id"]), event["value"]))
    return agent, agreed, np.array(compared)


def test_a_shadow_is_compared_with_what_was_played(both):
    client = both.client
    play(client, 20)
    before = ok(client.get(NEWS))
    assert client.put(SHADOW, json=BOLD).status_code == 201
    assert client.put(SHADOW, json=BOLD).status_code == 200  # it is there
    play(client, 30, first=20)
    shadow = caught_up(client)
    _, agreed, compared = witness(client, shadow["seed"], **BOLD)
    weights, of_played, of_own, rewards = compared.T
    modelled = of_own + weights * (rewards - of_played)
    assert shadow["value"]["value"] == pytest.approx(modelled.mean(), rel=1e-6)
    assert shadow["difference"]["value"] == pytest.approx((modelled - rewards).mean(), rel=1e-5)
    assert (shadow["decisions"], shadow["agreed"]) == (50, agreed)
    assert (shadow["rounds"], shadow["learned_from"]) == (len(compared), len(compared))
    assert shadow["value"]["low"] is None  # too few rounds for an interval
    assert shadow["played_value"] == pytest.approx(rewards.mean())
    assert shadow["effective_rounds"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    after = ok(client.get(NEWS))
    assert (after["version"], after["configuration"]) == (1, before["configuration"])


def test_a_model_narrows_the_interval_and_cannot_mislead():
    """Costs around 30 and 20: the truth is met by a model that knows nothing, and by a good one."""
    rng, truth = np.random.default_rng(5), np.array([30.0, 20.0, 26.0])
    laws = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.6, 0.3])  # of what is played, of the shadow
    found = {}
    for model, means in {"nothing": 0 * truth, "wrong": truth[::-1] - 9, "good": truth + 1}.items():
        seen = Agreement()
        for i in range(8000):
            played, own = rng.choice(3, p=laws[0]), rng.choice(3, p=laws[1])
            seen.note_decision(
                str(i),
                agrees=bool(played == own),
                propensity=float(laws[0][played]),
                expected=(float(means[played]), float(means[own])),
            )
            seen.note_reward(str(i), float(truth[played] + rng.normal()))
        found[model] = seen
        value = seen.value()
        assert value.low < laws[1] @ truth < value.high
        value = seen.difference()
        assert value.low < (laws[1] - laws[0]) @ truth < value.high
        assert seen.waiting == {}
    width = {model: span(one.value()) for model, one in found.items()}
    assert width["good"] < 0.25 * width["nothing"]


def span(interval):
    return interval.high - interval.low


def test_costs_are_modelled_as_they_are_reported(both):
    client = both.client
    paying = {"reward": "cost:0..50"}
    configure(client, **paying)
    for i in range(60):
        ok(decide(client, f"e{i}", i))
        ok(reward(client, f"e{i}", 30.0))
    ok(client.put(SHADOW, json={**CONFIGURATION, **paying, "seed": 77}))
    told = caught_up(client)
    assert told["played_value"] == 30.0
    assert told["value"]["value"] == pytest.approx(30.0, abs=6.0)


def test_a_round_of_which_the_model_expects_nothing_counts_by_its_reward():
    seen = Agreement()
    seen.note_decision("new", agrees=True, propensity=0.5, expected=(float("nan"), 1.0))
    seen.note_reward("new", 1.0)
    assert (seen.rounds, seen.value().value) == (1, 2.0)


def test_promotion_is_one_call_and_loses_nothing(both):
    client = both.client
    play(client, 20)
    ok(decide(client, "open"))
    ok(client.put(SHADOW, json=BOLD))
    play(client, 10, first=20)
    promoted = ok(client.post(f"{SHADOW}:promote"))
    said = promoted["configuration"]
    assert (promoted["version"], said["how"], said["arguments"]["name"]) == (
        2,
        "relearned",
        "LinUCB",
    )
    agent, _, compared = witness(client, said["seed"], **BOLD)
    np.testing.assert_allclose(promoted["theta_hat"], agent.theta_hat, rtol=1e-9)
    assert said["learned_from"] == len(compared)
    assert ok(client.get(f"{NEWS}/shadows"))["shadows"] == []
    assert ok(reward(client, "open", 1))["status"] == "learned"
    play(client, 10, first=40)


def test_a_promotion_whose_answer_was_lost_is_sent_again(store_url):
    with Served(store_url) as service:
        client = service.client
        configure(client)
        play(client, 20)
        ok(client.put(f"{NEWS}/shadows/bold", json=BOLD))
        first = ok(client.post(f"{NEWS}/shadows/bold:promote"))
        assert ok(client.post(f"{NEWS}/shadows/bold:promote")) == first
        ok(client.post(f"{NEWS}:freeze"))  # still what was promoted
        assert ok(client.post(f"{NEWS}/shadows/bold:promote"))["version"] == 3
        assert problem(client.post(f"{NEWS}/shadows/shy:promote"), 404)["code"] == "unknown_shadow"
    for _ in range(2):  # from the snapshot; and from the log alone
        with Served(store_url) as service:
            client = service.client
            told = ok(client.post(f"{NEWS}/shadows/bold:promote"))
            assert (told["version"], told["configuration"]["arguments"]["name"]) == (3, "LinUCB")
        with store.open(store_url) as log, log.write() as session:
            session.drop_snapshots("news", before=2**62)
    with Served(store_url) as service:
        client = service.client
        configure(client, fresh=True)  # something else is played
        assert problem(client.post(f"{NEWS}/shadows/bold:promote"), 404)["code"] == "unknown_shadow"
        ok(decide(client, "e100"))
        ok(client.put(f"{NEWS}/shadows/bold", json={**BOLD, "lam": 2.0}))
        told = ok(client.post(f"{NEWS}/shadows/bold:promote"))  # one that came later by that name
        assert told["configuration"]["arguments"]["lam"] == 2.0


def test_shadows_come_and_go(both):
    client = both.client
    play(client, 5)
    for name in ("a", "b", "c", "d"):
        ok(client.put(f"{NEWS}/shadows/{name}", json=BOLD))
    assert problem(client.put(SHADOW, json=BOLD), 409)["code"] == "too_many_shadows"
    left = ok(client.delete(f"{NEWS}/shadows/b"))["shadows"]
    assert [shadow["name"] for shadow in left] == ["a", "c", "d"]
    assert problem(client.delete(f"{NEWS}/shadows/b"), 404)["code"] == "unknown_shadow"
    assert problem(client.post(f"{NEWS}/shadows/b:promote"), 404)["code"] == "unknown_shadow"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({**BOLD, "seed": CONFIGURATION["seed"]}, "$.seed"),
        ({**BOLD, "dim": 3}, "$.fresh"),
        ({**BOLD, "lam": -1}, "$.lam"),
    ],
)
def test_what_cannot_be_a_shadow_is_refused(both, body, path):
    play(both.client, 3)
    assert problem(both.client.put(SHADOW, json=body), 422)["path"] == path
    assert ok(both.client.get(f"{NEWS}/shadows"))["shadows"] == []


def test_a_log_without_chances_tells_no_value(both):
    """Where one arm was played for certain, nobody knows what another would have earned."""
    client, policy = both.client, "/v1/policies/sure"
    ok(client.put(policy, json={**CONFIGURATION, "epsilon": 0.0}))
    for i in range(5):
        ok(decide(client, f"e{i}", i, policy))
        ok(reward(client, f"e{i}", 1, policy))
    ok(client.put(f"{policy}/shadows/bold", json=BOLD))

    def shadow():
        return ok(client.get(f"{policy}/shadows"))["shadows"][0]

    wait_until(lambda: shadow()["seq"] == shadow()["of"])
    assert (shadow()["decisions"], shadow()["rounds"], shadow()["value"]) == (5, 0, None)


def test_shadows_survive_a_restart_and_an_erasure(store_url):
    with Served(store_url) as service:
        configure(service.client)
        play(service.client, 30)
        ok(service.client.put(SHADOW, json=BOLD))
        told, before = caught_up(service.client), digest(service.client)
    assert verified(store_url)["news"] == before  # what was kept of it is looked at too
    with Served(store_url) as service:
        assert (caught_up(service.client), digest(service.client)) == (told, before)
        ok(service.client.post(f"{NEWS}/erasures", json={"prefix": "e1"}))
        left = caught_up(service.client)
        assert left["decisions"] < told["decisions"]
        agent, agreed, _ = witness(service.client, left["seed"], **BOLD)
        assert (left["decisions"], left["agreed"]) == (agent.issued, agreed)
        before = digest(service.client)
    assert verified(store_url)["news"] == before


def test_a_change_after_an_erasure_is_learned_from_what_is_left(store_url):
    with Served(store_url) as service:
        client = service.client
        configure(client)
        play(client, 30)
        ok(client.post(f"{NEWS}/erasures", json={"prefix": "e1"}))
        configure(client, lam=2.0)
        wait_until(lambda: ok(client.get(NEWS))["version"] == 2)
        given = {key: value for key, value in CONFIGURATION.items() if key != "seed"}
        agent, _, _ = witness(client, 3, **{**given, "lam": 2.0})
        np.testing.assert_allclose(ok(client.get(NEWS))["theta_hat"], agent.theta_hat, rtol=1e-9)
        play(client, 5, first=30)
        ok(client.post(f"{NEWS}/erasures", json={"prefix": "e2"}))  # more of what it learned from
        play(client, 5, first=40)
        before = digest(client)
        assert verified(store_url)["news"] == before
    with Served(store_url) as service:
        assert digest(service.client) == before


# -- retired policies ----------------------------------------------------------------------------


def test_a_shadow_that_samples_learns_from_decisions_with_exclusions(both):
    """It does not know how probable its choice is without these arms, so it is not compared."""
    client = both.client
    ok(client.put(SHADOW, json={"name": "D-LinTS", "dim": 2, "discount": 0.95}))
    for i in range(20):
        ok(decide(client, f"e{i}", i, exclude=["left"] if i % 2 else []))
        ok(reward(client, f"e{i}", 1))
    told = caught_up(client)
    assert (told["learned_from"], told["skipped"]) == (20, 0)
    assert told["decisions"] == 10
    ok(client.put(NEWS, json={**CONFIGURATION, "name": "D-LinTS"}))
    assert ok(client.get(NEWS))["configuration"]["how"] == "relearned"


def test_a_candidate_that_fails_is_marked_and_the_others_go_on(both, monkeypatch):
    """It says why, cannot be promoted, and is counted where operators look."""
    client = both.client
    play(client, 10)
    configure(client, "/v1/policies/other")
    failing = Follower._follow

    def fail(follower, event):
        if follower.wanted.arguments["name"] == "LinUCB":
            raise IndexError("a fault of its own")
        failing(follower, event)

    monkeypatch.setattr(Follower, "_follow", fail)
    ok(client.put(SHADOW, json=BOLD))
    ok(client.put(f"{NEWS}/shadows/other", json={**CONFIGURATION, "seed": 9, "discount": 0.9}))
    assert "failed" not in caught_up(client, "other")
    wait_until(lambda: any("failed" in one for one in ok(client.get(NEWS))["shadows"]))
    (bold, _) = ok(client.get(f"{NEWS}/shadows"))["shadows"]
    assert bold["failed"] == "IndexError: a fault of its own"
    refused = problem(client.post(f"{SHADOW}:promote"), 409)
    assert (refused["code"], "a fault of its own" in refused["message"]) == ("failed", True)
    assert 'driftbandits_candidates_failed{policy="news"} 1.0' in client.get("/metrics").text
    assert ok(client.get("/readyz"))["status"] == "ok, but 1 candidate has failed"
    changed = client.put(NEWS, json={**BOLD, "seed": 3})  # a change fails in the same way
    assert changed.status_code == 202
    assert "a fault of its own" in changed.json()["change"]["failed"]
    ok(client.delete(SHADOW))
    configure(client, "/v1/policies/other", discount=0.9)
    play(client, 10, first=10)
    caught_up(client, "other")


def test_a_retired_policy_decides_no_more_and_can_be_brought_back(both):
    client = both.client
    play(client, 5)
    ok(decide(client, "open"))
    assert ok(client.delete(NEWS))["retired"] is True
    assert ok(client.delete(NEWS))["retired"] is True
    assert problem(decide(client, "new"), 410)["code"] == "retired"
    assert ok(decide(client, "open"))["event_id"] == "open"  # decided before
    assert ok(reward(client, "open", 1))["status"] == "learned"
    assert [one["retired"] for one in ok(client.get("/v1/policies"))["policies"]] == [True]
    assert len(events(client)) > 5
    assert "retired" not in ok(client.post(f"{NEWS}:restore"))
    ok(decide(client, "new"))


def test_another_configuration_does_not_bring_a_policy_back(both):
    client = both.client
    ok(client.delete(NEWS))
    assert configure(client, epsilon=0.5)["retired"] is True
    assert problem(decide(client, "new"), 410)["code"] == "retired"


def test_the_client_has_all_of_it(both):
    play(both.client, 10)
    with Client(both.address) as client:
        told = client.put_policy("news", **{**CONFIGURATION, "lam": 2.0}, dry_run=True)
        assert (told.version, told.change.how) == (1, "relearned")
        (shadow,) = client.put_shadow("news", "bold", **BOLD)
        assert shadow.arguments["name"] == "LinUCB"
        assert [one.name for one in client.shadows("news")] == ["bold"]
        assert [one.name for one in client.policy("news").shadows] == ["bold"]
        promoted = client.promote("news", "bold")
        assert (promoted.version, promoted.configuration.how) == (2, "relearned")
        client.restore("news", 1)
        wait_until(lambda: client.policy("news").version == 3)
        client.put_shadow("news", "bold", **BOLD)
        assert client.drop_shadow("news", "bold") == []
        assert client.retire("news").retired
        assert not client.bring_back("news").retired
