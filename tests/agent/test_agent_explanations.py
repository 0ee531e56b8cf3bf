"""Why a decision was made."""

from importlib.util import find_spec

import numpy as np
import pytest
from agent_checks import BY_THE_CLOCK, CALM, oracle_of

import driftbandits as db
import kinds
from driftbandits import features as db_features
from driftbandits.features import inputs
from policy_checks import Case, World, same

_PACKAGES = ("polars", "pandas", "pyarrow")


@pytest.mark.parametrize("name", BY_THE_CLOCK)
def test_explanations_are_of_the_time(name):
    case = Case(name, CALM)
    world = World(case, 25)
    agent = case.agent()
    seen = []
    for t, actions in enumerate(world.sets):
        decision = agent.decide(actions)
        seen.append((decision, agent.theta))
        agent.update(decision, world.reward(t, actions[decision.index]))
    for decision, theta in seen:
        for key in (decision, decision.id, np.int64(decision.id)):
            explained = agent.explain(key)
            assert same(explained.decision, decision)
            assert explained.theta.tobytes() == theta.tobytes()
    oracle = oracle_of(case)
    last = agent.explain(25)
    expected = 0.0 if kinds.without_bonus(name) else oracle.radius(24, last.theta_hat)
    assert last.radius == pytest.approx(expected, rel=1e-12)


def test_an_explanation_as_a_table():
    agent = db.Agent(db.policy("LinUCB", dim=2))
    agent.learn([[1.0, 0.0]], [1.0])
    choice = agent.decide([[0.1, 0.0], [0.0, 1.0], [0.5, 0.0]])
    first, header, *lines = agent.explain(choice).table().splitlines()
    assert f"round {choice.round}" in first
    assert header.split() == ["action", "mean", "width", "score"]
    order = np.argsort(-choice.scores)
    assert [int(line.split()[0]) for line in lines] == order.tolist()
    for line, i in zip(lines, order, strict=True):
        shown = [float(word) for word in line.replace("<", "").split()[1:]]
        assert shown == pytest.approx(
            [choice.means[i], choice.widths[i], choice.scores[i]], abs=5e-5
        )
        assert line.endswith("<") == (i == choice.index)


def test_a_table_of_features_shows_the_ten_that_matter_most():
    columns = {f"x{i}": "number" for i in range(14)}
    features = db.Features(context=columns, cross=[("arm", "*")])
    agent = db.Agent(db.policy("auto", features=features), seed=0)
    for t in range(20):
        row = {name: float((t * i) % 7) for i, name in enumerate(columns)}
        choice = agent.decide(context=row, arms=["a" * 30, "b"])
        agent.update(choice, choice.arm == "b")
    why = agent.explain(choice)
    *_, last = why.table().splitlines()
    everything = why.table(None).splitlines()
    known = why.contributions
    names = {name for arm in known for name in known[arm]}
    assert last == f"{len(names) - 10} more features differ less: table(None) shows all"
    assert len(everything) == len(why.table().splitlines()) - 1 + len(names) - 10
    spread = {n: abs(known["a" * 30].get(n, 0.0) - known["b"].get(n, 0.0)) for n in names}
    shown = why.table().split("before the link:\n")[1].splitlines()[1:-1]
    largest = sorted(spread.values(), reverse=True)[:10]
    assert [spread[line.rsplit(maxsplit=2)[0]] for line in shown] == largest


def test_columns_of_a_table_never_run_together():
    agent = db.Agent(db.policy("auto", dim=2, reward="amount"), seed=0)
    for scale in (1.0, 1e13):
        agent.update(agent.decide(np.eye(2)), scale)
    _, *rows = agent.explain(agent.decide(np.eye(2))).table().splitlines()
    assert [len(row.replace("<", "").split()) for row in rows] == [4, 4, 4]


def test_an_agent_says_in_one_line_where_it_is():
    agent = db.Agent(db.policy("auto", dim=1), seed=0)
    assert repr(agent) == "<Agent of auto: 0 rounds, 0 pending, no change detected>"
    for t in range(400):
        agent.update(agent.decide([[1.0]]), float(t < 200))
    agent.decide([[1.0]])
    found = agent.detections[-1].round
    assert repr(agent) == (
        f"<Agent of auto: 401 rounds, 1 pending, last change detected in round {found}>"
    )


@pytest.mark.parametrize("package", ["polars", "pandas", "pyarrow"])
def test_the_last_decisions_are_a_frame(package, monkeypatch):
    before = list(_PACKAGES[: _PACKAGES.index(package)])
    monkeypatch.setattr(
        inputs, "find_spec", lambda name: None if name in before else find_spec(name)
    )
    agent = db.Agent(db.policy("LinUCB", dim=2, arms="separate"), seed=0)
    assert len(agent.to_frame()) == 0
    made = [agent.decide([0.6, 0.4 - t / 8], arms=["a", "b", "c"][: 2 + t % 2]) for t in range(5)]
    agent.update(made[0], 1.0)
    frame = agent.to_frame()
    assert type(frame).__module__.partition(".")[0] == package
    names = "id round chosen actions propensity mean width score pending"
    for row, one in zip(db_features.records_of(frame), made, strict=True):
        wanted = [one.id, one.round, one.arm, len(one.arms), one.propensity]
        wanted += [*one.table[:, one.index], one.id > 1]
        assert row == dict(zip(names.split(), wanted, strict=True))
    monkeypatch.setattr(inputs, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="polars, pandas or pyarrow: pip install polars"):
        agent.to_frame()


def test_only_recent_decisions_can_be_explained():
    agent = db.Agent(db.policy("LinUCB", dim=1))
    agent.decide_many([[[1.0]]] * 1005)
    assert agent.explain(1005).decision.id == 1005
    assert agent.explain(6).decision.id == 6
    with pytest.raises(db.UnknownDecision, match=r"decision 5 "):
        agent.explain(5)
