"""The policy beside its control: what an observer keeps of both, so that answers have the lift.

A decision counts when its outcome is known, and what is estimated depends on when that is. Rewards
that come sooner the better they are would make what is known so far a picture of nothing. So where
defaults are waited for (`reward_wait_s`), decisions are gathered in cells of a minute or of a
thousandth of the wait, and a cell counts when every outcome in it, and in those before it, is
known: the estimates are about all decisions up to some time, whatever the delays were. Only a
decision of which a reward was refused is not waited for. Without a wait it is unknown which
rewards are still to come. Then each counts when it comes, and the estimates are about decisions
with a known outcome: right if whether and when it is reported has nothing to do with the side.

A comparison begins with a version that has a control, and again where the share of the control, the
range of rewards or the default changes; other changes of the policy do not end it. Decisions that
the caller had made by itself are on no side.
"""

from __future__ import annotations

import math
import zlib
from typing import NamedTuple

import msgspec

from driftbandits.core.sequences import Comparison, Design
from driftbandits.policies import Policy
from driftbandits.store.records import Configured, Decided

NO_SIDE, POLICY, CONTROL = 0, 1, 2
"""Sides of a pending decision; negative where a reward was refused."""
KEPT_DAYS = 31
_MINUTE_NS = 60_000_000_000
_DAY_NS = 1440 * _MINUTE_NS
_CELLS = 1000
"""Number of cells that last as long as a default is waited for."""


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
