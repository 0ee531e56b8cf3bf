"""The writer: one thread that owns the folds and the log, and commits for many requests at once.

Requests gather while a commit is on its way to the disk; the next transaction takes them all. An
answer is given after the commit. If anything fails, the folds that were touched are dropped and
made again from the log, so memory never runs ahead of the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from driftbandits.service import snapshots
from driftbandits.service.commands import Command, Erase, attempted
from driftbandits.service.desk import Desk
from driftbandits.service.fold import Fold
from driftbandits.service.metrics import Metrics
from driftbandits.service.problems import Refused, unavailable
from driftbandits.service.readiness import USUAL_FAMILIES, make_ready
from driftbandits.store import Corrupt, Store, StoreBusy, StoreError, StoreUnavailable

logger = logging.getLogger("driftbandits.service")

MOST_IN_A_TRANSACTION = 256
LONGEST_WAIT_S = 10.0
"""A request that has waited longer is refused rather than answered to nobody."""

_IDLE_S = 0.2
_MAINTENANCE_EVERY_S = 1.0
_RETENTION_EVERY_S = 3600.0
_DAY_NS = 86_400_000_000_000


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
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._queue_limit = queue_limit
        self._snapshot_every = snapshot_every
        self._retention_days = retention_days
        self._next_retention = 0.0
        self._next_tending = 0.0
        self._at_work: list[Job] = []
        self._on_death = on_death
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._live, name="writer", daemon=True)
        self.recovered = threading.Event()
        self._ending = threading.Event()

    # -- from the event loop ---------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, keep a snapshot of every policy, and end the thread."""
        self._queue.put(None)
        self._thread.join()

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
            raise unavailable("writer_died", "the writer has ended; the process is restarting")
        if not self.ready:
            raise unavailable("starting", "kernels are compiled and the log is replayed")
        if self._queue.qsize() >= self._queue_limit:
            self.metrics.refused_overload += 1
            raise unavailable("overloaded", f"{self._queue_limit} requests wait already")
        self._queue.put(Job(command, answer, time.monotonic()))
        if not self.ready:  # the writer ended in between, perhaps after its last look at the queue
            self._refuse_waiting()

    @property
    def store(self) -> Store:
        """For reading beside the writer."""
        if self._store is None or not self.ready:
            raise unavailable("starting", "kernels are compiled and the log is replayed")
        return self._store

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    # -- the thread ------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._recover()
            while self._turn():
                pass
            self._retire()
        except BaseException:
            logger.exception("the writer has died")
            self.dead = True
            self.ready = False
            self._ending.set()
            self.recovered.set()
            self._refuse_waiting()
            self._on_death()

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

    def _turn(self) -> bool:
        """One transaction, or a look at the clock; whether to go on."""
        jobs: list[Job] = []
        going = True
        try:
            job = self._queue.get(timeout=_IDLE_S)
            while True:
                if job is None:
                    going = False
                    break
                jobs.append(job)
                if len(jobs) == MOST_IN_A_TRANSACTION:
                    break
                job = self._queue.get_nowait()
        except queue.Empty:
            pass
        self._at_work = jobs
        jobs = self._in_time(jobs)
        if jobs:
            self._serve(jobs)
        self._at_work = []
        if time.monotonic() >= self._next_tending:
            self._tend()
            self._next_tending = time.monotonic() + _IDLE_S
        return going

    def _in_time(self, jobs: Sequence[Job]) -> list[Job]:
        oldest = time.monotonic() - LONGEST_WAIT_S
        late = [job for job in jobs if job.since < oldest]
        if not late:
            return list(jobs)
        refused = unavailable("overloaded", f"no turn came within {LONGEST_WAIT_S:g} s")
        self.metrics.refused_overload += len(late)
        self._answer([(job, refused) for job in late])
        return [job for job in jobs if job.since >= oldest]

    def _serve(self, jobs: list[Job]) -> None:
        began = time.perf_counter()
        try:
            results = self._transact([job.command for job in jobs])
        except StoreBusy as error:
            logger.warning("%s", error)
            refused = unavailable("busy", "another process holds the lock of the log")
            results = [refused] * len(jobs)
        except StoreUnavailable as error:
            logger.error("%s", error)
            refused = unavailable("storage_unavailable", "the log cannot be written at present")
            results = [refused] * len(jobs)
        except StoreError as error:
            logger.error("%s", error)
            damaged = isinstance(error, Corrupt)
            refused = Refused(
                500,
                "corrupt_log" if damaged else "storage_error",
                "the log is damaged" if damaged else "the log refused the events",
            )
            results = [refused] * len(jobs)
        except Exception:
            logger.exception("a transaction failed")
            if len(jobs) > 1:  # one of them is to blame; the others shall not suffer
                for job in jobs:
                    self._serve([job])
                return
            refused = Refused(500, "internal", "the request failed; nothing was written")
            results = [refused] * len(jobs)
        self.metrics.transaction(len(jobs), time.perf_counter() - began)
        self._answer(list(zip(jobs, results, strict=True)))

    def _transact(self, commands: Sequence[Command]) -> list[Any]:
        """Answers that are on disk."""
        assert self._store is not None
        writing = any(command.writes for command in commands)
        touched: set[str] = set()
        try:
            with self._store.write() if writing else self._store.read() as session:
                desk = self._desk(session)
                touched = desk.touched
                wanted: dict[str, list[str]] = {}
                for command in commands:
                    wanted.setdefault(command.policy, []).extend(command.event_ids)
                if writing:
                    desk.lock(wanted)
                else:
                    desk.look(wanted)
                results = [attempted(command, desk) for command in commands]
                desk.close()
        except BaseException:
            self._drop(touched)
            raise
        return results

    def _desk(self, session: Any) -> Desk:
        return Desk(session, self.folds, now_ns=self._clock(), snapshot_every=self._snapshot_every)

    def _drop(self, policies: set[str]) -> None:
        """What memory knows of these policies is not what the log says."""
        for name in policies:
            self.folds.pop(name, None)

    def _answer(self, results: Sequence[tuple[Job, Any]]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(_give, results)
        except RuntimeError:  # the loop has ended, and with it everybody who waited
            logger.warning("%d answers had nobody to go to", len(results))

    def _refuse_waiting(self) -> None:
        refused = unavailable("writer_died", "the writer has ended; the process is restarting")
        jobs = list(self._at_work)
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._queue.get_nowait()
                if job is not None:
                    jobs.append(job)
        self._answer([(job, refused) for job in jobs])

    # -- what time brings ------------------------------------------------------------------------

    def _tend(self) -> None:
        """Default rewards that fall due, and retention."""
        now = self._clock()
        due = {
            name: [""]
            for name, fold in self.folds.items()
            if fold.versions and fold.due(max(now, fold.at_ns)) is not None
        }
        if due:
            self._quietly(lambda desk: desk.lock(due))
        if self._retention_days is not None and time.monotonic() >= self._next_retention:
            self._next_retention = time.monotonic() + _RETENTION_EVERY_S
            self._quietly(self._retain)

    def _retain(self, desk: Desk) -> None:
        assert self._retention_days is not None
        age = int(self._retention_days * _DAY_NS)
        names = list(self.folds)
        desk.lock({name: [] for name in names})
        for name in names:
            attempted(Erase(name, older_than_ns=age, reason="retention", key=""), desk)

    def _quietly(self, work: Callable[[Desk], None]) -> None:
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
            time.sleep(_IDLE_S)

    def _retire(self) -> None:
        self.ready = False
        self._ending.set()

        def keep(desk: Desk) -> None:
            changed = [n for n, fold in self.folds.items() if fold.seq > fold.snapshot_seq]
            desk.lock({name: [] for name in changed})
            for name in changed:
                if name in self.folds and self.folds[name].versions:
                    desk.flush(name)
                    desk.snapshot(self.folds[name])

        self._quietly(keep)
        self._refuse_waiting()
        if self._store is not None:
            self._store.close()


def _give(results: Sequence[tuple[Job, Any]]) -> None:
    for job, result in results:
        try:
            job.answer(result)
        except Exception:
            logger.exception("an answer could not be given")
