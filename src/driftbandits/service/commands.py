"""Commands of decisions, rewards and views. A command works on states and returns an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbandits import api
from driftbandits.features import CLIP
from driftbandits.policies import Policy
from driftbandits.service.offers import Offer, check_offer, offer_of, place_ids
from driftbandits.service.refusals import Refused, gone, invalid, unknown_decision
from driftbandits.service.state import CLIPPED, State
from driftbandits.service.transactions import Command, Unfinished, UnitOfWork, attempt
from driftbandits.store import Event, Kind, Known
from driftbandits.store.records import Conflicted, Decided, Rewarded, Withdrawn, unpacked

_SMALL_OFFER = 20_000
"""Numbers of a decision that is made within some milliseconds."""


# -- decisions -----------------------------------------------------------------------------------


@dataclass
class Decide(Command):
    """One decision."""

    event_id: str
    offer: Offer
    most_pending: int
    unit: str = ""

    @property
    def is_quick(self) -> bool:
        return self.offer.x.size <= _SMALL_OFFER

    @property
    def event_ids(self) -> Sequence[str]:
        return place_ids(self.event_id, self.offer.n)

    def run(self, work: UnitOfWork) -> api.DecisionAnswer | Refused:
        state = work.state(self.policy)
        if self.unit:
            self.offer = self.offer._replace(unit=state.tag_of(self.unit))
        known = work.known(self.policy, self.event_id)
        if known.decision is not None:
            return self._decide_again(work, state, known.decision)
        if state.retired:
            raise Refused(410, "retired", f"policy {self.policy!r} is retired and decides no more")
        self._check(state)
        for event_id in self.event_ids[1:]:
            if work.known(self.policy, event_id).decision is not None:
                raise _conflict(
                    f"event_id {event_id!r}, which a place of the list would have, has a decision"
                )
        before = state.seq
        made = state.decide(self.event_id, self.offer, work.time_for(state))
        for place, (event_id, record) in enumerate(zip(self.event_ids, made, strict=True), 1):
            work.append(state, Kind.DECISION, event_id, record, seq=before + place)
        return decision_answer(self.event_id, made[0], before + 1)

    def _decide_again(
        self, work: UnitOfWork, state: State, event: Event
    ) -> api.DecisionAnswer | Refused:
        if event.is_erased:
            raise gone(event, self.event_id)
        record: Decided = unpacked(Kind.DECISION, event.body)
        offer = self.offer
        same = (
            record.arms == offer.arms
            and record.x == offer.x.tobytes()
            and record.context == offer.context_bytes
            and record.baseline == offer.baseline
            and record.unit == offer.unit
            and record.excluded == offer.excluded
            and offer_of(record).values == offer.values
            and len(record.ranking) == offer.n
            and not record.place
        )
        if same and offer.played >= 0 and not record.caller_decided:
            # The answer never came, or came too late: what was shown is what the caller says.
            made = state.correct(self.event_id, offer, record, work.time_for(state))
            work.append(state, Kind.CORRECTED, self.event_id, made)
            return decision_answer(self.event_id, made, state.seq)
        played = offer.played, offer.propensity
        is_again = same and (offer.played < 0 or played == (record.index, record.propensity))
        kind = Kind.DUPLICATE if is_again else Kind.CONFLICT
        work.write(state, kind, self.event_id, Conflicted(Kind.DECISION, None, offer.key))
        if kind == Kind.CONFLICT:
            other = "another arm as played" if same else "a decision about other arms"
            return _conflict(f"event_id {self.event_id!r} has {other}")
        return decision_answer(self.event_id, record, event.seq)

    def _check(self, state: State) -> None:
        offer, record = self.offer, state.version.record
        check_offer(state.playing, offer)
        if record.mode == "apprentice" and offer.played < 0:
            if offer.baseline < 0:
                raise invalid(
                    "an apprentice needs the caller's baseline, the id of an arm", "$.baseline"
                )
            if offer.n:
                raise invalid("an apprentice plays one arm: n must not be given", "$.n")
        if record.budget is not None and offer.baseline < 0 and offer.played < 0:
            raise invalid(
                "a policy with a budget needs the caller's baseline, the id of an arm", "$.baseline"
            )
        if state.pending_of_key[offer.key] + max(offer.n, 1) > self.most_pending:
            raise Refused(
                429,
                "too_many_pending",
                f"{self.most_pending} decisions of this key wait for their rewards in policy "
                f"{self.policy!r}; report some, or configure reward_wait_s",
                retry_after_s=1,
            )


def decision_answer(event_id: str, record: Decided, seq: int) -> api.DecisionAnswer:
    ids = place_ids(event_id, len(record.ranking))
    ranking = [
        api.Place(id, record.arms[index], index, record.number + place, propensity)
        for place, (id, (index, propensity)) in enumerate(zip(ids, record.ranking, strict=False))
    ]
    return api.DecisionAnswer(
        event_id=event_id,
        arm=record.arms[record.index],
        index=record.index,
        round=record.number,
        propensity=record.propensity,
        scores=np.frombuffer(record.scores, dtype="<f8").tolist(),
        model_seq=seq - 1,
        ranking=ranking or None,
        caller_decided=record.caller_decided,
        control=record.control,
        reason=record.reason or None,
    )


# -- rewards -------------------------------------------------------------------------------------


@dataclass
class Reward(Command):
    """One reward."""

    event_id: str
    value: float
    key: str

    is_quick = True

    def run(self, work: UnitOfWork) -> api.RewardAnswer | Refused:
        state = work.state(self.policy)
        if self.event_id in state.pending:
            work.learn_default_if_due(state, self.event_id)
        if self.event_id in state.pending:
            return self._learn(work, state)
        if not _is_accepted(self.value, None):
            raise invalid(_out_of_range(self.value), "$.value")
        known = _decided(work, self.policy, self.event_id)
        told = Conflicted("reward", self.value, self.key)
        if _is_withdrawn(known):
            work.write(state, Kind.CONFLICT, self.event_id, told)
            return _conflict(f"event_id {self.event_id!r} was withdrawn")
        reported = _reported(known)
        if reported is None:
            return self._learn(work, state)
        if reported == self.value:
            work.write(state, Kind.DUPLICATE, self.event_id, told)
            return api.RewardAnswer("duplicate")
        work.write(state, Kind.CONFLICT, self.event_id, told)
        return _conflict(f"event_id {self.event_id!r} has another reward, {reported!r}")

    def _learn(self, work: UnitOfWork, state: State) -> api.RewardAnswer | Refused:
        waiting, mode = state.pending.get(self.event_id), state.version.record.mode
        learns = waiting is not None and waiting.number > 0 and mode != "frozen"
        if not _is_accepted(self.value, state.playing.policy if learns else None):
            return self._refuse(work, state)
        clipped = state.counts[CLIPPED]
        kind = state.reward(self.event_id, self.value, work.time_for(state))
        work.append(state, kind, self.event_id, Rewarded(self.value, self.key))
        if kind == Kind.LATE:
            return api.RewardAnswer("late")
        status = "learned" if learns else "recorded"
        return api.RewardAnswer(status, clipped=state.counts[CLIPPED] > clipped)

    def _refuse(self, work: UnitOfWork, state: State) -> Refused:
        """Return the refusal, so that the event which ends the wait for a default is committed."""
        if self.event_id in state.awaited:
            work.write(
                state, Kind.REFUSED, self.event_id, Conflicted("reward", self.value, self.key)
            )
        policy = state.playing.policy
        hint = "" if policy.reward is None else " Configure a wider reward, or outside = 'clip'."
        return invalid(
            f"{_out_of_range(self.value, *policy.reward_range())}. The decision waits for another "
            f"report, and learns no default.{hint}",
            "$.value",
        )


def _out_of_range(value: float, low: float = -math.inf, high: float = math.inf) -> str:
    low, high = max(low, -api.LARGEST_MAGNITUDE), min(high, api.LARGEST_MAGNITUDE)
    return f"value must be in [{low:g}, {high:g}] for this policy; got {value!r}"


def _is_accepted(value: float, policy: Policy | None) -> bool:
    """Return True if a policy may learn a value, or if it may be recorded where there is none."""
    if abs(value) > api.LARGEST_MAGNITUDE:
        return False
    if policy is None or (policy.reward is not None and policy.reward.outside == CLIP):
        return True
    low, high = policy.reward_range()
    return low <= value <= high


def _decided(work: UnitOfWork, policy: str, event_id: str) -> Known:
    """The events of a decision, which must be there."""
    known = work.known(policy, event_id)
    if known.decision is None:
        raise unknown_decision(policy, event_id, "$.event_id")
    if known.decision.is_erased:
        raise gone(known.decision, event_id)
    return known


def _is_withdrawn(known: Known) -> bool:
    return known.outcome is not None and known.outcome.kind == Kind.WITHDRAWN


def _reported(known: Known) -> float | None:
    """The value that a caller has reported, if one has: a default is not a report."""
    for event in (known.late, known.outcome):
        if event is not None and event.kind != "default":
            record: Rewarded = unpacked(event.kind, event.body)
            return record.value
    return None


def _conflict(message: str) -> Refused:
    """An answer, and not an exception: the conflict is an event that has to be committed."""
    return Refused(409, "conflict", message)


@dataclass
class Withdraw(Command):
    """A decision that was never shown."""

    event_id: str
    key: str

    is_quick = True

    @property
    def event_ids(self) -> Sequence[str]:
        return [self.event_id]

    def run(self, work: UnitOfWork) -> api.WithdrawalAnswer | Refused:
        state = work.state(self.policy)
        known = _decided(work, self.policy, self.event_id)
        told = Conflicted("withdrawal", None, self.key)
        if _is_withdrawn(known):
            work.write(state, Kind.DUPLICATE, self.event_id, told)
            return api.WithdrawalAnswer("duplicate")
        if known.outcome is not None or known.late is not None:
            work.write(state, Kind.CONFLICT, self.event_id, told)
            return _conflict(f"event_id {self.event_id!r} has a reward, so it was shown")
        work.write(state, Kind.WITHDRAWN, self.event_id, Withdrawn(self.key))
        return api.WithdrawalAnswer("withdrawn")


@dataclass
class Many(Command):
    """Commands of one policy, one after the other; each has its own result."""

    commands: Sequence[Command]  # that are left
    results: Sequence[Any] = ()  # of those before

    @property
    def event_ids(self) -> Sequence[str]:
        return [event_id for command in self.commands for event_id in command.event_ids]

    def run(self, work: UnitOfWork) -> list[Any] | Unfinished:
        work.state(self.policy)
        results = list(self.results)
        for done, command in enumerate(self.commands):
            if done and work.is_long:
                left = self.commands[done:]
                return Unfinished(Many(self.policy, left, results=results))
            results.append(attempt(command, work))
        return results


# -- reading -------------------------------------------------------------------------------------


@dataclass
class View(Command):
    """Something about a policy, as of one event."""

    answer: Callable[[State], Any]

    writes = False
    is_quick = True

    def run(self, work: UnitOfWork) -> Any:
        return self.answer(work.state(self.policy))


@dataclass
class ViewAll(Command):
    """Something about every policy that may be seen, as of one moment."""

    answer: Callable[[State], Any]
    may_see: Callable[[str], bool]

    writes = False

    def run(self, work: UnitOfWork) -> list[Any]:
        names = [name for name in work.session.policies() if self.may_see(name)]
        work.begin_reading(names)
        answers = [attempt(View(name, self.answer), work) for name in names]
        return [answer for answer in answers if not isinstance(answer, Refused)]


# -- upkeep --------------------------------------------------------------------------------------


class LearnDefaults(Command):
    """Default rewards that have fallen due."""

    def run(self, work: UnitOfWork) -> Unfinished | None:
        are_all = work.learn_defaults(work.state(self.policy))
        return None if are_all else Unfinished(self)


class KeepSnapshot(Command):
    """The state as it is, so that the next start is short."""

    def run(self, work: UnitOfWork) -> None:
        state = work.state(self.policy)
        work.flush(self.policy)
        work.keep_snapshot(state)
