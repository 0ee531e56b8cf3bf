"""An agent that decides from tables: models that grow, files, names, other features."""

import numpy as np
import pytest

import driftbandits as db
from driftbandits.features import Encoding, offered
from policy_checks import same

FEATURES = db.Features(
    context={"age": "number", "country": "category", "hour": "cycle:24"},
    arm={"kind": "category", "price": "log"},
    cross=[("kind", "country"), ("price", "age")],
)
KINDS = ("shoes", "hats", "coats", "bags")


def visits(rounds, seed=0, first=0):
    """Contexts and offers in which new levels keep appearing."""
    rng = np.random.default_rng(seed)
    for t in range(first, first + rounds):
        country = f"c{rng.integers(1 + t // 10)}"
        context = {"age": rng.normal(), "country": country, "hour": rng.uniform(0, 24)}
        if rng.random() < 0.2:
            context["age"] = None
        arms = {
            f"o{i}": {"kind": KINDS[rng.integers(4)], "price": rng.exponential(2.0)}
            for i in range(3)
        }
        yield context, arms, float(rng.random() < 0.5)


def played(agent, rounds, **more):
    for context, arms, reward in visits(rounds, **more):
        agent.update(agent.decide(context=context, arms=arms), reward)
    return agent


@pytest.fixture
def agent():
    return played(db.Agent(db.policy("auto", features=FEATURES), seed=3), 60)


@pytest.mark.parametrize("link", ["logistic", "identity"])
def test_a_model_that_grows_is_one_that_had_the_room_from_the_start(link):
    """The same vectors, with zeros for what is to come, to a model of the last dimension."""
    growing = db.Agent(db.policy("auto", features=FEATURES, link=link), seed=1)
    dims = set()
    final = played(db.Agent(growing.policy, seed=1), 60).policy.dim
    roomy = db.Agent(db.policy("auto", dim=final, link=link, intercept=True), seed=1)
    encoding = Encoding(FEATURES)
    for context, arms, reward in visits(60):
        choice = growing.decide(context=context, arms=arms)
        rows = encoding.encode(context, offered(arms, ())).dense(final)
        encoding.commit()
        other = roomy.decide(rows)
        assert choice.index == other.index
        np.testing.assert_allclose(choice.table, other.table, rtol=1e-7, atol=1e-9)
        growing.update(choice, reward)
        roomy.update(other, reward)
        dims.add(growing.policy.dim)
    assert len(dims) >= 3
    np.testing.assert_allclose(growing.theta_hat, roomy.theta_hat, rtol=1e-6, atol=1e-8)


def test_a_reward_may_come_after_the_model_has_grown():
    one, other = (db.Agent(db.policy("auto", features=FEATURES), seed=1) for _ in range(2))
    waiting = []
    for context, arms, reward in visits(60):
        waiting.append((one.decide(context=context, arms=arms), reward))
        other.decide(context=context, arms=arms)
    assert one.policy.dim > db.policy("auto", features=FEATURES).dim
    other = db.Agent.from_bytes(other.to_bytes())
    for choice, reward in waiting:
        assert one.update(choice, reward) == other.update(choice.id, reward) == "learned"
    assert one.digest == other.digest


def test_a_save_in_the_middle_changes_nothing(agent):
    other = db.Agent.from_bytes(agent.to_bytes())
    assert other.digest == agent.digest
    assert other.to_bytes() == agent.to_bytes()
    assert str(other.explain(60)) == str(agent.explain(60))
    played(agent, 60, seed=1, first=60)
    played(other, 60, seed=1, first=60)
    assert other.digest == agent.digest
    assert other.policy.dim == agent.policy.dim > 31


def test_a_batch_is_its_single_calls():
    one, other = (db.Agent(db.policy("auto", features=FEATURES), seed=1) for _ in range(2))
    given = list(visits(80))
    made = [one.decide(context=context, arms=arms) for context, arms, _ in given]
    batch = other.decide_many(context=[c for c, _, _ in given], arms=[a for _, a, _ in given])
    assert all(same(*pair) for pair in zip(made, batch, strict=True))
    assert one.digest == other.digest


def test_a_preview_leaves_no_trace(agent):
    before, dim = agent.digest, agent.policy.dim
    arms = {str(i): {"kind": f"new{i}", "price": 1} for i in range(dim)}  # too many for its room
    assert agent.preview(context={"country": "new"}, arms=arms, seed=5).arm in arms
    assert (agent.digest, agent.policy.dim) == (before, dim)


def test_learning_from_a_table_is_learning_from_vectors():
    one = db.Agent(db.policy("auto", features=FEATURES), seed=1)
    given = list(visits(40))
    plays = [{"id": "o1", **arms["o1"]} for _, arms, _ in given]
    rewards = [reward for *_, reward in given]
    one.learn(context=[context for context, *_ in given], arms=plays, rewards=rewards)
    other = db.Agent(db.policy("auto", features=FEATURES), seed=1)
    for (context, _, reward), play in zip(given, plays, strict=True):
        other.learn(context=[context], arms=[play], rewards=[reward])
    assert one.digest == other.digest
    with pytest.raises(ValueError, match=r"arms must be one arm for each context; got 1 for 2"):
        one.learn(context=[{}, {}], arms=["o1"], rewards=[1, 1])
    with pytest.raises(ValueError, match=r"row 1: .*'age'"):
        one.learn(context=[{"age": 1}, {"age": "x"}], arms=[plays[0], plays[1]], rewards=[1.0, 0.0])


# -- names ---------------------------------------------------------------------------------------


def test_contributions_add_up_to_the_mean(agent):
    context, arms, _ = next(visits(1, seed=9, first=100))
    choice = agent.decide(context=context, arms=arms)
    explanation = agent.explain(choice)
    for i, arm in enumerate(choice.arms):
        z = sum(explanation.contributions[arm].values())
        at_z = 1.0 / (1.0 + np.exp(-z))  # the mean reward is averaged over the belief about z
        assert min(0.5, at_z) < choice.means[i] < max(0.5, at_z)
    assert "constant" in explanation.contributions[choice.arm]
    text = str(explanation)
    assert f"arm {choice.arm}, chosen with probability" in text
    assert "hour sin" in text


def test_coefficients_have_names(agent):
    found = agent.coefficients
    assert list(found)[:3] == ["age", "hour sin", "hour cos"]
    assert list(found)[-1] == "constant"
    theta = agent.theta
    assert found["constant"] == theta[-1]
    assert list(found.values())[:-1] == theta[: len(found) - 1].tolist()
    with pytest.raises(ValueError, match=r"features"):
        _ = db.Agent(db.policy("auto", dim=2)).coefficients


def test_the_report_counts(agent):
    report = agent.features_report()
    by_name = {column.name: column for column in report.columns}
    missing = sum(context["age"] is None for context, *_ in visits(60))
    assert by_name["age"].missing == missing / 60
    assert by_name["country"].coordinates == len({c["country"] for c, *_ in visits(60)})
    assert report.dim == sum(column.coordinates for column in report.columns)
    assert report.dim <= report.room == agent.policy.model_dim
    assert not any(column.sharing for column in report.columns)
    assert "kind x country" in str(report)


# -- other features ------------------------------------------------------------------------------


def test_a_feature_can_be_gained(agent):
    context = {"member": "flag", **FEATURES.context}
    more = db.Features(context, FEATURES.arm, cross=[("kind", "member"), *FEATURES.cross])
    before = agent.digest
    other = agent.with_features(more)
    assert agent.digest == before
    kept = agent.coefficients
    assert {name: x for name, x in other.coefficients.items() if name in kept} == pytest.approx(
        kept, rel=1e-9
    )
    assert other.coefficients["member"] == 0.0
    context, arms, _ = next(visits(1, seed=9, first=50))
    choice = agent.preview(context=context, arms=arms, seed=1)
    again = other.preview(context={"member": False, **context}, arms=arms, seed=1)
    np.testing.assert_allclose(again.table, choice.table, rtol=1e-8)
    played(other, 20, seed=4)
    assert db.Agent.from_bytes(other.to_bytes()).digest == other.digest


def test_a_kind_that_changed_starts_anew(agent):
    changed = db.Features({**FEATURES.context, "age": "log"}, FEATURES.arm)
    other = agent.with_features(changed)
    assert other.coefficients["age"] == 0.0
    assert other.coefficients["hour sin"] == pytest.approx(agent.coefficients["hour sin"])
    with pytest.raises(ValueError, match=r"limit must be at least 512"):
        agent.with_features(db.Features(context={"age": "number"}, limit=100))
    with pytest.raises(ValueError, match=r"features must be"):
        agent.with_features({"context": {"age": "number"}})


# -- separate arms, fitted features --------------------------------------------------------------


def test_separate_arms_have_the_context_for_themselves():
    """As by the vectors of the context."""
    features = db.Features(context=FEATURES.context)
    agent = db.Agent(db.policy("auto", features=features, arms="separate"), seed=1)
    dims = []
    for context, _, reward in visits(140):
        choice = agent.decide(context=context, arms=["a", "b"])
        agent.update(choice, reward)
        dims.append(agent.policy.dim)
    assert len(set(dims)) == 2
    plain = db.Agent(db.policy("auto", dim=dims[-1], arms="separate"), seed=1)
    encoding = Encoding(features)
    for context, _, reward in visits(140):
        x = encoding.encode(context, offered(["a"], ())).dense(dims[-1])[0]
        encoding.commit()
        other = plain.decide(x, arms=["a", "b"])
        plain.update(other, reward)
    np.testing.assert_allclose(choice.table, other.table, rtol=1e-7)
    assert set(agent.coefficients) == {"a", "b"}
    explained = agent.explain(choice).contributions
    z = np.array([sum(explained[arm].values()) for arm in choice.arms])
    at_z = 1.0 / (1.0 + np.exp(-z))  # the mean rewards are averaged over the belief about z
    assert (np.abs(choice.means - 0.5) < np.abs(at_z - 0.5)).all()
    assert ((choice.means > 0.5) == (z > 0.0)).all()
    assert db.Agent.from_bytes(agent.to_bytes()).digest == agent.digest
    crossed = db.Features(context={"x": "number"}, cross=[("arm", "*")])
    with pytest.raises(ValueError, match=r"separate arms must not name the arm"):
        db.policy("auto", features=crossed, arms="separate")


def test_policies_of_the_theory_take_fitted_features():
    with pytest.raises(ValueError, match=r"features must be fitted for D-GLUCB.*fit\(frame\)"):
        db.policy("D-GLUCB", features=FEATURES, horizon=100)
    rows = [{**context, **arms["o0"]} for context, arms, _ in visits(50)]
    fitted = FEATURES.fit(rows)
    assert fitted.L == 1.0
    assert db.Features.from_dict(fitted.to_dict()) == fitted
    assert "L = 1" in str(fitted)
    policy = db.policy("D-GLUCB", features=fitted, horizon=100)
    assert policy.dim == fitted.dim
    assert policy.L == 1.0
    agent = db.Agent(policy, seed=0)
    lengths = []
    encoding = Encoding(fitted)
    for context, arms, reward in visits(60, first=100):
        agent.update(agent.decide(context=context, arms=arms), reward)
        rows = encoding.encode(context, offered(arms, ())).dense(fitted.dim)
        lengths += np.linalg.norm(rows, axis=1).tolist()
    assert max(lengths) <= 1.0
    assert max(lengths) > 0.8
    assert agent.policy.dim == fitted.dim
    assert agent.coefficients["country other"] != 0.0
    assert db.Agent.from_bytes(agent.to_bytes()).digest == agent.digest
