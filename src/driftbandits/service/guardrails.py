"""What is played: the policy's choice, within the limits that were set for it.

A policy has a law, the probability with which it chooses each arm. A limit makes another law of it,
and what is played is drawn from that one: the policy's own choice as often as both laws allow, and
otherwise an arm that the limit raises. So every probability that is recorded is the one the arm
really had.

A share of the decisions is a control: there the policy has no say. Which they are is decided by
a hash of the unit or the event, so one unit is always on the same side, and a larger share keeps
those that a smaller one had.

Everything is a function of the offer, of the choice, and of the salt of the policy: a replay comes
to the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent import Decision
from driftbandits.agent.laws import law_of
from driftbandits.policies import Policy

Floats = NDArray[np.float64]

BY_CONTROL, BY_EXCLUSION = "control", "excluded"
"""Why something else was played than the policy has chosen."""


class Play(NamedTuple):
    """What is played in a place, and why."""

    played: int  # index of the arm
    propensity: float  # of this arm, before it is known on which side the decision is
    conditional: float = 0.0  # the same, given the side; 0: there is one side
    reason: str = ""  # the policy has chosen it


class Draws:
    """The random numbers of one decision."""

    def __init__(self, salt: bytes, event_id: str, unit: str) -> None:
        self._salt = salt
        self._event_id = event_id
        self._unit = unit

    def side(self) -> float:
        """By which a decision is in the control or not."""
        return int(self._unit or tag(self._salt, "event", self._event_id), 16) / 2.0**64

    def number(self, what: str, place: int) -> float:
        return int(tag(self._salt, f"{what} {place}", self._event_id), 16) / 2.0**64


def salt_of(policy: str, seed: int) -> bytes:
    """What makes the draws of a policy its own."""
    return hashlib.blake2b(f"{seed} {policy}".encode(), digest_size=32).digest()


def tag(salt: bytes, what: str, text: str) -> str:
    """A keyed hash, 16 hexadecimal digits."""
    return hashlib.blake2b(f"{what} {text}".encode(), key=salt, digest_size=8).hexdigest()


def ruled(
    policy: Policy,
    choices: Sequence[Decision],
    *,
    control: float,
    baseline: int,
    excluded: Sequence[int],
    draws: Draws,
) -> list[Play]:
    """What is played in each place of a list, or of a decision, which has one.

    control   share of decisions in the control; there the first place has the baseline, if there
              is one, and the others arms that are drawn evenly
    baseline  the caller's own choice; -1: none
    """
    size = len(choices[0].scores)
    free, unchosen = np.ones(size, dtype=bool), np.ones(size, dtype=bool)
    free[list(excluded)] = False
    is_control = control > 0.0 and draws.side() < control
    of_control, of_policy = control, 1.0 - control  # probability of either side, and of its places
    plays = []
    for place, choice in enumerate(choices):
        law = law_of(policy, choice, free)
        plain = _control_law(free, baseline if place == 0 else -1)
        if is_control:
            index, reason = _drawn(plain, draws.number("control", place)), BY_CONTROL
        else:
            chosen_by = law_of(policy, choice, unchosen)
            index, reason = _coupled(choice.index, chosen_by, law, draws, place), ""
            if index != choice.index:
                reason = BY_EXCLUSION
        before = of_control + of_policy
        of_control, of_policy = of_control * plain[index], of_policy * law[index]
        propensity = float((of_control + of_policy) / before)
        conditional = float(plain[index] if is_control else law[index])
        plays.append(Play(index, propensity, conditional if control else 0.0, reason))
        free[index] = unchosen[choice.index] = False
    return plays


def _control_law(free: NDArray[np.bool_], baseline: int) -> Floats:
    if baseline >= 0:
        law = np.zeros(len(free))
        law[baseline] = 1.0
        return law
    return np.where(free, 1.0 / np.count_nonzero(free), 0.0)


def _coupled(chosen: int, chosen_by: Floats, law: Floats, draws: Draws, place: int) -> int:
    """Draw from a law, and take what was chosen by another one as often as that is possible."""
    if draws.number("kept", place) * chosen_by[chosen] < law[chosen]:
        return chosen
    return _drawn(np.maximum(law - chosen_by, 0.0), draws.number("drawn", place))


def _drawn(weights: Floats, number: float) -> int:
    """An index with a probability that is proportional to its weight."""
    ends = np.cumsum(weights)
    index = int(np.searchsorted(ends, number * ends[-1], side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))
