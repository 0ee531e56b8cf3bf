"""Checks of what an agent is offered: actions, separate arms, or tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from driftbandits import checks
from driftbandits.features import ArmId, Encoded, Encoding, arm_id, refuse_twice
from driftbandits.policies import Policy

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

    def count(self, n: int | None) -> int:
        """The number of places of a list of n, or of a plain decision."""
        return 1 if n is None else checks.integer("n", n, least=1, most=self.size)


class Offers:
    """Reads offers as a policy takes them."""

    def __init__(self, policy: Policy, encoding: Encoding | None) -> None:
        self._dim, self._separate, self._encoding = policy.dim, policy.separate, encoding

    def offer(self, actions: Any, context: Any, arms: Any) -> Offer:
        """Check the actions of one decision."""
        if self._encoding is not None:
            _refuse(actions, _NO_ACTIONS)
            return _encoded(self._encoding.read(context, arms))
        offer = self._vectors(actions, context, arms)
        refuse_twice(offer.arms or ())
        return offer

    def offers(self, action_sets: Any, context: Any, arms: Any) -> list[Offer]:
        """Check the actions of several decisions."""
        if self._encoding is not None:
            _refuse(action_sets, _NO_ACTIONS)
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
            _refuse(actions, _NO_ACTIONS)
            return list(map(_encoded, self._encoding.read_plays(context, arms)))
        rows, names, _ = self._vectors(actions, context, arms)
        return [Offer(rows[i : i + 1], names and names[i : i + 1]) for i in range(len(rows))]

    def _vectors(self, actions: Any, context: Any, arms: Any) -> Offer:
        _refuse(context, "context can be given to a policy with features, which this has not")
        dim, names = self._dim, None
        if self._separate:
            names = _arm_ids(arms)
        else:
            _refuse(arms, _NO_ARMS)
        rows = checks.floats("actions", actions)
        if names is not None:
            count = len(names)
            if rows.shape == (dim,):
                rows = rows.reshape(1, dim).repeat(count, axis=0)
            if rows.shape != (count, dim):
                raise ValueError(
                    f"actions must have shape ({dim},), or ({count}, {dim}) for {count} arms; "
                    f"got {rows.shape}"
                )
        elif rows.ndim != 2 or rows.shape[1] != dim:
            raise ValueError(f"actions must have shape (K, {dim}); got {np.shape(actions)}")
        elif not len(rows):
            raise ValueError("actions must hold at least one action; got none")
        return Offer(rows, names)


_NO_ARMS = "arms can be given to a policy with arms='separate' or with features, which this is not"
_NO_ACTIONS = "context= and arms= must be given instead of actions, as this policy has features"


def _refuse(given: Any, why: str) -> None:
    if given is not None:
        raise ValueError(f"{why}; got {checks.brief(given)}")


def _encoded(encoded: Encoded) -> Offer:
    return Offer(None, encoded.arms, encoded)


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
