"""Players that are shown the reward of every arm, not only of the one they chose.

No policy can have this; they say how much there is to be had. They are for worlds whose arms share
one context, such as a stream of rows whose class is to be named.

Notation
--------
x      (d,)       the context, standardised by the rounds up to it, and a constant
theta  (K, d)     a logistic regression for each arm, of its reward above 0
P      (K, d, d)  its covariance
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from driftbandits import checks
from driftbandits.checks import Floats
from driftbandits.environments import Trace
from driftbandits.environments.streams import standardised_so_far
from driftbandits.simulation.run import Ints

PRIOR_VARIANCE = 1.0


@dataclass(frozen=True)
class Informed:
    """A player that sees everything.

    majority  the arm that would have paid most so far
    logistic  the arm that a logistic regression of all rewards so far believes in most
    """

    kind: str

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, tuple(_KINDS))

    def choices(self, trace: Trace) -> Ints:
        """The arm of every round."""
        return _KINDS[self.kind](trace)


def informed_kinds() -> tuple[str, ...]:
    """What an `Informed` player may be."""
    return tuple(_KINDS)


def _majority(trace: Trace) -> Ints:
    before = np.cumsum(trace.rewards, axis=0) - trace.rewards
    most: Ints = before.argmax(axis=1)
    return most


def _logistic(trace: Trace) -> Ints:
    """One step of Newton's method a round, from a Gaussian belief to the next."""
    contexts = trace.actions[:, 0]
    if (trace.actions != contexts[:, None]).any():
        raise ValueError("actions must be the same for all arms, a context, to regress on")
    X = np.column_stack([standardised_so_far(contexts), np.ones(trace.horizon)])
    d = X.shape[1]
    theta = np.zeros((trace.arms, d))
    P = np.tile(PRIOR_VARIANCE * np.eye(d), (trace.arms, 1, 1))
    chosen = np.empty(trace.horizon, dtype=np.int64)
    for t, x in enumerate(X):
        z = theta @ x
        chosen[t] = z.argmax()
        _learn(theta, P, x, z, trace.rewards[t] > 0.0)
    return chosen


def _learn(theta: Floats, P: Floats, x: Floats, z: Floats, paid: np.ndarray) -> None:
    """Every arm's regression learns what it would have paid, in place."""
    mean = 1.0 / (1.0 + np.exp(-np.clip(z, -30.0, 30.0)))
    slope = mean * (1.0 - mean)
    along = P @ x
    shrink = slope / (1.0 + slope * (along @ x))
    P -= shrink[:, None, None] * along[:, :, None] * along[:, None, :]
    theta += (P @ x) * (paid - mean)[:, None]


_KINDS: Mapping[str, Callable[[Trace], Ints]] = {"majority": _majority, "logistic": _logistic}
