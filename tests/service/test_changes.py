"""A changed configuration keeps what was learned."""

import pytest
from calls import NEWS, configure, decide, digest, ok, play, reward, verified

from servers import Served


@pytest.fixture
def served(store_url):
    with Served(store_url) as service:
        configure(service.client)
        yield service


@pytest.fixture
def client(served):
    return served.client


# -- carried over --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.02},
        {"bonus_scale": 0.3, "delta": 0.2},
        {"seed": 99},
        {"mode": "apprentice", "reward_wait_s": 60, "default_reward": 0.5},
        {"too_long": "rescale", "projection": "none"},
    ],
)
def test_what_does_not_touch_the_estimate_carries_the_state_over(served, store_url, change):
    client = served.client
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
    assert verified(store_url)["news"] == digest(client)


def test_changing_back_and_forth_loses_nothing(served, store_url):
    client = served.client
    play(client, 30)
    theta = ok(client.get(NEWS))["theta_hat"]
    for epsilon in (0.05, 0.02, 0.05):
        assert configure(client, epsilon=epsilon)["theta_hat"] == theta
    versions = ok(client.get(f"{NEWS}/versions"))["versions"]
    assert [version["how"] for version in versions] == ["fresh"] + 3 * ["carried"]
    assert verified(store_url)["news"] == digest(client)


def test_fresh_starts_from_nothing_once(client):
    play(client, 20)
    ok(decide(client, "open"))
    begun = configure(client, fresh=True)
    assert (begun["version"], begun["round"], begun["theta_hat"]) == (2, 0, [0.0, 0.0])
    assert (begun["configuration"]["how"], begun["configuration"]["learned_from"]) == ("fresh", 0)
    assert configure(client, fresh=True)["version"] == 2  # sent again, as a client does
    assert ok(reward(client, "open", 1))["status"] == "late"


def test_a_carried_version_survives_a_restart(store_url):
    with Served(store_url) as service:
        configure(service.client)
        play(service.client, 20)
        configure(service.client, epsilon=0.4)
        play(service.client, 5, first=20)
        told, before = ok(service.client.get(NEWS)), digest(service.client)
    with Served(store_url) as service:
        assert (ok(service.client.get(NEWS)), digest(service.client)) == (told, before)
