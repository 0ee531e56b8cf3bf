"""Checks of what an agent is offered: actions, separate arms, or tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from driftbandits import checks
from driftbandits.agent.explain import Floats
from driftbandits.features import ArmId, Encoded, Encoding, arm_id, refuse_twice

LONGEST_TIME = 2**52


class Offer(NamedTuple):
    """The actions of one decision."""

    rows: Any  # (K, dim); None where they are encoded
    arms: tuple[ArmId, ...] | None = None  # their ids, where they have ids
    encoded: Encoded | None = None  # where they were read from tables

    @property
    def size(self) -> int:
        """The number of actions to choose from."""
        return len(self.arms or ()) if self.rows is None else len(self.rows)


class Offers:
    """Reads offers as a policy takes them."""

    def __init__(self, dim: int, separate: bool, encoding: Encoding | None) -> None:
        self._dim, self._separate, self._encoding = dim, separate, encoding

    def offer(self, actions: Any, context: Any, arms: Any) -> Offer:
        """Check the actions of one decision."""
        if self._encoding is not None:
            _refuse_actions(actions)
            return _encoded(self._encoding.read(context, arms))
        _refuse_context(context)
        if self._separate:
            names = _arm_ids(arms)
            refuse_twice(names)
            rows = checks.floats("actions", actions)
            if rows.shape == (self._dim,):
                rows = rows.reshape(1, self._dim).repeat(len(names), axis=0)
            self._check_shape(rows, names)
            return Offer(rows, names)
        _refuse_arms(arms)
        rows = checks.floats("actions", actions)
        shape = rows.shape
        if len(shape) != 2 or shape[1] != self._dim:
            raise ValueError(f"actions must have shape (K, {self._dim}); got {np.shape(actions)}")
        if shape[0] == 0:
            raise ValueError("actions must hold at least one action; got none")
        return Offer(rows)

    def offers(self, action_sets: Any, context: Any, arms: Any) -> list[Offer]:
        """Check the actions of several decisions."""
        if self._encoding is not None:
            _refuse_actions(action_sets)
            return list(map(_encoded, self._encoding.read_many(context, arms)))
        if not isinstance(action_sets, Iterable):
            raise ValueError(f"action_sets must be a list of action sets; got {action_sets!r}")
        sets = list(action_sets)
        lists = [None] * len(sets) if arms is None else list(arms)
        if len(lists) != len(sets):
            raise ValueError(
                f"arms must be one list of ids for each context; got {len(lists)} for {len(sets)}"
            )
        return [self.offer(one, context, own) for one, own in zip(sets, lists, strict=True)]

    def plays(self, actions: Any, context: Any, arms: Any) -> list[Offer]:
        """Check what was played: an offer of one action for each row."""
        if self._encoding is not None:
            _refuse_actions(actions)
            return list(map(_encoded, self._encoding.read_plays(context, arms)))
        if not self._separate:
            rows = self.offer(actions, context, arms).rows
            return [Offer(rows[i : i + 1]) for i in range(len(rows))]
        _refuse_context(context)
        names, rows = _arm_ids(arms), checks.floats("actions", actions)
        self._check_shape(rows, names)
        return [Offer(rows[i : i + 1], names[i : i + 1]) for i in range(len(rows))]

    def _check_shape(self, rows: Floats, names: tuple[ArmId, ...]) -> None:
        if rows.shape != (len(names), self._dim):
            raise ValueError(
                f"actions must have shape ({self._dim},), or ({len(names)}, {self._dim}) for "
                f"{len(names)} arms; got {rows.shape}"
            )


def _encoded(encoded: Encoded) -> Offer:
    return Offer(None, encoded.arms, encoded)


def _refuse_context(context: Any) -> None:
    if context is not None:
        raise ValueError(
            "context can be given to a policy with features, which this has not; "
            f"got {checks.brief(context)}"
        )


def _refuse_arms(arms: Any) -> None:
    if arms is not None:
        raise ValueError(
            "arms can be given to a policy with arms='separate' or with features, which this "
            f"is not; got {checks.brief(arms)}"
        )


def _refuse_actions(actions: Any) -> None:
    if actions is not None:
        raise ValueError(
            "context= and arms= must be given instead of actions, as this policy has features; "
            f"got {checks.brief(actions)}"
        )


def _arm_ids(arms: Any) -> tuple[ArmId, ...]:
    if arms is None or isinstance(arms, (str, bytes)) or not hasattr(arms, "__len__"):
        raise ValueError(f"arms must be a list of ids, as the arms are separate; got {arms!r}")
    names = tuple([arm_id(arm) for arm in arms])
    if not names:
        raise ValueError("arms must hold at least one id; got none")
    return names


def checked_played(played: Any, count: int, arms: int) -> list[int] | None:
    """The rows that the caller plays, one for each place, if it plays its own."""
    if played is None or (count == 1 and played == [None]):
        return None
    if isinstance(played, (str, bytes)) or not hasattr(played, "__len__") or len(played) != count:
        raise ValueError(
            f"played must be a list of n = {count} rows, one for each place; got {played!r}"
        )
    rows = [checks.integer("played", row, least=0, most=arms - 1) for row in played]
    if len(set(rows)) < len(rows):
        raise ValueError(f"played must be different rows; got {rows}")
    return rows


def checked_ages(ages: ArrayLike, count: int) -> list[int]:
    """Ages of rows as whole numbers."""
    given = np.atleast_1d(checks.floats("ages", ages))
    whole = np.isfinite(given).all() and (given >= 0).all() and (given == np.floor(given)).all()
    if given.shape != (count,) or not whole or (given.size and given.max() > LONGEST_TIME):
        raise ValueError(f"ages must be {count} whole numbers of at least 0; got {ages!r}")
    found: list[int] = given.astype(np.int64).tolist()
    return found
