"""The policies straight from their definitions: the oracle of the tests, plain and slow.

Nothing is remembered from one round to the next. Every sum runs over the rewarded rounds, theta-hat
is a root that SciPy finds, and its projection is searched for on the whole sphere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

LINEAR = ("LinUCB", "SW-LinUCB", "D-LinUCB", "random")


class Played(NamedTuple):
    """A rewarded round: when, which action, what came of it."""

    round: int
    action: np.ndarray
    reward: float


class Scores(NamedTuple):
    """What a policy thinks at some clock."""

    theta_hat: np.ndarray
    theta: np.ndarray
    means: np.ndarray
    widths: np.ndarray

    @property
    def scores(self):
        return self.means + self.widths


@dataclass(frozen=True)
class Reference:
    """The arguments of `driftbandits.policy`, with window or discount given where needed."""

    name: str
    dim: int
    link: str = "logistic"
    window: int | None = None
    discount: float | None = None
    horizon: int | None = None
    lam: float = 1.0
    S: float = 1.0
    L: float = 1.0
    m: float = 1.0
    delta: float = 0.01
    bonus_scale: float = 1.0
    intercept: bool = False
    projection: str = "exact"
    centre: float = 0.0
    _grids: dict = field(default_factory=dict, compare=False, repr=False)

    # -- the reward model --------------------------------------------------------------------

    @property
    def is_linear(self):
        return self.name in LINEAR

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
        if self.name.startswith("SW-") or (self.name == "greedy" and self.window is not None):
            return "window"
        if self.name.startswith("D-") or (self.name == "greedy" and self.discount is not None):
            return "discount"
        return "everything"

    def rows(self, actions):
        table = np.asarray(actions, dtype=float).reshape(-1, self.dim)
        return np.column_stack([table, np.ones(len(table))]) if self.intercept else table

    def weighted(self, clock, played):
        """Rows, centred rewards and weights of what is remembered at this clock."""
        if self.memory == "window":
            played = [p for p in played if clock - p.round < self.window]
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

    def theta(self, clock, played, theta_hat):
        """argmin of ||g(theta_hat) - g(theta)|| over the ball, in the norm of V^-1 or W~^-1."""
        length = np.linalg.norm(theta_hat)
        if self.name in LINEAR or self.projection == "none" or length <= self.S:
            return theta_hat
        if self.projection == "radial":
            return theta_hat * (self.S / length)
        A, _, w = self.weighted(clock, played)
        M = self.design(clock, played, power=2 if self.memory == "discount" else 1)
        M_inverse = np.linalg.inv(M)

        def g(theta):
            return A.T @ (w * self.mean(A @ theta)) + self.lam * theta

        goal = g(theta_hat)

        def distance(theta):
            return (goal - g(theta)) @ M_inverse @ (goal - g(theta))

        def stationary(unknown):
            """J M^-1 (g(theta_hat) - g(theta)) is along theta, which is on the sphere."""
            theta, nu = unknown[:-1], unknown[-1]
            J = (A.T * (w * self.slope(A @ theta))) @ A + self.lam * np.eye(self.d)
            along = J @ M_inverse @ (goal - g(theta)) - nu * theta
            return np.append(along, theta @ theta - self.S**2)

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

    def radius(self, clock):
        """The confidence radius of the round t that follows; linear rows count n = t-1."""
        t = clock + 1
        n = t - 1 if self.is_linear else t
        log_confidence = np.log(1 / self.delta)
        if self.memory == "window":
            n = min(n, self.window)
            in_horizon = self.horizon is not None and t <= self.horizon
            log_confidence = np.log((self.horizon if in_horizon else t * (t + 1)) / self.delta)
        if self.memory == "discount":
            n = (1 - self.discount ** (2 * n)) / (1 - self.discount**2)
        d, L, lam, S = self.d, self.longest, self.lam, self.S
        c_t = (
            self.m / 2 * np.sqrt(2 * log_confidence + d * np.log(1 + self.c * L**2 * n / (d * lam)))
        )
        if self.is_linear:
            return np.sqrt(lam) * S + c_t
        bias = 0.0
        if self.memory == "discount":
            gamma = self.discount
            D = np.log(1 / (1 - gamma)) / (1 - gamma)
            tail = gamma**D / (1 - gamma)
            bias = 2 * L**2 * S * self.k * np.sqrt(self.c / lam) * tail
        return 2 * self.k / self.c * (c_t + np.sqrt(self.c * lam) * S + bias)

    def score(self, clock, played, actions):
        """Everything a decision needs, for the round after this clock."""
        theta_hat = self.theta_hat(clock, played)
        theta = self.theta(clock, played, theta_hat)
        A = self.rows(actions)
        if self.name == "random":
            return Scores(theta_hat, theta, np.zeros(len(A)), np.zeros(len(A)))
        means = self.centre + self.mean(A @ theta)
        if self.name == "greedy":
            return Scores(theta_hat, theta, means, np.zeros(len(A)))
        B = np.linalg.inv(self.design(clock, played))
        if self.name == "D-LinUCB":
            B = B @ self.design(clock, played, power=2) @ B
        norms = np.sqrt(np.einsum("ki,ij,kj->k", A, B, A))
        return Scores(theta_hat, theta, means, self.bonus_scale * self.radius(clock) * norms)
