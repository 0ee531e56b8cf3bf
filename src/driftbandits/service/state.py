"""A policy's state as a fold of its log.

Live serving and replay make the same calls in the same order, so they end in the same bits. Time is
what the log says: `at_ns` of the event at hand. With half_life_s or window_s a thousandth of it is
one tick of the agent's clock; else the clock counts decisions.

A replay learns from the actions that the log says were played. On a processor whose last bits
differ it would choose otherwise now and then; `differences` counts such events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from driftbandits.agent import Agent, Decision, relearned_arguments
from driftbandits.policies import Policy, policy_from
from driftbandits.service.configuration import arguments_by_time, ticks_of
from driftbandits.service.guardrails import (
    BY_CONTROL,
    Accounts,
    Draws,
    Guard,
    Limits,
    Play,
    earned,
    salt_of,
    tag,
)
from driftbandits.service.kernels import make_policy_ready
from driftbandits.service.lift import Shown, side_of
from driftbandits.service.observers import Observers
from driftbandits.service.offers import Offer, offer_of, place_ids
from driftbandits.store import (
    BEGUN,
    CONFIGURED,
    CONFLICT,
    CORRECTED,
    DECISION,
    DEFAULT,
    DROPPED,
    DUPLICATE,
    ERASED,
    LATE,
    PROMOTED,
    REFUSED,
    RETIRED,
    REWARD,
    START,
    WITHDRAWN,
    Corrupt,
    Event,
    Head,
)
from driftbandits.store.records import Configured, Decided, Erased, Promoted, unpacked

Floats = NDArray[np.float64]

FRESH, CARRIED, RELEARNED = "fresh", "carried", "relearned"
"""A version begins without what was learned before, with all of it, or by the log again."""
CHANGE = None
"""In place of a name: the candidate that takes over as soon as it can. Shadows have names."""
Name = str | None
CLIPPED = "clipped"
"""Counted beside the kinds of events: rewards that were learned from the end of their range."""
CALLER_DECIDED = "caller_decided"
"""Likewise: decisions that the caller had made by itself."""
_NANOSECONDS = 1_000_000_000
_NOTES = (DUPLICATE, CONFLICT, REFUSED)


class Pending(NamedTuple):
    """A decision whose outcome is open."""

    number: int  # the agent's id; 0: made while frozen
    seq: int
    at_ns: int
    key: str


class Version(NamedTuple):
    """A configuration, and where it began."""

    seq: int
    at_ns: int
    record: Configured
    how: str = FRESH
    learned_from: int | None = 0  # outcomes that it began with, where that is known
    shadow: str | None = None  # that was promoted, if it is one


class Candidate(NamedTuple):
    """A configuration that learns from the log beside the one that decides."""

    seq: int  # of the event that it began with
    at_ns: int
    record: Configured
    since: int  # what it learns depends on the log as it is since then: since the last erasure
    kept: bytes = b""  # what it had learned up to some event


def policy_of(record: Configured) -> Policy:
    """The policy of a version, as its agent has it."""
    by_time = arguments_by_time(half_life_s=record.half_life_s, window_s=record.window_s)
    return policy_from({**record.arguments, **by_time})


class Served(Agent):
    """An agent whose warnings the service takes and logs."""

    warns = False


def new_agent(record: Configured) -> Agent:
    """The agent of a version, before its first event."""
    by_time = record.half_life_s or record.window_s
    clock = "ticks" if by_time else "decisions"
    return Served(make_policy_ready(policy_of(record)), seed=record.seed, clock=clock)


def changes_of_model(before: Configured, after: Configured) -> list[str]:
    """Return the differences between two versions that the estimate depends on."""
    differing = [name for name in ("half_life_s", "window_s") if _differ(name, before, after)]
    if _differ("arguments", before, after) or _differ("seed", before, after):
        seeds = {"old_seed": before.seed, "new_seed": after.seed}
        differing += relearned_arguments(policy_of(before), policy_of(after), **seeds)
    return differing


def _differ(name: str, before: Configured, after: Configured) -> bool:
    return bool(getattr(before, name) != getattr(after, name))


def limits_of(record: Configured) -> Limits:
    return Limits(record.control, record.shares, record.budget, record.limit_window)


class State:
    """The state that decides, as the first `seq` events make it; observers are told of each."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.seq = 0
        self.at_ns = 0
        self.checksum = START
        self.versions: list[Version] = []
        self.agent: Agent | None = None
        self.began_ns = 0  # when the agent started, from which its ticks count
        self.learned = 0  # outcomes the agent has seen
        self.frozen_decisions = 0
        self.pending: dict[str, Pending] = {}
        self.awaited: dict[str, int] = {}  # of those, when they began to wait for a default
        self.learnable: dict[str, int] = {}  # of those, their numbers where there is one
        self.pending_of_key: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.observers = Observers()
        self.accounts = Accounts()
        self.differences = 0
        self.candidates: dict[Name, Candidate] = {}  # replaced when it changes: others look at it
        self.retired = False
        self.relearn: Callable[[Name], State] | None = None  # what a candidate makes of the log
        self._listed: dict[str, Decided] = {}  # places of a list whose events are to come
        self.snapshot_seq = 0  # where the last snapshot was taken
        self.snapshot_bytes: int | None = None  # how large it was, if that is known

    @property
    def head(self) -> Head:
        return Head(self.seq, self.at_ns, self.checksum)

    @property
    def version(self) -> Version:
        return self.versions[-1]

    @property
    def promoted(self) -> str | None:
        """The shadow that is played, under whatever settings."""
        for version in reversed(self.versions):
            if version.how != CARRIED:
                return version.shadow
        return None

    @property
    def is_change_held(self) -> bool:
        """A change waits, because the policy was frozen while it was learned."""
        change, version = self.candidates.get(CHANGE), self.version
        return change is not None and version.record.mode == "frozen" and change.seq < version.seq

    @property
    def has_begun(self) -> bool:
        """The agent has decided or learned something."""
        return bool(self.learned or self.playing.issued or self.playing.clock)

    @property
    def playing(self) -> Agent:
        assert self.agent is not None
        return self.agent

    @property
    def effective_sample_size(self) -> float:
        size = self.playing.effective_sample_size
        if size is not None:
            return size
        if self.playing.policy.discount is None:
            return float(self.learned)
        return self.observers.history.effective_sample_size

    # -- what an event does ----------------------------------------------------------------------

    def apply(self, kind: str, event_id: str, record: Any, at_ns: int) -> None:
        """Take in an event whose record tells all that it does."""
        if kind in _NOTES:
            self._note(kind, event_id, at_ns)
        elif kind == WITHDRAWN:
            self._withdraw(event_id, at_ns)
        elif kind == CONFIGURED:
            self.configure(record, at_ns)
        elif kind == ERASED:
            self._erase(record, at_ns)
        elif kind == BEGUN:
            self.begin(record.name, record.configured, at_ns)
        elif kind == DROPPED:
            self.drop(record.name, at_ns)
        elif kind == RETIRED:
            self._step(RETIRED, at_ns)
            self.retired = record.retired

    def configure(self, record: Configured, at_ns: int) -> None:
        self._step(CONFIGURED, at_ns)
        if not record.keeps_change:
            self._let_candidate_go(CHANGE)  # the last word counts
        if record.fresh:
            self.agent = new_agent(record)
            self.began_ns = at_ns
            self.learned = 0
            self.pending.clear()
            self.awaited.clear()
            self.learnable.clear()
            self.pending_of_key.clear()
            self.accounts.charged.clear()
            self.observers.start_afresh()
        else:
            self._carry_over(record)
        self._serve_by(record, FRESH if record.fresh else CARRIED)

    def _serve_by(self, record: Configured, how: str, *, shadow: Name = None) -> None:
        """Go on with another version, whose agent is playing."""
        policy = self.playing.policy
        self.observers.begin_version(record, policy, seq=self.seq, at_ns=self.at_ns)
        self.accounts.keep_credits(record.shares or {})
        version = Version(self.seq, self.at_ns, record, how, self.learned, shadow)
        self.versions.append(version)

    def _carry_over(self, record: Configured) -> None:
        """Go on with what was learned; its arguments differ in what the estimate has no use for."""
        before = self.version.record
        if _differ("arguments", before, record) or _differ("seed", before, record):
            self.agent = self.playing.with_policy(policy_of(record), seed=record.seed)

    def begin(self, name: Name, record: Configured, at_ns: int) -> None:
        """Let a candidate learn; one of that name makes room."""
        self._step(BEGUN, at_ns)
        candidate = Candidate(self.seq, at_ns, record, self.seq)
        self.candidates = {**self.candidates, name: candidate}

    def promote(self, name: Name, learned: State, record: Configured, at_ns: int) -> None:
        """Go on with what a candidate has learned, up to here, and with what waits by its count."""
        self._step(PROMOTED, at_ns)
        for gone in {name, CHANGE}:
            self._let_candidate_go(gone)
        for event_id in [id for id in self.pending if id not in learned.pending]:
            self._set_aside(event_id)  # it cannot be read, or has been forgotten
        self.agent, self.began_ns, self.learned = learned.agent, learned.began_ns, learned.learned
        self.pending = learned.pending
        self.awaited, self.learnable = learned.awaited, learned.learnable
        self.pending_of_key = learned.pending_of_key
        self.observers.go_on_from(learned.observers, self.pending)
        self._serve_by(record, RELEARNED, shadow=name)

    def drop(self, name: Name, at_ns: int) -> None:
        self._step(DROPPED, at_ns)
        self._let_candidate_go(name)

    def _let_candidate_go(self, name: Name) -> None:
        self.candidates = {key: one for key, one in self.candidates.items() if key != name}

    def decide(self, event_id: str, offer: Offer, at_ns: int) -> Decided:
        """Make a decision by itself."""
        return self.decide_all(event_id, offer, at_ns)[0]

    def decide_all(
        self,
        event_id: str,
        offer: Offer,
        at_ns: int,
        *,
        played: Sequence[int] | None = None,
        kind: str = DECISION,
    ) -> list[Decided]:
        """Make a decision, or those of a list; what may be wrong with an offer was checked before.

        `played` are the arms that the log says were played.
        """
        mode = self.version.record.mode
        self._step(kind, at_ns)
        if offer.played >= 0:
            self.counts[CALLER_DECIDED] += 1
        if mode == "frozen":
            choices = self._preview(offer)
            plays = self._ruled(event_id, offer, choices)
        else:
            self._pass_time(at_ns)
            choices, plays = self._choose(event_id, offer, played)
        made = []
        for place, (id, choice) in enumerate(
            zip(place_ids(event_id, offer.n), choices, strict=True)
        ):
            if place:
                self._step(DECISION, at_ns)
            number = 0 if mode == "frozen" else choice.id
            record = self._record(offer, choices, place, plays)
            arm = offer.arms[record.index]
            list_id = event_id if offer.n else ""
            side, group = side_of(record, self.version.record, list_id=list_id)
            self.pending[id] = Pending(number, self.seq, at_ns, offer.key)
            self.observers.decide(id, Shown(self.seq, at_ns, arm, side, group))
            self.awaited[id] = at_ns
            if number:
                self.learnable[id] = number
            self.pending_of_key[offer.key] += 1
            made.append(record)
        self._let_go()
        return made

    def correct(self, event_id: str, offer: Offer, decided: Decided, at_ns: int) -> Decided:
        """The caller has played an arm by itself; what was `decided` here was never shown.

        What waits for its outcome is made again with what was played. Where an outcome was learned
        already, that stays; only the log knows better then.
        """
        self._put_in(self.accounts.charged.get(event_id, 0.0))
        waiting = self._close(event_id)
        if waiting is None:
            self.observers.give_up(event_id)
            self._step(CORRECTED, at_ns)
            self.counts[CALLER_DECIDED] += 1
            return msgspec.structs.replace(
                decided,
                index=offer.played,
                propensity=offer.propensity,
                caller_decided=True,
                control=False,
                conditional=0.0,
                reason="",
            )
        self.observers.take_back(event_id)
        if waiting.number:
            self.playing.withdraw(waiting.number)
        return self.decide_all(event_id, offer, at_ns, kind=CORRECTED)[0]

    def _choose(
        self, event_id: str, offer: Offer, played: Sequence[int] | None
    ) -> tuple[list[Decision], list[Play]]:
        """Return the agent's choices and the plays; the agent learns from the plays of the log."""
        agent, plays = self.playing, list[Play]()

        def play(choices: list[Decision]) -> Sequence[int]:
            plays.extend(self._ruled(event_id, offer, choices))
            return [play.played for play in plays] if played is None else played

        asked = self._readable(offer).asked_of(agent)
        choices = agent.decide(**asked, n=max(offer.n, 1), played=play)
        return choices, plays

    def _readable(self, offer: Offer) -> Offer:
        """The offer of a correction may have columns that the policy has no more."""
        features = self.playing.policy.features
        return offer if features is None or offer.played < 0 else offer.within(features)

    def _ruled(self, event_id: str, offer: Offer, choices: Sequence[Decision]) -> list[Play]:
        """Return the plays for these choices."""
        record = self.version.record
        if offer.played >= 0:
            return [Play(offer.played, offer.propensity)]
        if record.mode == "apprentice":
            return [Play(offer.baseline, offer.propensity)]
        limits = limits_of(record)
        if limits.are_none and not offer.excluded:
            return [Play(choice.index, choice.propensity) for choice in choices]
        guard = Guard(
            self.playing.policy,
            limits=limits,
            event_id=event_id,
            offer=offer,
            accounts=self.accounts,
            draws=Draws(self._salt, event_id, offer.unit),
        )
        return guard.plays(choices)

    @property
    def _salt(self) -> bytes:
        """Salt of the first version: a unit stays on its side in all of them."""
        return salt_of(self.policy, self.versions[0].record.seed)

    def tag_of(self, unit: str) -> str:
        """Return the hash of a unit that the log has."""
        return tag(self._salt, "unit", unit)

    def _preview(self, offer: Offer) -> list[Decision]:
        """Without learning or forgetting; numbered apart, so that draws differ."""
        seed = (self.version.record.seed + self.frozen_decisions + 1) % 2**63
        agent = self.playing
        choices = agent.preview(
            **self._readable(offer).asked_of(agent), seed=seed, n=max(offer.n, 1)
        )
        for choice in choices:
            self.frozen_decisions += 1
            choice.id = self.frozen_decisions
        return choices

    def _record(
        self, offer: Offer, choices: Sequence[Decision], place: int, plays: Sequence[Play]
    ) -> Decided:
        choice, play = choices[place], plays[place]
        first = place == 0
        ranking = [(play.played, play.propensity) for play in plays]
        return Decided(
            version=self.version.record.version,
            arms=offer.arms,
            x=offer.x.tobytes() if first else b"",
            baseline=offer.baseline,
            index=play.played,
            suggested=choice.index,
            number=choice.id,
            propensity=play.propensity,
            scores=choice.scores.tobytes(),
            key=offer.key,
            context=offer.context_bytes if first else b"",
            table=offer.table if first else b"",
            ranking=tuple(ranking) if first and offer.n else (),
            place=place,
            caller_decided=offer.played >= 0,
            control=play.reason == BY_CONTROL,
            conditional=play.conditional,
            unit=offer.unit,
            excluded=offer.excluded,
            reason=play.reason,
            means=choice.means.astype("<f4").tobytes(),
        )

    def reward(self, event_id: str, value: float, at_ns: int, *, kind: str = REWARD) -> str:
        """Learn an outcome that the log does not have yet; REWARD, DEFAULT or LATE."""
        self._pass_time(at_ns)
        self._let_go()
        if event_id in self.accounts.charged:
            self._put_in(earned(self.playing.policy, value))
        waiting, shown = self._close(event_id), self.observers.close(event_id)
        if waiting is None:
            kind = LATE
        elif waiting.number:
            if self.version.record.mode == "frozen":
                self.playing.withdraw(waiting.number)
            else:
                self._learn(waiting.number, value)
        self._step(kind, at_ns)
        if shown is not None:
            self.observers.count_reward(shown, value, self.playing.policy)
        if waiting is not None:
            self.observers.history.weigh(at_ns, self.playing)
        return kind

    def _learn(self, number: int, value: float) -> None:
        agent = self.playing
        clipped = agent.clipped
        agent.update(number, value)
        self.learned += 1
        if agent.clipped > clipped:
            self.counts[CLIPPED] += 1

    def _put_in(self, amount: float) -> None:
        record = self.version.record
        if record.budget is not None:
            self.accounts.put_in(amount, record.budget, record.limit_window)

    def learns_from(self, event_id: str) -> bool:
        """Return True if a reward for a pending decision would change the agent."""
        return self.pending[event_id].number > 0 and self.version.record.mode != "frozen"

    def _note(self, kind: str, event_id: str, at_ns: int) -> None:
        """A duplicate or a conflict is counted; after a refusal no default is waited for."""
        self._step(kind, at_ns)
        if kind == REFUSED and self.awaited.pop(event_id, None) is not None:
            self.observers.excuse(event_id)

    def _erase(self, record: Erased, at_ns: int) -> None:
        """Pending decisions that were erased will have no outcome; what was learned stays."""
        self._step(ERASED, at_ns)
        self.counts[ERASED] += len(record.seqs) - 1
        self.candidates = {  # all of them learn again from what is left
            name: one._replace(since=self.seq, kept=b"") for name, one in self.candidates.items()
        }
        gone = set(record.seqs)
        for event_id in [id for id, waiting in self.pending.items() if waiting.seq in gone]:
            self._forget(event_id)
        self.observers.erase(gone)

    def _withdraw(self, event_id: str, at_ns: int) -> None:
        """A decision was never shown: it has no outcome, and cost nothing."""
        self._put_in(self.accounts.charged.get(event_id, 0.0))
        self._forget(event_id)
        self.observers.give_up(event_id)
        self._step(WITHDRAWN, at_ns)

    def _forget(self, event_id: str) -> None:
        waiting = self._close(event_id)
        if waiting is not None and waiting.number:
            self.playing.withdraw(waiting.number)

    def is_open(self, event_id: str) -> bool:
        return event_id in self.pending

    def due(self, now_ns: int) -> str | None:
        """The oldest decision whose reward has been waited for long enough."""
        event_id = next(iter(self.awaited), None)
        return event_id if event_id is not None and self.is_due(event_id, now_ns) else None

    def is_due(self, event_id: str, now_ns: int) -> bool:
        """Return True if the default of a pending decision is due."""
        wait, since_ns = self.version.record.reward_wait_s, self.awaited.get(event_id)
        if wait is None or since_ns is None:
            return False
        return now_ns - since_ns >= wait * _NANOSECONDS

    def _step(self, kind: str, at_ns: int) -> None:
        self.seq += 1
        self.at_ns = at_ns
        self.counts[kind] += 1
        if self.agent is not None:
            self.observers.turn_to(at_ns, self.seq, self.agent, self.version.record)

    def _close(self, event_id: str) -> Pending | None:
        """Wait no longer for the outcome of a decision; what was waited for, if it was."""
        waiting = self.pending.pop(event_id, None)
        self.accounts.charged.pop(event_id, None)
        self.awaited.pop(event_id, None)
        self.learnable.pop(event_id, None)
        if waiting is not None:
            self.pending_of_key[waiting.key] -= 1
            if not self.pending_of_key[waiting.key]:
                del self.pending_of_key[waiting.key]
        return waiting

    def _pass_time(self, at_ns: int) -> None:
        record = self.version.record
        seconds = record.half_life_s or record.window_s
        if seconds is None or record.mode == "frozen":
            return
        ticks = ticks_of(at_ns - self.began_ns, seconds=seconds)
        if ticks > self.playing.clock:
            self.playing.tick(ticks - self.playing.clock)

    def _let_go(self) -> None:
        """Forget the pending decisions that the agent has forgotten; their rewards come late."""
        while self.learnable:
            event_id, number = next(iter(self.learnable.items()))
            if self.playing.waits_for(number):
                return
            self._set_aside(event_id)

    def _set_aside(self, event_id: str) -> None:
        """A pending decision that the agent has no use for; its outcome is counted nevertheless."""
        is_awaited = self.version.record.reward_wait_s is not None and event_id in self.awaited
        self._close(event_id)
        if is_awaited:
            self.observers.set_aside(event_id)
        else:
            self.observers.give_up(event_id)

    # -- replay ----------------------------------------------------------------------------------

    def replay(self, events: Iterable[Event]) -> None:
        """State events that follow; the caller has checked their chain."""
        for event in events:
            self._replay_one(event)
            self.checksum = event.checksum

    def _replay_one(self, event: Event) -> None:
        kind, event_id, at_ns = event.kind, event.event_id, event.at_ns
        record: Any = None if kind in _NOTES else unpacked(kind, event.body)
        if kind == DECISION:
            self._replay_decision(event, record)
        elif kind == CORRECTED:
            made = self.correct(event_id, self._offer(record), record, at_ns)
            self._compare(event_id, record, made)
        elif kind in (REWARD, DEFAULT, LATE):
            asked = REWARD if kind == LATE else kind
            done = self.reward(event_id, record.value, at_ns, kind=asked)
            self.differences += done != kind
        elif kind == PROMOTED:
            self._replay_promotion(record, at_ns)
        else:
            self.apply(kind, event_id, record, at_ns)

    def _replay_promotion(self, record: Promoted, at_ns: int) -> None:
        if self.relearn is None:
            raise Corrupt(f"what candidate {record.name!r} has learned cannot be restored here")
        self.promote(record.name, self.relearn(record.name), record.configured, at_ns)

    def _replay_decision(self, event: Event, record: Decided) -> None:
        """A list is made with its first place; the events of the others are compared with it."""
        if not record.place:
            played = [index for index, _ in record.ranking] or [record.index]
            offer = self._offer(record)
            made = self.decide_all(event.event_id, offer, event.at_ns, played=played)
            self._listed = dict(zip(place_ids(event.event_id, len(made)), made, strict=True))
        self._compare(event.event_id, record, self._listed.pop(event.event_id, None))

    def _offer(self, record: Decided) -> Offer:
        return offer_of(record)

    def _compare(self, event_id: str, record: Decided, made: Decided | None) -> None:
        """Compare the decision of the log with the one that was made now."""
        self.differences += made != record
