"""The writer: it owns the folds and the log, and commits for many requests at once.

Requests gather while a commit is on its way to the disk; the next transaction takes them all. An
answer is given after the commit. If anything fails, the folds that were touched are dropped and
made again from the log, so memory never runs ahead of the disk.

One transaction at a time, in the event loop's thread or in one of its own. The thread does what may
take long. Decisions and rewards are made in the loop where the store is at hand, because threads
that both want the interpreter wait for one another most of the time; if the disk is slow, or
anything goes wrong, the thread does it after all.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

from driftbandits.service import snapshots
from driftbandits.service.commands import Command, Erase, attempted
from driftbandits.service.desk import Desk
from driftbandits.service.fold import Fold
from driftbandits.service.metrics import Metrics
from driftbandits.service.problems import Refused, unavailable
from driftbandits.service.readiness import USUAL_FAMILIES, make_ready
from driftbandits.store import Corrupt, Session, Store, StoreBusy, StoreError, StoreUnavailable

logger = logging.getLogger("driftbandits.service")

MOST_IN_A_TRANSACTION = 256
LONGEST_WAIT_S = 10.0
"""A request that has waited longer is refused rather than answered to nobody."""

_SLOW_S = 0.05
_SLOW_IN_A_ROW = 2
_THREAD_AFTER_SLOW_S = 1.0
"""After transactions that were slow, the loop keeps its hands off the disk for so long."""

_LARGE_SNAPSHOT = 1_000_000
"""Bytes that take the loop more than some milliseconds."""

_TEND_EVERY_S = 0.2
_MAINTENANCE_EVERY_S = 5.0
_RETENTION_EVERY_S = 3600.0
_DAY_NS = 86_400_000_000_000


Work = Callable[[], None]
"""For the thread; its end is the beginning of the next turn."""


class Job(NamedTuple):
    """A command, and what is called with its answer."""

    command: Command
    answer: Callable[[Any], None]
    since: float


class Engine:
    """Start it, then await `do(command)`, or `begin` one with a callback."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        clock: Callable[[], int] = time.time_ns,
        queue_limit: int = 2000,
        snapshot_every: int = 20_000,
        retention_days: float | None = None,
        metrics: Metrics | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self.ready = False
        self.dead = False
        self.folds: dict[str, Fold] = {}
        self.metrics = metrics or Metrics()
        self._open_store = open_store
        self._store: Store | None = None
        self._clock = clock
        self._waiting: deque[Job] = deque()
        self._queue_limit = queue_limit
        self._snapshot_every = snapshot_every
        self._retention_days = retention_days
        self._loop_may_work_from = 0.0
        self._slow_in_a_row = 0
        self._next_tending = 0.0
        self._next_retention = 0.0
        self._at_work = False
        self._jobs: list[Job] = []  # those at work
        self._on_death = on_death
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="writer", daemon=True)
        self.recovered = threading.Event()
        self._ending = threading.Event()

    # -- in the event loop -----------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()
        self._look_at_the_clock()

    async def stop(self) -> None:
        """Finish what waits, keep a snapshot of every policy, and end the thread."""
        while self._at_work and not self.dead:
            await asyncio.sleep(0.01)
        self.ready = False
        self._work.put(None)
        await asyncio.to_thread(self._thread.join)

    def do(self, command: Command) -> asyncio.Future[Any]:
        """The answer to come; a full queue refuses at once."""
        assert self._loop is not None
        future = self._loop.create_future()

        def answer(result: Any) -> None:
            if not future.done():
                future.set_result(result)

        self.begin(command, answer)
        return future

    def begin(self, command: Command, answer: Callable[[Any], None]) -> None:
        """Like `do`; `answer` will be called in the loop."""
        if self.dead:
            raise _died()
        if not self.ready:
            raise unavailable("starting", "kernels are compiled and the log is replayed")
        if len(self._waiting) >= self._queue_limit:
            self.metrics.refused_overload += 1
            raise unavailable("overloaded", f"{self._queue_limit} requests wait already")
        self._waiting.append(Job(command, answer, time.monotonic()))
        self._wake()

    def _wake(self) -> None:
        if not self._at_work:
            self._at_work = True
            self._next_turn()

    def _next_turn(self) -> None:
        assert self._loop is not None
        self._loop.call_soon(self._turn)  # and take along what else arrives at this moment

    @property
    def store(self) -> Store:
        """For reading beside the writer."""
        if self._store is None or not self.ready:
            raise unavailable("starting", "kernels are compiled and the log is replayed")
        return self._store

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _turn(self) -> None:
        """Do what waits at once, or leave it to the thread, or rest."""
        try:
            work = self._tending() or self._serving()
        except BaseException:
            self._die()
            return
        if work is not None:
            self._work.put(work)
        elif self._waiting:
            self._next_turn()
        else:
            self._at_work = False

    def _serving(self) -> Work | None:
        """Answer those who wait, or say how the thread can."""
        self._jobs = jobs = self._next_jobs()
        if not jobs:
            return None
        began = time.perf_counter()
        commands = [job.command for job in jobs]
        results = self._results_at_once(commands) if self._are_quick(commands) else None
        if results is None:
            return partial(self._serve, jobs, began)
        self._answer(jobs, results, began)
        return None

    def _next_jobs(self) -> list[Job]:
        waiting, jobs = self._waiting, list[Job]()
        oldest = time.monotonic() - LONGEST_WAIT_S
        while waiting and len(jobs) < MOST_IN_A_TRANSACTION:
            job = waiting.popleft()
            if job.since >= oldest:
                jobs.append(job)
            else:
                self.metrics.refused_overload += 1
                refused = unavailable("overloaded", f"no turn came within {LONGEST_WAIT_S:g} s")
                _give([job], [refused])
        return jobs

    def _are_quick(self, commands: Sequence[Command]) -> bool:
        """Whether nothing that they need takes long."""
        policies = {command.policy for command in commands}
        return (
            time.monotonic() >= self._loop_may_work_from
            and all(command.is_quick for command in commands)
            and policies <= self.folds.keys()
            and not any(self._needs_large_snapshot(name, len(commands)) for name in policies)
        )

    def _needs_large_snapshot(self, policy: str, more: int) -> bool:
        fold = self.folds[policy]
        is_due = fold.seq + more - fold.snapshot_seq >= self._snapshot_every
        return is_due and (fold.snapshot_bytes is None or fold.snapshot_bytes > _LARGE_SNAPSHOT)

    def _results_at_once(self, commands: Sequence[Command]) -> list[Any] | None:
        """Answers that are on disk, or None if the thread has to see to it."""
        assert self._store is not None
        began = time.monotonic()
        try:
            transaction = self._store.write_at_once()
            if transaction is None:
                return None
            return self._transact(commands, transaction, locking=True)
        except Exception:  # the thread tries again, and says what is wrong
            return None
        finally:
            ended = time.monotonic()
            self._slow_in_a_row = self._slow_in_a_row + 1 if ended - began > _SLOW_S else 0
            if self._slow_in_a_row >= _SLOW_IN_A_ROW:
                self._loop_may_work_from = ended + _THREAD_AFTER_SLOW_S

    def _answer(self, jobs: Sequence[Job], results: Sequence[Any], began: float) -> None:
        self._jobs = []
        self.metrics.transaction(len(jobs), time.perf_counter() - began)
        _give(jobs, results)

    def _end_turn(self, jobs: Sequence[Job], results: Sequence[Any], began: float) -> None:
        self._answer(jobs, results, began)
        self._turn()

    def _die(self) -> None:
        """Tell everybody who waits, and end the process. Nobody can come to wait meanwhile."""
        logger.exception("the writer has died")
        self.dead = True
        self.ready = False
        self._ending.set()
        self.recovered.set()
        self._in_loop(self._refuse_waiting)
        self._on_death()

    def _refuse_waiting(self) -> None:
        jobs = [*self._jobs, *self._waiting]
        self._jobs = []
        self._waiting.clear()
        _give(jobs, [_died()] * len(jobs))

    # -- in the thread ---------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._recover()
            while (work := self._work.get()) is not None:
                work()
            if not self.dead:
                self._retire()
        except BaseException:
            self._die()

    def _in_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop has ended, and with it everybody who waited
            logger.warning("answers had nobody to go to")

    def _recover(self) -> None:
        while True:
            try:
                self._store = self._open_store()
                with self._store.read() as session:
                    names = session.policies()
                if not names:
                    make_ready(USUAL_FAMILIES)
                with self._store.read() as session:
                    for name in names:
                        self._recover_policy(session, name)
                break
            except (StoreBusy, StoreUnavailable) as error:
                logger.warning("the store is not ready: %s", error)
                time.sleep(1.0)
        threading.Thread(target=self._maintain, name="maintenance", daemon=True).start()
        self.ready = True
        self.recovered.set()

    def _maintain(self) -> None:
        assert self._store is not None
        while not self._ending.wait(_MAINTENANCE_EVERY_S):
            try:
                self._store.maintain()
            except StoreError as error:
                logger.warning("will be tried again: %s", error)

    def _recover_policy(self, session: Any, name: str) -> None:
        try:
            self.folds[name] = fold = snapshots.load(session, name)
        except Exception as error:  # this policy answers 500, the others go on
            logger.error("policy %s cannot be brought back: %s", name, error)
            return
        if fold.differences:
            logger.warning("%d replayed events of %s differ", fold.differences, name)

    def _serve(self, jobs: Sequence[Job], began: float) -> None:
        results = self._results([job.command for job in jobs])
        self._in_loop(self._end_turn, jobs, results, began)

    def _results(self, commands: Sequence[Command]) -> list[Any]:
        """Answers that are on disk, or why there are none."""
        assert self._store is not None
        writing = any(command.writes for command in commands)
        try:
            transaction = self._store.write() if writing else self._store.read()
            return self._transact(commands, transaction, locking=writing)
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
                return [self._results([command])[0] for command in commands]
            refused = Refused(500, "internal", "the request failed; nothing was written")
        return [refused] * len(commands)

    # -- a transaction ---------------------------------------------------------------------------

    def _transact(
        self,
        commands: Sequence[Command],
        transaction: AbstractContextManager[Session],
        *,
        locking: bool,
    ) -> list[Any]:
        touched: set[str] = set()
        try:
            with transaction as session:
                desk = self._desk(session)
                touched = desk.touched
                wanted: dict[str, list[str]] = {}
                for command in commands:
                    wanted.setdefault(command.policy, []).extend(command.event_ids)
                if locking:
                    desk.lock(wanted)
                else:
                    desk.look(wanted)
                results = [attempted(command, desk) for command in commands]
                desk.close()
        except BaseException:
            self._drop(touched)
            raise
        return results

    def _desk(self, session: Session) -> Desk:
        return Desk(session, self.folds, now_ns=self._clock(), snapshot_every=self._snapshot_every)

    def _drop(self, policies: set[str]) -> None:
        """What memory knows of these policies is not what the log says."""
        for name in policies:
            self.folds.pop(name, None)

    # -- what time brings ------------------------------------------------------------------------

    def _look_at_the_clock(self) -> None:
        assert self._loop is not None
        if self.ready:
            self._wake()
        if not self._ending.is_set():
            self._loop.call_later(_TEND_EVERY_S, self._look_at_the_clock)

    def _tending(self) -> Work | None:
        """Default rewards that fall due, and retention."""
        now = time.monotonic()
        if now < self._next_tending:
            return None
        self._next_tending = now + _TEND_EVERY_S
        at_ns = self._clock()
        due = {
            name: [""]
            for name, fold in self.folds.items()
            if fold.versions and fold.due(max(at_ns, fold.at_ns)) is not None
        }
        if due:
            return partial(self._tend, lambda desk: desk.lock(due))
        if self._retention_days is not None and now >= self._next_retention:
            self._next_retention = now + _RETENTION_EVERY_S
            return partial(self._tend, self._retain)
        return None

    def _tend(self, work: Callable[[Desk], None]) -> None:
        if not self._done_quietly(work):
            time.sleep(_TEND_EVERY_S)
        self._in_loop(self._turn)

    def _retain(self, desk: Desk) -> None:
        assert self._retention_days is not None
        age = int(self._retention_days * _DAY_NS)
        names = list(self.folds)
        desk.lock({name: [] for name in names})
        for name in names:
            attempted(Erase(name, older_than_ns=age, reason="retention", key=""), desk)

    def _done_quietly(self, work: Callable[[Desk], None]) -> bool:
        """A transaction that nobody waits for; if it fails it is tried again later."""
        assert self._store is not None
        touched: set[str] = set()
        try:
            with self._store.write() as session:
                desk = self._desk(session)
                touched = desk.touched
                work(desk)
                desk.close()
        except Exception as error:
            self._drop(touched)
            logger.warning("will be tried again: %s", error)
            return False
        return True

    def _retire(self) -> None:
        self._ending.set()

        def keep(desk: Desk) -> None:
            changed = [n for n, fold in self.folds.items() if fold.seq > fold.snapshot_seq]
            desk.lock({name: [] for name in changed})
            for name in changed:
                if name in self.folds and self.folds[name].versions:
                    desk.flush(name)
                    desk.snapshot(self.folds[name])

        self._done_quietly(keep)
        if self._store is not None:
            self._store.close()


def _died() -> Refused:
    return unavailable("writer_died", "the writer has ended; the process is restarting")


def _give(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        try:
            job.answer(result)
        except Exception:
            logger.exception("an answer could not be given")
