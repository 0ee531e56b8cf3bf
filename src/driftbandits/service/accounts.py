"""What limits are kept by: accounts that are filled at a steady rate, and hold so much at most.

A share. An arm with the shares [min, max] has a credit of each. In a decision in which it can be
played with probability q, the first grows by q - min and the second by max - q, up to those of
`window` decisions; the limits of q are such that neither falls below 0. So over any n decisions of
this kind the sum of q, which is how often the arm is played in expectation, is at least
min (n - window) and at most max (n + window), and from the first decision on at least min n and at
most max n, whatever is offered and whatever the policy wants.

A budget. Every decision puts `budget` into the account, up to that of `window` decisions. Playing
anything else than the baseline takes out what the baseline is expected to earn at most, above the
least that there can be, and puts in what came of it, above the least that there can be. The balance
does not fall below 0, so over any n decisions the plays beside the baseline have earned less than
the baselines' upper bounds by budget (n + window) at most, from the first decision on by budget n.

All of these are sums of what is in the log, whatever the world does. Only that the upper bound is
one, of what the baseline earns on average, rests on the model.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shares = dict[str, tuple[float, float]]


class Accounts(msgspec.Struct, array_like=True):
    """The credits of a policy; part of its state."""

    balance: float = 0.0
    charged: dict[str, float] = {}  # what open decisions have taken out
    credits: dict[str, tuple[float, float]] = {}  # of an arm: of its min, and of its max

    @property
    def is_used(self) -> bool:
        return bool(self.balance or self.charged or self.credits)

    # -- shares ----------------------------------------------------------------------------------

    def limits(
        self, arms: tuple[str, ...], free: NDArray[np.bool_], shares: Shares
    ) -> tuple[Floats, Floats]:
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
        self,
        arms: tuple[str, ...],
        free: NDArray[np.bool_],
        law: Floats,
        shares: Shares,
        window: int,
    ) -> None:
        """A decision was made by this law."""
        for i, arm in enumerate(arms):
            if free[i] and arm in shares:
                least, most = shares[arm]
                of_least, of_most = self.credits.get(arm, (0.0, 0.0))
                chance = float(law[i])
                self.credits[arm] = (
                    min(max(of_least + chance - least, 0.0), least * window),
                    min(max(of_most + most - chance, 0.0), most * window),
                )

    def keep_credits(self, shares: Shares) -> None:
        """Those of arms that have no share any more are gone."""
        self.credits = {arm: own for arm, own in self.credits.items() if arm in shares}

    # -- the budget ------------------------------------------------------------------------------

    def balance_after(self, budget: float, window: int) -> float:
        """What there is once a decision has put its part in."""
        return min(self.balance + budget, budget * window)

    def charge(self, event_id: str, price: float) -> None:
        """Something else than the baseline is played."""
        self.balance -= price
        self.charged[event_id] = price

    def put_in(self, amount: float, budget: float, window: int) -> None:
        """What came of a play beside the baseline, or what one had taken out that was no play."""
        self.balance = min(self.balance + amount, max(budget * window, self.balance))
