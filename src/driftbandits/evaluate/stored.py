"""The log of a served policy, as the service's store has it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from driftbandits.evaluate.log import Log, LoggedDecision, log_of
from driftbandits.store import DECISION, DEFAULT, LATE, REWARD, Event, Session, checked
from driftbandits.store.events import START, Head


def read_stored(session: Session, policy: str) -> Log:
    """The decisions of a policy and what came of them.

    The reward is the one that was learned; one that came too late counts where nothing was.
    Erased events are left out, and so are decisions over actions of another dimension than those of
    the last one. A log that is not what was written raises `store.Corrupt`.
    """
    if policy not in session.policies():
        raise ValueError(
            f"policy must be one of {', '.join(session.policies()) or 'none'}; got {policy!r}"
        )
    rows: dict[str, LoggedDecision] = {}
    late: dict[str, float] = {}
    for event in checked(session.all_events(policy), after=Head(0, 0, START)):
        _take(event, rows, late)
    if not rows:
        raise ValueError(f"policy {policy!r} must have decided at least once; it has not")
    joined = _with_late(rows.values(), late)
    dim = joined[-1].arms.shape[1]
    return log_of([row for row in joined if row.arms.shape[1] == dim])


def _take(event: Event, rows: dict[str, LoggedDecision], late: dict[str, float]) -> None:
    if event.is_erased:
        return
    from driftbandits.store.records import unpacked  # needs msgspec

    if event.kind == DECISION:
        record = unpacked(DECISION, event.body)
        arms = np.frombuffer(record.x, dtype="<f8").reshape(len(record.arms), -1)
        rows[event.event_id] = LoggedDecision(
            event_id=event.event_id,
            at=event.at_ns,
            arm_ids=tuple(record.arms),
            arms=arms.astype(np.float64),
            chosen=record.index,
            propensity=record.propensity,
            reward=None,
        )
    elif event.event_id in rows and event.kind in (REWARD, DEFAULT):
        value = unpacked(event.kind, event.body).value
        rows[event.event_id] = rows[event.event_id]._replace(reward=value)
    elif event.kind == LATE:
        late[event.event_id] = unpacked(LATE, event.body).value


def _with_late(rows: Iterable[LoggedDecision], late: dict[str, float]) -> list[LoggedDecision]:
    return [
        row._replace(reward=late.get(row.event_id)) if row.reward is None else row for row in rows
    ]
