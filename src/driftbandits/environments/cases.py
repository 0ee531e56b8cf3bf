"""Worlds that offer real cases of a table; what a case pays is its outcome, so means are unknown.

Regret is therefore realised regret: the best outcome on offer less the outcome chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks, links
from driftbandits.environments.tables import Table, load_table
from driftbandits.environments.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Cases:
    """What the worlds made of a table share. The world carries its rows to the workers.

    table    a name for `load_table`, or a `Table`
    path     the user's file, for the table pima
    horizon  rounds
    switch   the world changes after this round, so the new one begins at switch + 1; half of the
             horizon unless given, the horizon itself for no change
    link, m  the reward model that the outcomes must suit, as in `links.link`; outcomes above m are
             recorded as m, so the logistic model sees counts as none or some
    """

    table: str | Table = "fair"
    path: str | Path | None = None
    horizon: int = 2000
    switch: int | None = None
    link: str = "logistic"
    m: float | None = None
    cases: Table = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._hold(horizon=checks.integer("horizon", self.horizon, least=1))
        if self.switch is None:
            self._hold(switch=max(1, self.horizon // 2))
        self._hold(switch=checks.integer("switch", self.switch, least=1, most=self.horizon))
        self._hold(m=links.link(self.link, m=self.m).m)
        if isinstance(self.table, Table):
            if self.path is not None:
                raise ValueError(f"path is only for the table pima; got {self.path!r}")
            self._hold(cases=self.table)
        else:
            self._hold(cases=load_table(self.table, path=self.path))
        fractional = self._worth() % 1 != 0
        if self.link != "identity" and fractional.any():
            raise ValueError(
                f"table must have whole outcomes for the {self.link} model; "
                f"got {self._worth()[fractional][0]:g}"
            )

    def draw(self, rng: np.random.Generator) -> Trace:
        rows = self._rows(checks.generator("rng", rng))
        switch = self.horizon if self.switch is None else self.switch
        actions = self.cases.actions()[rows]
        rewards = self._worth()[rows]
        self._change(actions[switch:], rewards[switch:])
        changes = (switch + 1,) if switch < self.horizon else ()
        return Trace(actions=actions, rewards=rewards, changes=changes)

    @property
    def dim(self) -> int:
        """The features of the table and the constant one."""
        return int(self.cases.features.shape[1]) + 1

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        return 1.0

    def _rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The rows of the table offered in each round (T, K)."""
        raise NotImplementedError

    def _change(self, actions: NDArray[np.float64], rewards: NDArray[np.float64]) -> None:
        """Turn the rounds after the switch into the other world, in place."""
        raise NotImplementedError

    def _worth(self) -> NDArray[np.float64]:
        return np.minimum(self.cases.outcome, np.inf if self.m is None else self.m)

    def _hold(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class Paired(Cases):
    """The paper's real-data design: one positive and one negative case, in random order.

    The positive one pays its outcome (1 in a yes-or-no table), the other nothing. After the switch
    the roles are inverted: the negative case pays what the positive one would have.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        positive = self.cases.outcome > 0
        if positive.all() or not positive.any():
            raise ValueError(
                f"table must have outcomes of 0 and above 0; got {positive.sum()} above 0 "
                f"among {positive.size}"
            )

    def _rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        positive = np.flatnonzero(self.cases.outcome > 0)
        negative = np.flatnonzero(self.cases.outcome == 0)
        pairs = np.column_stack(
            [rng.choice(positive, size=self.horizon), rng.choice(negative, size=self.horizon)]
        )
        return rng.permuted(pairs, axis=1)

    def _change(self, actions: NDArray[np.float64], rewards: NDArray[np.float64]) -> None:
        rewards[:] = rewards[:, ::-1].copy()


@dataclass(frozen=True, kw_only=True)
class Counts(Cases):
    """Offers `arms` cases drawn at random; a case pays its count, recorded as m where it is larger.

    After the switch every feature but the constant one has the opposite sign. So what spoke for
    many visits now speaks for few, while counts, base rate and difficulty stay as they were.
    """

    table: str | Table = "randhie"
    link: str = "poisson"
    m: float | None = 20.0
    arms: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._hold(arms=checks.integer("arms", self.arms, least=1))

    def _rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(len(self.cases.outcome), size=(self.horizon, self.arms))

    def _change(self, actions: NDArray[np.float64], rewards: NDArray[np.float64]) -> None:
        actions[:, :, :-1] *= -1.0
