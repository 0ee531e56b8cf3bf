"""Calls that the service has not received yet, in memory and perhaps in a file.

There is a lane for the decisions of each policy and one for its rewards, which waits until the
other is empty: so every reward comes after its decision, and many can be sent at once.

Everything here may be sent twice: the service does nothing twice for one event_id. So the file only
has to know what was added; it is emptied when all of it was sent, and what was sent shortly before
the process died is sent again.

A call that fails is answered by the client, and put into the queue, which is sent in the
background. After some failures in a row no call waits any more: all are answered at once, until
something of the queue got through as quickly as callers need it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

import msgspec

from driftbandits.checks import integer
from driftbandits.client.calls import Call, ServiceError, StandIn

logger = logging.getLogger("driftbandits.client")

FAILURES = 3
"""Failures in a row after which calls are answered at once."""

# What may be otherwise later: a key that is being replaced, a limit.
_LATER = frozenset({401, 403, 408, 429})

Kind = Literal["decision", "reward"]
Lane = tuple[Kind, str]
Answer = TypeVar("Answer")


class Item(NamedTuple):
    """A decision that was made without the service, or a reward, as it goes over the wire."""

    kind: Kind
    policy: str
    event_id: str
    body: bytes

    @property
    def lane(self) -> Lane:
        return self.kind, self.policy

    @property
    def event(self) -> tuple[str, str]:
        return self.policy, self.event_id


class Queue:
    """A bounded queue, for any thread."""

    def __init__(self, limit: int, spool: str | os.PathLike[str] | None = None) -> None:
        self._limit = integer("queue", limit, least=1)
        self._is_full = False  # what is lost is logged once, until there is room again
        self._lock = threading.Lock()
        self._count = 0
        self._lanes: dict[Lane, deque[Item]] = {}  # none of them empty
        self._decisions: Counter[tuple[str, str]] = Counter()  # events whose decision is in here
        self._spool = None if spool is None else _Spool(Path(spool))
        for item in self._spool.read() if self._spool else ():
            self._add(item)

    def __len__(self) -> int:
        return self._count

    def has_decision(self, policy: str, event_id: str) -> bool:
        """Return whether a reward for this event has to wait behind its decision."""
        return (policy, event_id) in self._decisions

    def put(self, item: Item) -> None:
        """Add a call, if there is room."""
        with self._lock:
            was_full, self._is_full = self._is_full, self._count >= self._limit
            if not self._is_full:
                self._add(item)
                if self._spool:
                    self._spool.add(item)
            elif not was_full:
                logger.warning("%d calls wait for the service: others are lost", self._count)

    def _add(self, item: Item) -> None:
        self._count += 1
        self._lanes.setdefault(item.lane, deque()).append(item)
        if item.kind == "decision":
            self._decisions[item.event] += 1

    def first(self, *, most: int, most_bytes: int) -> list[Item]:
        """The next to be sent: some of one lane."""
        run: list[Item] = []
        size = 0
        with self._lock:
            free = (
                items
                for (kind, policy), items in self._lanes.items()
                if kind == "decision" or ("decision", policy) not in self._lanes
            )
            for item in islice(next(free, ()), most):
                size += len(item.body)
                if run and size > most_bytes:
                    break
                run.append(item)
        return run

    def done(self, lane: Lane, count: int = 1) -> None:
        """The first ones of a lane need no longer be sent."""
        with self._lock:
            items = self._lanes[lane]
            for _ in range(count):
                item = items.popleft()
                if item.kind == "decision":
                    self._decisions[item.event] -= 1
                    if not self._decisions[item.event]:
                        del self._decisions[item.event]
            self._count -= count
            if not items:
                del self._lanes[lane]
            if self._spool:
                self._spool.note_left(self._count, self._lanes.values())

    def postpone(self, lane: Lane) -> None:
        """Let other lanes come first."""
        with self._lock:
            self._lanes[lane] = self._lanes.pop(lane)

    def close(self) -> None:
        if self._spool:
            self._spool.close()
        elif self._count:
            logger.warning(
                "%d calls were never sent, and are lost; a spool would keep them", len(self)
            )


class _Spool:
    """A line for each item. It outlives the process, not the power: nothing is synced."""

    _FEWEST = 1000

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _locked(path)
        self._lines = 0
        self._file: IO[bytes] | None = None  # None: it could not be written

    def read(self) -> list[Item]:
        found = []
        for line in self._path.read_bytes().splitlines() if self._path.exists() else ():
            with suppress(msgspec.DecodeError):  # the process died while it was written
                item = msgspec.json.decode(line, type=tuple[Kind, str, str, msgspec.Raw])
                found.append(Item(item[0], item[1], item[2], bytes(item[3])))
        self._rewrite(found)
        return found

    def add(self, item: Item) -> None:
        self._lines += 1
        if self._file is None:
            return
        try:
            self._file.write(_line(item))
            self._file.flush()
        except OSError as error:
            self._give_up(error)

    def note_left(self, count: int, lanes: Iterable[deque[Item]]) -> None:
        """Empty the file when nothing is left, and write it anew when most of it was sent."""
        if (not count and self._lines) or self._lines > max(self._FEWEST, 4 * count):
            self._rewrite(list(chain.from_iterable(lanes)))

    def _rewrite(self, items: Collection[Item]) -> None:
        self._close_file()
        self._lines = len(items)
        whole = self._path.with_name(self._path.name + ".new")
        try:
            whole.write_bytes(b"".join(map(_line, items)))
            whole.replace(self._path)
            self._file = self._path.open("ab")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Leave the file until it is written anew: memory has it all, and nobody is stopped."""
        logger.warning("the spool cannot be written: %s", error)
        self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def close(self) -> None:
        self._close_file()
        self._lock.close()


def _line(item: Item) -> bytes:
    return msgspec.json.encode((*item[:3], msgspec.Raw(item.body))) + b"\n"


def _locked(path: Path) -> IO[bytes]:
    """Lock a file beside the spool, so that only one client uses it."""
    file = path.with_name(path.name + ".lock").open("ab")
    try:
        import fcntl
    except ModuleNotFoundError:  # pragma: no cover
        return file  # this system has no such locks
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ValueError(
            f"spool must be a file that no other client uses; {str(path)!r} is in use"
        ) from None
    return file


class Fallback:
    """The queue and a circuit breaker, for any thread; both outlive event loops and connections."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._lock = threading.Lock()
        self._failures = 0
        self._budget = 0.0  # the shortest that was missed

    def must_wait(self, stand_in: StandIn[Any]) -> bool:
        """Return whether calls are answered without asking the service."""
        return self._failures >= FAILURES or any(
            item.kind == "reward" and self.queue.has_decision(*item.event)
            for item in stand_in.later
        )

    def stand_in(self, call: Call[Answer], error: ServiceError | None = None) -> Answer:
        """The client's own answer; what was to be said is said later."""
        given = call.stand_in
        assert given is not None
        if error is not None:
            if _is_no_answer(error):
                self._note_failure(given.budget, error)
            else:
                logger.warning("%s %s: %s", call.method, call.path, error)
            if not is_passing(error):
                return given.refused
        for item in given.later:
            self.queue.put(item)
        return given.answer

    def _note_failure(self, budget: float, error: ServiceError) -> None:
        with self._lock:
            self._budget = min(self._budget, budget) if self._failures else budget
            self._failures += 1
            opens = self._failures == FAILURES
        if opens:
            logger.warning("the service is not asked until it answers again: %s", error)

    def note_answer(self, seconds: float = 0.0) -> None:
        """Ask the service again, unless its answer took longer than callers had waited."""
        if self._failures and seconds <= self._budget:
            with self._lock:
                was_open, self._failures = self._failures >= FAILURES, 0
            if was_open:
                logger.warning("the service is asked again")


def _is_no_answer(error: ServiceError) -> bool:
    """Return whether the error means that the service is away or overloaded.

    Its own refusals have a code; an answer without one comes from a proxy.
    """
    return not error.code or error.status in (502, 503, 504)


def is_passing(error: ServiceError) -> bool:
    """Return whether the same call may succeed later."""
    return _is_no_answer(error) or error.status in _LATER
