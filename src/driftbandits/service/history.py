"""Observers of the events of a policy, for people: the last day, and the lift. None decides.

Everything is counted in the minute of the *decision*: a reward that comes an hour later, or a
default that is learned then, belongs to what was decided an hour ago. A minute with decisions whose
outcome is open says how many there are, so that it is not taken for complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from driftbandits.agent import CONSTANT, Agent
from driftbandits.policies import Policy
from driftbandits.service.lift import Lift, Shown
from driftbandits.store.records import Configured

MINUTES = 1440
MOST_COORDINATES = 50
KEPT_DETECTIONS = 1000
MOST_ARMS = 20
"""Number of arms in a part of the day; those that were played least are put together."""
FINE_MINUTES = 60
"""Arms are counted by the minute for this long, and then by the hour's third."""
COARSE_MINUTES = 20
OTHERS = ""
"""The name of the arms that were put together: no arm can have it."""
_MINUTE_NS = 60_000_000_000
_NANOSECONDS = 1_000_000_000


class Minute(msgspec.Struct, array_like=True):
    """Counts and sums of the decisions of a minute, and the estimate as it began."""

    theta: list[float]  # the estimate
    round: int  # decisions before
    began: int  # seq of its first event
    changed: int  # seq of the last event that changed this row
    decisions: int = 0
    rewards: int = 0
    total: float = 0.0
    squares: float = 0.0
    open: int = 0  # decisions whose outcome is not known


class ArmSums(msgspec.Struct, array_like=True):
    """Decisions and rewards of an arm."""

    decisions: int = 0
    rewards: int = 0
    total: float = 0.0

    def add(self, other: ArmSums) -> None:
        self.decisions += other.decisions
        self.rewards += other.rewards
        self.total += other.total


Part = dict[str, ArmSums]
"""Sums of a part of the day, by arm."""


def names(agent: Agent) -> list[str] | None:
    """Return the names of the shown coordinates, where the policy has features."""
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


def in_a_row(agent: Agent) -> list[float]:
    """The estimate, that of one separate arm behind the other."""
    theta = agent.theta_hat
    parts = theta.values() if isinstance(theta, dict) else [theta]
    return [coordinate for part in parts for coordinate in coordinates(agent, part)]


class History(msgspec.Struct, array_like=True):
    """Counts and sums of each minute, of each arm in parts of the day, and detections."""

    seq: int = 0  # of the event at hand
    minutes: dict[int, Minute] = {}
    fine: dict[int, Part] = {}  # by the minute
    coarse: dict[int, Part] = {}  # by `COARSE_MINUTES`
    weight: float = 0.0  # sums of w and w^2, for models that keep no rows
    squared_weight: float = 0.0
    clock: int = 0  # of the agent, when it was weighed last
    detected: list[tuple[int, int]] = []  # round and time

    def go_on_from(self, other: History, open_since: Iterable[int]) -> None:
        """Weigh as another model does; the minutes stay what they are, but for what is open."""
        self.weight, self.squared_weight = other.weight, other.squared_weight
        self.clock, self.detected = other.clock, other.detected
        for row in self.minutes.values():
            row.open = 0
        for decided_ns in open_since:
            if row_then := self.minutes.get(decided_ns // _MINUTE_NS):
                row_then.open += 1

    def turn_to(self, at_ns: int, seq: int, agent: Agent) -> None:
        """Begin a minute where one begins."""
        self.seq = seq
        minute = at_ns // _MINUTE_NS
        if minute in self.minutes:
            return
        self._turn_arms_to(minute)
        policy = agent.policy
        size = policy.model_dim if policy.features is None else len(names(agent) or ())
        few = size * max(len(agent.arms), 1) <= MOST_COORDINATES
        theta = in_a_row(agent) if few else []
        self.minutes[minute] = Minute(theta, agent.issued, seq, seq)
        while next(iter(self.minutes)) <= minute - MINUTES:
            del self.minutes[next(iter(self.minutes))]

    def _turn_arms_to(self, minute: int) -> None:
        """Put together what is an hour old, and let go what is a day old."""
        self.fine[minute] = {}
        while self.fine and (first := next(iter(self.fine))) <= minute - FINE_MINUTES:
            whole = self.coarse.setdefault(first // COARSE_MINUTES, {})
            for arm, sums in self.fine.pop(first).items():
                _row_of(arm, whole).add(sums)
        oldest = minute - MINUTES
        while self.coarse and (first := next(iter(self.coarse))) * COARSE_MINUTES < oldest:
            del self.coarse[first]

    def _row(self, decided_ns: int) -> Minute | None:
        """The minute of a decision, which is about to change, if it is still there."""
        row = self.minutes.get(decided_ns // _MINUTE_NS)
        if row is not None:
            row.changed = self.seq
        return row

    def _part(self, decided_ns: int) -> Part | None:
        minute = decided_ns // _MINUTE_NS
        part = self.fine.get(minute)
        return self.coarse.get(minute // COARSE_MINUTES) if part is None else part

    def count_decision(self, at_ns: int, arm: str) -> None:
        if row := self._row(at_ns):
            row.decisions += 1
            row.open += 1
        if (part := self._part(at_ns)) is not None:
            _row_of(arm, part).decisions += 1

    def take_back(self, decided_ns: int, arm: str) -> None:
        """A decision that was counted is to be counted elsewhere."""
        if row := self._row(decided_ns):
            row.decisions -= 1
        if (part := self._part(decided_ns)) is not None:
            _known(arm, part).decisions -= 1

    def close(self, decided_ns: int) -> None:
        """A decision is waited for no longer."""
        if row := self._row(decided_ns):
            row.open -= 1

    def count_reward(self, decided_ns: int, arm: str, value: float) -> None:
        """Count the reward of a decision that was made then."""
        if row := self._row(decided_ns):
            row.rewards += 1
            row.total += value
            row.squares += value * value
        if (part := self._part(decided_ns)) is not None:
            _known(arm, part).add(ArmSums(0, 1, value))

    def forget_names(self, seqs: Iterable[int]) -> None:
        """Put together the arms in whose minutes these events were: their content is gone."""
        minutes, began = list(self.minutes), [row.began for row in self.minutes.values()]
        for place in {bisect_right(began, seq) for seq in seqs} - {0}:
            minute = minutes[place - 1]
            self.minutes[minute].changed = self.seq
            if part := self._part(minute * _MINUTE_NS):
                sums = ArmSums()
                for row in part.values():
                    sums.add(row)
                part.clear()
                part[OTHERS] = sums

    def parts(self) -> list[tuple[int, int, Part]]:
        """When each part of the day begins, how long it is, in minutes, and what it counted."""
        coarse = [(k * COARSE_MINUTES, COARSE_MINUTES, part) for k, part in self.coarse.items()]
        return coarse + [(minute, 1, part) for minute, part in self.fine.items()]

    def weigh(self, at_ns: int, agent: Agent) -> None:
        """A reward has come; look whether it has shown a change."""
        faded = (agent.policy.discount or 1.0) ** max(agent.clock - self.clock, 0)
        self.weight = faded * self.weight + 1.0
        self.squared_weight = faded**2 * self.squared_weight + 1.0
        self.clock = agent.clock
        found = agent.detections
        if found and found[-1].round not in (round_ for round_, _ in self.detected[-1:]):
            self.detected = [*self.detected[1 - KEPT_DETECTIONS :], (found[-1].round, at_ns)]

    @property
    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2, each reward counted from its arrival."""
        return self.weight * self.weight / self.squared_weight if self.squared_weight else 0.0


def _known(arm: str, part: Part) -> ArmSums:
    """The row of an arm that was counted: it may be one of the others by now."""
    row = part.get(arm)
    return part.setdefault(OTHERS, ArmSums()) if row is None else row


def _row_of(arm: str, part: Part) -> ArmSums:
    """The row of an arm; a new one takes the place of the arm that was played least."""
    if arm not in part:
        if arm != OTHERS and len(part) - (OTHERS in part) >= MOST_ARMS:
            least = min((n for n in part if n != OTHERS), key=lambda name: part[name].decisions)
            part.setdefault(OTHERS, ArmSums()).add(part.pop(least))
        part[arm] = ArmSums()
    return part[arm]


class Observers(msgspec.Struct, array_like=True):
    """The history of the last day and the comparison with the control.

    The agent may forget a decision before its default is due. Its outcome is counted nevertheless,
    because those that are left would be no fair sample; nothing is learned from it.
    """

    history: History = msgspec.field(default_factory=History)
    lift: Lift | None = None
    open: dict[str, Shown] = {}  # decisions whose outcome the agent waits for
    forgotten: dict[str, Shown] = {}  # by the agent, before their default was due
    at_ns: int = 0  # of the event at hand

    def start_afresh(self) -> None:
        """Nothing that was decided so far will have an outcome."""
        self.open.clear()
        self.forgotten.clear()
        self.history.go_on_from(History(), ())
        if self.lift is not None:
            self.lift.give_up_all()

    def go_on_from(self, other: Observers, pending: Collection[str]) -> None:
        """Another agent decides from now on, and waits for these decisions."""
        known = {**other.open, **self.forgotten, **self.open}
        self.open = {event_id: known[event_id] for event_id in pending}
        self.forgotten = {id: one for id, one in self.forgotten.items() if id not in self.open}
        times = [one.at_ns for one in (*self.open.values(), *self.forgotten.values())]
        self.history.go_on_from(other.history, times)

    def turn_to(self, at_ns: int, seq: int, agent: Agent, record: Configured) -> None:
        """An event comes."""
        self.at_ns = at_ns
        wait = record.reward_wait_s
        while self.forgotten and wait is not None:
            event_id, shown = next(iter(self.forgotten.items()))
            if at_ns - shown.at_ns < wait * _NANOSECONDS:
                break
            self.close(event_id)
            self.count_reward(shown, record.default_reward, agent.policy)
        self.history.turn_to(at_ns, seq, agent)
        if self.lift is not None:
            self.lift.turn_to(at_ns)

    def decide(self, event_id: str, shown: Shown) -> None:
        self.open[event_id] = shown
        if shown.side and self.lift is not None:
            self.lift.decide(shown.side, shown.at_ns)
        self.history.count_decision(shown.at_ns, shown.arm)

    def close(self, event_id: str) -> Shown | None:
        """The outcome of a decision is waited for no longer; what it was, if it was."""
        shown = self.open.pop(event_id, None) or self.forgotten.pop(event_id, None)
        if shown is not None:
            self.history.close(shown.at_ns)
        return shown

    def give_up(self, event_id: str) -> Shown | None:
        """The outcome of a decision will not be known."""
        shown = self.close(event_id)
        if shown is not None and self.lift is not None:
            self.lift.give_up(shown)
        return shown

    def take_back(self, event_id: str) -> None:
        """A decision is made again with what was played."""
        shown = self.give_up(event_id)
        if shown is not None:
            self.history.take_back(shown.at_ns, shown.arm)

    def excuse(self, event_id: str) -> None:
        """A reward was refused, so no default is waited for."""
        shown = self.open[event_id]
        if self.lift is not None:
            self.lift.excuse(shown)
        self.open[event_id] = shown._replace(side=-shown.side)

    def count_reward(self, shown: Shown, value: float, policy: Policy) -> None:
        """Count the reward of a decision."""
        low, high = policy.reward_range()
        self.history.count_reward(shown.at_ns, shown.arm, min(max(value, low), high))
        if self.lift is not None:
            self.lift.reward(shown, value)
            self.lift.turn_to(self.at_ns)  # it may have been the last one of its cell

    def erase(self, seqs: Iterable[int]) -> None:
        """The content of these events is gone."""
        gone = set(seqs)
        self.history.forget_names(gone)
        known = [*self.open.items(), *self.forgotten.items()]
        for event_id in [id for id, shown in known if shown.seq in gone]:
            self.give_up(event_id)
