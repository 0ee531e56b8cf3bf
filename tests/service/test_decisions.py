"""Decisions: alone and in batches, of every mode."""

from calls import NEWS, arms, configure, counts, decide, events, ok, play, problem, reward

import driftbandits as db


def test_answers_are_those_of_an_agent(client):
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95, epsilon=0.2), seed=3)
    for i in range(30):
        offered = arms(i)
        answer = ok(decide(client, f"e{i}", i))
        choice = agent.decide([arm["x"] for arm in offered])
        assert answer == {
            "event_id": f"e{i}",
            "arm": offered[choice.index]["id"],
            "index": choice.index,
            "round": choice.round,
            "propensity": choice.propensity,
            "scores": choice.scores.tolist(),
            "model_seq": 1 + 2 * i,
        }
        ok(reward(client, f"e{i}", i % 2))
        agent.update(choice, i % 2)
    told = ok(client.get(NEWS))
    assert told["theta_hat"] == agent.theta_hat.tolist()
    assert told["theta"] == agent.theta.tolist()
    assert told["radius"] == agent.radius
    assert told["effective_sample_size"] == agent.effective_sample_size
    assert [event["seq"] for event in events(client)] == list(range(1, 62))
    assert all(
        event["seq"] == answer_seq
        for event, answer_seq in zip(events(client)[1::2], range(2, 62, 2), strict=True)
    )


def test_batches_are_single_requests_in_order(client):
    for policy in ("one", "many"):
        configure(client, f"/v1/policies/{policy}")
    bodies = [{"event_id": f"e{i}", "arms": arms(i)} for i in range(5)]
    bodies += [bodies[0], {**bodies[1], "arms": arms(9)[:2]}]
    single = [client.post("/v1/policies/one/decisions", json=body) for body in bodies]
    batch = ok(client.post("/v1/policies/many/decisions:batch", json={"decisions": bodies}))
    for answer, result in zip(single, batch["results"], strict=True):
        assert result["status"] == answer.status_code
        told = answer.json()
        assert (result["decision"] or {"error": result["error"]}) == told
    rewards = [{"event_id": f"e{i}", "value": v} for i, v in ((0, 1), (0, 1), (0, 0), (9, 1))]
    results = ok(client.post("/v1/policies/many/rewards:batch", json={"rewards": rewards}))
    assert [result["status"] for result in results["results"]] == [200, 200, 409, 404]
    assert results["results"][1]["reward"] == {"status": "duplicate"}


def test_one_transaction_may_hold_everything_about_an_id(client):
    """What a batch has not committed yet counts for its later items."""
    ok(decide(client, "old"))
    rewards = [{"event_id": "old", "value": v} for v in (1, 1, 0)]
    told = ok(client.post(f"{NEWS}/rewards:batch", json={"rewards": rewards}))["results"]
    assert [result["status"] for result in told] == [200, 200, 409]
    assert [result["reward"] for result in told[:2]] == [
        {"status": "learned"},
        {"status": "duplicate"},
    ]
    assert counts(client)["late"] == 0


def test_an_apprentice_plays_and_learns_the_baseline(client):
    configure(client, mode="apprentice", epsilon=0)
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95), seed=3)
    assert problem(decide(client, "e"), 422)["path"] == "$.baseline"
    for i in range(10):
        answer = ok(decide(client, f"e{i}", i, baseline="stay"))
        assert (answer["arm"], answer["index"], answer["propensity"]) == ("stay", 2, 1.0)
        choice = agent.decide([arm["x"] for arm in arms(i)], played=2)
        assert answer["scores"] == choice.scores.tolist()
        ok(reward(client, f"e{i}", 1))
        agent.update(choice, 1)
    assert ok(client.get(NEWS))["theta_hat"] == agent.theta_hat.tolist()
    assert {event["suggested"] for event in events(client) if event["kind"] == "decision"} - {2}
    # from here on it decides, with what it has learned
    configure(client, mode="online", epsilon=0)
    assert ok(client.get(NEWS))["theta_hat"] == agent.theta_hat.tolist()
    assert ok(decide(client, "new"))["index"] == agent.decide([a["x"] for a in arms()]).index


def test_a_frozen_policy_decides_and_does_not_learn(client):
    play(client, 12)
    ok(decide(client, "before"))
    configure(client, mode="frozen")
    frozen = ok(client.get(NEWS))
    assert ok(reward(client, "before", 1)) == {"status": "recorded"}
    for i in range(20):
        ok(decide(client, f"f{i}", i))
        assert ok(reward(client, f"f{i}", 1)) == {"status": "recorded"}
        assert ok(reward(client, f"f{i}", 1)) == {"status": "duplicate"}
    after = ok(client.get(NEWS))
    assert after["theta_hat"] == frozen["theta_hat"]
    assert after["radius"] == frozen["radius"]
    assert after["round"] == frozen["round"]
    configure(client, mode="online")
    ok(decide(client, "after"))
    assert ok(reward(client, "after", 1)) == {"status": "learned"}


def test_arms_are_named_as_people_name_them(client):
    configure(client)
    names = ["Free delivery (2 days)", "-20 %", "Größe L / weiß"]
    offer = [{"id": name, "x": [0.1 * i, 0.2]} for i, name in enumerate(names)]
    answer = ok(client.post(f"{NEWS}/decisions", json={"event_id": "e", "arms": offer}))
    assert answer["arm"] == names[answer["index"]]
    for bad in (" a", "a ", "a|b", "a\nb", "\x00", "a" * 129):
        offer[1]["id"] = bad
        refused = client.post(f"{NEWS}/decisions", json={"event_id": "f", "arms": offer})
        assert "a control character or |" in problem(refused, 422)["message"]


def test_the_list_of_policies(client):
    configure(client, "/v1/policies/other", mode="frozen")
    listed = ok(client.get("/v1/policies"))["policies"]
    assert [(p["policy"], p["name"], p["mode"]) for p in listed] == [
        ("news", "D-GLUCB", "online"),
        ("other", "D-GLUCB", "frozen"),
    ]
