"""Limits on what is played: exclusions, a budget, shares of arms, and a control.

A policy chooses each arm with some probability. A limit makes other probabilities of these, and
what is played is drawn from them: the policy's own choice as often as both allow, otherwise an arm
that the limit raises. So every recorded probability is the one the arm really had. In this order:

excluded   arms of the request that must not be played
budget     where the account does not afford anything beside the baseline, that is played
share      probabilities are moved between the limits that the shares of arms leave
control    a share of the decisions, in which the policy has no say

A hash of the unit or the event decides which decisions are controls, so one unit is always on the
same side, and a larger share keeps those that a smaller one had. In a list, budget and shares rule
the first place. Everything is a function of the offer, the choice, the accounts and the salt of
the policy, so a replay comes to the same.

Shares. An arm with the shares [min, max] has a credit of each. In a decision in which it can be
played with probability q, the first grows by q - min and the second by max - q, up to those of
`window` decisions; the limits of q are such that neither falls below 0. So over any n decisions of
this kind the sum of q is at least min (n - window) and at most max (n + window), and from the
first decision on at least min n and at most max n.

Budget. Every decision puts `budget` into the account, up to that of `window` decisions. Playing
anything else than the baseline takes out what the baseline is expected to earn at most, above the
least that there can be, and puts in what came of it, above the same. The balance does not fall
below 0, so over any n decisions the plays beside the baseline have earned less than the baselines'
upper bounds by budget (n + window) at most, from the first decision on by budget n. Only that the
upper bound is one, of what the baseline earns on average, rests on the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from driftbandits.agent import Decision, probabilities_of
from driftbandits.policies import Policy
from driftbandits.service.offers import Offer
from driftbandits.store.records import Configured

Floats = NDArray[np.float64]
Free = NDArray[np.bool_]
Shares = dict[str, tuple[float, float]]

BY_CONTROL, BY_EXCLUSION, BY_BUDGET, BY_SHARE = "control", "excluded", "budget", "share"
"""Why something else was played than the policy has chosen."""
_ROUNDING = 1e-12


class Accounts(msgspec.Struct, array_like=True):
    """The credits of a policy; part of its state."""

    balance: float = 0.0
    charged: dict[str, float] = {}  # what open decisions have taken out
    credits: dict[str, tuple[float, float]] = {}  # of an arm: of its min, and of its max

    @property
    def is_used(self) -> bool:
        return bool(self.balance or self.charged or self.credits)

    def limits(self, arms: tuple[str, ...], free: Free, shares: Shares) -> tuple[Floats, Floats]:
        """The least and the largest probability of each arm that is free."""
        low, high = np.zeros(len(arms)), np.where(free, 1.0, 0.0)
        for i, arm in enumerate(arms):
            if free[i] and arm in shares:
                least, most = shares[arm]
                of_least, of_most = self.credits.get(arm, (0.0, 0.0))
                low[i] = max(least - of_least, 0.0)
                high[i] = min(most + of_most, 1.0)
        return low, high

    def count(
        self, arms: tuple[str, ...], free: Free, probabilities: Floats, shares: Shares, window: int
    ) -> None:
        """A decision was made with these probabilities."""
        for i, arm in enumerate(arms):
            if free[i] and arm in shares:
                least, most = shares[arm]
                of_least, of_most = self.credits.get(arm, (0.0, 0.0))
                probability = float(probabilities[i])
                self.credits[arm] = (
                    min(max(of_least + probability - least, 0.0), least * window),
                    min(max(of_most + most - probability, 0.0), most * window),
                )

    def put_in(self, amount: float, budget: float, window: int) -> None:
        """Put in the outcome of a play beside the baseline, or the price of a withdrawn one."""
        self.balance = min(self.balance + amount, max(budget * window, self.balance))


class Play(NamedTuple):
    """The arm that is played in a place, and the reason."""

    played: int  # index of the arm
    propensity: float  # of this arm, before it is known on which side the decision is
    conditional: float = 0.0  # the same, given the side; 0: there is one side
    reason: str = ""  # the policy has chosen it


def salt_of(policy: str, seed: int) -> bytes:
    """Return the key that makes the draws of a policy its own."""
    return hashlib.blake2b(f"{seed} {policy}".encode(), digest_size=32).digest()


def tag(salt: bytes, what: str, text: str) -> str:
    """A keyed hash, 16 hexadecimal digits."""
    return hashlib.blake2b(f"{what} {text}".encode(), key=salt, digest_size=8).hexdigest()


class Guard(NamedTuple):
    """The rules at work on one decision."""

    policy: Policy
    record: Configured  # the version, with its limits
    event_id: str
    offer: Offer
    accounts: Accounts
    salt: bytes

    def plays(self, choices: Sequence[Decision]) -> list[Play]:
        """Return the play for each place of a list; a decision has one. Call it once.

        In the control the first place has the baseline, if there is one, and the others arms that
        are drawn evenly. The accounts are kept.
        """
        size, control = len(choices[0].scores), self.record.control
        free, unchosen = np.ones(size, dtype=bool), np.ones(size, dtype=bool)
        free[list(self.offer.excluded)] = False
        is_control = control > 0.0 and self.side() < control
        of_control, of_policy = control, 1.0 - control  # of either side, and of what it has played
        plays = []
        for place, choice in enumerate(choices):
            probabilities, limited = probabilities_of(self.policy, choice, free), ""
            if place == 0:
                probabilities, limited = self._limited(choice, probabilities, free)
            plain = _of_control(free, self.offer.baseline if place == 0 else -1)
            if is_control:
                played, reason = _drawn(plain, self._number("control", place)), BY_CONTROL
            else:
                chosen_by = probabilities_of(self.policy, choice, unchosen)
                played, reason = self._coupled(choice.index, chosen_by, probabilities, place), ""
                if played != choice.index:
                    reason = limited if free[choice.index] and limited else BY_EXCLUSION
            before = of_control + of_policy
            of_control, of_policy = of_control * plain[played], of_policy * probabilities[played]
            propensity = float((of_control + of_policy) / before)
            conditional = float(plain[played] if is_control else probabilities[played])
            plays.append(Play(played, propensity, conditional if control else 0.0, reason))
            if place == 0 and not is_control:
                self._account_for(choice, played, probabilities, free, limited)
            free[played] = unchosen[choice.index] = False
        return plays

    def side(self) -> float:
        """A random number that puts a decision, or all of its unit, in the control or not."""
        return int(self.offer.unit or tag(self.salt, "event", self.event_id), 16) / 2.0**64

    def _number(self, what: str, place: int) -> float:
        return int(tag(self.salt, f"{what} {place}", self.event_id), 16) / 2.0**64

    def _balance_after(self, budget: float) -> float:
        """Return the balance once a decision has put its part in."""
        return min(self.accounts.balance + budget, budget * self.record.limit_window)

    def _limited(self, choice: Decision, probabilities: Floats, free: Free) -> tuple[Floats, str]:
        """Return the probabilities that a limit makes, and which limit that is."""
        budget, baseline, shares = self.record.budget, self.offer.baseline, self.record.shares
        if budget is not None and self._balance_after(budget) < price_of(
            self.policy, choice, baseline
        ):
            return _of_control(free, baseline), BY_BUDGET
        if shares:
            low, high = self.accounts.limits(self.offer.arms, free, shares)
            return within(low, high, probabilities, self.policy, choice), BY_SHARE
        return probabilities, ""

    def _account_for(
        self, choice: Decision, played: int, probabilities: Floats, free: Free, limited: str
    ) -> None:
        record, offer, accounts = self.record, self.offer, self.accounts
        if record.budget is not None:
            accounts.balance = self._balance_after(record.budget)
            if played != offer.baseline:
                price = price_of(self.policy, choice, offer.baseline)
                accounts.balance -= price
                accounts.charged[self.event_id] = price
        if record.shares and limited == BY_SHARE:
            accounts.count(offer.arms, free, probabilities, record.shares, record.limit_window)

    def _coupled(self, chosen: int, chosen_by: Floats, probabilities: Floats, place: int) -> int:
        """Draw an arm; it is the policy's own choice as often as both probabilities allow."""
        if self._number("kept", place) * chosen_by[chosen] < probabilities[chosen]:
            return chosen
        rest = np.maximum(probabilities - chosen_by, 0.0)
        return _drawn(rest, self._number("drawn", place))


def within(
    low: Floats, high: Floats, probabilities: Floats, policy: Policy, choice: Decision
) -> Floats:
    """Return probabilities between these limits, as near to the given ones as possible.

    What an arm must not have goes to those that the policy likes best of the others. Where all arms
    together may not have enough, all that are free may have more, in proportion: one has to be
    played.
    """
    if high.sum() < 1.0:
        high = high / high.sum()
    moved: Floats = np.clip(probabilities, low, high)
    rest = 1.0 - float(moved.sum())
    if rest < 0.0:
        room: Floats = moved - low
        lowered: Floats = moved + rest * room / room.sum()
        return lowered
    for _ in range(len(probabilities)):
        if rest <= _ROUNDING:
            break
        given = np.minimum(rest * probabilities_of(policy, choice, moved < high), high - moved)
        moved = moved + given
        rest -= float(given.sum())
    whole: Floats = moved / moved.sum()
    return whole


def _of_control(free: Free, baseline: int) -> Floats:
    if baseline >= 0:
        probabilities = np.zeros(len(free))
        probabilities[baseline] = 1.0
        return probabilities
    return np.where(free, 1.0 / np.count_nonzero(free), 0.0)


def _drawn(weights: Floats, number: float) -> int:
    """An index with a probability that is proportional to its weight."""
    ends = np.cumsum(weights)
    index = int(np.searchsorted(ends, number * ends[-1], side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))


# -- what a budget is counted in -----------------------------------------------------------------


def price_of(policy: Policy, choice: Decision, baseline: int) -> float:
    """The most that the baseline is expected to be worth, above the least that there can be."""
    return _above_least(policy, float(choice.scores[baseline]))


def earned(policy: Policy, value: float) -> float:
    """Return the worth of a reward above the least that there can be."""
    return _above_least(policy, value if policy.reward is None else policy.reward.sign * value)


def _above_least(policy: Policy, worth: float) -> float:
    """Rewards are worth what they are, costs the same with a minus."""
    sign = 1.0 if policy.reward is None else policy.reward.sign
    least, most = sorted(sign * end for end in policy.reward_range())
    return min(max(worth, least), most) - least
