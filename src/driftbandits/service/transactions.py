"""The folds, the log that they are folds of, and commands that change both or neither.

If anything fails, the folds that were touched are dropped and made again from the log, so memory
never runs ahead of the disk. What only reads takes no lock: its transaction begins after everything
that was acknowledged before it, and folds what others have written since.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from driftbandits.service.commands import Command, Unfinished, attempt
from driftbandits.service.fold import Fold
from driftbandits.service.metrics import Metrics
from driftbandits.service.owners import Owners
from driftbandits.service.refusals import Refused, unavailable, unknown_policy
from driftbandits.service.relearning import Followers
from driftbandits.service.unit_of_work import UnitOfWork
from driftbandits.store import Corrupt, Session, Store, StoreBusy, StoreError, StoreUnavailable

logger = logging.getLogger("driftbandits.service")

_LARGE_SNAPSHOT = 1_000_000
"""Bytes that take the loop more than some milliseconds."""


_SMALL_DIM = 50


class NotAtHand(StoreError):
    """The store is far: a transaction has to be waited for."""


class Transactions:
    """One at a time, in any thread."""

    store: Store  # from recovery on

    def __init__(
        self, owners: Owners, metrics: Metrics, *, clock: Callable[[], int], snapshot_every: int
    ) -> None:
        self.folds: dict[str, Fold] = {}
        self.owners = owners
        self._metrics = metrics
        self.followers = Followers()
        self.is_awaited: Callable[[], bool] = lambda: False  # by who is quick and wants a turn
        self.clock = clock
        self._snapshot_every = snapshot_every

    def is_quick(self, command: Command) -> bool:
        """Whether no step of it takes more than some milliseconds."""
        fold = self.folds.get(command.policy)
        if fold is None or not command.is_quick:
            return False
        return fold.agent is None or fold.agent.policy.model_dim <= _SMALL_DIM

    def are_quick(self, commands: Sequence[Command]) -> bool:
        """Whether nothing that they need takes long; only for who may use the folds."""
        policies = {command.policy for command in commands}
        return all(self.is_quick(command) for command in commands) and not any(
            self._needs_large_snapshot(name, len(commands)) for name in policies
        )

    def _needs_large_snapshot(self, policy: str, more: int) -> bool:
        fold = self.folds[policy]
        is_due = fold.seq + more - fold.snapshot_seq >= self._snapshot_every
        return is_due and (fold.snapshot_bytes is None or fold.snapshot_bytes > _LARGE_SNAPSHOT)

    def perform(self, commands: Sequence[Command], *, at_once: bool = False) -> list[Any]:
        """Answers that are on disk; a refusal is one, and so is what has to go on later.

        `at_once` raises where it has to wait.
        """
        if not at_once:
            self._load_missing(commands)
        writing = any(command.writes for command in commands)
        touched: set[str] = set()
        try:
            with self._transaction(writing=writing, at_once=at_once) as session:
                work = self._unit_of_work(session)
                touched = work.touched
                wanted: dict[str, list[str]] = {}
                for command in commands:
                    if command.policy:
                        wanted.setdefault(command.policy, []).extend(command.event_ids)
                if writing:
                    work.begin_writing(wanted)
                else:
                    work.begin_reading(wanted)
                results = list(self._attempted(commands, work))
                work.finish()
                finished = time.perf_counter()
        except BaseException:
            for name in touched:  # what memory knows of them is not what the log says
                self.folds.pop(name, None)
            raise
        if writing:
            self._metrics.committed(work.done, time.perf_counter() - finished)
        return results

    def _load_missing(self, commands: Sequence[Command]) -> None:
        """Replay what has no fold before the lock is asked for: its owner must not pause."""
        missing = {command.policy for command in commands} - self.folds.keys() - {""}
        if missing:
            with self.store.read() as session:
                self._unit_of_work(session).begin_reading(sorted(missing))

    def _attempted(self, commands: Sequence[Command], work: UnitOfWork) -> Iterator[Any]:
        """The first, and those after it for which there is time."""
        for done, command in enumerate(commands):
            if done and work.is_long:
                yield Unfinished(command, has_begun=False)
            elif command.chain not in ("", work.chain(command.policy)):
                yield unknown_policy(command.policy)  # the name is another's since it began
            else:
                chain = work.chain(command.policy)
                result = attempt(command, work)
                if isinstance(result, Unfinished):
                    result.command.chain = chain
                yield result

    def _unit_of_work(self, session: Session) -> UnitOfWork:
        return UnitOfWork(
            session,
            self.folds,
            self.owners,
            followers=self.followers,
            now_ns=self.clock(),
            snapshot_every=self._snapshot_every,
            is_awaited=self.is_awaited,
        )

    def _transaction(self, *, writing: bool, at_once: bool) -> AbstractContextManager[Session]:
        store = self.store
        if not at_once:
            return store.write() if writing else store.read()
        transaction = store.write_at_once() if writing else store.read_at_once()
        if transaction is None:
            raise NotAtHand("the store has to be waited for")
        return transaction

    def perform_or_refuse(self, commands: Sequence[Command]) -> list[Any]:
        """Answers that are on disk, or why there are none."""
        try:
            return self.perform(commands)
        except StoreBusy as error:
            logger.warning("%s", error)
            refused = unavailable("busy", "another process holds the lock of the log")
        except StoreUnavailable as error:
            logger.error("%s", error)
            refused = unavailable("storage_unavailable", "the log cannot be written at present")
        except StoreError as error:
            logger.error("%s", error)
            damaged = isinstance(error, Corrupt)
            refused = Refused(
                500,
                "corrupt_log" if damaged else "storage_error",
                "the log is damaged" if damaged else "the log refused the events",
            )
        except Exception:
            logger.exception("a transaction failed")
            if len(commands) > 1:  # one of them is to blame; the others shall not suffer
                return [self.perform_or_refuse([command])[0] for command in commands]
            refused = Refused(500, "internal", "the request failed; nothing was written")
        return [refused] * len(commands)
