"""Policies, their history and their decisions, as people and programs see them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from driftbandits import api
from driftbandits.agent import Agent, UnknownDecision
from driftbandits.core.sequences import Comparison, Interval
from driftbandits.service.configuration import TICKS, notes
from driftbandits.service.guardrails import BY_BUDGET, BY_EXCLUSION, BY_SHARE
from driftbandits.service.observers import OTHERS, Minute, Part, coordinates, in_a_row, names
from driftbandits.service.offers import Offer, offer_of
from driftbandits.service.refusals import gone, unknown_decision, unknown_policy
from driftbandits.service.relearning import Followers
from driftbandits.service.state import CHANGE, RELEARNED, State, Version, changes_of_model
from driftbandits.store import Event, Kind, Known, Session, Store
from driftbandits.store.records import Configured, Decided, unpacked

LEVEL = 0.95
"""Level of the intervals of lift."""
MOST_MOVED = 3
FEWEST_REWARDS = 10
"""Rewards that an arm needs before and after a change for its means to be compared."""
MOST_TOLD_CHANGES = 20
"""Number of last detections whose moved coefficients are shown."""
MOST_SHOWN_ARMS = 100
"""Number of separate arms above which answers leave the estimates and the radius out."""
MOST_EXPLANATIONS = 50
_FURTHEST_BACK = 1000
"""Number of events that are searched: behind a batch of rewards there are no last decisions."""
_MINUTE_NS = 60_000_000_000
_COUNTS = {
    "decisions": Kind.DECISION,
    "rewards": Kind.REWARD,
    "defaults": Kind.DEFAULT,
    "duplicates": Kind.DUPLICATE,
    "conflicts": Kind.CONFLICT,
}
_SHOWN = set(api.Configuration.__struct_fields__) & set(Configured.__struct_fields__)


def clock_text(at_ns: int) -> str:
    """A time as answers have it: UTC, to the microsecond."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{rest // 1000:06d}Z"


# -- what changed ----------------------------------------------------------------------------------


def minute_of_change(state: State, change: int) -> int | None:
    """The minute in which the clock stood there; None where that is no longer known."""
    record = state.version.record
    seconds = record.half_life_s or record.window_s
    if seconds is not None:
        minute = (state.began_ns + round(change * seconds * 1e9 / TICKS)) // _MINUTE_NS
        return minute if minute in state.observers.history.minutes else None
    for minute, row in reversed(state.observers.history.minutes.items()):
        if (minute + 1) * _MINUTE_NS <= state.began_ns:
            return None
        if row.round <= change:
            return minute
    return None


def moved(state: State, minute: int, until: int | None) -> list[api.Moved]:
    """The coefficients that differ most between that minute and a later one, or now."""
    rows, agent = state.observers.history.minutes, state.playing
    before = rows[minute].theta
    after = in_a_row(agent) if until is None else rows[until].theta
    theta, known = agent.theta_hat, names(agent)
    parts = theta if isinstance(theta, dict) else {"": theta}
    labels = [
        f"{arm} {label}" if arm else label
        for arm, part in parts.items()
        for label in known or [f"x{i + 1}" for i in range(len(part))]
    ]
    if not before or len(before) > len(after) or len(after) > len(labels):
        return []
    if len(before) < len(after) and agent.policy.separate:
        return []  # arms came between
    padded = [*before, *[0.0] * (len(after) - len(before))]
    found = [
        api.Moved(label, old, new)
        for label, old, new in zip(labels, padded, after, strict=False)
        if old != new
    ]
    return sorted(found, key=lambda one: -abs(one.after - one.before))[:MOST_MOVED]


def arms_changed(state: State, minute: int, until: int | None) -> list[api.Moved]:
    """The arms whose mean reward differs most before and after."""
    record = state.version.record
    # where a default is waited for, what is open counts as that
    default = None if record.reward_wait_s is None else record.default_reward
    numbers, totals = Counter[tuple[str, bool]](), defaultdict[tuple[str, bool], float](float)
    for begin, length, part in state.observers.history.parts():
        is_new = begin > minute and (until is None or begin + length <= until)
        if not is_new and begin + length > minute:
            continue
        for arm, row in part.items():
            waited = 0 if default is None else row.decisions - row.rewards
            numbers[arm, is_new] += row.rewards + waited
            totals[arm, is_new] += row.total + waited * (default or 0.0)
    found = [
        api.Moved(arm, *(totals[arm, is_new] / numbers[arm, is_new] for is_new in (False, True)))
        for arm in {arm for arm, _ in numbers} - {OTHERS}
        if min(numbers[arm, False], numbers[arm, True]) >= FEWEST_REWARDS
    ]
    return sorted(found, key=lambda one: (-abs(one.after - one.before), one.name))[:MOST_MOVED]


# -- a policy --------------------------------------------------------------------------------------


def configuration(version: Version) -> api.Configuration:
    record = version.record
    told = {name: getattr(record, name) for name in _SHOWN}
    if record.reward_wait_s is None:
        told["default_reward"] = None
    return api.Configuration(
        **told,
        since_seq=version.seq,
        since=clock_text(version.at_ns),
        how=version.how,
        learned_from=version.learned_from,
    )


def counts(state: State) -> api.Counts:
    fields = api.Counts.__struct_fields__
    return api.Counts(**{name: state.counts[_COUNTS.get(name, name)] for name in fields})


def summary(state: State) -> api.PolicySummary:
    record = state.version.record
    return api.PolicySummary(
        policy=state.policy,
        name=record.arguments["name"],
        version=record.version,
        mode=record.mode,
        seq=state.seq,
        pending=len(state.pending),
        counts=counts(state),
        retired=state.retired,
    )


def policy_answer(state: State, followers: Followers) -> api.PolicyAnswer:
    agent, own = state.playing, state.accounts
    few = len(agent.arms) <= MOST_SHOWN_ARMS  # the estimate of each has to be made
    radius = agent.radius if few else math.inf
    return api.PolicyAnswer(
        policy=state.policy,
        version=state.version.record.version,
        seq=state.seq,
        at=clock_text(state.at_ns),
        configuration=configuration(state.version),
        round=agent.issued,
        theta_hat=_plain(agent, agent.theta_hat) if few else {},
        theta=_plain(agent, agent.theta) if few else {},
        radius=radius if math.isfinite(radius) else 0.0,
        effective_sample_size=state.effective_sample_size,
        detections=_detections(state),
        pending=len(state.pending),
        counts=counts(state),
        names=names(agent),
        beliefs=[api.Hypothesis(**found._asdict()) for found in agent.beliefs],
        limited=[api.LimitedColumn(**found._asdict()) for found in agent.limited],
        accounts=api.Accounts(own.balance, own.credits) if own.is_used else None,
        lift=lift_of(state),
        notes=notes(agent.policy),
        change=_change(state, followers),
        retired=state.retired,
        shadows=shadow_answers(state, followers),
    )


def _change(state: State, followers: Followers) -> api.Change | None:
    """Describe the change that is under way."""
    candidate = state.candidates.get(CHANGE)
    if candidate is None:
        return None
    place = followers.of(state.policy, CHANGE, candidate)
    follower = place.follower
    return api.Change(
        how=RELEARNED,
        version=state.version.record.version + 1,
        arguments=changes_of_model(state.version.record, candidate.record),
        seq=follower.read.seq,
        of=state.seq,
        learned_from=follower.learned,
        skipped=follower.skipped,
        held=state.is_change_held,
        failed=place.failure,
    )


def shadow_answers(state: State, followers: Followers) -> list[api.ShadowAnswer]:
    """Describe the shadows, sorted by name."""
    names = sorted(name for name in state.candidates if name is not None)
    return [_shadow(state, name, followers) for name in names]


def _shadow(state: State, name: str, followers: Followers) -> api.ShadowAnswer:
    """Describe a shadow without waiting for its turn: it may be an event ahead of the state."""
    candidate = state.candidates[name]
    place = followers.of(state.policy, name, candidate)
    record, follower = candidate.record, place.follower
    seen = follower.agreement
    played = seen.played_value
    return api.ShadowAnswer(
        name=name,
        since=clock_text(candidate.at_ns),
        arguments=record.arguments,
        seed=record.seed,
        half_life_s=record.half_life_s,
        window_s=record.window_s,
        seq=follower.read.seq,
        of=state.seq,
        learned_from=follower.learned,
        skipped=follower.skipped,
        decisions=seen.decisions,
        agreed=seen.agreed,
        rounds=seen.rounds,
        effective_rounds=seen.effective_rounds,
        value=_interval(seen.value()),
        played_value=played,
        difference=_interval(seen.difference()),
        failed=UNSET if place.failure is None else place.failure,
    )


def _plain(agent: Agent, theta: Any) -> list[float] | dict[str, list[float]]:
    if isinstance(theta, dict):
        return {arm: coordinates(agent, own) for arm, own in theta.items()}
    return coordinates(agent, theta)


def _detections(state: State) -> list[api.Detection]:
    times = dict(state.observers.history.detected)
    told: list[api.Detection] = []
    until = None  # where the next one begins
    for place, found in enumerate(reversed(state.playing.detections)):
        one = api.Detection(
            round=found.round,
            at=clock_text(times.get(found.round, state.at_ns)),
            statistic=found.statistic,
            threshold=found.threshold,
            change=found.change,
            size=found.size,
        )
        minute = None if found.change is None else minute_of_change(state, found.change)
        if minute is not None and place < MOST_TOLD_CHANGES:
            one.since = clock_text(minute * _MINUTE_NS)
            one.moved = moved(state, minute, until)
            one.arms = arms_changed(state, minute, until)
            until = minute
        told.append(one)
    return told[::-1]


def lift_of(state: State) -> api.Lift | None:
    """The policy beside its control; None where there never was one."""
    lift = state.observers.lift
    if lift is None:
        return None
    known, until = lift.total, lift.until_ns
    reward = state.playing.policy.reward
    return api.Lift(
        since=clock_text(lift.at_ns),
        since_seq=lift.seq,
        until=None if until is None else clock_text(until),
        share=lift.terms.design.share,
        level=LEVEL,
        method="bounded" if known.is_bounded else "asymptotic",
        better="lower" if reward is not None and reward.sign < 0 else "higher",
        policy=_side(known, of_control=False, decisions=lift.policy_decisions),
        control=_side(known, of_control=True, decisions=lift.control_decisions),
        difference=_interval(known.difference(level=LEVEL)),
        relative=_interval(known.relative(level=LEVEL)),
        pending=lift.pending,
        unknown=lift.unknown,
    )


def lift_answer(state: State) -> api.LiftAnswer:
    days = {} if state.observers.lift is None else state.observers.lift.days
    told = [
        api.LiftOfDay(
            day=clock_text(day * 1440 * _MINUTE_NS)[:10],
            policy=_side(known, of_control=False),
            control=_side(known, of_control=True),
            difference=_interval(known.difference(level=LEVEL)),
        )
        for day, known in sorted(days.items())
    ]
    return api.LiftAnswer(state.policy, state.seq, lift_of(state), told)


def _side(known: Comparison, *, of_control: bool, decisions: int | None = None) -> api.Side:
    rewards = int(known.rewards[of_control])
    mean = _interval(known.mean(of_control=of_control, level=LEVEL))
    return api.Side(rewards if decisions is None else decisions, rewards, mean)


def _interval(found: Interval | None) -> api.Interval | None:
    return None if found is None else api.Interval(*found)


def digest_answer(state: State) -> api.DigestAnswer:
    return api.DigestAnswer(state.policy, state.seq, state.digest)


def versions_answer(state: State) -> api.VersionsAnswer:
    return api.VersionsAnswer([configuration(version) for version in state.versions])


def history_answer(state: State, *, after_s: int, since: int) -> api.HistoryAnswer:
    """Minutes after a time that have changed since an event; all have since none."""
    rows = {
        minute: row
        for minute, row in state.observers.history.minutes.items()
        if minute * 60 > after_s and (not since or row.changed > since)
    }
    parts = [
        _arms_part(begin, length, part)
        for begin, length, part in state.observers.history.parts()
        if part and any(minute in rows for minute in range(begin, begin + length))
    ]
    minutes = [_minute(minute, row) for minute, row in rows.items()]
    return api.HistoryAnswer(state.policy, minutes, state.seq, parts)


def _minute(minute: int, row: Minute) -> api.Minute:
    return api.Minute(
        at=clock_text(minute * _MINUTE_NS),
        decisions=row.decisions,
        rewards=row.rewards,
        reward_sum=row.total,
        reward_square_sum=row.squares,
        theta=row.theta,
        pending=row.open,
        round=row.round,
    )


def _arms_part(begin: int, length: int, part: Part) -> api.ArmsPart:
    counts = {
        arm: api.ArmCounts(row.decisions, row.rewards, row.total) for arm, row in part.items()
    }
    others = counts.pop(OTHERS, None)
    return api.ArmsPart(clock_text(begin * _MINUTE_NS), length, counts, others)


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
            made = [
                e for e in events if e.kind in (Kind.DECISION, Kind.CORRECTED) and not e.is_erased
            ]
            corrected = {e.event_id for e in (*found, *made) if e.kind == Kind.CORRECTED}
            found += [
                e for e in reversed(made) if e.kind == Kind.CORRECTED or e.event_id not in corrected
            ]
            end = start
        found = found[:limit]
        return _with_outcomes(session, policy, found)


def _with_outcomes(session: Session, policy: str, found: list[Event]) -> list[Logged]:
    lists = {e.event_id: _list_of(e) for e in found}
    known = session.known(policy, [*lists, *filter(None, lists.values())])
    return [
        Logged(e, known[e.event_id], known.get(lists[e.event_id], Known()).decision) for e in found
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


def one_explained(state: State, logged: Logged) -> api.ExplanationAnswer:
    return api.ExplanationAnswer(state.policy, state.seq, _decision(state, logged))


def explained(state: State, logged: list[Logged]) -> api.ExplanationsAnswer:
    return api.ExplanationsAnswer(
        state.policy, state.seq, [_decision(state, one) for one in logged]
    )


def _decision(state: State, logged: Logged) -> api.ExplainedDecision:
    event = logged.event
    record: Decided = unpacked(event.kind, event.body)
    offer = offer_of(record)
    if logged.first is not None and not logged.first.is_erased:
        offer = offer_of(unpacked(logged.first.kind, logged.first.body))
    return api.ExplainedDecision(
        event_id=event.event_id,
        seq=event.seq,
        at=clock_text(event.at_ns),
        version=record.version,
        round=record.number,
        index=record.index,
        suggested=record.suggested,
        baseline=record.baseline if record.baseline >= 0 else None,
        propensity=record.propensity,
        arms=_arms(state, record, offer),
        outcome=_outcome(logged.known),
        context=_context(offer),
        caller_decided=record.caller_decided,
        control=record.control,
        conditional=record.conditional or None,
        reason=record.reason or None,
        excluded=[record.arms[i] for i in record.excluded],
        why=why(record),
    )


def why(record: Decided) -> str:
    """Say in words by what this arm was played."""
    played, wanted = repr(record.arms[record.index]), repr(record.arms[record.suggested])
    by_itself = f"By itself the policy would have played {wanted}."
    if record.caller_decided:
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


def _arms(state: State, record: Decided, offer: Offer) -> list[api.ScoredArm]:
    scores = np.frombuffer(record.scores, dtype="<f8").tolist()
    means: list[float | None] = [None] * len(scores)
    if record.means:
        means = np.frombuffer(record.means, dtype="<f4").tolist()
    _, rows = offer.values
    arms = [
        api.ScoredArm(
            id,
            score,
            mean,
            None if mean is None else score - mean,
            features=UNSET if row is None else row,
        )
        for id, score, mean, row in zip(record.arms, scores, means, rows, strict=True)
    ]
    try:
        made = state.playing.explain(record.number)
    except UnknownDecision:
        return arms
    # Numbers start again with a version and while frozen: the same bits tell that it is the one.
    if made.decision.scores.tobytes() == record.scores:
        for i, arm in enumerate(arms):
            arm.mean, arm.width = float(made.decision.means[i]), float(made.decision.widths[i])
            if made.contributions is not None:
                arm.parts = made.contributions[arm.id]
    return arms


def _outcome(known: Known) -> api.Outcome | None:
    event = known.outcome or known.late
    if event is None:
        return None
    has_value = event.kind != Kind.WITHDRAWN and not event.is_erased
    value = unpacked(event.kind, event.body).value if has_value else None
    return api.Outcome(event.kind, value, clock_text(event.at_ns))
