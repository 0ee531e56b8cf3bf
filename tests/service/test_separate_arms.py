"""Separate arms, ranked lists and single explanations over HTTP, on both stores."""

import numpy as np
import pytest
from calls import configure, counts, digest, events, ok, problem, reward, verified

import driftbandits as db
from servers import Served

OWN = "/v1/policies/own"
SETTINGS = {"name": "LinUCB", "dim": 2, "arms": "separate", "discount": None, "epsilon": 0.2}


def context(t):
    return [0.3 + 0.1 * (t % 5), -0.2 * (t % 3)]


def body(t, **more):
    offered = ["a", "b", "c"][: 2 + t % 2]
    return {"event_id": f"e{t}", "context": context(t), "arms": offered, **more}


def decide(client, t, **more):
    return client.post(f"{OWN}/decisions", json=body(t, **more))


@pytest.mark.parametrize("name", ["LinUCB", "auto"])
def test_the_service_decides_as_an_agent_with_separate_arms(store_url, name):
    policy = db.policy(name, dim=2, arms="separate", epsilon=0.2)
    agent = db.Agent(policy, seed=3)
    with Served(store_url) as service:
        client = service.client
        configure(client, OWN, **{**SETTINGS, "name": name})
        for t in range(30):
            answer = ok(decide(client, t))
            choice = agent.decide(context(t), arms=body(t)["arms"])
            assert (answer["arm"], answer["scores"]) == (choice.arm, choice.scores.tolist())
            assert ok(decide(client, t)) == answer
            assert decide(client, t, arms=["a"]).status_code == 409
            if t % 4:
                agent.update(choice, t % 2)
                ok(reward(client, f"e{t}", t % 2, policy=OWN))
        shown = ok(client.get(OWN))
        expected = {arm: theta.tolist() for arm, theta in agent.theta_hat.items()}
        assert shown["theta_hat"] == expected
        assert [one["probability"] for one in shown.get("beliefs", [])] == [
            one.probability for one in agent.beliefs
        ]
        assert ("beliefs" in shown) == (name == "auto")
        first = events(client, OWN)[1]
        assert (first["context"], first["arms"][0]) == (context(0), {"id": "a"})
        assert client.get(f"{OWN}/history").is_success
        ok(client.post(f"{OWN}/erasures", json={"event_ids": ["e0", "e29"]}))
        live = digest(client, OWN)
    assert verified(store_url) == {"own": live}
    with Served(store_url) as service:  # from the snapshot
        assert digest(service.client, OWN) == live
        ok(decide(service.client, 30))
        live = digest(service.client, OWN)
    assert verified(store_url) == {"own": live}


def test_an_x_for_each_arm_and_a_context_are_the_same_decision(client):
    scores = []
    for own, each in (("/v1/policies/one", False), ("/v1/policies/two", True)):
        configure(client, own, **SETTINGS)
        for t in range(6):
            offer = body(t)
            if each:
                x = offer.pop("context")
                offer["arms"] = [{"id": arm, "x": x} for arm in offer["arms"]]
            answer = ok(client.post(f"{own}/decisions", json=offer))
            ok(reward(client, f"e{t}", 1, policy=own))
        scores.append(answer["scores"])
    assert scores[0] == scores[1]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"context": [0.1]}, "$.context"),
        ({"context": [3.0, 4.0]}, "$.context"),
        ({"context": "here"}, "$.context"),
        ({"context": None}, "$.arms[0]"),
        ({"arms": [{"id": "a", "x": [0.1, 0.1]}]}, "$.context"),
        ({"arms": ["a", {"id": "b", "x": [0.1, 0.1]}]}, "$.arms[1]"),
        ({"arms": ["a", "b", "a"]}, "$.arms[2].id"),
        ({"arms": ["a|b"]}, "$.arms[0]"),
        ({"n": 4}, "$.n"),
        ({"n": 0}, "$.n"),
        ({"n": 2, "event_id": "e" * 127}, "$.event_id"),
    ],
)
def test_what_is_wrong_with_an_offer_names_the_field(refusing, change, path):
    configure(refusing, OWN, **SETTINGS)
    before = digest(refusing, OWN)
    answer = refusing.post(f"{OWN}/decisions", json={**body(1), **change})
    assert problem(answer, 422)["path"] == path
    assert digest(refusing, OWN) == before


def test_a_shared_model_takes_no_context(refusing):
    answer = refusing.post("/v1/policies/news/decisions", json=body(1))
    assert problem(answer, 422)["path"] == "$.context"
    answer = refusing.post("/v1/policies/news/decisions", json={"event_id": "e", "arms": ["a"]})
    assert "x must be given" in problem(answer, 422)["message"]


@pytest.mark.parametrize("mode", ["online", "frozen"])
def test_a_ranked_list_is_decided_at_once_and_rewarded_by_place(store_url, mode):
    agent = db.Agent(db.policy("LinUCB", dim=2, arms="separate", epsilon=0.2), seed=3)
    with Served(store_url) as service:
        client = service.client
        configure(client, OWN, **SETTINGS, mode=mode)
        for t in range(1, 12, 2):
            answer = ok(decide(client, t, n=3))
            ranking = answer["ranking"]
            assert [place["event_id"] for place in ranking] == [f"e{t}", f"e{t}/2", f"e{t}/3"]
            assert answer["arm"] == ranking[0]["arm"]
            assert sorted(place["arm"] for place in ranking) == ["a", "b", "c"]
            assert ok(decide(client, t, n=3)) == answer
            assert decide(client, t, n=2).status_code == decide(client, t).status_code == 409
            if mode == "online":
                choices = agent.decide(context(t), arms=body(t)["arms"], n=3)
                expected = [(c.arm, c.id, c.propensity) for c in choices]
                assert expected == [(p["arm"], p["round"], p["propensity"]) for p in ranking]
                agent.update(choices[1], 1)
            status = ok(reward(client, f"e{t}/2", 1, policy=OWN))["status"]
            assert status == ("learned" if mode == "online" else "recorded")
            assert ok(reward(client, f"e{t}/2", 1, policy=OWN))["status"] == "duplicate"
        assert problem(reward(client, "e1/4", 1, policy=OWN), 404)
        assert decide(client, 1, event_id="e1/2", arms=["a"]).status_code == 409
        assert counts(client, OWN)["decisions"] == 18
        explained = ok(client.get(f"{OWN}/explanations/e1/3"))["decision"]
        assert (explained["event_id"], explained["round"]) == ("e1/3", 3)
        live = digest(client, OWN)
    assert verified(store_url) == {"own": live}


def test_places_do_not_take_ids_that_others_have(client):
    configure(client, OWN, **SETTINGS)
    ok(decide(client, 1, event_id="list/2"))
    refused = problem(decide(client, 1, event_id="list", n=2), 409)
    assert "list/2" in refused["message"]
    assert problem(decide(client, 1, event_id="other", n=2, baseline="x"), 422)


def test_any_decision_of_the_log_is_explained(client):
    configure(client, OWN, **SETTINGS)
    for t in range(3):
        ok(decide(client, t))
    ok(reward(client, "e0", 1, policy=OWN))
    configure(client, OWN, **SETTINGS, fresh=True)  # the agent of before is gone
    explained = ok(client.get(f"{OWN}/explanations/e0"))["decision"]
    assert explained["outcome"]["value"] == 1
    assert np.isfinite([arm["mean"] for arm in explained["arms"]]).all()  # the log has them
    assert np.isfinite([arm["score"] for arm in explained["arms"]]).all()
    assert problem(client.get(f"{OWN}/explanations/e9"), 404)["code"] == "unknown_decision"
    assert problem(client.get(f"{OWN}/explanations/%20"), 422)["path"] == "event_id"
    assert problem(client.get("/v1/policies/none/explanations/e0"), 404)["code"] == "unknown_policy"
    ok(client.post(f"{OWN}/erasures", json={"event_ids": ["e0"]}))
    assert problem(client.get(f"{OWN}/explanations/e0"), 410)
