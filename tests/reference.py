"""The policies straight from their definitions: the oracle of the tests, plain and slow.

Nothing is remembered from one round to the next. Every sum runs over the rewarded rounds, theta-hat
is a root that SciPy finds, and its projection is searched for on the whole sphere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

import kinds


class Played(NamedTuple):
    """A rewarded round: when, which action, what came of it."""

    round: int
    action: np.ndarray
    reward: float


class Scores(NamedTuple):
    """The thoughts of a policy at some clock."""

    theta_hat: np.ndarray
    theta: np.ndarray
    means: np.ndarray
    widths: np.ndarray

    @property
    def scores(self):
        return self.means + self.widths


def divergence(p, q):
    """Return the Kullback-Leibler divergence of two chances."""
    return special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)


def divergence_width(mean, level):
    """Return how far above a mean, taken as a chance, its divergence reaches the level."""
    edge = np.nextafter(1.0, 0.0)
    if mean >= edge or divergence(mean, edge) <= level:
        return 1.0 - mean
    return optimize.brentq(lambda q: divergence(mean, q) - level, mean, edge, xtol=1e-14) - mean


@dataclass(frozen=True)
class Reference:
    """The arguments of `driftbandits.policy`, with window or discount given where needed."""

    name: str
    dim: int
    link: str = "logistic"
    window: int | None = None
    discount: float | None = None
    horizon: int | None = None
    lam: float | None = None
    S: float = 1.0
    L: float = 1.0
    m: float = 1.0
    delta: float = 0.01
    bonus_scale: float = 1.0
    intercept: bool = False
    projection: str = "exact"
    centre: float = 0.0
    _grids: dict = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self):
        if self.lam is None:
            object.__setattr__(self, "lam", self._rule_of_the_source())

    def _rule_of_the_source(self):
        if kinds.for_fixed_arms(self.name):
            return 1e-3
        if kinds.for_drift(self.name) and not kinds.local(self.name):
            return self.d / self.c
        if kinds.either(kinds.local, kinds.self_concordant)(self.name) and self.horizon is not None:
            return self.d * np.log(self.horizon)
        return 1.0

    # -- the reward model --------------------------------------------------------------------

    @property
    def is_linear(self):
        return kinds.linear(self.name)

    @property
    def model(self):
        return "identity" if self.is_linear else self.link

    def mean(self, z):
        if self.model == "identity":
            return z
        return np.exp(z) if self.model == "poisson" else self.m * special.expit(z)

    def slope(self, z):
        if self.model == "identity":
            return np.ones_like(z)
        if self.model == "poisson":
            return np.exp(z)
        return self.m * special.expit(z) * special.expit(-z)

    def bend(self, z):
        """mu''."""
        if self.model == "identity":
            return np.zeros_like(z)
        if self.model == "poisson":
            return np.exp(z)
        return self.slope(z) * (1 - 2 * special.expit(z))

    @property
    def longest(self):
        return np.sqrt(self.L**2 + 1) if self.intercept else self.L

    @property
    def k(self):
        edge = self.longest * self.S
        return {"identity": 1.0, "poisson": np.exp(edge)}.get(self.model, self.m / 4)

    @property
    def c(self):
        return float(self.slope(np.float64(-self.longest * self.S)))

    @property
    def reward_range(self):
        shift = 0.0 if self.model == "identity" else self.centre
        return shift, self.m + shift

    @property
    def d(self):
        return self.dim + self.intercept

    # -- the memory --------------------------------------------------------------------------

    @property
    def memory(self):
        """everything, window or discount."""
        told = kinds.remembers_as_told(self.name)
        if kinds.windowed(self.name) or (told and self.window is not None):
            return "window"
        if kinds.discounted(self.name) or (told and self.discount is not None):
            return "discount"
        return "everything"

    def begun(self, clock):
        """The round after which everything was forgotten last, for the decision that comes."""
        return clock // self.window * self.window if kinds.forgets_by_schedule(self.name) else 0

    def rows(self, actions):
        table = np.asarray(actions, dtype=float).reshape(-1, self.dim)
        return np.column_stack([table, np.ones(len(table))]) if self.intercept else table

    def weighted(self, clock, played):
        """Rows, centred rewards and weights of what is remembered at this clock."""
        if self.memory == "window":
            played = [p for p in played if clock - p.round < self.window]
        if self.begun(clock) > 0:  # rows of before the first round may be known too
            played = [p for p in played if p.round > self.begun(clock)]
        gamma = self.discount if self.memory == "discount" else 1.0
        weights = np.array([gamma ** (clock - p.round) for p in played])
        rewards = np.array([p.reward - self.centre for p in played])
        return self.rows([p.action for p in played]), rewards, weights

    def design(self, clock, played, power=1):
        """V, or W; with power=2 W~, whose weights are squared."""
        A, _, w = self.weighted(clock, played)
        return (A.T * w**power) @ A + self.lam / self.c * np.eye(self.d)

    # -- the estimate ------------------------------------------------------------------------

    def theta_hat(self, clock, played):
        A, x, w = self.weighted(clock, played)
        if self.model == "identity":
            return np.linalg.solve((A.T * w) @ A + self.lam * np.eye(self.d), A.T @ (w * x))

        def equation(theta):
            return A.T @ (w * (x - self.mean(A @ theta))) - self.lam * theta

        def jacobian(theta):
            return -(A.T * (w * self.slope(A @ theta))) @ A - self.lam * np.eye(self.d)

        scale = self.lam + np.abs(w * x).sum() + w.sum()
        found = optimize.root(equation, np.zeros(self.d), jac=jacobian, tol=1e-15).x
        assert np.abs(equation(found)).max() <= 1e-11 * scale
        return found

    def curvature(self, clock, played, theta):
        """J(theta)."""
        A, _, w = self.weighted(clock, played)
        return (A.T * (w * self.slope(A @ theta))) @ A + self.lam * np.eye(self.d)

    @property
    def projects(self):
        return kinds.projected(self.name) and self.projection != "none"

    def theta(self, clock, played, theta_hat):
        """argmin of ||g(theta_hat) - g(theta)|| over the ball.

        In the norm of V^-1 or W~^-1; of W^-1 for GLB-WeightUCB, of J(theta)^-1 for SCB-WeightUCB.
        """
        length = np.linalg.norm(theta_hat)
        if not self.projects or length <= self.S:
            return theta_hat
        if self.projection == "radial":
            return theta_hat * (self.S / length)
        A, _, w = self.weighted(clock, played)
        squared = self.memory == "discount" and not kinds.one_matrix(self.name)
        M_inverse = np.linalg.inv(self.design(clock, played, power=2 if squared else 1))
        local = kinds.local(self.name)

        def g(theta):
            return A.T @ (w * self.mean(A @ theta)) + self.lam * theta

        goal = g(theta_hat)

        def distance(theta):
            J = self.curvature(clock, played, theta)
            return (
                (goal - g(theta)) @ (np.linalg.inv(J) if local else M_inverse) @ (goal - g(theta))
            )

        def stationary(unknown):
            """Half the gradient of the distance is along theta, which is on the sphere."""
            theta, nu = unknown[:-1], unknown[-1]
            J = self.curvature(clock, played, theta)
            if local:
                u = np.linalg.solve(J, goal - g(theta))
                pull = goal - g(theta) + A.T @ (w * self.bend(A @ theta) * (A @ u) ** 2) / 2
            else:
                pull = J @ M_inverse @ (goal - g(theta))
            return np.append(pull - nu * theta, theta @ theta - self.S**2)

        grid = self._sphere()
        distances = [distance(theta) for theta in grid]
        candidates = [theta_hat * (self.S / length)]
        for i in np.argsort(distances)[:4]:
            multiplier = max(stationary(np.append(grid[i], 0.0))[:-1] @ grid[i], 0) / self.S**2
            found = optimize.root(stationary, np.append(grid[i], multiplier), tol=1e-15)
            if abs(found.fun).max() <= 1e-9 * (1 + abs(goal).max()):
                candidates.append(found.x[:-1])
        assert len(candidates) > 1, "no stationary point was found"
        return min(candidates, key=distance)

    def _sphere(self):
        if self.d not in self._grids:
            if self.d == 1:
                points = np.array([[-1.0], [1.0]])
            elif self.d == 2:
                angle = np.linspace(0, 2 * np.pi, 90, endpoint=False)
                points = np.column_stack([np.cos(angle), np.sin(angle)])
            else:
                points = np.random.default_rng(7).standard_normal((100 * self.d, self.d))
                points /= np.linalg.norm(points, axis=1, keepdims=True)
            self._grids[self.d] = self.S * points
        return self._grids[self.d]

    # -- the score ---------------------------------------------------------------------------

    def radius(self, clock, theta_hat=None):
        """The confidence radius of the round t that follows; linear rows count n = t-1.

        theta_hat matters to the self-concordant rows alone.
        """
        t = clock - self.begun(clock) + 1
        n = t - 1 if self.is_linear else t
        in_horizon = self.horizon is not None and t <= self.horizon
        T = self.horizon if in_horizon else t * (t + 1)
        log_confidence = np.log((T if self.memory == "window" else 1) / self.delta)
        if self.memory == "window":
            n = min(n, self.window)
        if kinds.for_fixed_arms(self.name):
            return self._count_radius(n)
        if self.memory == "discount":
            n = (1 - self.discount ** (2 * n)) / (1 - self.discount**2)
        if kinds.self_concordant(self.name):
            return self._self_concordant_radius(n, T, theta_hat)
        if kinds.of_the_predictor(self.name):
            wide = np.sqrt(self.d / 2 * np.log(1 + 2 * n / self.d) + np.log(1 / self.delta))
            return self.m / 2 / self.c * wide
        if kinds.augmented(self.name):
            return self.k
        d, L, lam, S, k = self.d, self.longest, self.lam, self.S, self.k
        if kinds.local(self.name):
            # written for L = 1 in the source; for another L, actions and parameter are rescaled
            wide = self._local_deviation(n, log_confidence) + np.sqrt(lam) / L * (S * L)
            return 2 * np.sqrt(1 + 2 * S * L) * k / np.sqrt(self.c) * wide
        c_t = (
            self.m / 2 * np.sqrt(2 * log_confidence + d * np.log(1 + self.c * L**2 * n / (d * lam)))
        )
        if self.is_linear:
            return np.sqrt(lam) * S + c_t
        bias = 0.0
        if self.memory == "discount" and not kinds.for_drift(self.name):
            gamma = self.discount
            D = np.log(1 / (1 - gamma)) / (1 - gamma)
            tail = gamma**D / (1 - gamma)
            bias = 2 * L**2 * S * k * np.sqrt(self.c / lam) * tail
        factor = 2 * k / self.c
        if kinds.posterior(self.name):
            factor = k * np.sqrt(k) / self.c
        if kinds.perturbed(self.name):
            factor = k * k / self.c
        return factor * (c_t + np.sqrt(self.c * lam) * S + bias)

    def _count_radius(self, n):
        if self.memory == "discount":
            n = sum(self.discount**age for age in range(min(n, 10**5)))  # older ones weigh nothing
        weight = {"everything": 2.0, "window": 0.6, "discount": 4 * 0.5}[self.memory]
        return self.m * np.sqrt(weight * np.log(max(n, 2)))

    def _local_deviation(self, n, log_confidence):
        lam, m, d = self.lam / self.longest**2, self.m, self.d
        return (
            np.sqrt(lam) / (2 * m)
            + 2 * m / np.sqrt(lam) * (log_confidence + d * np.log(2))
            + d * m / np.sqrt(lam) * np.log(1 + self.k * n / (d * lam))
        )

    def _self_concordant_radius(self, n, T, theta_hat):
        lam, S, k = self.lam / self.longest**2, self.S * self.longest, self.k
        S_bar = S
        if self.memory == "discount":
            S_bar = S + (2 * S * k + self.m) / (T * lam * (1 - self.discount))
            n = (1 - T**-2.0) / (1 - self.discount**2)
        rho = self._local_deviation(n, np.log(T / self.delta))
        beta = (
            k * np.sqrt(lam) * (1 + S_bar + np.sqrt((1 + S_bar) / lam) * rho + rho**2 / lam) ** 1.5
        )
        if theta_hat is not None and np.linalg.norm(theta_hat) <= self.S:
            beta = min(beta, k * np.sqrt(1 + 2 * S) * (np.sqrt(lam) * S_bar + rho))
        return beta / np.sqrt(self.c)

    def spread(self, clock, played, theta_hat):
        """The matrix in whose norm widths are measured."""
        V = self.design(clock, played)
        C = self.design(clock, played, power=2) if self.memory == "discount" else V
        J = self.curvature(clock, played, theta_hat)
        if kinds.posterior(self.name) or kinds.augmented(self.name):
            return np.linalg.inv(J)
        if kinds.perturbed(self.name):
            return np.linalg.inv(J) @ C @ np.linalg.inv(J)
        if self.is_linear and self.memory == "discount" and not kinds.one_matrix(self.name):
            return np.linalg.inv(V) @ C @ np.linalg.inv(V)
        return np.linalg.inv(V)

    def score(self, clock, played, actions):
        """Everything a decision needs, for the round after this clock."""
        theta_hat = self.theta_hat(clock, played)
        theta = self.theta(clock, played, theta_hat)
        A = self.rows(actions)
        if kinds.indifferent(self.name):
            return Scores(theta_hat, theta, np.zeros(len(A)), np.zeros(len(A)))
        means = self.centre + self.mean(A @ theta)
        if kinds.without_bonus(self.name):
            return Scores(theta_hat, theta, means, np.zeros(len(A)))
        B = self.spread(clock, played, theta_hat)
        norms = np.sqrt(np.einsum("ki,ij,kj->k", A, B, A))
        radius = self.bonus_scale * self.radius(clock, theta_hat)
        if kinds.by_divergence(self.name):
            levels = (radius * norms / self.m) ** 2 / 2
            chances = np.clip(means / self.m, 0, 1)
            found = [divergence_width(p, level) for p, level in zip(chances, levels, strict=True)]
            return Scores(theta_hat, theta, means, self.m * np.array(found))
        if kinds.of_the_predictor(self.name):
            best = self.centre + self.mean(A @ theta + radius * norms)
            return Scores(theta_hat, theta, means, best - means)
        return Scores(theta_hat, theta, means, radius * norms)
