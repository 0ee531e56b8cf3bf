"""Why the last decisions were made: the log, beside what the agent remembers of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from driftbandits import wire
from driftbandits.agent import UnknownDecision
from driftbandits.service.fold import Fold, offer_of
from driftbandits.service.refusals import gone, unknown_decision, unknown_policy
from driftbandits.service.views import clock_text
from driftbandits.store import CORRECTED, DECISION, WITHDRAWN, Event, Known, Store
from driftbandits.store.records import Decided, unpacked

MOST_EXPLANATIONS = 50
_FURTHEST_BACK = 1000
"""How many events are searched: behind a batch of rewards there are no last decisions."""


class Logged(NamedTuple):
    """A decision, and what has come of it."""

    event: Event
    known: Known


def last_decisions(store: Store, policy: str, limit: int) -> list[Logged]:
    """The newest decisions of a log, newest first; blocks."""
    with store.read() as session:
        head = session.head(policy)
        if head is None:
            raise unknown_policy(policy)
        found: list[Event] = []
        end, first = head.seq, max(0, head.seq - _FURTHEST_BACK)
        while end > first and len(found) < limit:
            start = max(first, end - 2 * limit)
            events = session.events(policy, after=start, limit=end - start)
            made = [e for e in events if e.kind in (DECISION, CORRECTED) and not e.is_erased]
            corrected = {e.event_id for e in (*found, *made) if e.kind == CORRECTED}
            found += [
                e for e in reversed(made) if e.kind == CORRECTED or e.event_id not in corrected
            ]
            end = start
        found = found[:limit]
        known = session.known(policy, [event.event_id for event in found])
    return [Logged(event, known[event.event_id]) for event in found]


def one_decision(store: Store, policy: str, event_id: str) -> Logged:
    """A decision of a log, however old; blocks."""
    with store.read() as session:
        if session.head(policy) is None:
            raise unknown_policy(policy)
        known = session.known(policy, [event_id]).get(event_id)
    if known is None or known.decision is None:
        raise unknown_decision(policy, event_id, "event_id")
    if known.decision.is_erased:
        raise gone(known.decision, event_id)
    return Logged(known.decision, known)


def one_explained(fold: Fold, logged: Logged) -> wire.ExplanationAnswer:
    return wire.ExplanationAnswer(fold.policy, fold.seq, _decision(fold, logged))


def explained(fold: Fold, logged: list[Logged]) -> wire.ExplanationsAnswer:
    return wire.ExplanationsAnswer(fold.policy, fold.seq, [_decision(fold, one) for one in logged])


def _decision(fold: Fold, logged: Logged) -> wire.ExplainedDecision:
    event = logged.event
    record: Decided = unpacked(event.kind, event.body)
    return wire.ExplainedDecision(
        event_id=event.event_id,
        seq=event.seq,
        at=clock_text(event.at_ns),
        version=record.version,
        round=record.number,
        index=record.index,
        suggested=record.suggested,
        baseline=record.baseline if record.baseline >= 0 else None,
        propensity=record.propensity,
        arms=_arms(fold, record),
        outcome=_outcome(logged.known),
        context=_context(record),
        told=record.told,
        control=record.control,
        conditional=record.conditional or None,
        reason=record.reason or None,
        excluded=[record.arms[i] for i in record.excluded],
    )


def _context(record: Decided) -> list[float] | dict[str, Any] | UnsetType:
    offer = offer_of(record)
    if offer.context is not None:
        vector: list[float] = offer.context.tolist()
        return vector
    columns, _ = offer.values
    return UNSET if columns is None else columns


def _arms(fold: Fold, record: Decided) -> list[wire.ScoredArm]:
    scores = np.frombuffer(record.scores, dtype="<f8").tolist()
    _, rows = offer_of(record).values
    arms = [
        wire.ScoredArm(id, score, features=UNSET if row is None else row)
        for id, score, row in zip(record.arms, scores, rows, strict=True)
    ]
    try:
        made = fold.playing.explain(record.number)
    except UnknownDecision:
        return arms
    # Numbers start again with a version and while frozen: the same bits tell that it is the one.
    if made.decision.scores.tobytes() == record.scores:
        for i, arm in enumerate(arms):
            arm.mean, arm.width = float(made.decision.means[i]), float(made.decision.widths[i])
            if made.contributions is not None:
                arm.parts = made.contributions[arm.id]
    return arms


def _outcome(known: Known) -> wire.Outcome | None:
    event = known.outcome or known.late
    if event is None:
        return None
    has_value = event.kind != WITHDRAWN and not event.is_erased
    value = unpacked(event.kind, event.body).value if has_value else None
    return wire.Outcome(event.kind, value, clock_text(event.at_ns))
