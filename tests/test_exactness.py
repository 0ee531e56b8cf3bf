"""The fast path is exact: the same estimates and choices as plain Newton over all rows.

The witness of `plain.py` decides for itself in every round. Its choice must be that of the
compiled run wherever its two best scores differ by more than 1e-8. Where they do not, either choice
is right, and both go on from the one that the compiled run made.
"""

import numpy as np
import pytest
from scipy import special

import driftbandits as db
import plain
from driftbandits.core.estimator import estimate
from driftbandits.core.estimator.state import FOR_THETA_HAT, VALID, named
from driftbandits.environments import Abrupt, abrupt2d
from driftbandits.experiments import draw_trace, play, player_seed
from reference import Played, Reference

POLICIES = {
    "SW-GLUCB": {"window": 252},
    "D-GLUCB": {"discount": 0.996},
    "LogisticUCB": {},
}
TOLERANCE = 1e-8


def policy_of(name, **options):
    return db.policy(name, dim=2, **{"horizon": 6000, **POLICIES[name], **options})


def follow(policy, trace, chosen):
    """What the witness thinks in each round, given what was chosen before it."""
    witness = plain.Witness(policy)
    for t, choice in enumerate(chosen):
        yield witness.think(t, trace.actions[t])
        witness.learn(t + 1, trace.actions[t, choice], trace.rewards[t, choice])


def compare(policy, trace, seed):
    """The rounds where a choice was excepted."""
    run = play(policy, trace, seed, ("chosen", "theta_hat"))
    excepted = []
    for t, thought in enumerate(follow(policy, trace, run.chosen)):
        assert np.abs(thought.theta_hat - run.theta_hat[t]).max() <= TOLERANCE
        second, best = np.sort(thought.scores)[-2:]
        if best - second < TOLERANCE:
            excepted.append(t)
        else:
            assert run.chosen[t] == np.argmax(thought.scores), f"round {t + 1}"
    return excepted


@pytest.mark.compiled
@pytest.mark.parametrize("name", POLICIES)
def test_the_same_arms_as_plain_newton(name):
    trace = draw_trace(abrupt2d(horizon=3000), 0, 0)
    assert len(compare(policy_of(name, horizon=3000), trace, player_seed(0, 0))) < 5


# -- where the fast path cannot be trusted, and must notice ----------------------------------------


def steep_world(horizon):
    """Rewards that are nearly certain: the estimate moves far and the sigmoid bends strongly."""
    return Abrupt(horizon=horizon, changes=3, norm=5.0, radius=1.0)


@pytest.mark.compiled
@pytest.mark.parametrize("name", POLICIES)
def test_a_steep_problem_falls_back_and_stays_exact(name):
    T = 400
    options = {"horizon": T, "lam": 1e-3, "S": 5.0, "bonus_scale": 0.01}
    trace = draw_trace(steep_world(T), 0, 0)
    steep = policy_of(name, **options)
    compare(steep, trace, seed=5)
    mild = policy_of(name, horizon=T)
    run = db.simulate({"steep": steep, "mild": mild}, steep_world(T), runs=1)
    work = {who: {what: int(n[0]) for what, n in run.work[who].items()} for who in run.work}
    assert work["steep"]["damped_steps"] > 0
    assert work["steep"]["anchors"] > work["mild"]["anchors"] > 0
    assert work["steep"]["passes"] >= work["steep"]["anchors"]


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SW-GLUCB", {"window": 50}),
        ("D-GLUCB", {"discount": 0.9}),  # truncated after some 230 rounds
        ("D-GLUCB", {"discount": 0.9, "lam": 1e-2, "S": 5.0}),
        ("LogisticUCB", {}),
    ],
)
def test_the_certificate_bounds_the_error(name, options):
    policy = policy_of(name, horizon=600, **options)
    trace = draw_trace(steep_world(600) if policy.S > 1 else abrupt2d(horizon=600), 2, 0)
    run = play(policy, trace, 7, ("chosen",))
    agent = db.Agent(policy, seed=7)
    for t, thought in enumerate(follow(policy, trace, run.chosen)):
        certificate = agent.certificate  # of the fit that the next decision will use
        choice = agent.decide(trace.actions[t])
        error = np.linalg.norm(thought.theta_hat - agent.theta_hat)
        assert error <= certificate["error_bound"] + 1e-13 * (1.0 + 1.0 / policy.lam)
        assert certificate["error_bound"] <= TOLERANCE
        if np.linalg.norm(agent.theta_hat) > policy.S:
            assert np.abs(thought.theta - agent.theta).max() <= TOLERANCE
        agent.update(choice, trace.rewards[t, choice.index])
    assert agent.certificate["kkt_residual"] <= TOLERANCE


@pytest.mark.parametrize(("name", "options"), [("SW-GLUCB", {"window": 30}), ("D-GLUCB", {})])
def test_the_sums_kept_from_round_to_round_are_the_sums(name, options):
    T = 120
    policy = policy_of(name, horizon=T, **options)
    trace = draw_trace(abrupt2d(horizon=T), 4, 0)
    agent = db.Agent(policy, seed=0)
    chosen = []
    for t in range(T):
        choice = agent.decide(trace.actions[t])
        agent.update(choice, trace.rewards[t, choice.index])
        chosen.append(choice.index)
    state = named(agent._learner.model.buffers)
    remembered = min(T, policy.window or T)
    A = trace.actions[np.arange(T), chosen][-remembered:]
    w = (policy.discount or 1.0) ** np.arange(remembered)[::-1]
    powers = [(0, 0)]
    for parent, variable, *_ in state.ladder[1:]:
        powers.append(tuple(p + (j == variable) for j, p in enumerate(powers[parent])))
    assert state.counters[VALID]
    assert agent.work["anchors"] < T / 2, "most sums were carried over, not made anew"
    for i, power in enumerate(powers[1:], start=1):
        expected = plain.moment(A, w, state.anchors[FOR_THETA_HAT], power)
        assert abs(state.moments[FOR_THETA_HAT, i] - expected) <= 1e-11 * w.sum()


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "options"), [("SW-GLUCB", {"window": 40}), ("D-GLUCB", {})])
@pytest.mark.parametrize("d", [1, 3, 4, 7])
def test_what_is_carried_on_in_other_dimensions_is_a_fit_from_scratch(name, options, d):
    """Estimate and projection, each begun from the last; in 7 dimensions by passes alone."""
    T = 160
    policy = db.policy(name, dim=d, horizon=T, S=0.7, **{**POLICIES[name], **options})
    rng = np.random.default_rng(d)
    offered = rng.normal(size=(T, 5, d))
    offered /= np.linalg.norm(offered, axis=2, keepdims=True)  # so that L is 1 for both
    truth = 3.0 * offered[0, 0]
    agent = db.Agent(policy, seed=0)
    rows, rewards, outside = [], [], 0
    for t in range(T):
        choice = agent.decide(offered[t])
        if t >= 20 and t % 4 == 0:
            kept = {"window": policy.window} if policy.window else {"discount": policy.discount}
            fit = estimate(rows, rewards, link=policy.link, lam=policy.lam, S=0.7, **kept)
            np.testing.assert_allclose(agent.theta_hat, fit.theta_hat, rtol=0, atol=TOLERANCE)
            np.testing.assert_allclose(agent.theta, fit.theta, rtol=0, atol=TOLERANCE)
            outside += np.linalg.norm(fit.theta_hat) > 0.7
        rows.append(offered[t, choice.index])
        rewards.append(float(rng.random() < special.expit(rows[-1] @ truth)))
        agent.update(choice, rewards[-1])
    assert outside > 10
    assert agent.work["projections"] > 40
    if d == 7:  # a comparison with the radial projection is a pass without an anchor
        assert agent.work["passes"] > agent.work["anchors"] > T


# -- the witness itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [1.0, 1e-3])
@pytest.mark.parametrize("name", POLICIES)
def test_the_witness_is_what_scipy_finds(name, lam):
    """Both estimates and every score, from the definitions and SciPy's own solvers."""
    options = {**POLICIES[name], "horizon": 60, "lam": lam}
    definition = Reference(name, 2, **options)
    trace = draw_trace(abrupt2d(horizon=60), 3, 0)
    chosen = np.random.default_rng(1).integers(0, trace.arms, 60)
    played = []
    for t, thought in enumerate(follow(policy_of(name, **options), trace, chosen)):
        if t % 7 == 0:
            expected = definition.score(t, played, trace.actions[t])
            np.testing.assert_allclose(thought.theta_hat, expected.theta_hat, rtol=0, atol=1e-9)
            np.testing.assert_allclose(thought.theta, expected.theta, rtol=0, atol=1e-8)
            np.testing.assert_allclose(thought.scores, expected.scores, rtol=1e-8)
        action = trace.actions[t, chosen[t]]
        played.append(Played(t + 1, action, trace.rewards[t, chosen[t]]))
