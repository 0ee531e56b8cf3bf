"""One transaction's work: folds brought up to date, events gathered, and all of it written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from driftbandits.service import snapshots
from driftbandits.service.fold import Fold
from driftbandits.service.owners import Owners
from driftbandits.service.refusals import Elsewhere, Refused, unknown_policy
from driftbandits.service.relearning import Followers
from driftbandits.store import (
    CORRECTED,
    DECISION,
    DEFAULT,
    LATE,
    REWARD,
    WITHDRAWN,
    Corrupt,
    Event,
    Known,
    NewEvent,
    Session,
    Snapshot,
    leases,
)
from driftbandits.store.records import Record, Rewarded, packed

KEPT_SNAPSHOTS = 2
PORTION_S = 0.01
"""After so long a transaction is committed, and what is left to do waits for another turn."""
SHORT_PORTION_S = 0.003
"""The same where somebody waits whose work is quick."""

NOTHING = Known()

_PARTS = {
    DECISION: "decision",
    CORRECTED: "decision",
    REWARD: "outcome",
    DEFAULT: "outcome",
    WITHDRAWN: "outcome",
    LATE: "late",
}


class UnitOfWork:
    """What commands work with. Folds change as they work; the log follows at the end."""

    def __init__(
        self,
        session: Session,
        folds: dict[str, Fold],
        owners: Owners,
        *,
        followers: Followers,
        now_ns: int,
        snapshot_every: int,
        is_awaited: Callable[[], bool],
    ) -> None:
        self.session = session
        self.followers = followers
        self.now_ns = now_ns
        self.touched: set[str] = set()
        self.done: list[tuple[str, str, Record]] = []  # policy, kind and record of what was added
        self._began = time.monotonic()
        self._folds = folds
        self._owners = owners
        self._snapshot_every = snapshot_every
        self._is_awaited = is_awaited
        self._new_events: dict[str, list[NewEvent]] = {}  # to be written, by policy
        self._known: dict[tuple[str, str], Known] = {}  # about an event_id, as stored
        self._added: dict[tuple[str, str], list[tuple[int, NewEvent]]] = {}  # and not yet stored
        self._broken: dict[str, Refused] = {}

    # -- getting ready ---------------------------------------------------------------------------

    def begin_writing(self, wanted: Mapping[str, Iterable[str]]) -> None:
        """Lock policies, look up the event_ids that this is about, and learn what is due."""
        self.session.lock(wanted)
        ready: dict[str, list[str]] = {}
        for policy, event_ids in wanted.items():
            if not self._owns(policy):
                continue
            self._bring_up_to_date(policy)
            if policy in self._folds and policy not in self._broken:
                ready[policy] = list(event_ids)
                for event_id in ready[policy]:
                    self._known[policy, event_id] = NOTHING
        self._known.update(self.session.known_of(ready))
        for policy in ready:
            self.learn_defaults(self._folds[policy])

    def _owns(self, policy: str) -> bool:
        """Whether this process may write; what nobody owns it takes."""
        if self.session.head(policy) is None:
            return True
        owner, me = self.session.owner(policy), self._owners.me.id
        if owner == me:
            return True
        if owner and leases.is_there(self.session, owner):
            self._owners.note(policy, owner)
            self._folds.pop(policy, None)
            self._broken[policy] = Elsewhere(policy)
            return False
        self.session.set_owner(policy, me)
        self._owners.note(policy, me)
        return True

    def hand_over(self, policy: str, to: str) -> None:
        """Let another process own a policy, which goes on from a snapshot."""
        fold = self.fold(policy)
        self.flush(policy)
        self.touched.add(policy)
        if fold.seq > fold.snapshot_seq:
            self.keep_snapshot(fold)
        self.session.set_owner(policy, to)
        self._folds.pop(policy)
        self._broken[policy] = Elsewhere(policy)

    def rename(self, fold: Fold, to: str) -> bool:
        """Let a policy have another name from here on; False if another one has it."""
        before = fold.policy
        self.flush(before)
        if not self.session.rename(before, to):
            return False
        self.touched |= {before, to}
        self._folds[to] = self._folds.pop(before)
        self._owners.note(to, self._owners.me.id)
        self._owners.note(before, leases.NOBODY)
        return True

    def begin_reading(self, policies: Iterable[str]) -> None:
        """Bring folds up to date without a lock."""
        for policy in policies:
            self._bring_up_to_date(policy)

    def _bring_up_to_date(self, policy: str) -> None:
        head = self.session.head(policy)
        fold = self._folds.get(policy)
        if head is None:
            self._folds.pop(policy, None)
            return
        if fold is not None and fold.chain != self.session.chain(policy):
            fold = None  # the one that had this name has another
        if fold is not None and fold.head == head:
            return
        try:
            if fold is None or not self._try_to_catch_up(fold, policy):
                self._folds[policy] = self._load(policy)
        except Corrupt as error:
            self._folds.pop(policy, None)
            self._broken[policy] = Refused(500, "corrupt_log", f"policy {policy!r}: {error}")

    def _try_to_catch_up(self, fold: Fold, policy: str) -> bool:
        """Go on with what others have written; False if the fold is not of this log any more."""
        try:
            snapshots.catch_up(self.session, fold, called=policy)
        except (Corrupt, msgspec.DecodeError):  # restored from a backup, or erased meanwhile
            return False
        return True

    def _load(self, policy: str) -> Fold:
        try:
            return snapshots.load(self.session, policy)
        except msgspec.DecodeError as error:
            raise Corrupt(f"an event cannot be read: {error}") from error

    # -- working ---------------------------------------------------------------------------------

    def chain(self, policy: str) -> str:
        """Of the policy that has this name by now; "" if none has."""
        fold = self._folds.get(policy)
        return "" if fold is None else fold.chain

    def fold(self, policy: str) -> Fold:
        """A policy that has a configuration."""
        if policy in self._broken:
            raise self._broken[policy]
        fold = self._folds.get(policy)
        if fold is None or not fold.versions:
            raise unknown_policy(policy)
        return fold

    def create(self, policy: str) -> Fold:
        """A policy that may be new."""
        if policy not in self._folds and policy not in self._broken:
            self.session.create(policy)
            self.session.lock([policy])
            if self._owns(policy):
                self._bring_up_to_date(policy)
        if policy in self._broken:
            raise self._broken[policy]
        return self._folds[policy]

    def time_for(self, fold: Fold) -> int:
        """The server's time, which never goes back in a log."""
        return max(self.now_ns, fold.at_ns)

    def known(self, policy: str, event_id: str) -> Known:
        """What the log holds about an event_id, this batch included."""
        if (policy, event_id) not in self._known:
            found = self.session.known(policy, [event_id])
            self._known[policy, event_id] = found.get(event_id, NOTHING)
        known = self._known[policy, event_id]
        for seq, (kind, _, at_ns, body) in self._added.get((policy, event_id), ()):
            if kind in _PARTS:
                event = Event(policy, seq, at_ns, kind, event_id, body, b"-", b"", b"")
                known = known._replace(**{_PARTS[kind]: event})
        return known

    def append(
        self, fold: Fold, kind: str, event_id: str, record: Record, *, seq: int | None = None
    ) -> None:
        """Write down what has just been done to a fold; `seq` unless it was its last event."""
        policy = fold.policy
        new_event = NewEvent(kind, event_id, fold.at_ns, packed(record))
        self.done.append((policy, kind, record))
        self.touched.add(policy)
        self._new_events.setdefault(policy, []).append(new_event)
        self._added.setdefault((policy, event_id), []).append(
            (fold.seq if seq is None else seq, new_event)
        )

    @property
    def is_long(self) -> bool:
        """Whether it is time to commit what was done."""
        spent = time.monotonic() - self._began
        return spent >= PORTION_S or (spent >= SHORT_PORTION_S and self._is_awaited())

    def learn_defaults(self, fold: Fold) -> bool:
        """Learn the default reward of decisions that have waited long enough, a portion of them.

        Whether that were all.
        """
        if not fold.versions:
            return True
        at_ns = self.time_for(fold)
        while (event_id := fold.due(at_ns)) is not None:
            self._learn_default(fold, event_id, at_ns)
            if self.is_long:
                return fold.due(at_ns) is None
        return True

    def learn_default_if_due(self, fold: Fold, event_id: str) -> None:
        """A pending decision may have waited long enough, and its portion not have come."""
        at_ns = self.time_for(fold)
        if fold.is_due(event_id, at_ns):
            self._learn_default(fold, event_id, at_ns)

    def _learn_default(self, fold: Fold, event_id: str, at_ns: int) -> None:
        self.touched.add(fold.policy)
        value = fold.version.record.default_reward
        key = fold.pending[event_id].key
        kind = fold.reward(event_id, value, at_ns, kind=DEFAULT)
        self.append(fold, kind, event_id, Rewarded(value, key))

    # -- writing ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Put the events into the log, and snapshots where they are due; the caller commits."""
        self.session.append_all(self._new_events)
        for policy in self._new_events:
            fold, head = self._folds[policy], self.session.head(policy)
            assert head is not None
            assert (head.seq, head.at_ns) == (fold.seq, fold.at_ns)
            fold.checksum = head.checksum
            if fold.seq - fold.snapshot_seq >= self._snapshot_every:
                self.keep_snapshot(fold)
        self._new_events.clear()

    def flush(self, policy: str) -> None:
        """Write the gathered events of a policy now, for a command that works on stored ones."""
        if new_events := self._new_events.pop(policy, None):
            self._folds[policy].checksum = self.session.append(policy, new_events).checksum
        self._known.clear()
        self._added = {at: parts for at, parts in self._added.items() if at[0] != policy}

    def keep_snapshot(self, fold: Fold, *, is_foundation: bool = False) -> None:
        """Keep the state as of now; older ones make room."""
        self.followers.keep(fold, erasures=self.session.erasures(fold.policy))
        content = snapshots.packed(fold)
        snapshot = Snapshot(fold.policy, fold.seq, fold.at_ns, is_foundation, content)
        self.session.save_snapshot(snapshot)
        fold.snapshot_seq, fold.snapshot_bytes = fold.seq, len(content)
        if is_foundation:
            self.session.drop_snapshots(fold.policy, before=fold.seq, foundations=True)
            return
        kept = [s.seq for s in self.session.snapshots(fold.policy) if not s.is_foundation]
        if len(kept) > KEPT_SNAPSHOTS:
            self.session.drop_snapshots(fold.policy, before=kept[KEPT_SNAPSHOTS - 1])
