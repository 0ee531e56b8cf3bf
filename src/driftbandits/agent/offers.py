"""What is offered to an agent, checked: actions, or arms and their context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandits import checks
from driftbandits.agent.decisions import ArmId, Floats
from driftbandits.estimator.state import Ints
from driftbandits.features.tables import arm_id

LONGEST_TIME = 2**52

Arms = Sequence[ArmId] | None
"""The ids of separate arms, where they are."""
Offer = tuple[Floats, Any]
"""Rows (K, dim), and the ids of the arms (K,) where arms are separate, else None."""


def checked_actions(dim: int, actions: Any) -> Floats:
    rows = checks.floats("actions", actions)
    shape = rows.shape
    if len(shape) != 2 or shape[1] != dim:
        raise ValueError(f"actions must have shape (K, {dim}); got {np.shape(actions)}")
    if shape[0] == 0:
        raise ValueError("actions must hold at least one action; got none")
    return rows


def offered_arms(dim: int, context: ArrayLike, arms: Any) -> Offer:
    """Distinct arms, and a row for each: its own, or the context that all of them share."""
    names = _arm_ids(arms)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"arms must differ; got {twice!r} twice")
    rows = checks.floats("actions", context)
    if rows.shape == (dim,):
        return rows.reshape(1, dim).repeat(len(names), axis=0), names
    return _one_row_each(dim, rows, names), names


def played_arms(dim: int, actions: ArrayLike, arms: Any) -> Offer:
    """One arm for each row; an arm may have several."""
    names = _arm_ids(arms)
    return _one_row_each(dim, checks.floats("actions", actions), names), names


def _one_row_each(dim: int, rows: Floats, names: Sequence[ArmId]) -> Floats:
    if rows.shape != (len(names), dim):
        raise ValueError(
            f"actions must have shape ({dim},), or ({len(names)}, {dim}) for {len(names)} arms; "
            f"got {rows.shape}"
        )
    return rows


def _arm_ids(arms: Any) -> tuple[ArmId, ...]:
    if arms is None or isinstance(arms, (str, bytes)) or not hasattr(arms, "__len__"):
        raise ValueError(f"arms must be a list of ids, as the arms are separate; got {arms!r}")
    names = tuple([arm_id(arm) for arm in arms])
    if not names:
        raise ValueError("arms must hold at least one id; got none")
    return names


def no_context(context: Any) -> ValueError:
    return ValueError(
        "context can be given to a policy with features, which this has not; "
        f"got {checks.brief(context)}"
    )


def no_arms(arms: Any) -> ValueError:
    return ValueError(
        "arms can be given to a policy with arms='separate' or with features, which this is not; "
        f"got {arms!r}"
    )


def with_arms(
    action_sets: list[ArrayLike], arms: Iterable[Arms] | None
) -> Iterable[tuple[ArrayLike, Arms]]:
    lists = [None] * len(action_sets) if arms is None else list(arms)
    if len(lists) != len(action_sets):
        raise ValueError(
            f"arms must be one list of ids for each context; got {len(lists)} for "
            f"{len(action_sets)}"
        )
    return zip(action_sets, lists, strict=True)


def checked_played(played: Any, count: int, arms: int) -> list[int] | None:
    """The rows that the caller plays, one for each place, if it plays its own."""
    if played is None or (count == 1 and played == [None]):
        return None
    if isinstance(played, (int, np.integer)) or len(played) != count:
        raise ValueError(
            f"give n or played, not both, or one played row for each of the n places; got "
            f"n = {count}, played = {played!r}"
        )
    rows = [checks.integer("played", row, least=0, most=arms - 1) for row in played]
    if len(set(rows)) < len(rows):
        raise ValueError(f"played must be different rows; got {rows}")
    return rows


def checked_ages(ages: ArrayLike, count: int) -> Ints:
    given = np.atleast_1d(checks.floats("ages", ages))
    whole = np.isfinite(given).all() and (given >= 0).all() and (given == np.floor(given)).all()
    if given.shape != (count,) or not whole or (given.size and given.max() > LONGEST_TIME):
        raise ValueError(f"ages must be {count} whole numbers of at least 0; got {ages!r}")
    return given.astype(np.int64)
