"""The policy beside its control: what the fold keeps of both, so that answers can tell the lift.

A decision counts when its outcome is known, and what is estimated depends on when that is. Rewards
that come sooner the better they are would make what is known so far a picture of nothing. So where
defaults are waited for (`reward_wait_s`), decisions are gathered in cells of a minute or of a
thousandth of the wait, and a cell counts when every outcome in it, and in those before it, is
known: the estimates are about all decisions up to some time, whatever the delays were. Only a
decision of which a reward was refused is not waited for. Without a wait nobody knows which
rewards are still to come. Then each counts when it comes, and the estimates are about decisions
with a known outcome: right if whether and when it is reported has nothing to do with the side.

A comparison begins with a version that has a control, and again where the share of the control, the
range of rewards or the default changes; other changes of the policy do not end it. Decisions that
the caller had made by itself are on no side.
"""

from __future__ import annotations

import math
import zlib
from typing import Any, NamedTuple

from driftbandits.policies import Policy
from driftbandits.sequences import Comparison, Design
from driftbandits.store.records import Configured, Decided

NO_SIDE, POLICY, CONTROL = 0, 1, 2
"""Of a pending decision; with a minus where a reward of it was refused."""
KEPT_DAYS = 31
_MINUTE_NS = 60_000_000_000
_DAY_NS = 1440 * _MINUTE_NS
_CELLS = 1000
"""So many of them last as long as a default is waited for."""


class Terms(NamedTuple):
    """What must stay the same for two rewards to be comparable."""

    design: Design
    wait_ns: int  # 0: no default is waited for
    default: float


class Cell:
    """Decisions of a short time, some of which may be open."""

    __slots__ = ("excused", "guesses", "known", "open")

    def __init__(
        self, guesses: tuple[float, float], known: Comparison, open_: int = 0, excused: int = 0
    ) -> None:
        self.guesses = guesses
        self.known = known
        self.open = open_
        self.excused = excused  # of those that are open: they are not waited for


class Lift:
    """A comparison under way."""

    def __init__(self, terms: Terms, seq: int, at_ns: int) -> None:
        self.terms = terms
        self.seq = seq  # of the version that it began with
        self.at_ns = at_ns
        self.decisions = [0, 0]  # of the policy and of the control
        self.unknown = 0  # decisions that were given up
        self.total = Comparison(terms.design)
        self.days: dict[int, Comparison] = {}
        self.cells: dict[int, Cell] = {}  # by where they begin, oldest first

    @property
    def _width(self) -> int:
        return max(_MINUTE_NS, -(-self.terms.wait_ns // _CELLS))

    def is_of(self, waiting: Any) -> bool:
        """Whether a pending decision belongs to this comparison."""
        return bool(waiting.side and waiting.seq > self.seq)

    def decide(self, side: int, at_ns: int) -> None:
        self.decisions[side == CONTROL] += 1
        if not self.terms.wait_ns:
            return
        begin = at_ns - at_ns % self._width
        if begin not in self.cells:
            self.cells[begin] = Cell(self.total.guesses(), Comparison(self.terms.design))
        self.cells[begin].open += 1

    def reward(self, waiting: Any, value: float) -> None:
        """The outcome of a pending decision of this comparison."""
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

    def give_up(self, waiting: Any) -> None:
        """The outcome of a pending decision of this comparison will not be known."""
        cell = self._cell(waiting.at_ns)
        if cell is not None:
            cell.open -= 1
            cell.excused -= waiting.side < 0
        if cell is not None or not self.terms.wait_ns:
            self.unknown += 1

    def excuse(self, waiting: Any) -> None:
        """A reward of a pending decision of this comparison was refused."""
        cell = self._cell(waiting.at_ns)
        if cell is not None:
            cell.excused += 1

    def give_up_all(self) -> None:
        """The same of all of them."""
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
        return sum(self.decisions) - self.total.rounds - self.unknown

    def _day(self, at_ns: int) -> Comparison:
        day = at_ns // _DAY_NS
        if day not in self.days:
            self.days[day] = Comparison(self.terms.design)
            for old in sorted(self.days)[:-KEPT_DAYS]:
                del self.days[old]
        return self.days.get(day) or Comparison(self.terms.design)

    # -- as plain data ---------------------------------------------------------------------------

    def to_list(self) -> list[Any]:
        return [
            [*self.terms.design, self.terms.wait_ns, self.terms.default],
            self.seq,
            self.at_ns,
            self.decisions,
            self.unknown,
            self.total.to_list(),
            [[day, known.to_list()] for day, known in self.days.items()],
            [
                [begin, *cell.guesses, cell.known.to_list(), cell.open, cell.excused]
                for begin, cell in self.cells.items()
            ],
        ]

    @classmethod
    def from_list(cls, told: list[Any]) -> Lift:
        terms, seq, at_ns, decisions, unknown, total, days, cells = told
        made = cls(Terms(Design(*terms[:3]), *terms[3:]), seq, at_ns)
        made.decisions, made.unknown = decisions, unknown
        made.total = Comparison.from_list(total)
        made.days = {day: Comparison.from_list(known) for day, known in days}
        made.cells = {
            begin: Cell((a, b), Comparison.from_list(known), *rest)
            for begin, a, b, known, *rest in cells
        }
        return made


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
    return before if before is not None and before.terms == terms else Lift(terms, seq, at_ns)


def side_of(record: Decided, version: Configured, *, list_id: str) -> tuple[int, int]:
    """On which side a decision is, and in which group; -1: a coin was thrown for it alone.

    One coin is thrown for a unit, and for all places of a list.
    """
    if not version.control or version.mode == "apprentice" or record.told:
        return NO_SIDE, -1
    side = CONTROL if record.control else POLICY
    together = record.unit or list_id
    return side, zlib.crc32(together.encode()) if together else -1
