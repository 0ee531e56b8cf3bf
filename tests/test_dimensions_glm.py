"""Estimates of large models against sums over all rows: theta-hat, scores, choices, certificates.

Every score is within a ten-thousandth of its width of the exact one, and the certificate says how
near.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import driftbandits as db
import kinds
import policy_checks
from driftbandits.core.estimator.large import largest_eigenvalue, least_curvature
from driftbandits.jit import compiled
from plain import Witness
from policy_checks import Case
from test_simulation import EVERYTHING, assert_same_bits, draw_trace, play

CLOSE = 1e-4
ROUNDING = 1e-9

MEMORIES = {
    "SW-GLUCB": {"window": 300},
    "D-GLUCB": {"discount": 0.995},
    "LogisticUCB": {},
}
REWARDS = {
    "logistic": {"link": "logistic"},
    "binomial": {"link": "binomial", "m": 4.0},
    "poisson": {"link": "poisson", "m": 12.0},
}


def unit_ball(rng, K, dim):
    directions = rng.normal(size=(K, dim))
    lengths = rng.uniform(size=(K, 1)) ** (1 / dim)
    return directions * lengths / np.linalg.norm(directions, axis=1, keepdims=True)


def collinear(rng, K, dim):
    """Actions that differ from a plane by a ten-thousandth."""
    plane = np.random.default_rng(5).normal(size=(2, dim))
    actions = rng.normal(size=(K, 2)) @ plane + 1e-4 * rng.normal(size=(K, dim))
    return 0.9 * actions / np.linalg.norm(actions, axis=1).max()


def repeated(rng, K, dim):
    """The same few actions again and again."""
    return unit_ball(np.random.default_rng(6), 2 * K, dim)[rng.permutation(2 * K)[:K]]


def of_many_scales(rng, K, dim):
    """Features from 1e-3 to 1e3 in one action."""
    return rng.normal(size=(K, dim)) * np.logspace(-3, 3, dim) / 3e3 * 1e3


def follow(
    name,
    *,
    dim,
    rounds,
    every,
    features=unit_ball,
    late=0,
    drift=0,
    seed=0,
    K=10,
    proved=1.0,
    **arguments,
):
    """Play a policy beside its witness; how often theta-hat was projected."""
    rng = np.random.default_rng(seed)
    policy = db.policy(name, dim=dim, **{**MEMORIES[name], **arguments})
    assert policy.model.fast
    agent, witness = db.Agent(policy, seed=1), Witness(policy)
    truth = rng.normal(size=dim)
    truth *= policy.S / np.linalg.norm(truth)
    waiting, projected = [], 0
    for t in range(rounds):
        if drift and t % drift == drift - 1:
            truth = -truth
        actions = features(rng, K, dim)
        compared = t % every == every - 1 or t < 5
        if compared or t % 5 == 0:
            certificate = agent.certificate  # of the estimate that the decision will use
            assert certificate["relative_to_width"] <= CLOSE
            assert certificate["proved"] in (proved, 1.0)
        decision = agent.decide(actions)
        if compared:
            thought = witness.think(t, actions, agent.theta)
            assert_near(agent, certificate, decision, thought)
            projected += thought.theta is not thought.theta_hat
        action = actions[decision.index]
        reward = float(policy.link.draw(rng, [action @ truth])[0])
        waiting.append((decision, action, reward))
        if len(waiting) > late:
            learned, action, reward = waiting.pop(int(rng.integers(len(waiting))))
            if agent.update(learned, reward):
                witness.learn(learned.id, action, reward)
    return agent, projected


def assert_near(agent, certificate, decision, thought):
    np.testing.assert_allclose(decision.widths, thought.widths, rtol=1e-7)
    k, radius = agent.policy.problem.k, agent.explain(decision).radius
    for mine, exact in ((agent.theta_hat, thought.theta_hat), (agent.theta, thought.theta)):
        error = mine - exact
        relative = k * np.sqrt(error @ thought.design @ error) / radius
        assert relative <= CLOSE + ROUNDING
    assert relative <= certificate["relative_to_width"] + ROUNDING
    theta_hat_off = np.linalg.norm(agent.theta_hat - thought.theta_hat)
    assert theta_hat_off <= certificate["error_bound"] + ROUNDING
    assert (np.abs(decision.means - thought.means) <= CLOSE * thought.widths + ROUNDING).all()
    scores = thought.means + thought.widths
    behind = scores.max() - scores[decision.index]
    assert behind <= CLOSE * (thought.widths[decision.index] + thought.widths[scores.argmax()])


@pytest.mark.parametrize("link", REWARDS)
@pytest.mark.parametrize("name", MEMORIES)
def test_scores_are_within_a_ten_thousandth_of_their_width(name, link):
    _, projected = follow(name, dim=20, rounds=900, every=15, drift=350, **REWARDS[link])
    assert projected > 20


@pytest.mark.parametrize("name", MEMORIES)
def test_the_same_at_a_hundred_dimensions(name):
    _, projected = follow(name, dim=100, rounds=450, every=30)
    assert projected > 10


@pytest.mark.slow
@pytest.mark.parametrize("link", REWARDS)
@pytest.mark.parametrize("name", MEMORIES)
def test_the_same_at_four_hundred_dimensions(name, link):
    follow(name, dim=400, rounds=600, every=100, **REWARDS[link])


@compiled
def largest_and_proved(V, lam, c, slope, eta, nu):
    largest = largest_eigenvalue(V, np.empty(V.shape[0]), np.empty(V.shape[0]))
    return largest, least_curvature(lam, c, slope, eta, nu, largest)


@pytest.mark.parametrize("steepness", [0.4, 0.7, 0.95])
@pytest.mark.parametrize("nu", [0.0, 3.0, 20.0])
def test_no_curvature_is_below_what_is_proved(steepness, nu):
    """The smallest eigenvalue over V of J M^-1 J - bend + nu I, by LAPACK."""
    rng = np.random.default_rng(8)
    lam, c = 1.0, 0.35
    for rows in (5, 60, 300):
        A, w = unit_ball(rng, rows, 40), rng.uniform(size=rows)
        slopes = rng.uniform(steepness, 1.5, size=rows)
        along = rng.uniform(-1.2, 1.2, size=rows) * slopes  # mu'' a.u
        V = (A.T * w) @ A + lam / c * np.eye(40)
        M = (A.T * w**2) @ A + lam / c * np.eye(40)
        J = (A.T * (w * slopes)) @ A + lam * np.eye(40)
        H = J @ np.linalg.solve(M, J) - (A.T * (w * along)) @ A + nu * np.eye(40)
        eta = np.abs(along / slopes).max()
        largest, proved = largest_and_proved(V, lam, c, slopes.min(), eta, nu)
        assert np.linalg.norm(V, 2) <= largest <= np.abs(V).sum(axis=0).max()
        assert proved <= linalg.eigh(H, V, eigvals_only=True)[0]


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("features", [collinear, repeated])
def test_features_that_are_nearly_the_same(name, features):
    follow(name, dim=24, rounds=400, every=10, features=features)


@pytest.mark.parametrize("name", MEMORIES)
def test_features_of_many_scales(name):
    """The smallest slope is then 5e-5: too small for a proof of where the projection lies."""
    scales = {"features": of_many_scales, "L": 2000.0, "S": 5e-3, "proved": 0.0}
    agent, _ = follow(name, dim=24, rounds=200, every=10, **scales)
    assert agent.certificate["proved"] == 0.0


@pytest.mark.parametrize("name", MEMORIES)
def test_rewards_that_come_late(name):
    follow(name, dim=20, rounds=700, every=10, late=40)


@pytest.mark.parametrize("name", MEMORIES)
def test_an_exact_model_is_computed_as_small_ones_are(name):
    """A large model is as near to the optimum, and has the certificate of a small one."""
    rng = np.random.default_rng(4)
    policy = db.policy(name, dim=20, exact=True, **MEMORIES[name])
    agent = db.Agent(policy, seed=1)
    witness = Witness(policy)
    for t in range(60):
        actions = unit_ball(rng, 5, 20)
        assert set(agent.certificate) == {"newton_decrement", "error_bound", "kkt_residual"}
        decision = agent.decide(actions)
        thought = witness.think(t, actions, agent.theta)
        assert np.linalg.norm(agent.theta_hat - thought.theta_hat) <= 1e-8
        assert np.linalg.norm(agent.theta - thought.theta) <= 1e-8
        reward = float(rng.integers(2))
        agent.update(decision, reward)
        witness.learn(decision.id, actions[decision.index], reward)


GENERALIZED = kinds.one_of_each(kinds.no(kinds.either(kinds.linear, kinds.believing)))
KEPT = [
    policy_checks.check_looking_changes_nothing,
    policy_checks.check_works_before_any_reward,
    policy_checks.check_scores_add_up,
    policy_checks.check_save_and_load_go_on,
    policy_checks.check_the_estimate_survives_a_save,
    policy_checks.check_a_batch_equals_its_single_calls,
]


@pytest.mark.parametrize("name", GENERALIZED)
def test_large_models_keep_what_all_policies_promise(name, tmp_path):
    case = Case(name, {"dim": 16})
    assert case.policy().model.fast
    for check in KEPT:
        check(case, tmp_path)


@pytest.mark.parametrize("name", ["SW-GLUCB", "D-GLUCB"])
def test_a_short_simulation_reads_nothing_behind_its_rows(name, monkeypatch):
    trace = draw_trace(db.environment("abrupt", dim=20, horizon=4, changes=1), 1, 0)
    policy = db.policy(name, dim=20, horizon=100, changes=1)
    expected = play(policy, trace, 5, EVERYTHING)
    new_buffers = db.Policy.new_buffers

    def between_numbers_that_are_none(policy, capacity):
        buffers = new_buffers(policy, capacity)
        memory = np.full(buffers.rows.size + 64, np.nan)
        rows = memory[: buffers.rows.size].reshape(buffers.rows.shape)
        rows[:] = 0.0
        return buffers._replace(rows=rows)

    monkeypatch.setattr(db.Policy, "new_buffers", between_numbers_that_are_none)
    assert_same_bits(play(policy, trace, 5, EVERYTHING), expected._asdict())
