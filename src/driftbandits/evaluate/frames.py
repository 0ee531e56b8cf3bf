"""A log from tables as programs have them: frames, or lists of dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftbandits import checks
from driftbandits.evaluate.log import Log, LoggedDecision, log_of_tables
from driftbandits.features import Features, records_of
from driftbandits.features.tables import Offered, arm_id, offers_of


def log_from_tables(
    *,
    context: Any,
    arms: Any,
    chosen: Any,
    rewards: Any,
    propensities: Any,
    features: Features | None = None,
) -> Log:
    """A log of decisions, oldest first, that were made from tables.

    context       a frame of pandas, polars or Arrow, or a list of dicts: a row a decision
    arms          what was offered: the same for all, or a list with an offer for each decision
    chosen        the id of the arm that was chosen
    rewards       what came of it, NaN or None where nothing is known
    propensities  the probability with which it was chosen
    features      by which vectors are made; unless given, they are guessed; fitted if they are not
    """
    rows = records_of(context, "context")
    offers = offers_of(arms, len(rows), ())
    ids = [arm_id(arm) for arm in _listed("chosen", chosen, len(rows))]
    outcomes = [
        None if reward is None or reward != reward else float(reward)  # noqa: PLR0124
        for reward in _listed("rewards", rewards, len(rows))
    ]
    chances = checks.array("propensities", _listed("propensities", propensities, len(rows)), ndim=1)
    lines = [
        LoggedDecision(
            event_id=str(number),
            at=number,
            arm_ids=tuple(str(arm) for arm, _ in offer),
            arms=np.empty((0, 0)),
            chosen=_place(number, ids[number], offer),
            propensity=float(chances[number]),
            reward=outcomes[number],
            table=(rows[number], [columns or {} for _, columns in offer]),
        )
        for number, offer in enumerate(offers)
    ]
    return log_of_tables(lines, features)


def _listed(label: str, given: Any, count: int) -> Sequence[Any]:
    if isinstance(given, (str, bytes)) or not hasattr(given, "__len__") or len(given) != count:
        raise ValueError(
            f"{label} must be {count} values, one a decision; got {checks.brief(given)}"
        )
    return list(given)


def _place(number: int, arm: Any, offer: Offered) -> int:
    for place, (known, _) in enumerate(offer):
        if known == arm:
            return place
    raise ValueError(f"chosen must be an arm that was offered; row {number} has {arm!r}")
