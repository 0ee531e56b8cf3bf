"""What the tests of the service ask it for, in as few words as they can."""

from driftbandits import store
from driftbandits.service.verifying import verify

CONFIGURATION = {"name": "D-GLUCB", "dim": 2, "discount": 0.95, "epsilon": 0.2, "seed": 3}
NEWS = "/v1/policies/news"


def arms(number=0):
    return [
        {"id": "left", "x": [0.6, 0.1 * (number % 5)]},
        {"id": "right", "x": [0.2, 0.5]},
        {"id": "stay", "x": [-0.3, 0.4]},
    ]


def decide(client, event_id, number=0, policy=NEWS, **more):
    body = {"event_id": event_id, "arms": arms(number), **more}
    return client.post(f"{policy}/decisions", json=body)


def reward(client, event_id, value, policy=NEWS):
    return client.post(f"{policy}/rewards", json={"event_id": event_id, "value": value})


def ok(answer):
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def problem(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def configure(client, policy=NEWS, **settings):
    return ok(client.put(policy, json={**CONFIGURATION, **settings}))


def digest(client, policy=NEWS):
    return ok(client.get(f"{policy}/digest"))["digest"]


def counts(client, policy=NEWS):
    return ok(client.get(policy))["counts"]


def events(client, policy=NEWS, after=0):
    return ok(client.get(f"{policy}/events", params={"after": after}))["events"]


def verified(url):
    with store.open(url) as log:
        verdicts = {verdict.policy: verdict for verdict in verify(log)}
    assert not any(verdict.faults for verdict in verdicts.values()), verdicts
    return {policy: verdict.digest for policy, verdict in verdicts.items()}


def play(client, count, *, first=0, policy=NEWS):
    """Decisions whose rewards come late, twice, differently, or never."""
    for i in range(first, first + count):
        ok(decide(client, f"e{i}", i, policy))
        if i % 4:
            ok(reward(client, f"e{max(first, i - i % 3)}", 1, policy))
        if i % 7 == 0:
            assert decide(client, f"e{i}", i + 1, policy).status_code == 409


def raw(client, text, path=f"{NEWS}/decisions"):
    return client.post(path, content=text)
