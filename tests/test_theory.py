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


def plain_rho_window(p, t, tau, log_confidence):
    c_t = (
        p.m
        / 2
        * math.sqrt(
            2 * log_confidence + p.d * math.log(1 + p.c * p.L**2 * min(t, tau) / (p.d * p.lam))
        )
    )
    return 2 * p.k / p.c * (c_t + math.sqrt(p.c * p.lam) * p.S)


def plain_forgetting_time(gamma):
    return math.log(1 / (1 - gamma)) / (1 - gamma)


def plain_rho_discount(p, t, gamma):
    count = (1 - gamma ** (2 * t)) / (1 - gamma**2)
    c_t = (
        p.m
        / 2
        * math.sqrt(
            2 * math.log(1 / p.delta) + p.d * math.log(1 + p.c * p.L**2 * count / (p.d * p.lam))
        )
    )
    tail = gamma ** plain_forgetting_time(gamma) / (1 - gamma)
    bias = 2 * p.L**2 * p.S * p.k * math.sqrt(p.c / p.lam) * tail
    return 2 * p.k / p.c * (c_t + math.sqrt(p.c * p.lam) * p.S + bias)


def plain_rho_stationary(p, t):
    return plain_rho_window(p, t, t, math.log(1 / p.delta))


def plain_linear_radius(p, n, log_confidence):
    wide = math.sqrt(2 * log_confidence + p.d * math.log(1 + n * p.L**2 / (p.lam * p.d)))
    return math.sqrt(p.lam) * p.S + p.m / 2 * wide


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
    assert rho == pytest.approx(plain_rho_stationary(p, t), rel=1e-12)


SETTINGS = {
    "plain": {},
    "other numbers": {"lam": 0.3, "S": 1.4, "L": 0.8, "delta": 0.2, "bonus_scale": 0.1},
    "intercept": {"intercept": True, "S": 0.7, "lam": 2.0},
    "five trials": {"link": "binomial", "m": 5},
    "counts": {"link": "poisson", "m": 30, "S": 0.5},
}
GLM_ROWS = ("SW-GLUCB", "D-GLUCB", "LogisticUCB")
LINEAR_ROWS = ("SW-LinUCB", "D-LinUCB", "LinUCB")
SLOPES = {  # largest and smallest slope, by z = L S
    "logistic": lambda z: (0.25, math.exp(-z) / (1 + math.exp(-z)) ** 2),
    "binomial": lambda z: (1.25, 5 * math.exp(-z) / (1 + math.exp(-z)) ** 2),
    "poisson": lambda z: (math.exp(z), math.exp(-z)),
    "identity": lambda z: (1.0, 1.0),
}


def plain_problem(name, settings, dim=2):
    intercept = settings.get("intercept", False)
    L, S = settings.get("L", 1.0), settings.get("S", 1.0)
    L = math.sqrt(L**2 + 1) if intercept else L
    model = "identity" if name in LINEAR_ROWS else settings.get("link", "logistic")
    k, c = SLOPES[model](L * S)
    return theory.Problem(
        d=dim + intercept,
        k=k,
        c=c,
        lam=settings.get("lam", 1.0),
        L=L,
        S=S,
        m=settings.get("m", 1.0),
        delta=settings.get("delta", 0.01),
    )


def plain_radius(name, p, t, tau, gamma, horizon):
    union = math.log((horizon if horizon and t <= horizon else t * (t + 1)) / p.delta)
    anytime = math.log(1 / p.delta)
    n = t - 1
    return {
        "SW-GLUCB": lambda: plain_rho_window(p, t, tau, union),
        "D-GLUCB": lambda: plain_rho_discount(p, t, gamma),
        "LogisticUCB": lambda: plain_rho_stationary(p, t),
        "SW-LinUCB": lambda: plain_linear_radius(p, min(n, tau), union),
        "D-LinUCB": lambda: plain_linear_radius(
            p, (1 - gamma ** (2 * n)) / (1 - gamma**2), anytime
        ),
        "LinUCB": lambda: plain_linear_radius(p, n, anytime),
    }[name]()


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("horizon", [None, 500])
@pytest.mark.parametrize("name", GLM_ROWS + LINEAR_ROWS)
def test_the_widths_of_a_decision_are_the_radius_times_the_norm(name, horizon, settings):
    """Before any reward the design is (lam/c) I, so widths are rho_t ||a|| sqrt(c/lam)."""
    tau, gamma = 40, 0.97
    if name in LINEAR_ROWS:
        settings = {key: value for key, value in settings.items() if key != "link"}
    policy = db.policy(name, dim=2, window=tau, discount=gamma, horizon=horizon, **settings)
    p = plain_problem(name, settings)
    actions = np.array([[0.6, 0.0], [0.0, -0.8], [0.3, 0.4]])
    seen = np.column_stack([actions, np.ones(3)]) if settings.get("intercept") else actions
    norms = np.sqrt((seen**2).sum(axis=1) * p.c / p.lam)
    agent = db.Agent(policy)
    for t in (1, 2, 40, 41, 42, 499, 500, 501, 5000):
        agent.tick(t - 1 - agent.clock)
        choice = agent.decide(actions)
        assert choice.round == t
        radius = settings.get("bonus_scale", 1.0) * plain_radius(name, p, t, tau, gamma, horizon)
        np.testing.assert_allclose(choice.widths, radius * norms, rtol=1e-9)


def plain_designs(rows, tau, gamma, ridge):
    """V over everything and over the window, W and W~ after the rows, as plain sums."""
    start = ridge * np.eye(rows.shape[1])
    weights = gamma ** np.arange(len(rows) - 1, -1, -1.0)
    return (
        start + rows.T @ rows,
        start + rows[-tau:].T @ rows[-tau:],
        start + (rows * weights[:, None]).T @ rows,
        start + (rows * weights[:, None] ** 2).T @ rows,
    )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", GLM_ROWS + LINEAR_ROWS)
def test_the_bonus_is_measured_in_the_norm_of_the_row(name, intercept):
    """V^-1 or W^-1, and W^-1 W~ W^-1 for D-LinUCB alone."""
    tau, gamma, count = 25, 0.93, 60
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(count, 2))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    actions = rows[:4]
    agent = db.Agent(db.policy(name, dim=2, window=tau, discount=gamma, intercept=intercept))
    agent.learn(rows, rng.integers(0, 2, count))
    choice = agent.decide(actions)

    def as_seen(a):
        return np.column_stack([a, np.ones(len(a))]) if intercept else a

    p = plain_problem(name, {"intercept": intercept})
    everything, window, W, W_squared = plain_designs(as_seen(rows), tau, gamma, p.lam / p.c)
    inverse = np.linalg.inv(W if "D-" in name else window if "SW-" in name else everything)
    matrix = inverse @ W_squared @ inverse if name == "D-LinUCB" else inverse
    norms = np.sqrt(np.einsum("ij,jk,ik->i", as_seen(actions), matrix, as_seen(actions)))
    radius = plain_radius(name, p, count + 1, tau, gamma, None)
    np.testing.assert_allclose(choice.widths, radius * norms, rtol=1e-9)
    # the rest of the algorithm's line: theta-tilde predicts, and the highest bound is played
    z = as_seen(actions) @ agent.theta
    means = z if name in LINEAR_ROWS else 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(choice.means, means, rtol=1e-12)
    assert choice.index == np.argmax(means + radius * norms)


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
