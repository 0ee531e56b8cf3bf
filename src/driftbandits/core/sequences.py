"""Intervals that may be looked at at any time, for means and for the difference of two sides.

A confidence sequence covers its target at all times at once with the given probability, so that who
watches it every minute and stops when it looks good is not fooled. The target is a running average:
the mean of what was true in each of the rounds so far. Nothing is assumed to stay as it is.

Notation
--------
X_i         an increment of which E[X_i | the past] is what interests in round i
x_i         a guess of X_i, made from the past
S           sum of X_i - E[X_i | the past], what is not known
V           sum of (X_i - x_i)^2, which is known: the intrinsic time
c           X_i - x_i >= -c always (for a lower bound; <= c for an upper one)
psi(l)      -log(1 - l) - l

For 0 <= l < 1, exp(l S / c - psi(l) V / c^2) is a supermartingale that starts at 1 (Fan, Grama and
Liu 2015; Howard, Ramdas, McAuliffe and Sekhon 2021, Annals of Statistics 49, theorem 4). So is a
mixture over l, and Ville's inequality bounds the probability that it ever exceeds 1 / risk. The
same bound with l chosen as one goes is the empirical Bernstein sequence of Waudby-Smith and Ramdas
(2024, JRSSB 86); it weighs rounds by l and is no average where means drift, hence a mixture.

A round has one of two sides, by a coin that says "control" with probability p. Of the reward Y,

    A_i = a_i + (Y - a_i) / (1 - p)  if it is the policy's, else a_i      E[A_i] = the policy's mean
    B_i = b_i + (Y - b_i) / p        if it is the control's, else b_i     E[B_i] = the control's

with a_i and b_i the means of each side so far (augmented inverse propensities; Waudby-Smith, Wu,
Ramdas, Karampatziakis and Mineiro 2024, Anytime-valid off-policy inference). One of A_i - a_i and
B_i - b_i is always 0, so that A_i - B_i has V = V_A + V_B. The relative lift is the difference over
the control's mean, and its interval what the intervals of both leave open.

Rewards without a known range have no such bound. There the sequence is asymptotic (Waudby-Smith,
Arbour, Sinha, Kennedy and Ramdas 2024, Annals of Statistics 52, theorem 2.2 and proposition 2.5):
right in the limit of a late first look, hence none is given before there are some rewards. So it is
where one coin is thrown for many rounds, as for all those of a person: persons are put into groups,
and the spread between groups takes the place of V.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 200
"""Fewest rewards of each side for an asymptotic interval."""

_SHARES = 2.0 ** (-0.5 * np.arange(64))
# The first l is good for the first rewards, the last one for 10^18 of them.
_L = 0.7 * _SHARES
_PSI = -np.log1p(-_L) - _L
_LOG_WEIGHTS = np.log(1.0 / (np.arange(64) + 6.0) ** 2)
_LOG_WEIGHTS -= np.log(np.exp(_LOG_WEIGHTS).sum())
_TUNED_FOR = 2000.0
"""Rounds at which an asymptotic interval is narrowest."""
_MOST_STEPS = 100
_OF_DIFFERENCE = 0.8
"""Share of the risk of a relative lift for the difference; the control's mean has the rest."""


class Interval(NamedTuple):
    """An estimate and where the truth lies; None where that is not known."""

    value: float
    low: float | None
    high: float | None


def log_wealth(s: Floats | float, v: Floats | float) -> Floats:
    """The logarithm of the mixture at S = s and V = v, in units of c; it starts at 0."""
    s, v = np.asarray(s, dtype=np.float64), np.asarray(v, dtype=np.float64)
    exponents = s[..., None] * _L - v[..., None] * _PSI + _LOG_WEIGHTS
    top = exponents.max(axis=-1)
    total: Floats = top + np.log(np.exp(exponents - top[..., None]).sum(axis=-1))
    return total


def boundary(v: float, *, scale: float, risk: float) -> float:
    """Return a bound that S never reaches at intrinsic time v, with probability 1 - risk."""
    v = v / scale**2
    wanted = -math.log(risk)
    # No single l reaches it before the mixture does, and from above Newton's method, for what is
    # convex, comes down to it without ever being below.
    s = float(np.min((wanted - _LOG_WEIGHTS + v * _PSI) / _L))
    for _ in range(_MOST_STEPS):
        exponents = s * _L - v * _PSI + _LOG_WEIGHTS
        top = exponents.max()
        shares = np.exp(exponents - top)
        total = shares.sum()
        step = float((top + math.log(total) - wanted) * total / (shares @ _L))
        s -= step
        if step <= 1e-12 * s:
            break
    return scale * s


def asymptotic_boundary(n: float, v: float, *, risk: float) -> float:
    """Return a bound that |S| does not reach after n rounds, in the limit."""
    rho2 = (-2.0 * math.log(risk) + math.log(1.0 - 2.0 * math.log(risk))) / _TUNED_FOR
    grown = n * rho2 + 1.0
    return math.sqrt(v / n * grown / rho2 * math.log(grown / risk**2))


class Design(NamedTuple):
    """Probability of the sides and range of the rewards.

    share    the probability p of the control
    low,     the range of a reward; infinite where there is none
    high
    """

    share: float
    low: float
    high: float


POLICY, CONTROL = 0, 1
GROUPS = 128
"""Units are put together in so many groups, by a hash; their differences tell the variance."""
_LITTLE = 0.05
"""Share of the variance of single rounds, up to which few groups do no harm."""


def _both() -> list[float]:
    return [0.0, 0.0]


class Comparison(msgspec.Struct, array_like=True):
    """Two sides so far: sums of a few numbers, so that parts can be put together.

    Lists of two are those of the policy and of the control.
    """

    design: Design
    rounds: int = 0
    rewards: list[float] = msgspec.field(default_factory=_both)  # how many
    totals: list[float] = msgspec.field(default_factory=_both)  # what they sum to
    sums: list[float] = msgspec.field(default_factory=_both)  # of A and of B
    variances: list[float] = msgspec.field(default_factory=_both)  # V_A and V_B
    groups: dict[int, list[float]] = {}  # of units: what A - a and B - b sum to in each

    def guesses(self) -> tuple[float, float]:
        """a and b: the mean of each side so far."""
        return self._guess(POLICY), self._guess(CONTROL)

    def _guess(self, side: int) -> float:
        """Return the mean of a side, begun at a quarter of the range: most rewards are small."""
        low, high = self.design.low, self.design.high
        count, total = self.rewards[side], self.totals[side]
        if math.isfinite(high - low):
            return (low + 0.25 * (high - low) + total) / (1 + count)
        if not count:
            count, total = sum(self.rewards), sum(self.totals)
        return total / count if count else math.nan

    def add(
        self,
        value: float,
        *,
        is_control: bool,
        guesses: tuple[float, float] | None = None,
        group: int | None = None,
    ) -> None:
        """A reward; the guesses are those of now unless others were made when the round was.

        Where one coin was thrown for all rounds of a unit, as a person is, `group` is a hash of it.
        """
        side, share = int(is_control), self.design.share
        value = min(max(value, self.design.low), self.design.high)
        a, b = self.guesses() if guesses is None else guesses
        if math.isnan(a + b):  # without a range and before the first: any number will do
            a = b = value
        residual = (value - b) / share if is_control else (value - a) / (1.0 - share)
        self.rounds += 1
        self.rewards[side] += 1
        self.totals[side] += value
        self.sums[POLICY] += a
        self.sums[CONTROL] += b
        self.sums[side] += residual
        if group is None:
            self.variances[side] += residual * residual
        else:
            self.groups.setdefault(group % GROUPS, _both())[side] += residual

    def join(self, other: Comparison) -> None:
        """Add the rounds of another one."""
        self.rounds += other.rounds
        pairs = [
            (self.rewards, other.rewards),
            (self.totals, other.totals),
            (self.sums, other.sums),
            (self.variances, other.variances),
        ]
        pairs += [(self.groups.setdefault(n, _both()), its) for n, its in other.groups.items()]
        for mine, its in pairs:
            for side in (POLICY, CONTROL):
                mine[side] += its[side]

    def difference(self, *, level: float = 0.95) -> Interval | None:
        """The policy's mean less the control's; None before each side has a reward."""
        if not all(self.rewards):
            return None
        value = (self.sums[0] - self.sums[1]) / self.rounds
        if not self.can_tell:
            return Interval(value, None, None)
        span = self.design.high - self.design.low
        half = self._half_width(1.0, 1.0, risk=1.0 - level) / self.rounds
        return Interval(value, max(value - half, -span), min(value + half, span))

    def mean(self, *, of_control: bool, level: float = 0.95) -> Interval | None:
        """The mean of one side over all rounds; None before it has a reward."""
        if not self.rewards[of_control]:
            return None
        value = self.sums[of_control] / self.rounds
        if not self.can_tell:
            return Interval(value, None, None)
        half = self._half_width(not of_control, of_control, risk=1.0 - level) / self.rounds
        low, high = self.design.low, self.design.high
        return Interval(value, max(value - half, low), min(value + half, high))

    def relative(self, *, level: float = 0.95) -> Interval | None:
        """The policy's mean over the control's, less 1, where rewards cannot be negative."""
        if self.design.low < 0.0 or self.sums[1] <= 0.0:
            return None
        risk = 1.0 - level
        difference = self.difference(level=1.0 - _OF_DIFFERENCE * risk)
        control = self.mean(of_control=True, level=1.0 - (1.0 - _OF_DIFFERENCE) * risk)
        if difference is None or control is None:
            return None
        value = difference.value / control.value
        if difference.low is None or difference.high is None or control.low is None:
            return Interval(value, None, None)
        assert control.high is not None
        ends = (control.low, control.high)
        low, high = _least(difference.low, ends), -_least(-difference.high, ends)
        return Interval(value, max(low, -1.0), high if math.isfinite(high) else None)

    @property
    def is_bounded(self) -> bool:
        """True where intervals hold for any number of rewards, and not in the limit alone."""
        return math.isfinite(self.design.high - self.design.low) and not self.groups

    @property
    def can_tell(self) -> bool:
        """True where each side has enough rewards, and enough units, for an interval."""
        if self.is_bounded:
            return True
        return min(self.rewards) >= FEWEST and self._has_units(POLICY) and self._has_units(CONTROL)

    def _has_units(self, side: int) -> bool:
        """Say whether the units of a side are many, or matter little beside its single rounds."""
        sums = [one[side] for one in self.groups.values() if one[side]]
        few = sum(x * x for x in sums) <= _LITTLE * self.variances[side]
        return few or len(sums) >= 3 * GROUPS // 4

    def _half_width(self, of_a: float, of_b: float, *, risk: float) -> float:
        """Half width of the sum of A and B with these factors."""
        v = self.intrinsic_time(of_a, of_b)
        if not self.is_bounded:
            return asymptotic_boundary(self.rounds, v, risk=risk)
        share, span = self.design.share, self.design.high - self.design.low
        scale = span * max(of_a / (1.0 - share), of_b / share)
        return boundary(v, scale=scale, risk=0.5 * risk)

    def intrinsic_time(self, of_a: float, of_b: float) -> float:
        """V of A and B with these factors; that of groups with two standard errors of its own."""
        v = of_a**2 * self.variances[0] + of_b**2 * self.variances[1]
        if not self.groups:
            return v
        parts = [of_a * a - of_b * b for a, b in self.groups.values()]
        sums = np.array(parts + [0.0] * (GROUPS - len(parts)))
        return v + GROUPS * float(sums.var(ddof=1)) * (1.0 + 2.0 * math.sqrt(2.0 / GROUPS))


def _least(numerator: float, ends: tuple[float, float]) -> float:
    """The least ratio to a number between two positive ones, or to 0."""
    over = ends[1] if numerator > 0.0 else ends[0]
    return numerator / over if over > 0.0 else -math.inf
