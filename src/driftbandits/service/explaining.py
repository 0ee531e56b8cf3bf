"""Why the last decisions were made: the log, beside what the agent remembers of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from driftbandits import wire
from driftbandits.agent import UnknownDecision
from driftbandits.service.fold import Fold
from driftbandits.service.guardrails import BY_BUDGET, BY_EXCLUSION, BY_SHARE
from driftbandits.service.offers import Offer, offer_of
from driftbandits.service.refusals import gone, unknown_decision, unknown_policy
from driftbandits.service.unit_of_work import NOTHING
from driftbandits.service.views import clock_text
from driftbandits.store import CORRECTED, DECISION, WITHDRAWN, Event, Known, Session, Store
from driftbandits.store.records import Decided, unpacked

MOST_EXPLANATIONS = 50
_FURTHEST_BACK = 1000
"""How many events are searched: behind a batch of rewards there are no last decisions."""


class Logged(NamedTuple):
    """A decision, and what has come of it."""

    event: Event
    known: Known
    first: Event | None = None  # of a list, which has what all its places chose from


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
        return _with_outcomes(session, policy, found)


def _with_outcomes(session: Session, policy: str, found: list[Event]) -> list[Logged]:
    lists = {e.event_id: _list_of(e) for e in found}
    known = session.known(policy, [*lists, *filter(None, lists.values())])
    return [
        Logged(e, known[e.event_id], known.get(lists[e.event_id], NOTHING).decision) for e in found
    ]


def _list_of(event: Event) -> str:
    """The id of the list whose later place a decision is; "" if it is none."""
    record: Decided = unpacked(event.kind, event.body)
    return event.event_id.rpartition("/")[0] if record.place else ""


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
        return _with_outcomes(session, policy, [known.decision])[0]


def one_explained(fold: Fold, logged: Logged) -> wire.ExplanationAnswer:
    return wire.ExplanationAnswer(fold.policy, fold.seq, _decision(fold, logged))


def explained(fold: Fold, logged: list[Logged]) -> wire.ExplanationsAnswer:
    return wire.ExplanationsAnswer(fold.policy, fold.seq, [_decision(fold, one) for one in logged])


def _decision(fold: Fold, logged: Logged) -> wire.ExplainedDecision:
    event = logged.event
    record: Decided = unpacked(event.kind, event.body)
    offer = offer_of(record)
    if logged.first is not None and not logged.first.is_erased:
        offer = offer_of(unpacked(logged.first.kind, logged.first.body))
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
        arms=_arms(fold, record, offer),
        outcome=_outcome(logged.known),
        context=_context(offer),
        told=record.told,
        control=record.control,
        conditional=record.conditional or None,
        reason=record.reason or None,
        excluded=[record.arms[i] for i in record.excluded],
        why=why(record),
    )


def why(record: Decided) -> str:
    """In words, by what this arm was played."""
    played, wanted = repr(record.arms[record.index]), repr(record.arms[record.suggested])
    by_itself = f"By itself the policy would have played {wanted}."
    if record.told:
        return f"The caller had played {played} by itself. {by_itself}"
    if record.control:
        whose = "the caller's baseline" if record.index == record.baseline else "drawn evenly"
        return f"A control, in which the policy has no say: {played}, {whose}. {by_itself}"
    if record.reason == BY_BUDGET:
        return (
            f"The caller's baseline, {played}: the account of the budget did not afford anything "
            f"else. {by_itself}"
        )
    if record.reason == BY_SHARE:
        return f"{played}, so that the shares of the arms are kept. {by_itself}"
    if record.reason == BY_EXCLUSION:
        return f"{played}, because the request excludes {wanted}, which the policy had chosen."
    if record.index != record.suggested:
        return f"The caller's baseline, {played}. {by_itself}"
    scores = np.frombuffer(record.scores, dtype="<f8")
    if scores[record.index] < scores.max() and not record.place:
        return f"The policy's choice, {played}, drawn at random to explore."
    return f"The policy's choice, {played}."


def _context(offer: Offer) -> list[float] | dict[str, Any] | UnsetType:
    if offer.context is not None:
        vector: list[float] = offer.context.tolist()
        return vector
    columns, _ = offer.values
    return UNSET if columns is None else columns


def _arms(fold: Fold, record: Decided, offer: Offer) -> list[wire.ScoredArm]:
    scores = np.frombuffer(record.scores, dtype="<f8").tolist()
    means: list[float | None] = [None] * len(scores)
    if record.means:
        means = np.frombuffer(record.means, dtype="<f4").tolist()
    _, rows = offer.values
    arms = [
        wire.ScoredArm(
            id,
            score,
            mean,
            None if mean is None else score - mean,
            features=UNSET if row is None else row,
        )
        for id, score, mean, row in zip(record.arms, scores, means, rows, strict=True)
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
