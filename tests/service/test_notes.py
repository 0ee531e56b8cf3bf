"""What is said about a policy when it is configured: whether it grows with its log."""

import pytest
from calls import configure, ok

import driftbandits as db
from driftbandits.policies import policy_names
from driftbandits.service.configuration import notes

GROWING = ("LogisticUCB", "UCB-GLM", "GLM-TSL", "CD-LinUCB", "greedy")
BOUNDED = ("LinUCB", "SW-GLUCB", "D-LinUCB", "auto", "klUCB", "Restart-GLUCB", "random")


def made(name):
    tuned = {} if name in ("auto", "greedy", "random") else {"horizon": 500, "changes": 3}
    return db.policy(name, dim=2, **tuned)


@pytest.mark.parametrize("name", [*GROWING, *BOUNDED])
def test_what_grows_with_the_log_says_so(name):
    """Beside the state itself, which has been fed a log and twice as much."""
    agent, sizes = db.Agent(made(name), seed=0), []
    for t in range(1, 4401):
        choice = agent.decide([[0.9, 0.0], [0.0, 0.9]])
        agent.update(choice, (t * (1 + choice.index)) % 3 == 0)
        if t in (2200, 4400):
            sizes.append(len(agent.to_bytes()))
    assert (sizes[1] > 1.2 * sizes[0]) == (name in GROWING) == bool(notes(agent.policy))


def test_the_answer_to_a_configuration_carries_the_note(client):
    (said,) = configure(client, "/v1/policies/large", name="LogisticUCB", discount=None)["notes"]
    assert said.startswith("LogisticUCB keeps every row")
    assert "notes" not in configure(client)
    for name in ("ECOLog", "GLOC"):
        assert (name in said) == (name in policy_names())
    assert ok(client.get("/v1/policies/large"))["notes"] == [said]


def test_features_without_a_cross_are_noted(client):
    columns = {"context": {"age": "number"}, "arm": {"kind": "category"}}
    path = "/v1/policies/table"
    put = {"dim": None, "discount": None, "name": "auto"}
    (said,) = configure(client, path, **put, features=columns)["notes"]
    assert said.startswith("No column of the context is crossed with the arm")
    for pair in (["kind", "age"], ["arm", "*"]):
        crossed = {**columns, "cross": [pair]}
        assert "notes" not in configure(client, path, **put, features=crossed)
    assert "notes" not in configure(client, path, **put, features=columns, arms="separate")
