"""Trace: the action sets and rewards of one run of a world, fixed before any policy plays.

Notation
--------
T, K, d            rounds, arms, features
actions  (T, K, d) A_t, the actions offered in round t (row t-1)
rewards  (T, K)    X_t, one for every arm, so that every policy of a run plays the same world
means    (T, K)    mu(a . theta_t), by which regret is measured; None where they are unknown
available (T, K)   which arms may be chosen; None: all of them
theta    (T, d)    theta*_t, the parameter of each round
changes            the rounds, counted from 1, at which a new parameter takes effect
contexts (T)       the context of each round as columns, for policies with features
offers   (T, K)    the columns of every arm in each round, its "id" among them
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks


@dataclass(frozen=True, eq=False)
class Trace:
    """One run's action sets and rewards, before any choice is made.

    Arrays that are already float64 and contiguous are not copied.

    `partial=True` allows NaN for rewards that were never observed, as in the log of a policy that
    saw only the arm it chose. A NaN is played as a reward that never arrives: the decision stays
    pending and teaches nothing. Regret is refused, because the best arm is unknown;
    `driftbandits.evaluate` estimates what another policy would have earned.

    >>> trace = Trace(actions=[[[1.0], [-1.0]]], rewards=[[1, 0]], means=[[0.7, 0.3]])
    >>> trace.horizon, trace.arms, trace.dim
    (1, 2, 1)
    >>> trace.regret([1]).round(3).tolist()
    [0.4]
    """

    actions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    means: NDArray[np.float64] | None = None
    available: NDArray[np.bool_] | None = None
    theta: NDArray[np.float64] | None = None
    changes: tuple[int, ...] | None = None
    partial: bool = False
    contexts: Sequence[Mapping[str, Any]] | None = None
    offers: Sequence[Sequence[Mapping[str, Any]]] | None = None

    def __post_init__(self) -> None:
        hold(self, actions=checks.array("actions", self.actions, ndim=3))
        rounds, arms, dim = self.actions.shape
        hold(self, rewards=checks.array("rewards", self.rewards, ndim=2, missing=True))
        if np.isnan(self.rewards).any() and not self.partial:
            raise ValueError(
                "rewards must be finite; got NaN. If these were never observed, give partial=True"
            )
        _check_shape("rewards", self.rewards, (rounds, arms))
        if self.means is not None:
            hold(self, means=checks.array("means", self.means, ndim=2))
            _check_shape("means", self.means, (rounds, arms))
        if self.available is not None:
            hold(self, available=_mask(self.available))
            _check_shape("available", self.available, (rounds, arms))
            empty = np.flatnonzero(~self.available.any(axis=1))
            if empty.size:
                raise ValueError(
                    f"available must leave an arm in every round; got none in round {empty[0] + 1}"
                )
        if self.theta is not None:
            hold(self, theta=checks.array("theta", self.theta, ndim=2))
            _check_shape("theta", self.theta, (rounds, dim))
        if self.changes is not None:
            hold(self, changes=change_rounds(self.changes, horizon=rounds))
        self._check_tables()

    def _check_tables(self) -> None:
        if (self.contexts is None) != (self.offers is None):
            raise ValueError("contexts and offers must be given together; got one of them")
        if self.contexts is None or self.offers is None:
            return
        shape = len(self.contexts), {len(offer) for offer in self.offers}
        if len(self.offers) != self.horizon or shape != (self.horizon, {self.arms}):
            raise ValueError(
                f"contexts and offers must be one for each of {self.horizon} rounds, with "
                f"{self.arms} arms; got {shape[0]}, {len(self.offers)} with {sorted(shape[1])} arms"
            )

    @classmethod
    def from_frame(
        cls,
        table: Any,
        *,
        context: Sequence[str],
        label: str | None = None,
        rewards: Sequence[str] | Mapping[str, str] | None = None,
        arm: str | None = None,
        reward: str | None = None,
        arms: str = "shared",
    ) -> Trace:
        """Make a trace of a table: one row a round, in the order of the rows.

        table    a CSV or Parquet file, a frame of pandas, polars or Arrow, or a list of dicts
        context  the columns that a policy may look at
        label    the column that has the right arm: choosing it pays 1, any other arm 0; or
        rewards  the columns that have the reward of each arm, by the arm's id where it is not the
                 column's name; or
        arm      the column that has the arm that was chosen, and
        reward   the one that has its reward; the rewards of other arms are unknown
        arms     `actions` are the context's columns as numbers of at most length 1. "shared": each
                 arm has coordinates of its own; "separate": all arms have the same row, as policies
                 with arms="separate" take it

        >>> rows = [{"age": 20, "best": "tea"}, {"age": 60, "best": "mate"}]
        >>> trace = Trace.from_frame(rows, context=["age"], label="best")
        >>> trace.rewards.tolist(), trace.offers[0]
        ([[1.0, 0.0], [0.0, 1.0]], ({'id': 'tea'}, {'id': 'mate'}))
        """
        from driftbandits.environments.recorded import trace_of_table

        return trace_of_table(
            table,
            context=context,
            label=label,
            rewards=rewards,
            arm=arm,
            reward=reward,
            arms=arms,
        )

    def __repr__(self) -> str:
        return f"Trace({self.horizon} rounds, {self.arms} arms, {self.dim} features)"

    @property
    def horizon(self) -> int:
        return int(self.actions.shape[0])

    @property
    def arms(self) -> int:
        return int(self.actions.shape[1])

    @property
    def dim(self) -> int:
        return int(self.actions.shape[2])

    @property
    def payoffs(self) -> NDArray[np.float64]:
        """The means (T, K), or the rewards where the means are unknown (realised regret)."""
        if self.means is not None:
            return self.means
        unknown = np.isnan(self.rewards)
        if (unknown if self.available is None else unknown & self.available).any():
            raise ValueError(
                "rewards must be known for every arm, or means given, to measure regret; "
                "got a trace with rewards that were never observed"
            )
        return self.rewards

    @property
    def best(self) -> NDArray[np.float64]:
        """The largest payoff among the arms available in each round (T,)."""
        if self.available is None:
            best: NDArray[np.float64] = self.payoffs.max(axis=1)
        else:
            best = self.payoffs.max(axis=1, where=self.available, initial=-np.inf)
        return best

    def regret(self, chosen: ArrayLike) -> NDArray[np.float64]:
        """Return the regret of each round (T,) for the arm indices `chosen` (T,)."""
        picked = np.asarray(chosen)
        if picked.shape != (self.horizon,) or picked.dtype.kind not in "iu":
            raise ValueError(
                f"chosen must hold {self.horizon} arm indices, one a round; "
                f"got shape {picked.shape}, type {picked.dtype}"
            )
        if picked.min() < 0 or picked.max() >= self.arms:
            raise ValueError(
                f"chosen must lie in 0..{self.arms - 1}; "
                f"got values from {picked.min()} to {picked.max()}"
            )
        rounds = np.arange(self.horizon)
        if self.available is not None and not self.available[rounds, picked].all():
            first = int(np.flatnonzero(~self.available[rounds, picked])[0])
            raise ValueError(
                f"chosen must be available arms; got arm {picked[first]} in round {first + 1}"
            )
        difference: NDArray[np.float64] = self.best - self.payoffs[rounds, picked]
        return difference


@runtime_checkable
class Environment(Protocol):
    """A world: any object that draws traces. It is sent to worker processes, so it must pickle."""

    def draw(self, rng: np.random.Generator) -> Trace:
        """Draw one run, which depends on nothing but the world and `rng`."""
        ...


def hold(frozen: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def change_rounds(changes: Any, *, horizon: int) -> tuple[int, ...]:
    """Return `changes` as a tuple of increasing rounds in 2..horizon."""
    try:
        listed = list(changes)
    except TypeError:
        raise ValueError(f"changes must be a list of rounds; got {changes!r}") from None
    rounds = tuple(checks.integer("changes", value, least=2, most=horizon) for value in listed)
    if any(later <= earlier for earlier, later in itertools.pairwise(rounds)):
        raise ValueError(f"changes must be increasing rounds; got {listed!r}")
    return rounds


def _mask(available: Any) -> NDArray[np.bool_]:
    mask = np.asarray(available)
    if mask.dtype != np.bool_:
        raise ValueError(f"available must be an array of booleans; got type {mask.dtype}")
    return np.ascontiguousarray(mask)


def _check_shape(name: str, given: NDArray[Any], expected: tuple[int, ...]) -> None:
    if given.shape != expected:
        raise ValueError(
            f"{name} must have shape {expected} to go with the actions; got {given.shape}"
        )
