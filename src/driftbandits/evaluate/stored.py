"""The log of a served policy, as the service's store has it."""

from __future__ import annotations

import numpy as np

from driftbandits import checks
from driftbandits.evaluate.join import Join
from driftbandits.evaluate.log import Log, LoggedDecision, Table
from driftbandits.features import features_from
from driftbandits.store import (
    CONFIGURED,
    CORRECTED,
    DECISION,
    DEFAULT,
    LATE,
    PROMOTED,
    REWARD,
    START,
    Event,
    Head,
    Session,
    checked,
)


def read_stored(session: Session, policy: str) -> Log:
    """The decisions of a policy and what came of them, see `Join`; erased events are left out.

    A log that is not what was written raises `store.Corrupt`.
    """
    checks.choice("policy", policy, session.policies())
    join = Join()
    for event in checked(session.all_events(policy), after=Head(0, 0, START)):
        if not event.is_erased:
            _take(event, join)
    return join.log()


def _values(content: bytes) -> Table:
    """The columns of the context and of each arm; what was not given has none."""
    import msgspec

    context, arms = msgspec.json.decode(content)
    return context or {}, [arm or {} for arm in arms]


def _take(event: Event, join: Join) -> None:
    from driftbandits.store.records import unpacked  # needs msgspec

    if event.kind in (DECISION, CORRECTED):
        record = unpacked(DECISION, event.body)
        if record.place:
            return  # it shares the round of the first place, and has no action set of its own
        count = len(record.arms)
        shared = np.frombuffer(record.context or record.x, dtype="<f8")
        arms = np.tile(shared, (count, 1)) if record.context else shared.reshape(count, -1)
        join.decided(
            LoggedDecision(
                event_id=event.event_id,
                at=event.at_ns,
                arm_ids=tuple(record.arms),
                arms=arms.astype(np.float64),
                chosen=record.index,
                propensity=record.propensity,
                reward=None,
                table=_values(record.table) if record.table else None,
            )
        )
    elif event.kind in (CONFIGURED, PROMOTED):
        record = unpacked(event.kind, event.body)
        configured = record if event.kind == CONFIGURED else record.configured
        join.served = configured.arguments
        join.features = features_from(join.served.get("features"))
    elif event.kind in (REWARD, DEFAULT, LATE):
        join.came_of(event.event_id, event.kind, unpacked(event.kind, event.body).value)
