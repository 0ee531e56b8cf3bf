"""What an agent hands out, and what it complains with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Decision:
    """One choice. scores = means + widths; propensity is the probability it had."""

    id: int
    index: int
    round: int
    propensity: float
    _rows: Floats = field(repr=False)  # of `table`, and what a kernel has used as scratch

    @property
    def table(self) -> Floats:
        """Means, widths and scores of every action, (3, K)."""
        return self._rows[:3]

    @property
    def means(self) -> Floats:
        return self._row(0)

    @property
    def widths(self) -> Floats:
        return self._row(1)

    @property
    def scores(self) -> Floats:
        return self._row(2)

    def _row(self, i: int) -> Floats:
        row: Floats = self._rows[i]
        return row


class Explanation(NamedTuple):
    """Why a decision was made: what every action was worth at the time, and by which estimate."""

    decision: Decision
    theta_hat: Floats
    theta: Floats
    radius: float  # bonus_scale included; 0 for policies without a bonus

    def table(self) -> str:
        """The actions from best to worst, as text."""
        d = self.decision
        lines = [f"round {d.round}: action {d.index}, chosen with probability {d.propensity:.3g}"]
        lines.append("action      mean     width     score")
        for i in np.argsort(-d.scores, kind="stable"):
            mark = " <" if i == d.index else ""
            lines.append(f"{i:6d}{d.means[i]:10.4f}{d.widths[i]:10.4f}{d.scores[i]:10.4f}{mark}")
        return "\n".join(lines)


Made = tuple[Decision, bytes, float]
"""A decision, and what it was made by: theta_hat and theta, and the radius."""


class UnknownDecision(ValueError):
    """A reward for a decision that is not waiting for one."""


class BadSaveFile(ValueError):
    """A file that is not a whole, unaltered save of an agent."""


def frozen(array: Floats) -> Floats:
    """What is handed out and also kept must not be written to."""
    array.setflags(write=False)
    return array


def estimates_from(content: bytes) -> Floats:
    """theta_hat and theta, (2, d)."""
    return np.frombuffer(content).reshape(2, -1)
