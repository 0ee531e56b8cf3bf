"""The writer: requests take turns, and a turn is a transaction for all that have come.

Requests gather while a commit is on its way to the disk; the next transaction takes them all. An
answer is given after the commit.

One transaction at a time, in the event loop's thread or in one of its own. The thread does what
may take long. Decisions and rewards are made in the loop where the store is at hand, because
threads that both want the interpreter wait for one another most of the time; if the disk is slow,
or anything goes wrong, the thread does it after all. Both call the same function. `Upkeep` adds
what nobody asks for: recovery, defaults and changes that fall due, maintenance, and snapshots at
the end.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from driftbandits.service.commands import KeepSnapshot, LearnDefaults
from driftbandits.service.erasure import Erase, Task
from driftbandits.service.kernels import USUAL_FAMILIES, make_ready
from driftbandits.service.metrics import Metrics
from driftbandits.service.refusals import Refused, unavailable
from driftbandits.service.relearning import Followers
from driftbandits.service.state import CHANGE, State
from driftbandits.service.transactions import Command, Transactions, Unfinished, load
from driftbandits.service.versions import Promote
from driftbandits.store import Store, StoreBusy, StoreError, StoreUnavailable

logger = logging.getLogger("driftbandits.service")

DUE_EVERY_S = 0.2
_MAINTENANCE_EVERY_S = 5.0
_RETENTION_EVERY_S = 3600.0
_DAY_NS = 86_400_000_000_000
_LEFT_AFTER_NS = 10_000_000_000
"""Any process looks after a policy whose last event is older than this."""


class Upkeep:
    """Commands that come with time, and a thread that keeps the store in order."""

    def __init__(self, transactions: Transactions, *, retention_days: float | None) -> None:
        self._transactions = transactions
        self._retention_days = retention_days
        self.next_look = 0.0  # when to see what is due
        self._next_retention = 0.0
        self._under_way = 0
        self._left: set[str] = set()  # policies that another process has served and left
        self.ending = threading.Event()

    def recover(self, open_store: Callable[[], Store]) -> bool:
        """Open the store and replay its logs as soon as that is possible; False if it never was."""
        while not self.ending.is_set():
            try:
                self._transactions.store = open_store()
                self._load_states()
            except (StoreBusy, StoreUnavailable) as error:
                logger.warning("the store is not ready: %s", error)
                self.ending.wait(1.0)
            else:
                threading.Thread(target=self._maintain, name="maintenance", daemon=True).start()
                learners = self._transactions.followers.live
                among = self._transactions.store, self._transactions.states, self.ending
                threading.Thread(
                    target=learners, args=among, name="candidates", daemon=True
                ).start()
                return True
        return False

    def _load_states(self) -> None:
        with self._transactions.store.read() as session:
            names = session.policies()
            if not names:
                make_ready(USUAL_FAMILIES)
            for name in names:
                try:
                    self._transactions.states[name] = state = load(session, name)
                except Exception as error:  # this policy answers 500, the others go on
                    logger.error("policy %s cannot be brought back: %s", name, error)
                else:
                    if state.differences:
                        logger.warning("%d replayed events of %s differ", state.differences, name)

    def _maintain(self) -> None:
        while not self.ending.wait(_MAINTENANCE_EVERY_S):
            try:
                self._transactions.store.maintain()
                self._left |= self._find_left()
            except StoreError as error:
                logger.warning("will be tried again: %s", error)

    def _find_left(self) -> set[str]:
        """Policies whose logs go on beyond what is known here, and have stood still for a while."""
        before_ns, states = self._transactions.clock() - _LEFT_AFTER_NS, self._transactions.states
        with self._transactions.store.read() as session:
            heads = {name: session.head(name) for name in session.policies()}
        return {
            name
            for name, head in heads.items()
            if head is not None and head.at_ns < before_ns
            if name not in states or states[name].seq < head.seq
        }

    def take_due(self) -> Sequence[Command]:
        """Default rewards and changes that fall due, and retention; when the last ones are done.

        For the thread that may use the states.
        """
        now = time.monotonic()
        if now < self.next_look or self._under_way:
            return ()
        self.next_look = now + DUE_EVERY_S
        transactions, now_ns = self._transactions, self._transactions.clock()
        left, self._left = self._left, set()
        commands: list[Command] = [LearnDefaults(name) for name in left]
        for name, state in transactions.states.items():
            if state.versions and state.due(max(now_ns, state.at_ns)) is not None:
                commands.append(LearnDefaults(name))
            if transactions.followers.is_near(state, CHANGE) and not state.is_change_held:
                commands.append(Promote(name, CHANGE, begun=state.candidates[CHANGE].seq))
        if self._retention_days is not None and now >= self._next_retention:
            self._next_retention = now + _RETENTION_EVERY_S
            task = Task(older_than_ns=int(self._retention_days * _DAY_NS))
            commands += [Erase(name, task, "", "retention") for name in transactions.states]
        self._under_way = len(commands)
        return commands

    def note_done(self, answer: asyncio.Future[Any]) -> None:
        """Note that a command has ended; one that failed was logged, and is due again."""
        self._under_way -= 1

    def retire(self) -> None:
        """Keep a snapshot of every policy that has none of its last event, and close the store."""
        self.ending.set()
        states = self._transactions.states
        changed = [name for name, state in states.items() if state.seq > state.snapshot_seq]
        try:
            self._transactions.perform([KeepSnapshot(name) for name in changed])
        except Exception as error:
            logger.warning("the next start will take longer: %s", error)
        self._transactions.store.close()


MOST_IN_A_TRANSACTION = 256
LONGEST_WAIT_S = 10.0
"""A request that has waited longer is refused: its caller has given up."""

_SLOW_S = 0.05
_SLOW_IN_A_ROW, _QUICK_IN_A_ROW = 2, 3
_THREAD_AFTER_SLOW_S = 1.0
"""After slow transactions the event loop leaves the disk to the thread for this time at most.

The thread can do less than the loop: where load is high, requests pile up meanwhile.
"""


class Job(NamedTuple):
    """A command, and its answer to come."""

    command: Command
    answer: asyncio.Future[Any]
    since: float


class Engine:
    """Start it, then await `do(command)`."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        clock: Callable[[], int] = time.time_ns,
        queue_limit: int = 2000,
        snapshot_every: int = 20_000,
        retention_days: float | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self.ready = False
        self.dead = False
        self.metrics = Metrics()
        self._open_store = open_store
        self._transactions = Transactions(self.metrics, clock=clock, snapshot_every=snapshot_every)
        self._transactions.is_awaited = self._do_quick_ones_wait
        self._transactions.followers.notify = lambda: self._in_loop(self._look_at_candidates)
        self._upkeep = Upkeep(self._transactions, retention_days=retention_days)
        self._on_death = on_death
        self._queue_limit = queue_limit
        self._lanes = [deque[Job]() for _ in range(4)]  # see `_lane_of`
        self._last_lane = 0
        self._jobs: list[Job] = []  # those at work
        self._at_work = False
        self._slow_in_a_row = 0
        self._quick_in_a_row = 0  # in the thread
        self._loop_may_work_from = 0.0
        self._loop: asyncio.AbstractEventLoop  # from start on
        self._turned = asyncio.Event()  # set and replaced when a turn ends, or a candidate is done
        self._for_thread: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="writer", daemon=True)
        self._timer: asyncio.TimerHandle

    @property
    def store(self) -> Store:
        """For reading beside the writer."""
        if not self.ready:
            raise _starting()
        return self._transactions.store

    @property
    def states(self) -> Mapping[str, State]:
        return self._transactions.states

    @property
    def followers(self) -> Followers:
        return self._transactions.followers

    def failed(self) -> dict[str, int]:
        """Count the failed candidates of each policy that has some."""
        found = {name: self.followers.failed(one) for name, one in list(self.states.items())}
        return {name: count for name, count in found.items() if count}

    @property
    def waiting(self) -> int:
        return sum(map(len, self._lanes))

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
        self._timer.cancel()
        self._upkeep.ending.set()
        self._for_thread.put(None)
        await asyncio.to_thread(self._thread.join)

    def do(self, command: Command) -> asyncio.Future[Any]:
        """The answer to come; a full queue refuses at once."""
        if self.dead:
            raise _died()
        if not self.ready:
            raise _starting()
        if self.waiting >= self._queue_limit:
            self.metrics.refused_overload += 1
            raise unavailable("overloaded", f"{self._queue_limit} requests wait already")
        answer = self._append(command, self._loop.create_future())
        self._wake()
        return answer

    async def settled(self, policy: str, seconds: float) -> None:
        """Wait until no change of a policy is under way, or until the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._has_change_under_way(policy):
                    await self._turned.wait()

    def _has_change_under_way(self, policy: str) -> bool:
        state = self.states.get(policy)
        if state is None or CHANGE not in state.candidates or state.is_change_held:
            return False
        place = self.followers.of(policy, CHANGE, state.candidates[CHANGE])
        return place.failure is None

    def _append(self, command: Command, answer: asyncio.Future[Any]) -> asyncio.Future[Any]:
        self._lane_of(command).append(Job(command, answer, time.monotonic()))
        return answer

    def _lane_of(self, command: Command) -> deque[Job]:
        """Fast commands have a queue of their own, and so have those that only read."""
        return self._lanes[2 * command.writes + self._transactions.is_quick(command)]

    def _do_quick_ones_wait(self) -> bool:
        """Return True if fast commands wait while others have their turn; for any thread."""
        is_quick = self._last_lane % 2 == 1
        return not is_quick and any(self._lanes[1::2])

    def _wake(self) -> None:
        if not self._at_work:
            self._at_work = True
            self._loop.call_soon(self._turn)  # and take along what else arrives at this moment

    def _look_at_the_clock(self) -> None:
        """Take a turn although there are no requests."""
        self._refuse_old()
        if self.ready:
            self._wake()
        self._timer = self._loop.call_later(DUE_EVERY_S, self._look_at_the_clock)

    def _look_at_candidates(self) -> None:
        """One of them has come to the end of its log, or failed."""
        self._upkeep.next_look = 0.0
        self._tell()
        if self.ready:
            self._wake()

    def _tell(self) -> None:
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    def _turn(self) -> None:
        """Do what waits at once, or leave it to the thread."""
        began = time.perf_counter()
        try:
            for command in self._upkeep.take_due():
                answer = self._append(command, self._loop.create_future())
                answer.add_done_callback(self._upkeep.note_done)
            self._jobs = jobs = self._take_waiting()
            results = self._perform_at_once([job.command for job in jobs]) if jobs else []
        except BaseException:
            self._die()
            return
        if results is None:
            self._for_thread.put(partial(self._serve, jobs, began))
        else:
            self._end_turn(jobs, results, began)

    def _take_waiting(self) -> list[Job]:
        """Jobs of one lane; the lanes take turns."""
        self._refuse_old()
        count = len(self._lanes)
        following = [(self._last_lane + step) % count for step in range(1, count + 1)]
        self._last_lane = next((k for k in following if self._lanes[k]), self._last_lane)
        waiting = self._lanes[self._last_lane]
        most = min(MOST_IN_A_TRANSACTION, len(waiting))
        taken, now = [waiting.popleft() for _ in range(most)], time.monotonic()
        for job in taken:
            self.metrics.queue.observe(now - job.since)
        return taken

    def _refuse_old(self) -> None:
        """Tell those for whom no turn came; by a timer too, because a turn may be long."""
        oldest = time.monotonic() - LONGEST_WAIT_S
        for waiting in self._lanes:
            while waiting and waiting[0].since < oldest:
                self.metrics.refused_overload += 1
                refused = unavailable("overloaded", f"no turn came within {LONGEST_WAIT_S:g} s")
                _give([waiting.popleft()], [refused])

    def _perform_at_once(self, commands: Sequence[Command]) -> list[Any] | None:
        """Answers that are on disk, or None if the thread has to see to it."""
        began = time.monotonic()
        if began < self._loop_may_work_from or not self._transactions.are_quick(commands):
            return None
        try:
            return self._transactions.perform(commands, at_once=True)
        except Exception:  # the thread tries again, and says what is wrong
            return None
        finally:
            ended = time.monotonic()
            self._slow_in_a_row = self._slow_in_a_row + 1 if ended - began > _SLOW_S else 0
            if self._slow_in_a_row >= _SLOW_IN_A_ROW:
                self._loop_may_work_from = ended + _THREAD_AFTER_SLOW_S
                self._quick_in_a_row = 0

    def _end_turn(self, jobs: Sequence[Job], results: Sequence[Any], began: float) -> None:
        """Answer, and take the next turn or rest."""
        self._jobs = []
        if jobs:
            done = [k for k, result in enumerate(results) if not isinstance(result, Unfinished)]
            self.metrics.transaction(len(done), time.perf_counter() - began)
            if len(done) < len(jobs):
                self._put_back(jobs, results)
            _give([jobs[k] for k in done], [results[k] for k in done])
            self._tell()
        if self.waiting:
            self._loop.call_soon(self._turn)
        else:
            self._at_work = False

    def _put_back(self, jobs: Sequence[Job], results: Sequence[Any]) -> None:
        """Put commands without a turn in front, and unfinished ones behind the others."""
        for job, result in reversed(list(zip(jobs, results, strict=True))):
            if isinstance(result, Unfinished) and not result.has_begun:
                self._lane_of(job.command).appendleft(job)
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Unfinished) and result.has_begun:
                self._append(result.command, job.answer)

    def _die(self) -> None:
        """Refuse all waiting requests, and end the process. No request can arrive meanwhile."""
        logger.exception("the writer has died")
        self.dead = True
        self.ready = False
        self._upkeep.ending.set()
        self._in_loop(self._refuse_waiting)
        self._on_death()

    def _refuse_waiting(self) -> None:
        jobs = [*self._jobs, *chain.from_iterable(self._lanes)]
        _give(jobs, [_died()] * len(jobs))

    # -- in the thread ---------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            if not self._upkeep.recover(self._open_store):
                return
            gc.collect()  # before anybody is served: it keeps the interpreter
            gc.freeze()  # what recovery has made stays, and is not looked at again and again
            self.ready = True
            while (work := self._for_thread.get()) is not None:
                work()
            if not self.dead:
                self._upkeep.retire()
        except BaseException:
            self._die()

    def _serve(self, jobs: Sequence[Job], began: float) -> None:
        start = time.monotonic()
        results = self._transactions.perform_or_refuse([job.command for job in jobs])
        is_quick = time.monotonic() - start < _SLOW_S
        self._quick_in_a_row = self._quick_in_a_row + 1 if is_quick else 0
        if self._quick_in_a_row >= _QUICK_IN_A_ROW:  # the disk is as it should be
            self._loop_may_work_from = 0.0
        self._in_loop(self._end_turn, jobs, results, began)

    def _in_loop(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop has ended, and with it all waiting requests
            logger.warning("the loop ended before these requests were answered")


def _starting() -> Refused:
    return unavailable("starting", "the service compiles kernels and replays the log")


def _died() -> Refused:
    return unavailable("writer_died", "the writer has ended; the process is restarting")


def _give(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if not job.answer.done():
            job.answer.set_result(result)
