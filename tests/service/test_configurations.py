"""Versions of a policy, the list of all, and what is shown of one."""

from calls import CONFIGURATION, NEWS, configure, decide, ok, play, reward

from servers import Clock, Served


def test_versions(client):
    play(client, 5)
    assert client.put(NEWS, json=CONFIGURATION).status_code == 200
    assert ok(client.get(NEWS))["version"] == 1
    configure(client, mode="frozen")
    kept = ok(client.get(NEWS))
    assert (kept["version"], kept["configuration"]["fresh"]) == (2, False)
    configure(client, discount=0.9, fresh=True)
    fresh = ok(client.get(NEWS))
    assert (fresh["version"], fresh["configuration"]["fresh"], fresh["round"]) == (3, True, 0)
    assert fresh["theta_hat"] == [0.0, 0.0]
    assert ok(reward(client, "e4", 1))["status"] == "late"  # of a version that is gone
    versions = ok(client.get(f"{NEWS}/versions"))["versions"]
    assert [(v["version"], v["mode"], v["arguments"]["discount"]) for v in versions] == [
        (1, "online", 0.95),
        (2, "frozen", 0.95),
        (3, "online", 0.9),
    ]


def test_the_list_of_policies(client):
    configure(client, "/v1/policies/other", mode="frozen")
    listed = ok(client.get("/v1/policies"))["policies"]
    assert [(p["policy"], p["name"], p["mode"]) for p in listed] == [
        ("news", "D-GLUCB", "online"),
        ("other", "D-GLUCB", "frozen"),
    ]


def test_the_history_counts_by_the_minute(tmp_path):
    clock = Clock()
    with Served(f"sqlite:///{tmp_path}/log.db", clock=clock) as service:
        configure(service.client)
        for i in range(6):
            clock.pass_seconds(25)
            ok(decide(service.client, f"e{i}"))
            ok(reward(service.client, f"e{i}", 1))
        minutes = ok(service.client.get(f"{NEWS}/history"))["minutes"]
        assert sum(minute["decisions"] for minute in minutes) == 6
        assert sum(minute["reward_sum"] for minute in minutes) == 6.0
        assert sum(minute["reward_square_sum"] for minute in minutes) == 6.0
        assert minutes[0]["theta"] == [0.0, 0.0]
        assert minutes[-1]["theta"] != [0.0, 0.0]
