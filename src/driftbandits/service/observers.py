"""Observers of the events of a policy, for people; nothing here decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from driftbandits.agent import Agent
from driftbandits.policies import Policy
from driftbandits.service.history import History
from driftbandits.service.lift import Lift, Shown, lift_of
from driftbandits.store.records import Configured

_NANOSECONDS = 1_000_000_000


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

    def begin_version(self, record: Configured, policy: Policy, *, seq: int, at_ns: int) -> None:
        self.lift = lift_of(self.lift, record, policy, seq=seq, at_ns=at_ns)

    def start_afresh(self) -> None:
        """Nothing that was decided so far will have an outcome."""
        self.open.clear()
        self.forgotten.clear()
        self.history.start_weighing()
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
        if shown is not None and self.lift is not None and self.lift.is_of(shown):
            self.lift.give_up(shown)
        return shown

    def set_aside(self, event_id: str) -> None:
        """The agent waits for a decision no longer."""
        self.forgotten[event_id] = self.open.pop(event_id)

    def take_back(self, event_id: str) -> None:
        """A decision is made again with what was played."""
        shown = self.give_up(event_id)
        if shown is not None:
            self.history.take_back(shown.at_ns, shown.arm)

    def excuse(self, event_id: str) -> None:
        """A reward was refused, so no default is waited for."""
        shown = self.open[event_id]
        if self.lift is not None and self.lift.is_of(shown):
            self.lift.excuse(shown)
        self.open[event_id] = shown._replace(side=-shown.side)

    def count_reward(self, shown: Shown, value: float, policy: Policy) -> None:
        """Count the reward of a decision."""
        low, high = policy.reward_range()
        self.history.count_reward(shown.at_ns, shown.arm, min(max(value, low), high))
        if self.lift is not None and self.lift.is_of(shown):
            self.lift.reward(shown, value)
            self.lift.turn_to(self.at_ns)  # it may have been the last one of its cell

    def erase(self, seqs: Iterable[int]) -> None:
        """The content of these events is gone."""
        gone = set(seqs)
        self.history.forget_names(gone)
        known = [*self.open.items(), *self.forgotten.items()]
        for event_id in [id for id, shown in known if shown.seq in gone]:
            self.give_up(event_id)
