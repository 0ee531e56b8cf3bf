"""The last day by the minute, for people to look at. No part of what a policy decides by."""

from __future__ import annotations

from typing import Any

from driftbandits.agent import Agent
from driftbandits.agent.tables import CONSTANT

MINUTES = 1440
MOST_COORDINATES = 50
_MINUTE_NS = 60_000_000_000


KEPT_DETECTIONS = 1000


def names(agent: Agent) -> list[str] | None:
    """Of the coordinates that are shown, where the policy has features."""
    if agent.policy.features is None:
        return None
    return [*([CONSTANT] if agent.policy.intercept else []), *agent.names]


def coordinates(agent: Agent, theta: Any) -> list[float]:
    """An estimate as it is shown: as it is, or the constant and then what has a name.

    So coordinates that levels are given later come last.
    """
    plain: list[float] = theta.tolist()
    if agent.policy.features is None:
        return plain
    return [*(plain[-1:] if agent.policy.intercept else []), *plain[: len(agent.names)]]


def _size(agent: Agent) -> int:
    policy = agent.policy
    return policy.model_dim if policy.features is None else len(agent.names) + policy.intercept


def _in_a_row(agent: Agent) -> list[float]:
    theta = agent.theta_hat
    parts = theta.values() if isinstance(theta, dict) else [theta]
    return [coordinate for part in parts for coordinate in coordinates(agent, part)]


class History:
    """Counts and sums of each minute, and the estimate as the minute began."""

    def __init__(self) -> None:
        self.minutes: dict[int, list[Any]] = {}  # decisions, rewards, sum, square sum, theta
        self.start_weighing()

    def start_weighing(self) -> None:
        self.weights = [0.0, 0.0]  # sums of w and w^2, for models that keep no rows
        self.clock = 0
        self.detected: list[tuple[int, int]] = []  # round and time

    def turn_to(self, at_ns: int, agent: Agent) -> None:
        """Begin a minute where one begins."""
        minute = at_ns // _MINUTE_NS
        if minute in self.minutes:
            return
        few = _size(agent) * max(len(agent.arms), 1) <= MOST_COORDINATES
        self.minutes[minute] = [0, 0, 0.0, 0.0, _in_a_row(agent) if few else []]
        while next(iter(self.minutes)) <= minute - MINUTES:
            del self.minutes[next(iter(self.minutes))]

    def count_decision(self, at_ns: int) -> None:
        self.minutes[at_ns // _MINUTE_NS][0] += 1

    def count_reward(self, at_ns: int, value: float, agent: Agent) -> None:
        row = self.minutes[at_ns // _MINUTE_NS]
        row[1] += 1
        row[2] += value
        row[3] += value * value
        faded = (agent.policy.discount or 1.0) ** max(agent.clock - self.clock, 0)
        self.weights = [faded * self.weights[0] + 1.0, faded**2 * self.weights[1] + 1.0]
        self.clock = agent.clock
        found = agent.detections
        if found and found[-1].round not in (round_ for round_, _ in self.detected[-1:]):
            self.detected = [*self.detected[1 - KEPT_DETECTIONS :], (found[-1].round, at_ns)]

    @property
    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2, each reward counted from its arrival."""
        first, second = self.weights
        return first * first / second if second else 0.0
