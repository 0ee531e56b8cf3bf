"""Whether a shadow would have chosen what was played, and what it would have earned.

Notation
--------
a, p, r    what was played in a round, the probability it had, the reward
b          what the shadow would have played, drawn by a seed of its own
w          1 / p if b = a, else 0
y          w r
m_a, m_b   what the shadow's model expected of a and of b before the round
x          m_b + w (r - m_a)

E[y] is what the shadow earns in that round, whatever p is as long as every arm has a chance, and
whether or not the shadow's probabilities are known (inverse propensities; Dudik, Langford, Li 2011,
with the shadow's draw in place of its probabilities). So only rounds with p < 1 count. E[x] is the
same, whatever the model expects, since E[w m_a] = E[m_b]; the better it knows the rewards, the less
x scatters (doubly robust, of the same paper). Intervals may be looked at at any time, see
`driftbandits.sequences`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from driftbandits.sequences import FEWEST, Interval, asymptotic_boundary

_MANY = 1000


class Agreement:
    """Counts and sums of the rounds so far."""

    def __init__(self) -> None:
        self.decisions = 0
        self.agreed = 0
        self.weights: dict[str, float] = {}  # w of rounds whose rewards are to come
        self.sums = [0.0] * 7  # of 1, w, w^2, r, y, y^2 and (y - r)^2
        self.expected: dict[str, tuple[float, float]] = {}  # m_a and m_b, likewise
        self.modelled = [0.0] * 5  # of 1, r, x, x^2 and (x - r)^2

    def note_decision(
        self, event_id: str, *, agrees: bool, propensity: float, expected: tuple[float, float]
    ) -> None:
        self.decisions += 1
        self.agreed += agrees
        if propensity < 1.0:
            self.weights[event_id] = 1.0 / propensity if agrees else 0.0
            known = all(map(math.isfinite, expected))
            self.expected[event_id] = expected if known else (0.0, 0.0)

    def note_reward(self, event_id: str, r: float) -> None:
        w = self.weights.pop(event_id, None)
        if w is None:
            return
        y = w * r
        self.sums = _added(self.sums, 1.0, w, w * w, r, y, y * y, (y - r) ** 2)
        expected = self.expected.pop(event_id, None)
        if expected is not None:  # there is none in what earlier releases kept
            x = expected[1] + w * (r - expected[0])
            self.modelled = _added(self.modelled, 1.0, r, x, x * x, (x - r) ** 2)

    def let_go(self, waiting: Mapping[str, object]) -> None:
        """Wait no longer for rounds that nobody waits for; now and then."""
        if len(self.weights) > 2 * len(waiting) + _MANY:
            self.weights = {id: w for id, w in self.weights.items() if id in waiting}
            self.expected = {id: m for id, m in self.expected.items() if id in waiting}

    # -- looking ---------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """That have a reward and gave every arm a chance."""
        return int(self.sums[0])

    @property
    def effective_rounds(self) -> float:
        _, w, squares, *_ = self.sums
        return w * w / squares if squares else 0.0

    @property
    def played_value(self) -> float | None:
        """What was earned, in the rounds that count."""
        n, _, _, r, *_ = self.sums
        return r / n if n else None

    def value(self, *, level: float = 0.95) -> Interval | None:
        """What the shadow would have earned a round."""
        n, _, _, _, y, squares, _ = self.sums
        return _interval(n, y, squares, self.effective_rounds, level)

    def difference(self, *, level: float = 0.95) -> Interval | None:
        """That, less what was earned."""
        n, _, _, r, y, _, squares = self.sums
        return _interval(n, y - r, squares, self.effective_rounds, level)

    def modelled_value(self, *, level: float = 0.95) -> Interval | None:
        """What the shadow would have earned a round, with the help of its model."""
        n, _, x, squares, _ = self.modelled
        return _interval(n, x, squares, self.effective_rounds, level)

    def modelled_difference(self, *, level: float = 0.95) -> Interval | None:
        """That, less what was earned."""
        n, r, x, _, squares = self.modelled
        return _interval(n, x - r, squares, self.effective_rounds, level)

    # -- as plain data ---------------------------------------------------------------------------

    def to_list(self) -> list[object]:
        return [
            self.decisions,
            self.agreed,
            self.weights,
            self.sums,
            self.expected,
            self.modelled,
        ]

    @classmethod
    def from_list(cls, told: list[object]) -> Agreement:
        made = cls()
        known = [*told, *made.to_list()[len(told) :]]
        made.decisions, made.agreed, made.weights, made.sums = known[:4]  # type: ignore[assignment]
        made.expected, made.modelled = known[4:]  # type: ignore[assignment]
        return made


def _added(sums: list[float], *terms: float) -> list[float]:
    return [total + term for total, term in zip(sums, terms, strict=True)]


def _interval(
    n: float, total: float, squares: float, effective: float, level: float
) -> Interval | None:
    if not n:
        return None
    mean = total / n
    if effective < FEWEST:
        return Interval(mean, None, None)
    spread = max(squares - n * mean * mean, 0.0)
    half = asymptotic_boundary(n, spread, risk=1.0 - level) / n
    return Interval(mean, mean - half, mean + half)
