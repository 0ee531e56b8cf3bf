"""What nobody asks for: recovery, what time brings, maintenance, and snapshots at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from driftbandits.service import snapshots
from driftbandits.service.changing import Promote
from driftbandits.service.commands import Command, KeepSnapshot, LearnDefaults
from driftbandits.service.erasing import Erase, Task
from driftbandits.service.fold import CHANGE, Fold
from driftbandits.service.kernels import USUAL_FAMILIES, make_ready
from driftbandits.service.owners import Listener
from driftbandits.service.transactions import Transactions
from driftbandits.store import Session, Store, StoreBusy, StoreError, StoreUnavailable

logger = logging.getLogger("driftbandits.service")

DUE_EVERY_S = 0.2
_MAINTENANCE_EVERY_S = 5.0
_RETENTION_EVERY_S = 3600.0
_DAY_NS = 86_400_000_000_000


class Upkeep:
    """Commands that come with time, and a thread that keeps the store in order."""

    def __init__(self, transactions: Transactions, *, retention_days: float | None) -> None:
        self._transactions = transactions
        self._retention_days = retention_days
        self._next_look = 0.0
        self._next_retention = 0.0
        self._under_way = 0
        self._ending = threading.Event()

    def end(self) -> None:
        self._ending.set()

    # -- at the beginning ------------------------------------------------------------------------

    def recover(self, open_store: Callable[[], Store], listener: Listener) -> bool:
        """Open the store and fold the logs that are ours, as soon as it can; False if never."""
        while not self._ending.is_set():
            try:
                self._transactions.store = open_store()
                self._fold_logs(self._transactions.owners.free())
                self._transactions.owners.join(listener)
            except (StoreBusy, StoreUnavailable) as error:
                logger.warning("the store is not ready: %s", error)
                self._ending.wait(1.0)
            else:
                threading.Thread(target=self._maintain, name="maintenance", daemon=True).start()
                threading.Thread(target=self._relearn, name="candidates", daemon=True).start()
                return True
        return False

    def _fold_logs(self, names: Sequence[str]) -> None:
        if not names:
            make_ready(USUAL_FAMILIES)
        with self._transactions.store.read() as session:
            for name in names:
                self._fold_log(session, name)

    def _fold_log(self, session: Session, name: str) -> None:
        try:
            self._transactions.folds[name] = fold = snapshots.load(session, name)
        except Exception as error:  # this policy answers 500, the others go on
            logger.error("policy %s cannot be brought back: %s", name, error)
            return
        if fold.differences:
            logger.warning("%d replayed events of %s differ", fold.differences, name)

    # -- all the time ----------------------------------------------------------------------------

    def _maintain(self) -> None:
        while not self._ending.wait(_MAINTENANCE_EVERY_S):
            try:
                self._transactions.store.maintain()
            except StoreError as error:
                logger.warning("will be tried again: %s", error)

    def _relearn(self) -> None:
        transactions = self._transactions
        transactions.followers.live(transactions.store, transactions.folds, self._ending)

    def take_due(self) -> Sequence[Command]:
        """Default rewards and changes that fall due, and retention; when the last ones are done.

        Only for who may use the folds.
        """
        now = time.monotonic()
        if now < self._next_look or self._under_way:
            return ()
        self._next_look = now + DUE_EVERY_S
        commands = self._due_defaults() + self._due_changes()
        if self._retention_days is not None and now >= self._next_retention:
            self._next_retention = now + _RETENTION_EVERY_S
            commands += self._retention(self._retention_days)
        self._under_way = len(commands)
        return commands

    def note_done(self, result: Any) -> None:
        """What failed has been logged, and is due again."""
        self._under_way -= 1

    def _due_defaults(self) -> list[Command]:
        now_ns = self._transactions.clock()
        return [
            LearnDefaults(name)
            for name, fold in self._ours()
            if fold.versions and fold.due(max(now_ns, fold.at_ns)) is not None
        ]

    def _ours(self) -> list[tuple[str, Fold]]:
        """The folds of policies that this process owns; it lets go of the others."""
        folds, owners = self._transactions.folds, self._transactions.owners
        if owners.peers:
            for name in [name for name in folds if owners.elsewhere(name) is not None]:
                del folds[name]
        return list(folds.items())

    def _due_changes(self) -> list[Command]:
        """Configurations that have learned what their logs hold."""
        followers = self._transactions.followers
        return [
            Promote(name, CHANGE, begun=candidate.seq)
            for name, fold in self._ours()
            if (candidate := fold.candidates.get(CHANGE)) is not None
            and not fold.is_change_held
            and followers.is_near(fold.chain, CHANGE, candidate)
        ]

    def _retention(self, days: float) -> list[Command]:
        age = int(days * _DAY_NS)
        return [
            Erase(name, Task(older_than_ns=age), reason="retention", key="")
            for name, _ in self._ours()
        ]

    # -- at the end ------------------------------------------------------------------------------

    def retire(self) -> None:
        """Keep a snapshot of every policy that has none of its last event, and close the store."""
        self.end()
        folds = self._transactions.folds
        self._transactions.followers.keep_all()
        changed = [
            name for name, fold in folds.items() if fold.candidates or fold.seq > fold.snapshot_seq
        ]
        try:
            self._transactions.perform([KeepSnapshot(name) for name in changed])
        except Exception as error:
            logger.warning("the next start will take longer: %s", error)
        self._transactions.owners.leave()
        self._transactions.store.close()
