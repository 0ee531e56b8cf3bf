"""Tuning rules, radii, bounds and covered rounds against the paper's formulas, written plainly."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import driftbandits as db
from driftbandits.core import links, theory

LOGISTIC_K = 0.25
LOGISTIC_C = math.exp(-1) / (1 + math.exp(-1)) ** 2  # slope at L S = 1
PAPER = theory.Problem(d=2, k=LOGISTIC_K, c=LOGISTIC_C)
T, CHANGES, TAU = 6000, 3, 252
GAMMA = 1 - (3 / 12000) ** (2 / 3)


# The formulas of the paper, with nothing shared with the package.


def plain_deviation(p, log_confidence, count):
    log_det = p.d * math.log(1 + p.c * p.L**2 * count / (p.d * p.lam))
    return p.m / 2 * math.sqrt(2 * log_confidence + log_det)


def plain_rho_window(p, t, tau, log_confidence):
    c_t = plain_deviation(p, log_confidence, min(t, tau))
    return 2 * p.k / p.c * (c_t + math.sqrt(p.c * p.lam) * p.S)


def plain_forgetting_time(gamma):
    return math.log(1 / (1 - gamma)) / (1 - gamma)


def plain_rho_discount(p, t, gamma):
    c_t = plain_deviation(p, math.log(1 / p.delta), (1 - gamma ** (2 * t)) / (1 - gamma**2))
    tail = gamma ** plain_forgetting_time(gamma) / (1 - gamma)
    bias = 2 * p.L**2 * p.S * p.k * math.sqrt(p.c / p.lam) * tail
    return 2 * p.k / p.c * (c_t + math.sqrt(p.c * p.lam) * p.S + bias)


problems = st.builds(
    theory.Problem,
    d=st.integers(1, 20),
    k=st.floats(0.1, 3.0),
    c=st.floats(1e-4, 0.1),
    lam=st.floats(1e-3, 100.0),
    L=st.floats(0.1, 10.0),
    S=st.floats(0.1, 10.0),
    m=st.floats(0.5, 10.0),
    delta=st.floats(1e-6, 0.5),
)
rounds = st.integers(1, 10**6)
windows = st.integers(1, 10**5)
discounts = st.floats(0.01, 0.9999)


# -- tuning ----------------------------------------------------------------------------------------


def test_the_papers_experiment_is_tuned_as_it_says():
    assert theory.tuned_window(dim=2, horizon=T, changes=CHANGES) == TAU
    assert theory.tuned_discount(dim=2, horizon=T, changes=CHANGES) == pytest.approx(GAMMA)
    assert round(GAMMA, 5) == 0.99603


@given(
    dim=st.integers(1, 50),
    horizon=st.integers(2, 10**6),
    changes=st.one_of(st.none(), st.integers(1, 50)),
)
def test_the_tuned_window_is_the_least_whole_number_that_the_rule_allows(dim, horizon, changes):
    """tau >= (dT/Gamma)^(2/3) is tau^3 Gamma^2 >= (dT)^2, which whole numbers decide exactly."""
    known = changes or 1
    if known >= dim * horizon:
        for rule in (theory.tuned_window, theory.tuned_discount):
            with pytest.raises(ValueError, match=f"less than dim \\* horizon = {dim * horizon}"):
                rule(dim=dim, horizon=horizon, changes=changes)
        return
    tau = theory.tuned_window(dim=dim, horizon=horizon, changes=changes)
    assert tau**3 * known**2 >= (dim * horizon) ** 2 > (tau - 1) ** 3 * known**2
    gamma = theory.tuned_discount(dim=dim, horizon=horizon, changes=changes)
    # (1 - gamma)^3 (dT)^2 = Gamma^2
    assert (1 - gamma) ** 3 * (dim * horizon) ** 2 == pytest.approx(known**2, rel=1e-6)


def test_without_changes_nothing_is_forgotten():
    assert theory.tuned_window(dim=3, horizon=500, changes=0) == 500
    assert theory.tuned_discount(dim=3, horizon=500, changes=0) == 1 - 1 / 500
    assert theory.tuned_window(dim=3, horizon=1, changes=0) == 1
    with pytest.raises(ValueError, match="horizon must be an integer of at least 2"):
        theory.tuned_discount(dim=3, horizon=1, changes=0)


@pytest.mark.parametrize("rule", [theory.tuned_window, theory.tuned_discount])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 2, "horizon": 3, "changes": 6}, "changes must be less than dim * horizon = 6"),
        ({"dim": 0, "horizon": 9}, "dim must be an integer of at least 1; got 0"),
        ({"dim": 2, "horizon": 9.5}, "horizon must be an integer of at least 1; got 9.5"),
        ({"dim": 2, "horizon": 9, "changes": -1}, "changes must be an integer of at least 0"),
    ],
)
def test_a_rule_refuses_what_it_cannot_tune(rule, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        rule(**arguments)


@given(gamma=discounts)
def test_the_forgetting_time_is_its_formula(gamma):
    assert theory.forgetting_time(gamma) == pytest.approx(plain_forgetting_time(gamma), rel=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.5, 1.5, math.nan])
def test_a_discount_outside_the_open_interval_is_refused(gamma):
    for call in (
        lambda: theory.forgetting_time(gamma),
        lambda: theory.rho_discount(PAPER, t=1, gamma=gamma),
        lambda: theory.covered_by_discount(np.zeros((3, 2)), gamma=gamma),
    ):
        with pytest.raises(ValueError, match=r"gamma must be .* greater than 0 and less than 1"):
            call()


@pytest.mark.parametrize("tau", [0, -3])
def test_a_window_below_one_is_refused(tau):
    for call in (
        lambda: theory.rho_window(PAPER, t=1, tau=tau),
        lambda: theory.covered_by_window(np.zeros((3, 2)), tau=tau),
    ):
        with pytest.raises(ValueError, match="tau must be an integer of at least 1"):
            call()


# -- radii -----------------------------------------------------------------------------------------


@given(p=problems, t=rounds, tau=windows, horizon=st.one_of(st.none(), rounds))
def test_the_window_radius_is_the_papers(p, t, tau, horizon):
    known = horizon is not None and t <= horizon
    confidence = math.log((horizon if known else t * (t + 1)) / p.delta)
    got = theory.rho_window(p, t=t, tau=tau, horizon=horizon)
    assert got == pytest.approx(plain_rho_window(p, t, tau, confidence), rel=1e-12)


@given(p=problems, t=rounds, gamma=discounts)
def test_the_discounted_radius_is_the_papers(p, t, gamma):
    got = theory.rho_discount(p, t=t, gamma=gamma)
    assert got == pytest.approx(plain_rho_discount(p, t, gamma), rel=1e-9)


@given(p=problems, t=rounds)
def test_the_stationary_radius_needs_no_union_bound(p, t):
    rho = theory.radius(theory.confidence_of(p), float(t))
    assert rho == pytest.approx(plain_rho_window(p, t, t, math.log(1 / p.delta)), rel=1e-12)


GLM_ROWS = ("SW-GLUCB", "D-GLUCB", "LogisticUCB")
LINEAR_ROWS = ("SW-LinUCB", "D-LinUCB", "LinUCB")


# -- assumptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GLM_ROWS + LINEAR_ROWS)
def test_what_breaks_an_assumption_is_refused(name):
    """Assumptions 1 and 3, and 4 where a policy is made."""
    agent = db.Agent(db.policy(name, dim=2, window=5, discount=0.9, L=2.0))
    with pytest.raises(ValueError, match=r"actions must not be longer than L = 2; .* length 2.5"):
        agent.decide([[0.0, 1.0], [1.5, 2.0]])
    choice = agent.decide([[0.0, 2.0 + 1e-10]])  # longer only by rounding
    for reward in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"reward must be a number in \[0, 1\]"):
            agent.update(choice, reward)
    for reward in (0.0, 1.0):  # both ends belong to the range
        agent.update(choice, reward)
        choice = agent.decide([[0.0, 1.0]])
    if name in GLM_ROWS:
        with pytest.raises(ValueError, match=r"L \* S = 800 is too large for the logistic model"):
            db.policy(name, dim=2, window=5, discount=0.9, L=2.0, S=400.0)


# -- what the theorems say ------------------------------------------------------------------------


@given(p=problems, tau=st.integers(1, 5000), horizon=st.integers(1, 10**5), changes=rounds)
def test_the_regret_bound_of_the_window_is_the_theorem(p, tau, horizon, changes):
    rho = plain_rho_window(p, horizon, tau, math.log(horizon / p.delta))
    segments = -(-horizon // tau)
    log_det = math.log1p(p.c * p.L**2 * tau / (p.d * p.lam))  # log(1 + x) loses a small x
    stay = 2 * math.sqrt(2) * rho * math.sqrt(horizon) * math.sqrt(p.d * segments * log_det)
    got = theory.regret_bound_window(p, horizon=horizon, tau=tau, changes=changes)
    assert got == pytest.approx(stay + p.m * changes * tau, rel=1e-9)


@given(p=problems, gamma=discounts, horizon=st.integers(1, 10**5), changes=rounds)
def test_the_regret_bound_of_discounting_is_the_theorem(p, gamma, horizon, changes):
    rho = plain_rho_discount(p, horizon, gamma)
    inner = horizon * math.log(1 / gamma) + math.log(1 + p.c * p.L**2 / (p.d * p.lam * (1 - gamma)))
    stay = 2 * rho * math.sqrt(2 * p.d * horizon) * math.sqrt(inner)
    got = theory.regret_bound_discount(p, horizon=horizon, gamma=gamma, changes=changes)
    assert got == pytest.approx(stay + p.m * changes * plain_forgetting_time(gamma), rel=1e-9)


def test_the_bounds_of_the_papers_experiment_are_vacuous():
    """About 23,900 and 14,700 of regret over 6,000 rounds."""
    window = theory.regret_bound_window(PAPER, horizon=T, tau=TAU, changes=CHANGES)
    discount = theory.regret_bound_discount(PAPER, horizon=T, gamma=GAMMA, changes=CHANGES)
    assert window == pytest.approx(23_900, abs=100)
    assert discount == pytest.approx(14_700, abs=100)
    assert min(window, discount) > T


def path_of(segments):
    """A parameter path (T, 1) from (length, value) pairs."""
    return np.array([[float(value)] for length, value in segments for _ in range(length)])


paths = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2)), min_size=1, max_size=8).map(
    path_of
)


@given(path=paths, tau=st.integers(1, 40))
def test_the_rounds_covered_by_a_window_are_the_set_of_the_definition(path, tau):
    value = {t: path[t - 1, 0] for t in range(1, len(path) + 1)}
    literal = [
        all(value[s] == value[t] for s in range(t - tau, t + 1) if s in value) for t in value
    ]
    np.testing.assert_array_equal(theory.covered_by_window(path, tau=tau), literal)


@given(path=paths, gamma=st.floats(0.02, 0.95))
def test_the_rounds_covered_by_discounting_are_the_set_of_the_definition(path, gamma):
    value = {t: path[t - 1, 0] for t in range(1, len(path) + 1)}
    D = plain_forgetting_time(gamma)
    literal = [all(value[s] == value[t] for s in value if t - D < s <= t) for t in value]
    np.testing.assert_array_equal(theory.covered_by_discount(path, gamma=gamma), literal)


def small_world(horizon, change, seed):
    """Actions in the unit disc and a parameter on the unit circle that turns round once."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(horizon, 5, 2))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    actions = directions * np.sqrt(rng.random((horizon, 5, 1)))
    theta = np.where(np.arange(horizon)[:, None] < change, [[1.0, 0.0]], [[-1.0, 0.0]])
    return actions, theta, rng.random(horizon)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["SW-GLUCB", "D-GLUCB"])
def test_the_bounds_hold_for_every_action_of_every_covered_round(name):
    """Propositions 1 and 2 for all actions at once, and the regret bound of their corollaries."""
    horizon, change, tau, gamma = 400, 200, 50, 0.9
    policy = db.policy(name, dim=2, window=tau, discount=gamma, horizon=horizon)
    checked = 0
    for seed in range(3):
        actions, theta, uniforms = small_world(horizon, change, seed)
        covered = (
            theory.covered_by_window(theta, tau=tau)
            if name == "SW-GLUCB"
            else theory.covered_by_discount(theta, gamma=gamma)
        )
        agent = db.Agent(policy, seed=seed)
        for t in range(horizon):
            choice = agent.decide(actions[t])
            means = 1 / (1 + np.exp(-actions[t] @ theta[t]))
            if covered[t]:
                assert (np.abs(choice.means - means) <= choice.widths).all()
                assert means.max() - means[choice.index] <= 2 * choice.widths[choice.index]
                checked += 1
            agent.update(choice, float(uniforms[t] < means[choice.index]))
    assert 3 * (horizon - 60) <= checked < 3 * horizon


def test_the_self_normalised_noise_keeps_its_deviation_at_a_round_but_not_at_all_rounds_at_once():
    """Corollary corollary:S_t by simulation.

    At any one round the deviation is crossed in at most a share delta of the runs. The corollary
    says so of all rounds at once, and that is a slip: the discounted noise never settles, so
    the longer a run the surer a crossing. A radius without a horizon is therefore no anytime bound.
    """
    gamma, ridge, d, delta, horizon, runs = 0.95, 2.0, 2, 0.2, 600, 400
    rng = np.random.default_rng(5)
    S, W_squared = np.zeros((runs, d)), np.tile(ridge * np.eye(d), (runs, 1, 1))
    crossed = np.zeros((horizon, runs), dtype=bool)
    crossed_half = np.zeros((horizon, runs), dtype=bool)
    for t in range(1, horizon + 1):
        a = rng.normal(size=(runs, d))
        a /= np.linalg.norm(a, axis=1, keepdims=True)
        noise = rng.integers(0, 2, runs) - 0.5  # m = 1, sigma = 1/2
        # gamma^t S_t and gamma^(2t) V~_t stay of order 1, and have the same self-normalised norm
        S = gamma * S + a * noise[:, None]
        W_squared = gamma**2 * W_squared + a[:, :, None] * a[:, None, :]
        W_squared += (1 - gamma**2) * ridge * np.eye(d)
        whitened = np.linalg.solve(W_squared, S[:, :, None])[..., 0]
        norms = np.sqrt((S * whitened).sum(axis=1))
        count = theory.discounted_count(gamma, float(t))
        bound = theory.deviation(count, math.log(1 / delta), 0.5, float(d), 1 / (d * ridge))
        crossed[t - 1] = norms >= bound
        crossed_half[t - 1] = norms >= bound / 2
    assert crossed.mean(axis=1).max() <= delta
    assert crossed_half.mean(axis=1).max() > delta  # so the deviation is not wide for nothing
    assert crossed.any(axis=0).mean() > 0.8


@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("z", [-3.0, 0.0, 1.5])
def test_bounded_noise_is_subgaussian_with_half_its_range(m, z):
    """Lemma lemma:hoeffding_conditional: E exp(x eta) <= exp(x^2 m^2 / 8)."""
    mean = float(links.link("binomial", m=m).mean(z))
    rewards = np.arange(m + 1)
    probabilities = stats.binom.pmf(rewards, m, mean / m)
    for x in np.linspace(-6.0, 6.0, 49):
        moment = probabilities @ np.exp(x * (rewards - mean))
        assert moment <= math.exp(x**2 * m**2 / 8) * (1 + 1e-12)
