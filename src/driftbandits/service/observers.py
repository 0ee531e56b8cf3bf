"""Observers of the events of a policy, for people: the last day, and the lift. None decides.

The history counts everything in the minute of the *decision*: a reward that comes an hour later
belongs to what was decided an hour ago. A minute says how many outcomes are open, so that it is not
taken for complete.

The lift compares the policy with its control. Rewards that come sooner the better they are would
make what is known so far a picture of nothing. So where defaults are waited for (`reward_wait_s`),
decisions are gathered in cells of a minute or of a thousandth of the wait, and a cell counts when
every outcome in it, and in those before it, is known; only a decision of which a reward was refused
is not waited for. Without a wait each outcome counts when it comes, which is right if whether and
when it is reported has nothing to do with the side. A comparison begins with a version that has a
control, and again where the share of the control, the range of rewards or the default changes.
Decisions that the caller had made by itself are on no side.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec

from driftbandits.agent import CONSTANT, Agent
from driftbandits.core.sequences import Comparison, Design
from driftbandits.policies import Policy
from driftbandits.store.records import Configured, Decided

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
_DAY_NS = 1440 * _MINUTE_NS
_NANOSECONDS = 1_000_000_000
NO_SIDE, POLICY, CONTROL = 0, 1, 2
"""Sides of a pending decision; negative where a reward was refused."""
KEPT_DAYS = 31
_CELLS = 1000
"""Number of cells that last as long as a default is waited for."""


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


class Terms(NamedTuple):
    """The settings under which two rewards are comparable."""

    design: Design
    wait_ns: int  # 0: no default is waited for
    default: float


class Shown(NamedTuple):
    """A decision whose outcome is open, for people to look at."""

    seq: int
    at_ns: int
    arm: str
    side: int = NO_SIDE
    group: int = -1


class Cell(msgspec.Struct, array_like=True):
    """Decisions of a short time, some of which may be open."""

    guesses: tuple[float, float]
    known: Comparison
    open: int = 0
    excused: int = 0  # of those that are open: they are not waited for


class Lift(msgspec.Struct, array_like=True):
    """A comparison under way."""

    terms: Terms
    seq: int  # of the version that it began with
    at_ns: int
    total: Comparison
    policy_decisions: int = 0
    control_decisions: int = 0
    unknown: int = 0  # decisions that were given up
    days: dict[int, Comparison] = {}
    cells: dict[int, Cell] = {}  # by where they begin, oldest first

    @property
    def _width(self) -> int:
        return max(_MINUTE_NS, -(-self.terms.wait_ns // _CELLS))

    def _is_of(self, waiting: Shown) -> bool:
        """Return True if a decision belongs to this comparison."""
        return waiting.side != NO_SIDE and waiting.seq > self.seq

    def decide(self, side: int, at_ns: int) -> None:
        if side == CONTROL:
            self.control_decisions += 1
        else:
            self.policy_decisions += 1
        if not self.terms.wait_ns:
            return
        begin = at_ns - at_ns % self._width
        if begin not in self.cells:
            self.cells[begin] = Cell(self.total.guesses(), Comparison(self.terms.design))
        self.cells[begin].open += 1

    def reward(self, waiting: Shown, value: float) -> None:
        """The outcome of a decision is known."""
        if not self._is_of(waiting):
            return
        group = None if waiting.group < 0 else waiting.group
        is_control = abs(waiting.side) == CONTROL
        if not self.terms.wait_ns:
            guesses = self.total.guesses()
            if math.isnan(guesses[0]):
                guesses = (value, value)
            for known in (self.total, self._day(waiting.at_ns)):
                known.add(value, is_control=is_control, guesses=guesses, group=group)
            return
        cell = self._cell(waiting.at_ns)
        if cell is None:  # it was given up with its cell
            return
        if math.isnan(cell.guesses[0]):
            cell.guesses = (value, value)
        cell.open -= 1
        cell.excused -= waiting.side < 0
        cell.known.add(value, is_control=is_control, guesses=cell.guesses, group=group)

    def give_up(self, waiting: Shown) -> None:
        """The outcome of a decision will not be known."""
        if not self._is_of(waiting):
            return
        cell = self._cell(waiting.at_ns)
        if cell is not None:
            cell.open -= 1
            cell.excused -= waiting.side < 0
        if cell is not None or not self.terms.wait_ns:
            self.unknown += 1

    def excuse(self, waiting: Shown) -> None:
        """A reward of a decision was refused."""
        cell = self._cell(waiting.at_ns)
        if cell is not None and self._is_of(waiting):
            cell.excused += 1

    def give_up_all(self) -> None:
        """Give up all pending decisions."""
        for cell in self.cells.values():
            self.unknown += cell.open
            cell.open = cell.excused = 0

    def turn_to(self, at_ns: int) -> None:
        """Count the cells that are whole."""
        while self.cells:
            begin, cell = next(iter(self.cells.items()))
            if cell.open > cell.excused or at_ns < begin + self._width:
                return
            self.unknown += cell.open
            self.total.join(cell.known)
            self._day(begin).join(cell.known)
            del self.cells[begin]

    def _cell(self, at_ns: int) -> Cell | None:
        return self.cells.get(at_ns - at_ns % self._width)

    @property
    def until_ns(self) -> int | None:
        """Up to when decisions have been counted; None: all whose outcome is known."""
        return next(iter(self.cells), None)

    @property
    def pending(self) -> int:
        """Decisions whose outcome is open, or is not counted yet."""
        return self.policy_decisions + self.control_decisions - self.total.rounds - self.unknown

    def _day(self, at_ns: int) -> Comparison:
        day = at_ns // _DAY_NS
        if day not in self.days:
            self.days[day] = Comparison(self.terms.design)
            for old in sorted(self.days)[:-KEPT_DAYS]:
                del self.days[old]
        return self.days.get(day) or Comparison(self.terms.design)


def lift_of(
    before: Lift | None, record: Configured, policy: Policy, *, seq: int, at_ns: int
) -> Lift | None:
    """The comparison that goes on with a version, or begins with it; None: there was never one."""
    if not record.control or record.mode == "apprentice":
        return before
    low, high = policy.reward_range()
    if high - low >= 1e9:  # a count without an end has no range that tells anything
        low, high = (low if low == 0.0 else -math.inf), math.inf
    wait = 0 if record.reward_wait_s is None else round(record.reward_wait_s * 1e9)
    terms = Terms(Design(record.control, low, high), wait, record.default_reward)
    if before is not None and before.terms == terms:
        return before
    return Lift(terms, seq, at_ns, Comparison(terms.design))


def side_of(record: Decided, version: Configured, *, list_id: str) -> tuple[int, int]:
    """On which side a decision is, and in which group; -1: a coin was thrown for it alone.

    One coin is thrown for a unit, and for all places of a list.
    """
    if not version.control or version.mode == "apprentice" or record.caller_decided:
        return NO_SIDE, -1
    side = CONTROL if record.control else POLICY
    together = record.unit or list_id
    return side, zlib.crc32(together.encode()) if together else -1


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
