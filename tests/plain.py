"""A plain witness of the kernels: the same mathematics, slowly, from sums over all rows.

Nothing is carried from round to round but the last estimate, which only says where to start
looking. There is no expansion, no truncation and no recursion: theta_hat is a root by Newton's
method, and its projection by Newton's method on the Lagrange conditions.

Notation
--------
A          (n, d)   actions of the remembered rounds, oldest first
x, w       (n,)     their rewards and weights
b          (d,)     sum w_s x_s a_s
g(theta)   (d,)     sum w_s mu(a_s.theta) a_s + lam theta
J(theta)   (d, d)   its Jacobian
theta_hat  (d,)     root of b = g(theta)
theta      (d,)     the point of the ball whose g is nearest to g(theta_hat), in the norm of M^-1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

import driftbandits as db
from reference import Reference


class Thought(NamedTuple):
    """Results of the witness in a round."""

    theta_hat: np.ndarray
    theta: np.ndarray
    design: np.ndarray
    means: np.ndarray
    widths: np.ndarray

    @property
    def scores(self):
        return self.means + self.widths


class Witness:
    """A policy from its definition, at any dimension: everything is a sum over all rows."""

    def __init__(self, policy: db.Policy) -> None:
        names = ("name", "dim", "window", "discount", "horizon", "lam", "S", "L", "delta")
        given = {name: getattr(policy, name) for name in (*names, "bonus_scale")}
        self.of = Reference(link=policy.link.name, m=policy.link.m, **given)
        self.start = np.zeros(policy.dim)
        self.times, self.A, self.x = np.empty(0), np.empty((0, policy.dim)), np.empty(0)

    def learn(self, time: int, action: np.ndarray, reward: float) -> None:
        self.times = np.append(self.times, time)
        self.A, self.x = np.vstack([self.A, action]), np.append(self.x, reward)

    def weighted(self, clock: int):
        """Rows, rewards and weights of what is remembered."""
        ages = clock - self.times
        kept = ages < (self.of.window or np.inf)
        return self.A[kept], self.x[kept], (self.of.discount or 1.0) ** ages[kept]

    def think(self, clock: int, actions: np.ndarray, near: np.ndarray | None = None) -> Thought:
        """What the policy thinks of actions; in the plane nobody has to say where theta may be."""
        of = self.of
        A, x, w = self.weighted(clock)
        b = A.T @ (w * x)
        ridge = of.lam / of.c * np.eye(of.dim)
        V = (A.T * w) @ A + ridge
        M = (A.T * w**2) @ A + ridge if of.discount else V
        self.start = theta_hat = self.root(A, w, b, self.start)
        theta = theta_hat
        if np.linalg.norm(theta_hat) > of.S:
            M_inverse = np.linalg.inv(M)

            def distance(theta):
                off = b - self.g(A, w, theta)
                return off @ M_inverse @ off

            radial = theta_hat * (of.S / np.linalg.norm(theta_hat))
            if near is None:
                directions = np.linspace(0.0, 2 * np.pi, 24, endpoint=False)
                circle = of.S * np.column_stack([np.cos(directions), np.sin(directions)])
                near = min([radial, *circle], key=distance)
            theta = self.projected(A, w, b, M_inverse, near)
            assert distance(theta) <= min(distance(radial), distance(near)) * (1 + 1e-9)
        norms = np.sqrt(np.einsum("ki,ki->k", actions, np.linalg.solve(V, actions.T).T))
        widths = of.bonus_scale * of.radius(clock) * norms
        return Thought(theta_hat, theta, V, of.mean(actions @ theta), widths)

    def g(self, A, w, theta):
        return A.T @ (w * self.of.mean(A @ theta)) + self.of.lam * theta

    def J(self, A, w, theta):
        return (A.T * (w * self.of.slope(A @ theta))) @ A + self.of.lam * np.eye(self.of.dim)

    def root(self, A, w, b, start):
        theta = start
        for _ in range(100):
            step = np.linalg.solve(self.J(A, w, theta), b - self.g(A, w, theta))
            furthest = np.abs(A @ step).max(initial=0.0)
            theta = theta + step * (np.log1p(furthest) / furthest if furthest > 0.5 else 1.0)
            if np.abs(step).max() <= 1e-12 * (1 + np.abs(theta).max()):
                return theta
        raise AssertionError("Newton's method did not converge")

    def projected(self, A, w, b, M_inverse, near):
        """The stationary point of the distance on the sphere next to a point."""
        of, d = self.of, self.of.dim
        theta = near * (of.S / np.linalg.norm(near))
        nu = None
        for _ in range(50):
            J = self.J(A, w, theta)
            u = M_inverse @ (b - self.g(A, w, theta))
            pull = J @ u
            nu = pull @ theta / of.S**2 if nu is None else nu
            bend = (A.T * (w * of.bend(A @ theta) * (A @ u))) @ A
            system = np.block(
                [
                    [J @ M_inverse @ J - bend + nu * np.eye(d), theta[:, None]],
                    [theta[None, :], np.zeros((1, 1))],
                ]
            )
            wanted = np.append(pull - nu * theta, (of.S**2 - theta @ theta) / 2)
            step = np.linalg.solve(system, wanted)
            theta, nu = theta + step[:d], nu + step[d]
            if np.abs(step[:d]).max() <= 1e-12 * of.S:
                assert nu > 0
                return theta
        raise AssertionError("the projection did not converge")


def moment(A, w, anchor, powers):
    """The coefficient of delta^powers / powers! in the expansion of the penalty-free loss."""
    derivative = logistic_derivative(sum(powers) - 1, A @ anchor)
    return w @ (derivative * np.prod(A ** np.array(powers), axis=1))


def logistic_derivative(n, z):
    """sigma^(n)(z), by the product rule on polynomials in p = sigma(z): p' = p - p^2."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([0.0, 1.0, -1.0])
    return polynomial(special.expit(z))
