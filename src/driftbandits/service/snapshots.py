"""A fold as bytes, with a format version and a checksum, and how a policy is brought back.

A snapshot only makes the fold shorter. One that cannot be read, that was altered, or that does not
belong to this log is passed over for an older one, and in the end for the log itself.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from driftbandits.agent import Agent
from driftbandits.service.accounts import Accounts
from driftbandits.service.agreement import Agreement
from driftbandits.service.fold import CARRIED, FRESH, Candidate, Fold, Former, Pending, Version
from driftbandits.service.following import Follower
from driftbandits.service.kernels import make_policy_ready
from driftbandits.service.lifting import Lift
from driftbandits.store import Corrupt, Event, Session, checked
from driftbandits.store.records import Configured, without_defaults

FORMAT = b"driftbandits-state-1\n"
_CHECKSUM_SIZE = 32
_PAGE = 100
_DECISIVE = 4
"""So many fields of a `Pending` decide what a policy will do; the others are looked at alone."""


class BadSnapshot(ValueError):
    """Bytes that are no whole and unaltered snapshot of this format."""


class _State(msgspec.Struct, array_like=True):
    chain: str
    seq: int
    at_ns: int
    checksum: bytes
    versions: list[tuple[int, int, Configured]]
    agent: bytes
    began_ns: int
    learned: int
    frozen_decisions: int
    pending: list[tuple[Any, ...]]  # an event_id, and a `Pending` as this release has it
    counts: dict[str, int]
    minutes: dict[int, list[Any]]
    weights: list[float]
    weighed_at: int
    detected: list[tuple[int, int]]
    refused: list[str] = []  # pending decisions of which a reward was refused
    beginnings: list[tuple[str, int | None]] = []  # of the versions: how, and learned from how many
    accounts: Accounts = msgspec.field(default_factory=Accounts)
    arms: list[dict[int, dict[str, list[Any]]]] = []  # of the history: fine and coarse parts
    lift: list[Any] = []
    candidates: list[tuple[str, int, int, Configured, int, bytes]] = []
    retired: bool = False
    forgotten: list[tuple[Any, ...]] = []  # as `pending`
    former: list[tuple[str, int, int]] = []  # names
    policy: str = ""  # as it is called, if it had another name before
    shadows: list[str] = []  # of the versions: that were promoted


class _Following(msgspec.Struct, array_like=True):
    """A follower: its fold, and what it is besides."""

    fold: bytes
    skipped: int
    agreement: list[Any]
    erasures: int | None


def packed(fold: Fold) -> bytes:
    state = _State(
        chain=fold.chain,
        seq=fold.seq,
        at_ns=fold.at_ns,
        checksum=fold.checksum,
        versions=[(v.seq, v.at_ns, v.record) for v in fold.versions],
        agent=fold.playing.to_bytes(),
        began_ns=fold.began_ns,
        learned=fold.learned,
        frozen_decisions=fold.frozen_decisions,
        pending=[(event_id, *waiting) for event_id, waiting in fold.pending.items()],
        counts=dict(fold.counts),
        minutes=fold.history.minutes,
        weights=fold.history.weights,
        weighed_at=fold.history.clock,
        detected=fold.history.detected,
        refused=_refused(fold),
        beginnings=[(v.how, v.learned_from) for v in fold.versions],
        accounts=fold.accounts,
        arms=[fold.history.arms.fine, fold.history.arms.coarse],
        lift=_lift(fold),
        candidates=[(name, *candidate) for name, candidate in fold.candidates.items()],
        retired=fold.retired,
        forgotten=[(event_id, *waiting) for event_id, waiting in fold.forgotten.items()],
        former=[(one.name, one.seq, one.at_ns) for one in fold.former],
        policy=fold.policy if fold.former else "",
        shadows=[v.shadow for v in fold.versions],
    )
    content = msgspec.msgpack.encode(state)
    return FORMAT + hashlib.sha256(content).digest() + content


def _refused(fold: Fold) -> list[str]:
    return [event_id for event_id in fold.pending if event_id not in fold.awaited]


def _lift(fold: Fold) -> list[Any]:
    return [] if fold.lift is None else fold.lift.to_list()


def unpacked(data: bytes) -> Fold:
    """The fold of a snapshot."""
    return _unpacked_into(Fold, data)


def packed_follower(follower: Follower) -> bytes:
    """What a candidate has learned, to go on from."""
    seen = follower.agreement.to_list()
    state = _Following(packed(follower), follower.skipped, seen, follower.erasures)
    return msgspec.msgpack.encode(state)


def unpacked_follower(chain: str, candidate: Candidate) -> Follower:
    """A candidate as far as it has come; where nothing was kept, before its first event."""
    if not candidate.kept:
        return Follower(chain, candidate.record)
    state = msgspec.msgpack.decode(candidate.kept, type=_Following)
    fold = _unpacked_into(lambda chain: Follower(chain, candidate.record), state.fold)
    assert isinstance(fold, Follower)
    fold.skipped, fold.agreement = state.skipped, Agreement.from_list(state.agreement)
    fold.read, fold.erasures = fold.head, state.erasures
    return fold


def relearned(
    events_after: Callable[[int], Iterable[Event]],
    candidate: Candidate,
    chain: str,
    *,
    until: int,
    erasures: int,
) -> Follower:
    """What a candidate makes of a log up to some event, in which so often events were erased."""
    follower = unpacked_follower(chain, candidate)
    if follower.erasures != erasures:
        follower = Follower(chain, candidate.record)
    if follower.read.seq < until:
        for event in follower.follow(events_after(follower.read.seq)):
            if event.seq == until:
                break
    return follower


def _unpacked_into(make: Callable[[str], Fold], data: bytes) -> Fold:
    if not isinstance(data, bytes) or not data.startswith(FORMAT):
        raise BadSnapshot("the format is not known")
    start = len(FORMAT) + _CHECKSUM_SIZE
    checksum, content = data[len(FORMAT) : start], data[start:]
    if hashlib.sha256(content).digest() != checksum:
        raise BadSnapshot("the checksum is wrong")
    try:
        state = msgspec.msgpack.decode(content, type=_State)
        agent = Agent.from_bytes(state.agent)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadSnapshot(str(error)) from None
    make_policy_ready(agent.policy)
    fold = make(state.chain)
    if state.former:
        fold.policy, fold.former = state.policy, [Former(*one) for one in state.former]
    fold.seq, fold.at_ns, fold.checksum = state.seq, state.at_ns, state.checksum
    fold.versions = list(_versions(state))
    fold.agent, fold.began_ns = agent, state.began_ns
    fold.learned, fold.frozen_decisions = state.learned, state.frozen_decisions
    fold.pending = {waiting[0]: Pending(*waiting[1:]) for waiting in state.pending}
    refused = set(state.refused)
    fold.awaited = {id: one.at_ns for id, one in fold.pending.items() if id not in refused}
    fold.learnable = {id: one.number for id, one in fold.pending.items() if one.number}
    fold.pending_of_key = Counter(waiting.key for waiting in fold.pending.values())
    fold.counts = Counter(state.counts)
    fold.accounts = state.accounts
    fold.forgotten = {waiting[0]: Pending(*waiting[1:]) for waiting in state.forgotten}
    shown = [*fold.pending.values(), *fold.forgotten.values()]
    fold.history.restore(state.minutes, [waiting.at_ns for waiting in shown])
    if state.arms:
        fold.history.arms.fine, fold.history.arms.coarse = state.arms
    fold.history.seq = fold.seq
    fold.lift = Lift.from_list(state.lift) if state.lift else None
    fold.history.weights, fold.history.clock = state.weights, state.weighed_at
    fold.history.detected = state.detected
    fold.candidates = {one[0]: Candidate(*one[1:]) for one in state.candidates}
    fold.retired = state.retired
    fold.snapshot_seq, fold.snapshot_bytes = fold.seq, len(data)
    return fold


def _versions(state: _State) -> Iterator[Version]:
    """Snapshots from before there were beginnings do not say them."""
    for i, (seq, at_ns, record) in enumerate(state.versions):
        said = state.beginnings[i : i + 1] or [(FRESH if record.fresh else CARRIED, None)]
        yield Version(seq, at_ns, record, *said[0], *state.shadows[i : i + 1])


def digest(fold: Fold) -> str:
    """A fingerprint of everything that decides what this policy will do, and of its comparison."""
    named = [fold.policy, *fold.former] if fold.former else []
    told = (
        fold.chain,
        fold.seq,
        fold.at_ns,
        fold.checksum,
        [(*version[:2], without_defaults(version.record)) for version in fold.versions],
        fold.playing.digest,
        fold.began_ns,
        fold.frozen_decisions,
        [(event_id, waiting[:_DECISIVE]) for event_id, waiting in fold.pending.items()],
        sorted(fold.counts.items()),
        # logs from before there was any of these keep their digests
        *filter(None, [_refused(fold), _lift(fold), _candidates(fold), fold.retired, named]),
        *([fold.accounts] if fold.accounts.is_used else []),
    )
    return hashlib.sha256(msgspec.msgpack.encode(told)).hexdigest()


def _candidates(fold: Fold) -> list[Any]:
    """Not what they have learned: how far they have come is no part of the state."""
    return [(name, *candidate[:4]) for name, candidate in fold.candidates.items()]


def load(session: Session, policy: str) -> Fold:
    """The state of a policy: the best snapshot, and the events since."""
    fold = _restored(session, policy)

    def events_after(seq: int) -> Iterable[Event]:
        return session.all_events(policy, after=seq, page=_PAGE)

    fold.relearn = lambda name: relearned(
        events_after,
        fold.candidates[name],
        fold.chain,
        until=fold.seq,
        erasures=session.erasures(policy),
    )
    catch_up(session, fold, called=policy)
    fold.relearn = None
    return fold


def catch_up(session: Session, fold: Fold, *, called: str) -> None:
    """Fold what the log of a policy has gained, chain checked.

    In small pages: each read shows the database that this process has not paused. A promotion
    raises `Corrupt` here: a snapshot that was kept with it is sooner read.
    """
    events = session.all_events(called, after=fold.seq, page=_PAGE)
    fold.replay(checked(events, after=fold.head))
    if fold.policy != called:
        raise Corrupt(f"policy {called} is called {fold.policy} by its log")


def _restored(session: Session, policy: str) -> Fold:
    for snapshot in session.snapshots(policy):
        try:
            fold = unpacked(snapshot.content)
        except BadSnapshot:
            continue
        if _belongs(session, fold, policy):
            return fold
    if session.erasures(policy):
        raise Corrupt(
            f"policy {policy} has erased events, and no snapshot that holds what they had taught"
        )
    return Fold(session.chain(policy))


def _belongs(session: Session, fold: Fold, policy: str) -> bool:
    """Whether the log continues this state."""
    events = session.events(policy, after=fold.seq - 1, limit=1)
    is_of_chain = fold.chain == session.chain(policy)
    return is_of_chain and bool(events) and events[0].checksum == fold.checksum
