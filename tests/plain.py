"""Plain witnesses of the kernels: the same mathematics, slowly, from sums over all rows.

Nothing is carried from round to round but the last estimate, which only says where to start
looking. There is no expansion, no truncation and no recursion.

Notation
--------
A          (n, d)   actions of the remembered rounds, oldest first
x, w       (n,)     their rewards and weights
g(theta)   (d,)     sum w_s sigma(a_s.theta) a_s + lam theta
J(theta)   (d, d)   its Jacobian
theta_hat  (d,)     root of  sum w_s x_s a_s = g(theta)
theta      (d,)     the point of the ball whose g is nearest to g(theta_hat)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import factorial
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

import driftbandits as db
from reference import Reference

ANGLES = 24
"""Directions at which a projection is looked for before it is refined."""


def g_and_J(theta, A, w, lam):
    """The penalised means and their slope, each one sum."""
    means = special.expit(A @ theta)
    slopes = w * means * special.expit(-(A @ theta))
    d = len(theta)
    return A.T @ (w * means) + lam * theta, (A.T * slopes) @ A + lam * np.eye(d)


def loss(theta, A, x, w, lam):
    """The penalised negative log-likelihood, whose gradient is g - b."""
    z = A @ theta
    return w @ (np.logaddexp(0.0, z) - x * z) + lam / 2 * theta @ theta


def newton(A, x, w, lam, start):
    """theta_hat by Newton's method; a step is halved for as long as it raises the loss."""
    b = A.T @ (w * x)
    theta = np.array(start, dtype=float)
    for _ in range(100):
        g, J = g_and_J(theta, A, w, lam)
        step = np.linalg.solve(J, b - g)
        if np.abs(step).max() <= 1e-13 * (1.0 + np.abs(theta).max()):
            return theta + step
        if np.abs(step).max() > 0.1:  # shorter ones are in the basin where full steps converge
            before = loss(theta, A, x, w, lam)
            while loss(theta + step, A, x, w, lam) > before and np.abs(step).max() > 1e-9:
                step = step / 2
        theta = theta + step
    raise AssertionError("Newton's method did not converge")


def project_in_plane(theta_hat, A, w, lam, S, M):
    """theta for d = 2: the best of many directions, then a root of the derivative next to it."""
    if np.linalg.norm(theta_hat) <= S:
        return theta_hat
    goal, _ = g_and_J(theta_hat, A, w, lam)
    M_inverse = np.linalg.inv(M)

    def on_circle(angle):
        return S * np.array([np.cos(angle), np.sin(angle)])

    def slope(angle):
        """Half the derivative of the squared distance along the circle."""
        g, J = g_and_J(on_circle(angle), A, w, lam)
        return (J @ on_circle(angle + np.pi / 2)) @ M_inverse @ (g - goal)

    radial = np.arctan2(theta_hat[1], theta_hat[0])
    step = 2 * np.pi / ANGLES
    angles = radial + step * np.arange(ANGLES)
    points = on_circle(angles)
    gaps = A.T @ (w[:, None] * special.expit(A @ points)) + lam * points - goal[:, None]
    nearest = angles[np.argmin(np.einsum("ik,ij,jk->k", gaps, M_inverse, gaps))]
    return on_circle(optimize.brentq(slope, nearest - step, nearest + step, xtol=1e-15))


class Thought(NamedTuple):
    """Results of the witness in a round."""

    theta_hat: np.ndarray
    theta: np.ndarray
    scores: np.ndarray


def follow(policy: db.Policy, trace: db.Trace, chosen: np.ndarray) -> Iterator[Thought]:
    """What a logistic policy in the plane thinks in each round, given what was chosen before it."""
    names = ("name", "dim", "window", "discount", "horizon", "lam", "S", "L", "delta")
    definition = Reference(**{name: getattr(policy, name) for name in names})
    rounds = np.arange(trace.horizon)
    taken, rewards = trace.actions[rounds, chosen], trace.rewards[rounds, chosen]
    gamma = policy.discount or 1.0
    fading = gamma ** np.arange(trace.horizon)[::-1]
    ridge = policy.lam / definition.c * np.eye(policy.dim)
    theta_hat = np.zeros(policy.dim)
    for t in range(trace.horizon):
        first = max(0, t - policy.window) if policy.window else 0
        A, x = taken[first:t], rewards[first:t]
        w = fading[trace.horizon - (t - first) :]
        theta_hat = newton(A, x, w, policy.lam, start=theta_hat)
        V = (A.T * w) @ A + ridge
        M = (A.T * w**2) @ A + ridge if policy.discount else V
        theta = project_in_plane(theta_hat, A, w, policy.lam, policy.S, M)
        offered = trace.actions[t]
        lengths = np.sqrt(np.einsum("ki,ij,kj->k", offered, np.linalg.inv(V), offered))
        bonus = policy.bonus_scale * definition.radius(t) * lengths
        yield Thought(theta_hat, theta, special.expit(offered @ theta) + bonus)


def expansion_of_g(A, w, lam, anchor, theta, order):
    """g(theta) by its Taylor expansion about an anchor, every derivative a sum over rows."""
    delta = theta - anchor
    total = lam * theta
    for n in range(order + 1):
        slopes = w * logistic_derivative(n, A @ anchor)
        for index in combinations_with_replacement(range(len(theta)), n):
            power = A[:, index].prod(axis=1)
            repeats = np.prod([factorial(index.count(j)) for j in range(len(theta))])
            total = total + A.T @ (slopes * power) * delta[list(index)].prod() / repeats
    return total


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
