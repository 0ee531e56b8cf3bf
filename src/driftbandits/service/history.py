"""The last day, for people to look at. No part of what a policy decides by.

Everything is counted in the minute of the *decision*: a reward that comes an hour later, or a
default that is learned then, belongs to what was decided an hour ago. A minute with decisions whose
outcome is open says how many there are, so that nobody takes it for whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from driftbandits.agent import Agent
from driftbandits.agent.tables import CONSTANT

MINUTES = 1440
MOST_COORDINATES = 50
KEPT_DETECTIONS = 1000
MOST_ARMS = 20
"""Of a part of the day; those that were played least are put together."""
FINE_MINUTES = 60
"""For so long arms are counted by the minute, and then by the hour's third."""
COARSE_MINUTES = 20
OTHERS = ""
"""The name of the arms that were put together: no arm can have it."""
_MINUTE_NS = 60_000_000_000

DECISIONS, REWARDS, SUM, SQUARES, THETA, OPEN, ROUND, CHANGED, BEGAN = range(9)
"""The places of a minute's row. Snapshots of earlier releases have the first five."""


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


def in_a_row(agent: Agent) -> list[float]:
    """The estimate, that of one separate arm behind the other."""
    theta = agent.theta_hat
    parts = theta.values() if isinstance(theta, dict) else [theta]
    return [coordinate for part in parts for coordinate in coordinates(agent, part)]


class Arms:
    """How often each arm was played, and what came of it, in parts of the day.

    `fine` has a part a minute, `coarse` a part for several: {arm: [decisions, rewards, sum]}.
    """

    def __init__(self) -> None:
        self.fine: dict[int, dict[str, list[Any]]] = {}
        self.coarse: dict[int, dict[str, list[Any]]] = {}

    def turn_to(self, minute: int) -> None:
        """Begin a minute; put together what is an hour old, and let go what is a day old."""
        self.fine[minute] = {}
        while self.fine and (first := next(iter(self.fine))) <= minute - FINE_MINUTES:
            whole = self.coarse.setdefault(first // COARSE_MINUTES, {})
            for arm, (decisions, rewards, total) in self.fine.pop(first).items():
                row = _row_of(arm, whole)
                row[0] += decisions
                row[1] += rewards
                row[2] += total
        while (
            self.coarse and (first := next(iter(self.coarse))) * COARSE_MINUTES < minute - MINUTES
        ):
            del self.coarse[first]

    def played(self, minute: int, arm: str, times: int) -> None:
        part = self._part(minute)
        if part is not None:
            (_row_of(arm, part) if times > 0 else _known(arm, part))[0] += times

    def rewarded(self, minute: int, arm: str, value: float) -> None:
        part = self._part(minute)
        if part is not None:
            row = _known(arm, part)
            row[1] += 1
            row[2] += value

    def forget_names(self, minute: int) -> None:
        """Put together what was counted in the part of a minute, whichever arms that were."""
        part = self._part(minute)
        if part:
            sums = [sum(numbers) for numbers in zip(*part.values(), strict=True)]
            part.clear()
            part[OTHERS] = sums

    def _part(self, minute: int) -> dict[str, list[Any]] | None:
        part = self.fine.get(minute)
        return self.coarse.get(minute // COARSE_MINUTES) if part is None else part

    def parts(self) -> list[tuple[int, int, dict[str, list[Any]]]]:
        """When each part begins and how long it is, in minutes, and what was counted in it."""
        coarse = [(k * COARSE_MINUTES, COARSE_MINUTES, part) for k, part in self.coarse.items()]
        return coarse + [(minute, 1, part) for minute, part in self.fine.items()]


def _known(arm: str, part: dict[str, list[Any]]) -> list[Any]:
    """The row of an arm that was counted: it may be one of the others by now."""
    row = part.get(arm)
    return part.setdefault(OTHERS, [0, 0, 0.0]) if row is None else row


def _row_of(arm: str, part: dict[str, list[Any]]) -> list[Any]:
    """The row of an arm; a new one takes the place of the arm that was played least."""
    row = part.get(arm)
    if row is not None:
        return row
    if arm != OTHERS and len(part) - (OTHERS in part) >= MOST_ARMS:
        least = min((name for name in part if name != OTHERS), key=lambda name: part[name][0])
        others = part.setdefault(OTHERS, [0, 0, 0.0])
        for place, number in enumerate(part.pop(least)):
            others[place] += number
    part[arm] = [0, 0, 0.0]
    return part[arm]


class History:
    """Counts and sums of each minute, and the estimate as the minute began."""

    def __init__(self) -> None:
        self.seq = 0  # of the event at hand
        self.minutes: dict[int, list[Any]] = {}  # see `DECISIONS` and those after it
        self.arms = Arms()
        self.start_weighing()

    def start_weighing(self) -> None:
        """Begin with an agent that has learned nothing, and with no decision that is open."""
        self.weights = [0.0, 0.0]  # sums of w and w^2, for models that keep no rows
        self.clock = 0
        self.detected: list[tuple[int, int]] = []  # round and time
        for row in self.minutes.values():
            row[OPEN] = 0

    def go_on_from(self, other: History, open_since: list[int]) -> None:
        """Weigh as another model does; the minutes stay what they are, but for what is open."""
        self.weights, self.clock, self.detected = other.weights, other.clock, other.detected
        self.restore(self.minutes, open_since)

    def turn_to(self, at_ns: int, seq: int, agent: Agent) -> None:
        """Begin a minute where one begins."""
        self.seq = seq
        minute = at_ns // _MINUTE_NS
        if minute in self.minutes:
            return
        self.arms.turn_to(minute)
        few = _size(agent) * max(len(agent.arms), 1) <= MOST_COORDINATES
        theta = in_a_row(agent) if few else []
        self.minutes[minute] = [0, 0, 0.0, 0.0, theta, 0, agent.issued, seq, seq]
        while next(iter(self.minutes)) <= minute - MINUTES:
            del self.minutes[next(iter(self.minutes))]

    def count_decision(self, at_ns: int, arm: str) -> None:
        self._add(at_ns, (DECISIONS, 1), (OPEN, 1))
        self.arms.played(at_ns // _MINUTE_NS, arm, 1)

    def take_back(self, decided_ns: int, arm: str) -> None:
        """A decision that was counted, and is to be counted elsewhere."""
        self._add(decided_ns, (DECISIONS, -1))
        self.arms.played(decided_ns // _MINUTE_NS, arm, -1)

    def reopen(self, decided_ns: int) -> None:
        """A decision is waited for nevertheless."""
        self._add(decided_ns, (OPEN, 1))

    def close(self, decided_ns: int) -> None:
        """A decision is waited for no longer."""
        self._add(decided_ns, (OPEN, -1))

    def _add(self, decided_ns: int, *numbers: tuple[int, float]) -> None:
        """To the minute of a decision, if that is still there."""
        row = self.minutes.get(decided_ns // _MINUTE_NS)
        if row is not None:
            row[CHANGED] = self.seq
            for place, number in numbers:
                row[place] += number

    def count_reward(self, decided_ns: int, arm: str, value: float) -> None:
        """What came of a decision that was made then."""
        self._add(decided_ns, (REWARDS, 1), (SUM, value), (SQUARES, value * value))
        self.arms.rewarded(decided_ns // _MINUTE_NS, arm, value)

    def forget_names(self, seqs: Iterable[int]) -> None:
        """Those of the arms in whose minutes these events were: what they were about is gone."""
        minutes, began = list(self.minutes), [row[BEGAN] for row in self.minutes.values()]
        for place in {bisect_right(began, seq) for seq in seqs} - {0}:
            minute = minutes[place - 1]
            self.arms.forget_names(minute)
            self.minutes[minute][CHANGED] = self.seq

    def weigh(self, at_ns: int, agent: Agent) -> None:
        """A reward has come; look whether it has shown a change."""
        faded = (agent.policy.discount or 1.0) ** max(agent.clock - self.clock, 0)
        self.weights = [faded * self.weights[0] + 1.0, faded**2 * self.weights[1] + 1.0]
        self.clock = agent.clock
        found = agent.detections
        if found and found[-1].round not in (round_ for round_, _ in self.detected[-1:]):
            self.detected = [*self.detected[1 - KEPT_DETECTIONS :], (found[-1].round, at_ns)]

    def restore(self, minutes: dict[int, list[Any]], open_since: list[int]) -> None:
        """Rows of a snapshot, which may be older than what this release counts."""
        self.minutes = minutes
        for row in minutes.values():
            row.extend([0] * (BEGAN + 1 - len(row)))
            row[OPEN] = 0
        for decided_ns in open_since:
            minute = decided_ns // _MINUTE_NS
            if minute in minutes:
                minutes[minute][OPEN] += 1

    @property
    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2, each reward counted from its arrival."""
        first, second = self.weights
        return first * first / second if second else 0.0
