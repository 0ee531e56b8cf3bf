"""Taking the content out of events, a portion at a time.

What was learned is kept in a snapshot, a foundation from which the log can be folded again. The
first portion makes one that lies behind every event that will be erased, so that the log can be
folded after each portion; the last one makes another, which no longer knows the ids of what was
erased.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from driftbandits import api
from driftbandits.service.metrics import Metrics
from driftbandits.service.refusals import Refused
from driftbandits.service.transactions import Command, Transactions, Unfinished, UnitOfWork
from driftbandits.store import LAST_CHARACTER, Kind, Store, StoreError
from driftbandits.store.records import Erased

_MOST_AT_ONCE = 500


class Task(NamedTuple):
    """The part of an erasure that is left to do."""

    event_ids: Sequence[str] = ()
    prefix: str | None = None
    older_than_ns: int | None = None
    after: int = 0  # of those that are too old, how far they were looked at
    until: int | None = None  # where the log ended when it began
    erased: int = 0

    @property
    def is_done(self) -> bool:
        return not self.event_ids and self.prefix is None and self.older_than_ns is None


@dataclass
class Erase(Command):
    """Take the content out of events, and keep what was learned in a snapshot to go on from."""

    task: Task
    key: str
    reason: str = "request"

    def run(self, work: UnitOfWork) -> api.ErasureAnswer | Unfinished:
        state = work.state(self.policy)
        work.flush(self.policy)
        task, gone = self.task, list[int]()
        if task.until is None:
            task = task._replace(until=state.seq)
        is_first = not task.erased
        while not task.is_done and len(gone) < _MOST_AT_ONCE and not (gone and work.is_long):
            found, task = self._next(work, task)
            work.session.erase(self.policy, found)
            gone += found
        if gone:
            record = Erased(tuple(sorted(gone)), self.reason, self.key)
            work.write(state, Kind.ERASED, "", record)
            work.flush(self.policy)
            task = task._replace(erased=task.erased + len(gone))
        if task.erased and (task.is_done or (gone and is_first)):
            work.keep_snapshot(state, is_foundation=True)
        if task.is_done:
            return api.ErasureAnswer(task.erased)
        return Unfinished(Erase(self.policy, task, self.key, self.reason))

    def _next(self, work: UnitOfWork, task: Task) -> tuple[list[int], Task]:
        """The seqs of some events to erase, and what is left to do after them."""
        session, until = work.session, task.until
        assert until is not None
        if task.event_ids or task.prefix is not None:
            first = task.event_ids[0] if task.event_ids else task.prefix or ""
            last = first if task.event_ids else first + LAST_CHARACTER
            found = session.matching(
                self.policy, first=first, last=last, until=until, limit=_MOST_AT_ONCE
            )
            if len(found) == _MOST_AT_ONCE:  # there may be more
                return found, task
            if task.event_ids:
                return found, task._replace(event_ids=task.event_ids[1:])
            return found, task._replace(prefix=None)
        assert task.older_than_ns is not None
        before_ns = work.now_ns - task.older_than_ns
        page = session.outlines(self.policy, after=task.after, limit=_MOST_AT_ONCE)
        old = [each for each in page if each.at_ns < before_ns and each.seq <= until]
        if len(old) < _MOST_AT_ONCE:  # time never goes back in a log
            task = task._replace(older_than_ns=None)
        else:
            task = task._replace(after=old[-1].seq)
        return [each.seq for each in old if each.is_erasable], task


def prune(store: Store, policy: str, *, before_days: float) -> int:
    """Erase the content of old events without a running service; returns how many there were."""
    transactions = Transactions(Metrics(), clock=time.time_ns, snapshot_every=sys.maxsize)
    transactions.store = store
    task = Task(older_than_ns=int(before_days * 86_400e9))
    command: Command = Erase(policy, task, "", "pruned")
    while isinstance(result := transactions.perform([command])[0], Unfinished):
        command = result.command
    if isinstance(result, Refused):
        raise StoreError(str(result))
    return int(result.erased)
