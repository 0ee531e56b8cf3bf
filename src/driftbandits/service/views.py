"""A policy's state as people and programs may see it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from driftbandits import wire
from driftbandits.agent import Agent
from driftbandits.sequences import Comparison, Interval
from driftbandits.service import changes, snapshots
from driftbandits.service.fold import CHANGE, RELEARNED, Fold, Version, changes_of_model
from driftbandits.service.history import CHANGED, OTHERS, coordinates, names
from driftbandits.service.notes import notes
from driftbandits.service.relearning import Followers

LEVEL = 0.95
"""Of the intervals of lift."""
MOST_TOLD_CHANGES = 20
"""Of detections, the last ones: what moved with them is told."""
MOST_SHOWN_ARMS = 100
"""Of separate arms: with more of them known, answers leave the estimates and the radius out."""


def clock_text(at_ns: int) -> str:
    """A time as answers have it: UTC, to the microsecond."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{rest // 1000:06d}Z"


def configuration(version: Version) -> wire.Configuration:
    record = version.record
    return wire.Configuration(
        version=record.version,
        since_seq=version.seq,
        since=clock_text(version.at_ns),
        arguments=record.arguments,
        seed=record.seed,
        mode=record.mode,
        reward_wait_s=record.reward_wait_s,
        default_reward=None if record.reward_wait_s is None else record.default_reward,
        half_life_s=record.half_life_s,
        window_s=record.window_s,
        fresh=record.fresh,
        how=version.how,
        learned_from=version.learned_from,
        control=record.control,
        shares=_pairs(record.shares),
        budget=record.budget,
        limit_window=record.limit_window,
    )


def counts(fold: Fold) -> wire.Counts:
    count = fold.counts
    return wire.Counts(
        decisions=count["decision"],
        rewards=count["reward"],
        defaults=count["default"],
        late=count["late"],
        duplicates=count["duplicate"],
        conflicts=count["conflict"],
        erased=count["erased"],
        refused=count["refused"],
        clipped=count["clipped"],
        told=count["told"],
        corrected=count["corrected"],
        withdrawn=count["withdrawn"],
    )


def summary(fold: Fold) -> wire.PolicySummary:
    record = fold.version.record
    return wire.PolicySummary(
        policy=fold.policy,
        name=record.arguments["name"],
        version=record.version,
        mode=record.mode,
        seq=fold.seq,
        pending=len(fold.pending),
        counts=counts(fold),
        retired=fold.retired,
        chain=_chain(fold),
    )


def _chain(fold: Fold) -> str | None:
    return None if fold.chain == fold.policy else fold.chain


def policy_answer(fold: Fold, followers: Followers) -> wire.PolicyAnswer:
    agent = fold.playing
    few = len(agent.arms) <= MOST_SHOWN_ARMS  # the estimate of each has to be made
    radius = agent.radius if few else math.inf
    return wire.PolicyAnswer(
        policy=fold.policy,
        version=fold.version.record.version,
        seq=fold.seq,
        at=clock_text(fold.at_ns),
        configuration=configuration(fold.version),
        round=agent.issued,
        theta_hat=_plain(agent, agent.theta_hat) if few else {},
        theta=_plain(agent, agent.theta) if few else {},
        radius=radius if math.isfinite(radius) else 0.0,
        effective_sample_size=fold.effective_sample_size,
        detections=_detections(fold),
        pending=len(fold.pending),
        counts=counts(fold),
        names=names(agent),
        beliefs=[wire.Hypothesis(**found._asdict()) for found in agent.beliefs],
        accounts=_accounts(fold),
        lift=lift_of(fold),
        notes=notes(agent.policy),
        change=_change(fold, followers),
        retired=fold.retired,
        shadows=shadow_answers(fold, followers),
        chain=_chain(fold),
        former_names=[wire.FormerName(one.name, clock_text(one.at_ns)) for one in fold.former],
    )


def _change(fold: Fold, followers: Followers) -> wire.Change | None:
    """That is under way."""
    candidate = fold.candidates.get(CHANGE)
    if candidate is None:
        return None
    follower = followers.of(fold.chain, CHANGE, candidate).follower
    return wire.Change(
        how=RELEARNED,
        version=fold.version.record.version + 1,
        arguments=changes_of_model(fold.version.record, candidate.record),
        seq=follower.read.seq,
        of=fold.seq,
        learned_from=follower.learned,
        skipped=follower.skipped,
        held=fold.is_change_held,
    )


def shadow_answers(fold: Fold, followers: Followers) -> list[wire.ShadowAnswer]:
    """By name."""
    names = sorted(fold.candidates.keys() - {CHANGE})
    return [_shadow(fold, name, followers) for name in names]


def _shadow(fold: Fold, name: str, followers: Followers) -> wire.ShadowAnswer:
    """Without waiting for its turn: it may be an event further here than there."""
    candidate = fold.candidates[name]
    record, follower = candidate.record, followers.of(fold.chain, name, candidate).follower
    seen = follower.agreement
    played = seen.played_value
    return wire.ShadowAnswer(
        name=name,
        since=clock_text(candidate.at_ns),
        arguments=record.arguments,
        seed=record.seed,
        half_life_s=record.half_life_s,
        window_s=record.window_s,
        seq=follower.read.seq,
        of=fold.seq,
        learned_from=follower.learned,
        skipped=follower.skipped,
        decisions=seen.decisions,
        agreed=seen.agreed,
        rounds=seen.rounds,
        effective_rounds=seen.effective_rounds,
        value=_interval(seen.value()),
        played_value=played,
        difference=_interval(seen.difference()),
        modelled_value=_interval(seen.modelled_value()),
        modelled_difference=_interval(seen.modelled_difference()),
    )


def _accounts(fold: Fold) -> wire.Accounts | None:
    accounts = fold.accounts
    if not accounts.is_used:
        return None
    return wire.Accounts(accounts.balance, _pairs(accounts.credits) or {})


def _pairs(found: Mapping[str, tuple[float, float]] | None) -> dict[str, list[float]] | None:
    return None if found is None else {arm: list(pair) for arm, pair in found.items()}


def _plain(agent: Agent, theta: Any) -> list[float] | dict[str, list[float]]:
    if isinstance(theta, dict):
        return {arm: coordinates(agent, own) for arm, own in theta.items()}
    return coordinates(agent, theta)


def _detections(fold: Fold) -> list[wire.Detection]:
    times = dict(fold.history.detected)
    told: list[wire.Detection] = []
    until = None  # where the next one begins
    for place, found in enumerate(reversed(fold.playing.detections)):
        one = wire.Detection(
            round=found.round,
            at=clock_text(times.get(found.round, fold.at_ns)),
            statistic=found.statistic,
            threshold=found.threshold,
            change=found.change,
            size=found.size,
        )
        minute = None if found.change is None else changes.minute_of_change(fold, found.change)
        if minute is not None and place < MOST_TOLD_CHANGES:
            one.since = _minute_text(minute)
            one.moved = changes.moved(fold, minute, until)
            one.arms = changes.arms_changed(fold, minute, until)
            until = minute
        told.append(one)
    return told[::-1]


def lift_of(fold: Fold) -> wire.Lift | None:
    """The policy beside its control; None where there never was one."""
    lift = fold.lift
    if lift is None:
        return None
    known, until = lift.total, lift.until_ns
    reward = fold.playing.policy.reward
    return wire.Lift(
        since=clock_text(lift.at_ns),
        since_seq=lift.seq,
        until=None if until is None else clock_text(until),
        share=lift.terms.design.share,
        level=LEVEL,
        method="bounded" if known.is_bounded else "asymptotic",
        better="lower" if reward is not None and reward.sign < 0 else "higher",
        policy=_side(known, of_control=False, decisions=lift.decisions[0]),
        control=_side(known, of_control=True, decisions=lift.decisions[1]),
        difference=_interval(known.difference(level=LEVEL)),
        relative=_interval(known.relative(level=LEVEL)),
        pending=lift.pending,
        unknown=lift.unknown,
    )


def lift_answer(fold: Fold) -> wire.LiftAnswer:
    days = {} if fold.lift is None else fold.lift.days
    told = [
        wire.LiftOfDay(
            day=clock_text(day * 86_400_000_000_000)[:10],
            policy=_side(known, of_control=False),
            control=_side(known, of_control=True),
            difference=_interval(known.difference(level=LEVEL)),
        )
        for day, known in sorted(days.items())
    ]
    return wire.LiftAnswer(fold.policy, fold.seq, lift_of(fold), told)


def _side(known: Comparison, *, of_control: bool, decisions: int | None = None) -> wire.Side:
    rewards = int((known.control if of_control else known.policy)[0])
    mean = _interval(known.mean(of_control=of_control, level=LEVEL))
    return wire.Side(rewards if decisions is None else decisions, rewards, mean)


def _interval(found: Interval | None) -> wire.Interval | None:
    return None if found is None else wire.Interval(*found)


def digest_answer(fold: Fold) -> wire.DigestAnswer:
    return wire.DigestAnswer(fold.policy, fold.seq, snapshots.digest(fold))


def versions_answer(fold: Fold) -> wire.VersionsAnswer:
    return wire.VersionsAnswer([configuration(version) for version in fold.versions])


def history_answer(fold: Fold, *, after_s: int, since: int) -> wire.HistoryAnswer:
    """Minutes after a time that have changed since an event; all have since none."""
    rows = {
        minute: row
        for minute, row in fold.history.minutes.items()
        if minute * 60 > after_s and (not since or row[CHANGED] > since)
    }
    parts = [
        _arms_part(begin, length, part)
        for begin, length, part in fold.history.arms.parts()
        if part and any(minute in rows for minute in range(begin, begin + length))
    ]
    minutes = [wire.Minute(_minute_text(minute), *row[:CHANGED]) for minute, row in rows.items()]
    return wire.HistoryAnswer(fold.policy, minutes, fold.seq, parts)


def _minute_text(minute: int) -> str:
    return clock_text(minute * 60_000_000_000)


def _arms_part(begin: int, length: int, part: dict[str, list[Any]]) -> wire.ArmsPart:
    counts = {arm: wire.ArmCounts(*row) for arm, row in part.items()}
    others = counts.pop(OTHERS, None)
    return wire.ArmsPart(_minute_text(begin), length, counts, others)
