"""Estimates, designs and projections against other libraries, plain sums and many-start search."""

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special
from sklearn.linear_model import LogisticRegression

import driftbandits as db
from driftbandits.core.estimator import estimate
from driftbandits.core.links import link
from driftbandits.environments import Trace
from driftbandits.experiments import play

EPS = np.finfo(float).eps
MODELS = {
    "logistic": link("logistic"),
    "binomial": link("binomial", m=5),
    "identity": link("identity", m=3.0),
    "poisson": link("poisson", m=30),
}
CURVED = ("logistic", "binomial", "poisson")


# -- plain definitions -----------------------------------------------------------------------------


def mean_of(name, z):
    """mu, in the precision of z."""
    if name == "identity":
        return z
    if name == "poisson":
        return np.exp(z)
    return MODELS[name].m / (1 + np.exp(-z))


def log_partition_of(name, z):
    if name == "identity":
        return z**2 / 2
    return np.exp(z) if name == "poisson" else MODELS[name].m * np.logaddexp(0, z)


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, rewards and how they are remembered, with every quantity as a sum over rows."""

    rows: np.ndarray
    rewards: np.ndarray
    model: str = "logistic"
    lam: float = 1.0
    S: float = 1.0
    window: int | None = None
    discount: float | None = None

    def __repr__(self):
        n, d = self.rows.shape
        memory = f"window={self.window}, discount={self.discount}"
        return f"Problem({self.model}, {n=}, {d=}, lam={self.lam}, S={self.S}, {memory})"

    @cached_property
    def weights(self):
        age = np.arange(len(self.rows) - 1, -1, -1.0)
        if self.window is not None:
            return (age < self.window).astype(float)
        return np.ones(len(age)) if self.discount is None else self.discount**age

    def estimate(self, projection="exact"):
        return estimate(
            self.rows,
            self.rewards,
            link=MODELS[self.model],
            lam=self.lam,
            S=self.S,
            window=self.window,
            discount=self.discount,
            projection=projection,
        )

    @cached_property
    def ridge(self):
        L = max(np.linalg.norm(row) for row in self.rows)
        return self.lam / MODELS[self.model].c_mu(L=L, S=self.S)

    def design(self, power=1):
        """V or W; with power 2, W~."""
        d = self.rows.shape[1]
        weights = self.weights**power
        return sum(
            (w * np.outer(a, a) for w, a in zip(weights, self.rows, strict=True)),
            self.ridge * np.eye(d),
        )

    @cached_property
    def projection_norm(self):
        """Inverse of V, or of W~ for discounting."""
        return np.linalg.inv(self.design(power=2))

    def g(self, theta):
        weighted = self.weights * mean_of(self.model, self.rows @ theta)
        return weighted @ self.rows + self.lam * theta

    def jacobian(self, theta):
        weighted = self.weights * MODELS[self.model].slope(self.rows @ theta)
        return (self.rows.T * weighted) @ self.rows + self.lam * np.eye(len(theta))

    def score(self, theta):
        """The left side of eq_MLE_SW and eq_MLE_D in long doubles."""
        rows, theta = self.rows.astype(np.longdouble), np.asarray(theta, dtype=np.longdouble)
        residuals = self.rewards - mean_of(self.model, rows @ theta)
        return (self.weights * residuals) @ rows - self.lam * theta

    def loss(self, theta):
        """Minus eq_log_likelihood_SW or eq_log_likelihood_D, without what theta does not touch."""
        z = self.rows @ theta
        terms = log_partition_of(self.model, z) - self.rewards * z
        return self.weights @ terms + self.lam / 2 * (theta @ theta)

    @cached_property
    def root(self):
        """theta-hat by damped Newton with residuals in long doubles."""
        d = self.rows.shape[1]
        theta = np.zeros(d, dtype=np.longdouble)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(2000):
                jacobian = self.jacobian(theta.astype(float))
                score = self.score(theta)
                step = np.linalg.solve(jacobian, score.astype(float))
                squared_decrement = float(score @ step)
                loss, fraction = self.loss(theta), 1.0
                # close to the root the loss is flat to rounding, and full steps contract
                while squared_decrement > 1e-12 and not (
                    self.loss(theta + fraction * step) <= loss - 1e-4 * fraction * squared_decrement
                ):
                    fraction /= 2
                theta = theta + fraction * step
                if np.linalg.norm(step) <= 1e-17 * (1 + np.linalg.norm(theta.astype(float))):
                    break
        return theta

    def rounding(self, theta):
        """Bound the change of theta-hat by rounding in a sum over the rows."""
        lengths = np.linalg.norm(self.rows, axis=1)
        means = np.abs(mean_of(self.model, self.rows @ theta))
        mass = lengths @ (np.abs(self.rewards) + means) + self.lam * np.linalg.norm(theta)
        return 32 * EPS * mass * np.trace(np.linalg.inv(self.jacobian(theta)))

    def squared_distance(self, theta):
        """Squared objective of eq:theta_tilde_SW and eq:theta_tilde_D."""
        gap = (self.weights * self.rewards) @ self.rows - self.g(theta)
        return float(gap @ self.projection_norm @ gap)

    def squared_distance_gradient(self, theta):
        gap = (self.weights * self.rewards) @ self.rows - self.g(theta)
        return -2 * self.jacobian(theta) @ (self.projection_norm @ gap)


def in_ball(rng, n, d, L=1.0):
    directions = rng.normal(size=(n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return L * directions * rng.random((n, 1)) ** (1 / d)


def rewards_of(rng, model, n):
    if model == "identity":
        return rng.uniform(0.0, 3.0, n)
    return rng.integers(0, {"logistic": 2, "binomial": 6, "poisson": 8}[model], n).astype(float)


@st.composite
def problems(draw, models=tuple(MODELS), most=6, lengths=(0.5, 1.0, 4.0), reach=3.0):
    """Problems of every kind; L S is at most `reach`."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    model = draw(st.sampled_from(models))
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, most))
    L = draw(st.sampled_from(lengths))
    rows = in_ball(rng, n, d, L)
    kind = draw(st.sampled_from(["plain", "repeated", "one-hot"]))
    if kind == "repeated":
        rows = rows[rng.integers(0, min(n, 2), n)]
    elif kind == "one-hot":
        rows = L * np.eye(d)[rng.integers(0, d, n)]
    rewards = rewards_of(rng, model, n)
    if draw(st.booleans()) and model != "identity":  # a hyperplane separates the rewards
        rewards = {"logistic": 1.0, "binomial": 5.0, "poisson": 4.0}[model] * (rows[:, 0] > 0)
    memory = draw(st.sampled_from(["all", "window", "discount"]))
    return Problem(
        rows,
        rewards,
        model,
        lam=draw(st.sampled_from([0.01, 0.3, 1.0, 20.0])),
        S=draw(st.sampled_from([0.1, 0.5, 1.0])) * reach / L,
        window=draw(st.integers(1, n + 3)) if memory == "window" else None,
        discount=draw(st.sampled_from([0.3, 0.8, 0.99])) if memory == "discount" else None,
    )


def assert_is_the_estimate(problem, fit):
    """Certified, near the root of long doubles, and with no score left."""
    root = problem.root.astype(float)
    rounding = problem.rounding(root)
    distance = np.linalg.norm((fit.theta_hat - problem.root).astype(float))
    assert distance <= fit.error_bound + rounding
    assert fit.error_bound <= 1e-8 + rounding
    stiffest = np.linalg.norm(problem.jacobian(root), 2)
    score = np.linalg.norm(problem.score(fit.theta_hat).astype(float))
    # |mu''| <= mu', so the Jacobian between two points this near is the Jacobian
    assert score <= 1.1 * stiffest * (fit.error_bound + rounding)
    left = problem.score(fit.theta_hat).astype(float)
    decrement = math.sqrt(left @ np.linalg.solve(problem.jacobian(fit.theta_hat), left))
    assert decrement <= 1e-8 * math.sqrt(stiffest) + rounding * math.sqrt(stiffest)
    if problem.model != "identity":  # where one step is exact, however long it was
        assert fit.newton_decrement <= 1e-3


# -- theta-hat -------------------------------------------------------------------------------------


@settings(max_examples=3 * settings.default.max_examples)
@given(problem=problems())
def test_the_estimate_is_the_root_of_the_score(problem):
    assert_is_the_estimate(problem, problem.estimate())


@given(problem=problems())
def test_the_estimate_maximises_the_penalised_likelihood(problem):
    """SciPy climbs the likelihood itself, and gets no higher."""
    fit = problem.estimate()
    found = optimize.minimize(
        problem.loss,
        np.zeros(problem.rows.shape[1]),
        jac=lambda theta: problem.g(theta) - (problem.weights * problem.rewards) @ problem.rows,
        hess=problem.jacobian,
        method="trust-exact",
        options={"gtol": 1e-9, "initial_trust_radius": 0.1},
    )
    assert problem.loss(fit.theta_hat) <= found.fun + 1e-12 * (1 + abs(found.fun))
    np.testing.assert_allclose(fit.theta_hat, found.x, atol=1e-7)


MEMORIES = {"everything": {}, "window": {"window": 70}, "discount": {"discount": 0.97}}
every_memory = pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)


@every_memory
@pytest.mark.parametrize(("d", "lam"), [(1, 1.0), (3, 0.1), (8, 5.0)])
def test_logistic_estimates_are_those_of_scikit_learn(d, lam, memory):
    rng = np.random.default_rng([1, d])
    problem = Problem(in_ball(rng, 120, d), rewards_of(rng, "logistic", 120), lam=lam, **memory)
    kept = problem.weights > 0
    other = LogisticRegression(
        C=1 / lam, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(problem.rows[kept], problem.rewards[kept], sample_weight=problem.weights[kept])
    np.testing.assert_allclose(problem.estimate().theta_hat, other.coef_[0], atol=1e-8)


@every_memory
@pytest.mark.parametrize(("d", "lam"), [(1, 1.0), (3, 0.1), (8, 5.0)])
def test_poisson_estimates_are_those_of_statsmodels(d, lam, memory):
    rng = np.random.default_rng([2, d])
    rows = in_ball(rng, 120, d, L=1.5)
    problem = Problem(rows, rewards_of(rng, "poisson", 120), "poisson", lam=lam, S=2.0, **memory)
    kept = problem.weights > 0
    other = sm.GLM(
        problem.rewards[kept],
        problem.rows[kept],
        family=sm.families.Poisson(),
        freq_weights=problem.weights[kept],
    )
    fit = problem.estimate()
    # its score is that of the likelihood without the penalty
    np.testing.assert_allclose(
        other.score(fit.theta_hat, scale=1.0), lam * fit.theta_hat, atol=3e-7
    )
    # its ridge is per observation, and its line search stops at a gradient of 1e-5
    ridge = other.fit_regularized(alpha=lam / other.nobs, L1_wt=0.0)
    assert problem.loss(fit.theta_hat) <= problem.loss(np.asarray(ridge.params))
    np.testing.assert_allclose(fit.theta_hat, ridge.params, atol=1e-3)


@given(problem=problems(models=("identity",)))
def test_the_identity_is_ridge_regression(problem):
    w, A = problem.weights, problem.rows
    gram = (A.T * w) @ A + problem.lam * np.eye(A.shape[1])
    closed_form = np.linalg.solve(gram, (w * problem.rewards) @ A)
    np.testing.assert_allclose(
        problem.estimate().theta_hat, closed_form, rtol=1e-9, atol=1e-11 * np.linalg.cond(gram)
    )


@pytest.mark.compiled
@pytest.mark.parametrize("model", MODELS)
@every_memory
def test_a_hundred_dimensions(model, memory):
    rng = np.random.default_rng(11)
    rows, rewards = in_ball(rng, 150, 100, L=2.0), rewards_of(rng, model, 150)
    problem = Problem(rows, rewards, model, lam=0.1, S=1.0, **memory)
    fit = problem.estimate()
    assert_is_the_estimate(problem, fit)
    np.testing.assert_allclose(fit.design, problem.design(), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("d", [1, 4])
@every_memory
def test_hardly_any_penalty_on_separable_repeated_rows(model, d, memory):
    """lam = 1e-8: theta-hat is held by next to nothing, in directions that no row has."""
    rng = np.random.default_rng(12)
    rows = np.repeat(in_ball(rng, 5, d), 20, axis=0)
    rewards = {"identity": 3.0, "poisson": 4.0}.get(model, MODELS[model].m) * (rows[:, 0] > 0)
    problem = Problem(rows, rewards, model, lam=1e-8, **memory)
    assert_is_the_estimate(problem, problem.estimate())


def test_lengths_that_differ_by_six_orders_in_one_table():
    rng = np.random.default_rng(14)
    rows = in_ball(rng, 80, 3) * np.geomspace(1e-3, 1e3, 80)[rng.permutation(80), None]
    problem = Problem(rows, rewards_of(rng, "logistic", 80), lam=0.5, S=0.02)
    assert_is_the_estimate(problem, problem.estimate())


# -- designs ---------------------------------------------------------------------------------------


@given(problem=problems())
def test_the_designs_are_their_sums(problem):
    fit = problem.estimate()
    rounding = {"rtol": 1e-12, "atol": 1e-12 * (problem.ridge + len(problem.rows))}
    np.testing.assert_allclose(fit.design, problem.design(), **rounding)
    np.testing.assert_allclose(fit.squared_design, problem.design(power=2), **rounding)


@given(problem=problems(), seed=st.integers(0, 10**6))
def test_the_matrix_inequalities_of_the_proofs_hold(problem, seed):
    """W~ <= W <= G / c, in this order, for G the mean Jacobian between points of the ball."""
    rng = np.random.default_rng(seed)
    fit = problem.estimate()
    d = problem.rows.shape[1]
    star, tilde = in_ball(rng, 1, d, problem.S)[0], fit.theta
    nodes, weights = np.polynomial.legendre.leggauss(20)
    G = sum(
        w / 2 * problem.jacobian((1 + u) / 2 * star + (1 - u) / 2 * tilde)
        for u, w in zip(nodes, weights, strict=True)
    )
    gap = problem.g(star) - problem.g(tilde)
    np.testing.assert_allclose(G @ (star - tilde), gap, rtol=1e-7, atol=1e-8 * np.abs(G).max())
    c = problem.lam / problem.ridge

    def least_eigenvalue(matrix):
        return np.linalg.eigvalsh(matrix)[0] / np.abs(matrix).max(initial=1.0)

    W, W_squared = fit.design, fit.squared_design
    assert least_eigenvalue(W - W_squared) >= -1e-12
    assert least_eigenvalue(G / c - W) >= -1e-12 * np.abs(W).max()
    inverse = np.linalg.inv(W)
    assert least_eigenvalue(inverse / c - np.linalg.inv(G)) >= -1e-9
    assert least_eigenvalue(inverse - inverse @ W_squared @ inverse) >= -1e-12


@given(problem=problems())
def test_undone_discounting_gives_the_matrices_of_the_proof(problem):
    """V_t = gamma^-t W_t and its square: weights gamma^-s, and gamma^-2s."""
    if problem.discount is None:
        return
    fit, t = problem.estimate(), len(problem.rows)
    gamma = problem.discount
    for power, got in ((1, fit.design), (2, fit.squared_design)):
        undone = problem.ridge * gamma ** (-power * t) * np.eye(problem.rows.shape[1])
        for s, a in enumerate(problem.rows, start=1):
            undone += gamma ** (-power * s) * np.outer(a, a)
        np.testing.assert_allclose(
            got * gamma ** (-power * t), undone, rtol=1e-10, atol=1e-11 * np.abs(undone).max()
        )


# -- identities ------------------------------------------------------------------------------------


@given(problem=problems(), spare=st.integers(0, 5))
def test_a_window_over_everything_is_stationary(problem, spare):
    stationary = replace(problem, window=None, discount=None).estimate()
    whole = replace(problem, window=len(problem.rows) + spare, discount=None).estimate()
    for got, want in zip(whole, stationary, strict=True):
        np.testing.assert_array_equal(got, want)


# -- projection ------------------------------------------------------------------------------------


def search_sphere(problem, starts):
    """The least squared distance that BFGS finds on the sphere from each of the starts."""
    scale = problem.squared_distance(problem.S * starts[0] / np.linalg.norm(starts[0]))

    def on_sphere(x):
        length = np.linalg.norm(x)
        u = x / length
        gradient = problem.squared_distance_gradient(problem.S * u)
        along = problem.S / length * (gradient - (gradient @ u) * u)
        return problem.squared_distance(problem.S * u) / scale, along / scale

    found = [
        optimize.minimize(
            on_sphere, x / np.linalg.norm(x), jac=True, method="BFGS", options={"gtol": 1e-10}
        )
        for x in starts
    ]
    return scale * min(result.fun for result in found)


def tangential_share(problem, theta):
    """The part of the gradient along the sphere, over the gradient: 0 where theta is critical."""
    gradient = problem.squared_distance_gradient(theta)
    along = gradient - (gradient @ theta) / (theta @ theta) * theta
    return np.linalg.norm(along) / np.linalg.norm(gradient), gradient @ theta


def assert_is_the_projection(problem, fit, starts):
    S = problem.S
    assert np.linalg.norm(fit.theta) == pytest.approx(S, rel=1e-12)
    # of the gap g(theta-hat) - g(theta), the sums of the rewards carry the rounding
    total = np.abs(problem.weights * problem.rewards) @ np.linalg.norm(problem.rows, axis=1)
    rounding = (1e-13 * total) ** 2 * np.linalg.norm(problem.projection_norm, 2)
    reached = problem.squared_distance(fit.theta)
    radial = S * fit.theta_hat / np.linalg.norm(fit.theta_hat)
    assert reached <= problem.squared_distance(radial) * (1 + 1e-10) + rounding
    assert reached <= search_sphere(problem, [radial, *starts]) * (1 + 1e-8) + rounding
    share, pull = tangential_share(problem, fit.theta)
    assert pull < 0.0  # the distance falls outwards: only the ball holds theta back
    assert share <= 1e-8
    assert fit.kkt_residual <= 1e-9


@given(problem=problems(models=CURVED), seed=st.integers(0, 10**6))
def test_the_projection_is_the_nearest_point_of_the_ball(problem, seed):
    fit = problem.estimate()
    if np.linalg.norm(fit.theta_hat) <= problem.S:
        np.testing.assert_array_equal(fit.theta, fit.theta_hat)
        assert fit.kkt_residual == 0.0
        return
    starts = np.random.default_rng(seed).normal(size=(5, problem.rows.shape[1]))
    assert_is_the_projection(problem, fit, starts)


@pytest.mark.compiled
@pytest.mark.parametrize("d", [5, 20])
@pytest.mark.parametrize("memory", [{}, {"window": 5}, {"discount": 0.6}], ids=["V", "V_w", "W~"])
def test_hard_projections(d, memory):
    """A small ball, few rows, a memory of a few rounds: many starts find nothing nearer."""
    rng = np.random.default_rng([22, d])
    for model in CURVED:
        rows = in_ball(rng, 12, d, L=2.0)
        problem = Problem(rows, rewards_of(rng, model, 12), model, lam=0.01, S=0.1, **memory)
        fit = problem.estimate()
        assert np.linalg.norm(fit.theta_hat) > 0.1
        assert_is_the_projection(problem, fit, rng.normal(size=(12, d)))


def test_the_norm_of_discounting_has_squared_weights():
    """The nearest point in the norm of W would be another one."""
    rng = np.random.default_rng(24)
    problem = Problem(
        in_ball(rng, 30, 2), rewards_of(rng, "logistic", 30), lam=0.01, S=0.3, discount=0.8
    )
    theta = problem.estimate().theta
    angles = np.linspace(0.0, 2 * np.pi, 20001)
    circle = 0.3 * np.column_stack([np.cos(angles), np.sin(angles)])
    gaps = (problem.weights * problem.rewards) @ problem.rows - [problem.g(x) for x in circle]
    nearest = {
        power: circle[
            np.argmin(np.einsum("ij,jk,ik->i", gaps, np.linalg.inv(problem.design(power)), gaps))
        ]
        for power in (1, 2)
    }
    assert np.linalg.norm(theta - nearest[2]) < 1e-4
    assert np.linalg.norm(theta - nearest[1]) > 1e-3


@given(problem=problems(models=CURVED))
def test_the_cheaper_projections(problem):
    exact, radial = problem.estimate(), problem.estimate(projection="radial")
    none = problem.estimate(projection="none")
    for other in (radial, none):
        np.testing.assert_array_equal(other.theta_hat, exact.theta_hat)
        assert other.kkt_residual == 0.0
    np.testing.assert_array_equal(none.theta, none.theta_hat)
    length = np.linalg.norm(radial.theta_hat)
    shrink = min(1.0, problem.S / length) if length > 0.0 else 1.0
    np.testing.assert_allclose(radial.theta, shrink * radial.theta_hat, rtol=1e-13)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 3, "discount": 0.9}, "give window or discount, not both; got 3 and 0.9"),
        ({"window": 0}, "window must be an integer of at least 1; got 0"),
        (
            {"discount": 1.0},
            "discount must be a finite number greater than 0 and less than 1",
        ),
        ({"lam": 0.0}, "lam must be a finite number greater than 0; got 0.0"),
        ({"S": -1.0}, "S must be a finite number greater than 0; got -1.0"),
        ({"S": 800.0}, "L * S = 800 is too large for the logistic model"),
        ({"projection": "nearest"}, "projection must be one of none, radial, exact; got 'nearest'"),
        ({"actions": [1.0, 0.0]}, "actions must be a finite (n, d) array; got shape (2,)"),
        ({"actions": [[1.0], [math.nan]]}, "actions must be a finite (n, d) array"),
        ({"rewards": [1.0]}, "rewards must be 2 finite numbers; got shape (1,)"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    good = {"actions": [[1.0], [0.5]], "rewards": [1.0, 0.0], "link": MODELS["logistic"]}
    with pytest.raises(ValueError, match=re.escape(message)):
        estimate(**{**good, **arguments})


# -- long runs -------------------------------------------------------------------------------------

LONG_RUNS = {
    "SW-GLUCB": {"window": 252},
    "D-GLUCB": {"discount": 0.996},
    "SW-LinUCB": {"window": 252},
    "D-LinUCB": {"discount": 0.996},
}


def long_world(horizon):
    """Two actions a round in the unit disc, for a parameter that goes round the circle 7 times."""
    rng = np.random.default_rng(31)
    actions = in_ball(rng, 2 * horizon, 2).reshape(horizon, 2, 2)
    turn = np.linspace(0.0, 14 * np.pi, horizon)
    theta = 3.0 * np.column_stack([np.cos(turn), np.sin(turn)])
    means = special.expit(np.einsum("tkd,td->tk", actions, theta))
    return actions, (rng.random((horizon, 1)) < means).astype(float)


def problem_at(name, rows, rewards):
    """A fit from scratch on the rows so far; those of weight below 1e-16 are left out."""
    kept = slice(-10_000, None)
    model = "identity" if name in ("SW-LinUCB", "D-LinUCB") else "logistic"
    return Problem(rows[kept], rewards[kept], model, **LONG_RUNS[name])


def norms_at(name, problem, actions):
    """||a|| in the norm of the row; L = 1, whatever the longest action so far."""
    ridge = 1.0 if problem.model == "identity" else 1.0 / MODELS["logistic"].c_mu(L=1.0, S=1.0)
    start = ridge * np.eye(2)
    weighted = problem.rows.T * problem.weights
    inverse = np.linalg.inv(start + weighted @ problem.rows)
    if name == "D-LinUCB":
        squared = start + (weighted * problem.weights) @ problem.rows
        inverse = inverse @ squared @ inverse
    return np.sqrt(np.einsum("ij,jk,ik->i", actions, inverse, actions))


@pytest.mark.compiled
@pytest.mark.parametrize("name", LONG_RUNS)
def test_two_hundred_thousand_rounds_stay_at_the_fit_from_scratch(name):
    horizon = 200_000
    actions, rewards = long_world(horizon)
    policy = db.policy(name, dim=2, S=1.0, **LONG_RUNS[name])
    trace = Trace(actions, rewards)
    run = play(policy, trace, 0, ("chosen", "theta_hat", "intervals"))
    for t in np.linspace(horizon // 10, horizon - 1, 10, dtype=int):
        past = np.arange(t), run.chosen[:t]
        problem = problem_at(name, actions[past], rewards[past])
        assert np.linalg.norm((run.theta_hat[t] - problem.root).astype(float)) <= 1e-8
        ratio = run.widths[t] / norms_at(name, problem, actions[t])
        assert ratio[0] == pytest.approx(ratio[1], rel=1e-8)
