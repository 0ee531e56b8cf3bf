"""A policy's state as a fold of its log, and as bytes, which make the fold shorter.

Live serving and replay make the same calls in the same order, so they end in the same bits. Time is
what the log says: `at_ns` of the event at hand. With half_life_s or window_s a thousandth of it is
one tick of the agent's clock; else the clock counts decisions.

A replay learns from the actions that the log says were played. On a processor whose last bits
differ it would choose otherwise now and then; `differences` counts such events.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from driftbandits.agent import Agent, Decision, relearned_arguments
from driftbandits.policies import Policy, policy_from
from driftbandits.service.configuration import arguments_by_time, ticks_of
from driftbandits.service.guardrails import BY_CONTROL, Accounts, Guard, Play, earned, salt_of, tag
from driftbandits.service.kernels import make_policy_ready
from driftbandits.service.observers import Observers, Shown, lift_of, side_of
from driftbandits.service.offers import Offer, offer_of, place_ids
from driftbandits.store import START, Corrupt, Event, Head, Kind
from driftbandits.store.records import Configured, Decided, Erased, Promoted, unpacked

FRESH, CARRIED, RELEARNED = "fresh", "carried", "relearned"
"""A version begins without what was learned before, with all of it, or by the log again."""
CHANGE = None
"""In place of a name: the candidate that takes over as soon as it can. Shadows have names."""
Name = str | None
CLIPPED = "clipped"
"""Counted beside the kinds of events: rewards that were learned from the end of their range."""
CALLER_DECIDED = "caller_decided"
"""Likewise: decisions that the caller had made by itself."""
FORMAT = b"driftbandits-state-1\n"
_CHECKSUM_SIZE = 32
_NANOSECONDS = 1_000_000_000


class BadSnapshot(ValueError):
    """Bytes that are no whole and unaltered snapshot of this format."""


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


class Counts(Counter[str]):
    """Events by their kind."""


def policy_of(record: Configured) -> Policy:
    """The policy of a version, as its agent has it."""
    by_time = arguments_by_time(half_life_s=record.half_life_s, window_s=record.window_s)
    return policy_from({**record.arguments, **by_time})


class Served(Agent):
    """An agent whose warnings the service takes and logs."""

    warns = False


def new_agent(record: Configured) -> Served:
    """The agent of a version, before its first event."""
    by_time = record.half_life_s or record.window_s
    clock = "ticks" if by_time else "decisions"
    return Served(make_policy_ready(policy_of(record)), seed=record.seed, clock=clock)


def changes_of_model(before: Configured, after: Configured) -> list[str]:
    """Return the differences between two versions that the estimate depends on."""
    by_time = ("half_life_s", "window_s")
    differing = [name for name in by_time if getattr(before, name) != getattr(after, name)]
    if (before.arguments, before.seed) != (after.arguments, after.seed):
        seeds = {"old_seed": before.seed, "new_seed": after.seed}
        differing += relearned_arguments(policy_of(before), policy_of(after), **seeds)
    return differing


class State(msgspec.Struct, array_like=True, dict=True, eq=False):
    """The state that decides, as the first `seq` events make it; observers are told of each.

    A snapshot has its fields; the attributes of `__post_init__` follow from them, or are not kept.
    """

    policy: str
    seq: int = 0
    at_ns: int = 0
    checksum: bytes = START
    versions: list[Version] = []
    agent: Served | None = None
    began_ns: int = 0  # when the agent started, from which its ticks count
    learned: int = 0  # outcomes the agent has seen
    frozen_decisions: int = 0
    pending: dict[str, Pending] = {}
    awaited: dict[str, int] = {}  # of those, when they began to wait for a default
    counts: Counts = msgspec.field(default_factory=Counts)
    accounts: Accounts = msgspec.field(default_factory=Accounts)
    candidates: dict[Name, Candidate] = {}  # replaced when it changes: others look at it
    retired: bool = False
    observers: Observers = msgspec.field(default_factory=Observers)

    def __post_init__(self) -> None:
        self.learnable = {id: one.number for id, one in self.pending.items() if one.number}
        self.pending_of_key = Counter(waiting.key for waiting in self.pending.values())
        self.differences = 0
        self.relearn: Callable[[Name], State] | None = None  # what a candidate makes of the log
        self._listed: dict[str, Decided] = {}  # places of a list whose events are to come
        self.snapshot_seq = self.seq  # where the last snapshot was taken
        self.snapshot_bytes: int | None = None  # how large it was, if that is known

    # -- as bytes --------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        content = _encoded(self)
        return FORMAT + hashlib.sha256(content).digest() + content

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        if not isinstance(data, bytes) or not data.startswith(FORMAT):
            raise BadSnapshot("the format is not known")
        start = len(FORMAT) + _CHECKSUM_SIZE
        if hashlib.sha256(data[start:]).digest() != data[len(FORMAT) : start]:
            raise BadSnapshot("the checksum is wrong")
        try:
            state = msgspec.msgpack.decode(data[start:], type=cls, dec_hook=_made)
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadSnapshot(str(error)) from None
        make_policy_ready(state.playing.policy)
        state.snapshot_bytes = len(data)
        return state

    @property
    def digest(self) -> str:
        """A fingerprint of everything that decides what will be done, and of the comparison."""
        told = (
            self.policy,
            self.seq,
            self.at_ns,
            self.checksum,
            [version[:3] for version in self.versions],
            self.playing.digest,
            self.began_ns,
            self.frozen_decisions,
            list(self.pending.items()),
            sorted(self.counts.items()),
            sorted(self.awaited),
            self.observers.lift,
            [(name, *candidate) for name, candidate in self.candidates.items()],
            self.retired,
            self.accounts,
        )
        return hashlib.sha256(_encoded(told)).hexdigest()

    # -- what it is ------------------------------------------------------------------------------

    @property
    def head(self) -> Head:
        return Head(self.seq, self.at_ns, self.checksum)

    @property
    def version(self) -> Version:
        return self.versions[-1]

    @property
    def playing(self) -> Served:
        assert self.agent is not None
        return self.agent

    @property
    def promoted(self) -> str | None:
        """The shadow that is played, under whatever settings."""
        shadows = (one.shadow for one in reversed(self.versions) if one.how != CARRIED)
        return next(shadows, None)

    @property
    def is_change_held(self) -> bool:
        """A change waits, because the policy was frozen while it was learned."""
        change, version = self.candidates.get(CHANGE), self.version
        return change is not None and version.record.mode == "frozen" and change.seq < version.seq

    @property
    def effective_sample_size(self) -> float:
        size = self.playing.effective_sample_size
        if size is not None:
            return size
        if self.playing.policy.discount is None:
            return float(self.learned)
        return self.observers.history.effective_sample_size

    # -- the fold --------------------------------------------------------------------------------

    def replay(self, events: Iterable[Event]) -> None:
        """Fold events that follow; the caller has checked their chain."""
        for event in events:
            self._replay_one(event)
            self.checksum = event.checksum

    def _replay_one(self, event: Event) -> None:
        record = unpacked(event.kind, event.body)
        self.apply(event.kind, event.event_id, record, event.at_ns)

    def apply(self, kind: str, event_id: str, record: Any, at_ns: int) -> None:
        """Take in an event of the log."""
        match kind:
            case Kind.DECISION:
                if not record.place:  # a list is made with its first place
                    offer, played = self._offer(record), [index for index, _ in record.ranking]
                    made = self.decide(event_id, offer, at_ns, played=played or [record.index])
                    self._listed = dict(zip(place_ids(event_id, len(made)), made, strict=True))
                self._compare(event_id, record, self._listed.pop(event_id, None))
            case Kind.CORRECTED:
                corrected = self.correct(event_id, self._offer(record), record, at_ns)
                self._compare(event_id, record, corrected)
            case Kind.REWARD | Kind.DEFAULT | Kind.LATE:
                asked = Kind.REWARD if kind == Kind.LATE else kind
                self.differences += kind != self.reward(event_id, record.value, at_ns, kind=asked)
            case Kind.WITHDRAWN:  # it was never shown, so it has no outcome and cost nothing
                self._put_in(self.accounts.charged.get(event_id, 0.0))
                self._forget(event_id)
                self.observers.give_up(event_id)
                self._step(kind, at_ns)
            case Kind.CONFIGURED:
                self.configure(record, at_ns)
            case Kind.ERASED:
                self._erase(record, at_ns)
            case Kind.BEGUN:
                self._begin(record.name, record.configured, at_ns)
            case Kind.DROPPED:
                self._step(kind, at_ns)
                self._let_candidate_go(record.name)
            case Kind.PROMOTED:
                self._replay_promotion(record, at_ns)
            case Kind.RETIRED:
                self._step(kind, at_ns)
                self.retired = record.retired
            case _:
                self._step(kind, at_ns)
                # after a refusal no default is waited for
                if kind == Kind.REFUSED and self.awaited.pop(event_id, None) is not None:
                    self.observers.excuse(event_id)

    def _replay_promotion(self, record: Promoted, at_ns: int) -> None:
        if self.relearn is None:
            raise Corrupt(f"what candidate {record.name!r} has learned cannot be restored here")
        self.promote(record.name, self.relearn(record.name), record.configured, at_ns)

    def _offer(self, record: Decided) -> Offer:
        return offer_of(record)

    def _compare(self, event_id: str, record: Decided, made: Decided | None) -> None:
        """Compare the decision of the log with the one that was made now."""
        self.differences += made != record

    def _step(self, kind: str, at_ns: int) -> None:
        self.seq += 1
        self.at_ns = at_ns
        self.counts[kind] += 1
        if self.agent is not None:
            self.observers.turn_to(at_ns, self.seq, self.agent, self.version.record)

    # -- versions and candidates -----------------------------------------------------------------

    def configure(self, record: Configured, at_ns: int) -> None:
        self._step(Kind.CONFIGURED, at_ns)
        if not record.keeps_change:
            self._let_candidate_go(CHANGE)  # the last word counts
        if record.fresh:
            self.agent = new_agent(record)
            self.began_ns = at_ns
            self.learned = 0
            for waiting in (self.pending, self.awaited, self.learnable, self.pending_of_key):
                waiting.clear()
            self.accounts.charged.clear()
            self.observers.start_afresh()
        else:  # what was learned stays: arguments differ in what the estimate has no use for
            before = self.version.record
            if (before.arguments, before.seed) != (record.arguments, record.seed):
                self.agent = self.playing.with_policy(policy_of(record), seed=record.seed)
        self._serve_by(record, FRESH if record.fresh else CARRIED)

    def _serve_by(self, record: Configured, how: str, *, shadow: Name = None) -> None:
        """Go on with another version, whose agent is playing."""
        policy, shares = self.playing.policy, record.shares or {}
        before = self.observers.lift
        self.observers.lift = lift_of(before, record, policy, seq=self.seq, at_ns=self.at_ns)
        self.accounts.credits = {k: own for k, own in self.accounts.credits.items() if k in shares}
        version = Version(self.seq, self.at_ns, record, how, self.learned, shadow)
        self.versions.append(version)

    def _begin(self, name: Name, record: Configured, at_ns: int) -> None:
        """Let a candidate learn; one of that name makes room."""
        self._step(Kind.BEGUN, at_ns)
        candidate = Candidate(self.seq, at_ns, record, self.seq)
        self.candidates = {**self.candidates, name: candidate}

    def _let_candidate_go(self, name: Name) -> None:
        self.candidates = {key: one for key, one in self.candidates.items() if key != name}

    def promote(self, name: Name, learned: State, record: Configured, at_ns: int) -> None:
        """Go on with what a candidate has learned, up to here, and with what waits by its count."""
        self._step(Kind.PROMOTED, at_ns)
        for gone in {name, CHANGE}:
            self._let_candidate_go(gone)
        for event_id in [id for id in self.pending if id not in learned.pending]:
            self._set_aside(event_id)  # it cannot be read, or has been forgotten
        self.agent, self.began_ns, self.learned = learned.agent, learned.began_ns, learned.learned
        self.pending, self.pending_of_key = learned.pending, learned.pending_of_key
        self.awaited, self.learnable = learned.awaited, learned.learnable
        self.observers.go_on_from(learned.observers, self.pending)
        self._serve_by(record, RELEARNED, shadow=name)

    # -- decisions -------------------------------------------------------------------------------

    def decide(
        self,
        event_id: str,
        offer: Offer,
        at_ns: int,
        *,
        played: Sequence[int] | None = None,
        kind: str = Kind.DECISION,
    ) -> list[Decided]:
        """Make a decision, or those of a list; what may be wrong with an offer was checked before.

        `played` are the arms that the log says were played.
        """
        is_frozen = self.version.record.mode == "frozen"
        self._step(kind, at_ns)
        if offer.played >= 0:
            self.counts[CALLER_DECIDED] += 1
        if is_frozen:
            choices = self._preview(offer)
            plays = self._ruled(event_id, offer, choices)
        else:
            self._pass_time(at_ns)
            choices, plays = self._choose(event_id, offer, played)
        made = []
        ids = place_ids(event_id, offer.n)
        for place, (id, choice) in enumerate(zip(ids, choices, strict=True)):
            if place:
                self._step(Kind.DECISION, at_ns)
            number = 0 if is_frozen else choice.id
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
        if self._forget(event_id) is None:
            self.observers.give_up(event_id)
            self._step(Kind.CORRECTED, at_ns)
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
        return self.decide(event_id, offer, at_ns, kind=Kind.CORRECTED)[0]

    def _choose(
        self, event_id: str, offer: Offer, played: Sequence[int] | None
    ) -> tuple[list[Decision], list[Play]]:
        """Return the agent's choices and the plays; the agent learns from the plays of the log."""
        plays = list[Play]()

        def play(choices: list[Decision]) -> Sequence[int]:
            plays.extend(self._ruled(event_id, offer, choices))
            return [play.played for play in plays] if played is None else played

        n = max(offer.n, 1)
        return self.playing.decide(**self._asked(offer), n=n, played=play), plays

    def _preview(self, offer: Offer) -> list[Decision]:
        """Choose without learning or forgetting; numbered apart, so that draws differ."""
        seed = (self.version.record.seed + self.frozen_decisions + 1) % 2**63
        choices = self.playing.preview(**self._asked(offer), seed=seed, n=max(offer.n, 1))
        for choice in choices:
            self.frozen_decisions += 1
            choice.id = self.frozen_decisions
        return choices

    def _asked(self, offer: Offer) -> dict[str, Any]:
        """Return what the agent is asked; a correction may have columns that are no more."""
        features = self.playing.policy.features
        if features is not None and offer.played >= 0:
            offer = offer.within(features)
        return offer.asked_of(self.playing)

    def _ruled(self, event_id: str, offer: Offer, choices: Sequence[Decision]) -> list[Play]:
        """Return the plays for these choices."""
        record = self.version.record
        if offer.played >= 0:
            return [Play(offer.played, offer.propensity)]
        if record.mode == "apprentice":
            return [Play(offer.baseline, offer.propensity)]
        is_limited = record.control or record.shares or record.budget is not None
        if not is_limited and not offer.excluded:
            return [Play(choice.index, choice.propensity) for choice in choices]
        policy, accounts = self.playing.policy, self.accounts
        return Guard(policy, record, event_id, offer, accounts, self._salt).plays(choices)

    @property
    def _salt(self) -> bytes:
        """Salt of the first version: a unit stays on its side in all of them."""
        return salt_of(self.policy, self.versions[0].record.seed)

    def tag_of(self, unit: str) -> str:
        """Return the hash of a unit that the log has."""
        return tag(self._salt, "unit", unit)

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

    # -- outcomes --------------------------------------------------------------------------------

    def reward(self, event_id: str, value: float, at_ns: int, *, kind: str = Kind.REWARD) -> str:
        """Learn an outcome that the log does not have yet; return the kind that it has there."""
        self._pass_time(at_ns)
        self._let_go()
        if event_id in self.accounts.charged:
            self._put_in(earned(self.playing.policy, value))
        waiting, shown = self._close(event_id), self.observers.close(event_id)
        if waiting is None:
            kind = Kind.LATE
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

    def _erase(self, record: Erased, at_ns: int) -> None:
        """Pending decisions that were erased will have no outcome; what was learned stays."""
        self._step(Kind.ERASED, at_ns)
        self.counts[Kind.ERASED] += len(record.seqs) - 1
        self.candidates = {  # all of them learn again from what is left
            name: one._replace(since=self.seq) for name, one in self.candidates.items()
        }
        gone = set(record.seqs)
        for event_id in [id for id, waiting in self.pending.items() if waiting.seq in gone]:
            self._forget(event_id)
        self.observers.erase(gone)

    def _forget(self, event_id: str) -> Pending | None:
        """Wait no longer for an outcome, which will not come; the decision, if it was open."""
        waiting = self._close(event_id)
        if waiting is not None and waiting.number:
            self.playing.withdraw(waiting.number)
        return waiting

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
            self.observers.forgotten[event_id] = self.observers.open.pop(event_id)
        else:
            self.observers.give_up(event_id)


def _encoded(value: Any) -> bytes:
    """MessagePack, in which agents are what they say of themselves."""
    return msgspec.msgpack.encode(value, enc_hook=Served.to_bytes)


def _made(kind: Any, plain: Any) -> Any:
    return kind.from_bytes(plain) if kind is Served else kind(plain)
