"""States, the log that they are folded from, and transactions that change both or neither.

If anything fails, the states that may have changed are dropped and folded again from the log, so
memory never runs ahead of the disk. A writer locks the rows of its policies, folds what other
processes have appended, and names the event that its own follow. A reader takes no lock: its
transaction begins after everything that was acknowledged before it.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from driftbandits.service.metrics import Metrics
from driftbandits.service.refusals import Refused, unavailable, unknown_policy
from driftbandits.service.relearning import Followers, relearned
from driftbandits.service.state import BadSnapshot, State
from driftbandits.store import (
    Corrupt,
    Event,
    Kind,
    Known,
    NewEvent,
    Overtaken,
    Session,
    Snapshot,
    Store,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    checked,
)
from driftbandits.store.records import Record, Rewarded, packed

logger = logging.getLogger("driftbandits.service")

KEPT_SNAPSHOTS = 2
PORTION_S = 0.01
"""A transaction is committed after this time; the rest of its work waits for another turn."""
SHORT_PORTION_S = 0.003
"""Limit of a transaction while a fast command waits."""
_LARGE_SNAPSHOT = 1_000_000
"""Bytes that take the loop more than some milliseconds."""
_SMALL_DIM = 50
_TRIES = 5
"""Attempts of a transaction when other processes are first; then callers are told to wait."""
_PAGE = 100
"""Events that are read at a time: each read shows the database that this process is alive."""

_PARTS = {
    Kind.DECISION: "decision",
    Kind.CORRECTED: "decision",
    Kind.REWARD: "outcome",
    Kind.DEFAULT: "outcome",
    Kind.WITHDRAWN: "outcome",
    Kind.LATE: "late",
}


class UnitOfWork:
    """Gather the events of commands. States change at once; the log is written at the end."""

    def __init__(self, transactions: Transactions, session: Session) -> None:
        self.session = session
        self.followers = transactions.followers
        self.now_ns = transactions.clock()
        self.locked: set[str] = set()  # policies whose states may change
        self.done: list[tuple[str, str, Record]] = []  # policy, kind and record of what was added
        self._began = time.monotonic()
        self._states = transactions.states
        self._snapshot_every = transactions.snapshot_every
        self._is_awaited = transactions.is_awaited
        self._new_events: dict[str, list[NewEvent]] = {}  # to be written, by policy
        self._known: dict[tuple[str, str], Known] = {}  # about an event_id, as stored
        self._added: dict[tuple[str, str], list[tuple[int, NewEvent]]] = {}  # and not yet stored
        self._broken: dict[str, Refused] = {}

    # -- getting ready ---------------------------------------------------------------------------

    def begin_writing(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """Lock policies, look up the event_ids that this is about, and learn what is due."""
        self.session.lock(wanted)
        self.locked.update(wanted)
        self.begin_reading(wanted)
        ready = {policy: ids for policy, ids in wanted.items() if policy in self._states}
        self._known = {(policy, id): Known() for policy, ids in ready.items() for id in ids}
        self._known.update(self.session.known_of(ready))
        for policy in ready:
            self.learn_defaults(self._states[policy])

    def begin_reading(self, policies: Iterable[str]) -> None:
        """Bring states up to date without a lock."""
        for policy in policies:
            head, state = self.session.head(policy), self._states.get(policy)
            try:
                if head is None:
                    self._states.pop(policy, None)
                elif state is None or state.head != head:
                    self._states[policy] = self._following(policy, state)
            except (Corrupt, msgspec.DecodeError) as error:
                self._states.pop(policy, None)
                self._broken[policy] = Refused(500, "corrupt_log", f"policy {policy!r}: {error}")

    def _following(self, policy: str, state: State | None) -> State:
        """A state with what others have written."""
        if state is not None:
            with suppress(Corrupt, msgspec.DecodeError):  # from a backup, or erased meanwhile
                catch_up(self.session, state)
                return state
        return load(self.session, policy)

    # -- working ---------------------------------------------------------------------------------

    def state(self, policy: str) -> State:
        """A policy that has a configuration."""
        if policy in self._broken:
            raise self._broken[policy]
        state = self._states.get(policy)
        if state is None or not state.versions:
            raise unknown_policy(policy)
        return state

    def create(self, policy: str) -> State:
        """A policy that may be new."""
        if policy not in self._states and policy not in self._broken:
            self.session.create(policy)
            self.session.lock([policy])
            self.locked.add(policy)
            self.begin_reading([policy])
        if policy in self._broken:
            raise self._broken[policy]
        return self._states[policy]

    def time_for(self, state: State) -> int:
        """The server's time, which never goes back in a log."""
        return max(self.now_ns, state.at_ns)

    def known(self, policy: str, event_id: str) -> Known:
        """Return the events of an event_id, with those of this transaction."""
        at = policy, event_id
        if at not in self._known:
            self._known[at] = self.session.known_of({policy: [event_id]}).get(at, Known())
        known = self._known[at]
        for seq, (kind, _, at_ns, body) in self._added.get(at, ()):
            if kind in _PARTS:
                event = Event(policy, seq, at_ns, kind, event_id, body, b"-", b"", b"")
                known = known._replace(**{_PARTS[kind]: event})
        return known

    def append(
        self, state: State, kind: str, event_id: str, record: Record, *, seq: int | None = None
    ) -> None:
        """Write down what has just been done to a state; `seq` unless it was its last event."""
        policy = state.policy
        new_event = NewEvent(kind, event_id, state.at_ns, packed(record))
        self.done.append((policy, kind, record))
        self._new_events.setdefault(policy, []).append(new_event)
        self._added.setdefault((policy, event_id), []).append(
            (state.seq if seq is None else seq, new_event)
        )

    def write(self, state: State, kind: str, event_id: str, record: Record) -> None:
        """Let an event happen that its record tells in full: to the state, and to the log."""
        state.apply(kind, event_id, record, self.time_for(state))
        self.append(state, kind, event_id, record)

    @property
    def is_long(self) -> bool:
        """It is time to commit."""
        spent = time.monotonic() - self._began
        return spent >= PORTION_S or (spent >= SHORT_PORTION_S and self._is_awaited())

    def learn_defaults(self, state: State) -> bool:
        """Learn a portion of the default rewards that are due; return whether that was all."""
        if not state.versions:
            return True
        at_ns = self.time_for(state)
        while (event_id := state.due(at_ns)) is not None:
            self._learn_default(state, event_id, at_ns)
            if self.is_long:
                return state.due(at_ns) is None
        return True

    def learn_default_if_due(self, state: State, event_id: str) -> None:
        """A pending decision may have waited long enough, and its portion not have come."""
        at_ns = self.time_for(state)
        if state.is_due(event_id, at_ns):
            self._learn_default(state, event_id, at_ns)

    def _learn_default(self, state: State, event_id: str, at_ns: int) -> None:
        value = state.version.record.default_reward
        key = state.pending[event_id].key
        kind = state.reward(event_id, value, at_ns, kind=Kind.DEFAULT)
        self.append(state, kind, event_id, Rewarded(value, key))

    # -- writing ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Put the events into the log, and snapshots where they are due; the caller commits."""
        self.session.append_all(self._new_events)
        for policy in self._new_events:
            state, head = self._states[policy], self.session.head(policy)
            assert head is not None
            assert (head.seq, head.at_ns) == (state.seq, state.at_ns)
            state.checksum = head.checksum
            if state.seq - state.snapshot_seq >= self._snapshot_every:
                self.keep_snapshot(state)
        self._new_events.clear()

    def flush(self, policy: str) -> None:
        """Write the gathered events of a policy now, for a command that works on stored ones."""
        if new_events := self._new_events.pop(policy, None):
            self._states[policy].checksum = self.session.append(policy, new_events).checksum
        self._known.clear()
        self._added = {at: parts for at, parts in self._added.items() if at[0] != policy}

    def keep_snapshot(self, state: State, *, is_foundation: bool = False) -> None:
        """Keep the state as of now; older ones make room."""
        content = state.to_bytes()
        snapshot = Snapshot(state.policy, state.seq, state.at_ns, is_foundation, content)
        self.session.save_snapshot(snapshot)
        state.snapshot_seq, state.snapshot_bytes = state.seq, len(content)
        if is_foundation:
            self.session.drop_snapshots(state.policy, before=state.seq, foundations=True)
            return
        kept = [s.seq for s in self.session.snapshots(state.policy) if not s.is_foundation]
        if len(kept) > KEPT_SNAPSHOTS:
            self.session.drop_snapshots(state.policy, before=kept[KEPT_SNAPSHOTS - 1])


def load(session: Session, policy: str) -> State:
    """The state of a policy: the best snapshot, and the events since."""
    state = _restored(session, policy)
    state.relearn = lambda name: relearned(session, policy, state.candidates[name], until=state.seq)
    catch_up(session, state)
    state.relearn = None
    return state


def catch_up(session: Session, state: State) -> None:
    """Fold what the log of a policy has gained, chain checked.

    A promotion raises `Corrupt` here: a snapshot that was kept with it is sooner read.
    """
    events = session.all_events(state.policy, after=state.seq, page=_PAGE)
    state.replay(checked(events, after=state.head))


def _restored(session: Session, policy: str) -> State:
    for snapshot in session.snapshots(policy):
        with suppress(BadSnapshot):
            state = State.from_bytes(snapshot.content)
            events = session.events(policy, after=state.seq - 1, limit=1)
            is_of_log = bool(events) and events[0].checksum == state.checksum
            if is_of_log and state.policy == policy:
                return state
    if session.erasures(policy):
        raise Corrupt(
            f"policy {policy} has erased events, and no snapshot that holds what they had taught"
        )
    return State(policy)


@dataclass
class Command(ABC):
    """Work for the writer."""

    policy: str  # "" where it is about no single one

    writes = True

    @property
    def is_quick(self) -> bool:
        """Say whether every step takes some milliseconds at most, as in a small model."""
        return False

    @property
    def event_ids(self) -> Sequence[str]:
        """They are looked up together before a batch begins."""
        return ()

    @abstractmethod
    def run(self, work: UnitOfWork) -> Any:
        """Work on states, and return an answer."""


class Unfinished(NamedTuple):
    """The result of a command whose work goes on in another transaction."""

    command: Command  # that goes on
    has_begun: bool = True


def attempt(command: Command, work: UnitOfWork) -> Any:
    """The answer, or the refusal as a value."""
    try:
        return command.run(work)
    except Refused as refused:
        return refused


class Transactions:
    """One at a time, in any thread."""

    store: Store  # from recovery on

    def __init__(self, metrics: Metrics, *, clock: Callable[[], int], snapshot_every: int) -> None:
        self.states: dict[str, State] = {}
        self.followers = Followers()
        self.is_awaited: Callable[[], bool] = lambda: False  # by a fast command
        self.clock = clock
        self.snapshot_every = snapshot_every
        self._metrics = metrics

    def is_quick(self, command: Command) -> bool:
        """Return True if no step of a command takes more than some milliseconds."""
        state = self.states.get(command.policy)
        if state is None or not command.is_quick:
            return False
        return state.agent is None or state.agent.policy.model_dim <= _SMALL_DIM

    def are_quick(self, commands: Sequence[Command]) -> bool:
        """Return True if none of the commands takes long; for the thread that uses the states."""
        if not all(self.is_quick(command) for command in commands):
            return False
        for policy in {command.policy for command in commands}:
            state = self.states[policy]
            is_due = state.seq + len(commands) - state.snapshot_seq >= self.snapshot_every
            if is_due and (state.snapshot_bytes is None or state.snapshot_bytes > _LARGE_SNAPSHOT):
                return False
        return True

    def perform(self, commands: Sequence[Command], *, at_once: bool = False) -> list[Any]:
        """Answers that are on disk; a refusal is one, and so is what has to go on later.

        `at_once` raises where it has to wait.
        """
        missing = {command.policy for command in commands} - self.states.keys() - {""}
        if missing and not at_once:  # before the lock is asked for: it must not stand still
            with self.store.read() as session:
                UnitOfWork(self, session).begin_reading(sorted(missing))
        writing = any(command.writes for command in commands)
        transaction = self.store.write if writing else self.store.read
        locked: set[str] = set()
        try:
            with transaction(at_once=at_once) as session:
                work = UnitOfWork(self, session)
                locked = work.locked
                wanted: dict[str, list[str]] = {}
                for command in commands:
                    if command.policy:
                        wanted.setdefault(command.policy, []).extend(command.event_ids)
                if writing:
                    work.begin_writing(wanted)
                else:
                    work.begin_reading(wanted)
                results = [
                    Unfinished(command, has_begun=False)
                    if done and work.is_long
                    else attempt(command, work)
                    for done, command in enumerate(commands)
                ]
                work.finish()
                finished = time.perf_counter()
        except BaseException:
            for name in locked:  # what memory knows of them is not what the log says
                self.states.pop(name, None)
            raise
        if writing:
            self._metrics.committed(work.done, time.perf_counter() - finished)
            self._log_warnings(locked)
        return results

    def _log_warnings(self, policies: Iterable[str]) -> None:
        """Log the first value of each column that was limited or clipped."""
        for name in policies:
            state = self.states.get(name)
            if state is not None and state.agent is not None:
                for text in state.agent.take_warnings():
                    logger.warning("policy %s: %s", name, text, extra={"policy": name})

    def perform_or_refuse(self, commands: Sequence[Command]) -> list[Any]:
        """Answers that are on disk, or why there are none."""
        try:
            for _ in range(_TRIES - 1):
                with suppress(Overtaken):
                    return self.perform(commands)
            return self.perform(commands)
        except StoreBusy as error:
            logger.warning("%s", error)
            refused = unavailable("busy", "another process holds the lock of the log")
        except StoreUnavailable as error:
            logger.error("%s", error)
            refused = unavailable("storage_unavailable", "the log cannot be written at present")
        except StoreError as error:
            logger.error("%s", error)
            if isinstance(error, Corrupt):
                refused = Refused(500, "corrupt_log", "the log is damaged")
            else:
                refused = Refused(500, "storage_error", "the log refused the events")
        except Exception:
            logger.exception("a transaction failed")
            if len(commands) > 1:  # one of them is to blame; the others shall not suffer
                return [self.perform_or_refuse([command])[0] for command in commands]
            refused = Refused(500, "internal", "the request failed; nothing was written")
        return [refused] * len(commands)
