"""A queue of calls that the service has not received yet, in memory and perhaps in a file.

There is a lane for the decisions of each policy and one for its rewards, which waits until the
other is empty: so every reward comes after its decision, and many can be sent at once.

Everything here may be sent twice: the service does nothing twice for one event_id. So the file only
has to know what was added; it is emptied when all of it was sent, and what was sent shortly before
the process died is sent again.
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
from typing import IO, Literal, NamedTuple

import msgspec

logger = logging.getLogger("driftbandits.client")

Kind = Literal["decision", "reward"]
Lane = tuple[Kind, str]


class Item(NamedTuple):
    """A told decision or a reward, as it goes over the wire."""

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
    """A bounded queue, for any thread.

    refused  how many the service did not want, dropped  for how many there was no room
    """

    def __init__(self, limit: int, spool: str | os.PathLike[str] | None = None) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"queue must be a whole number of at least 1; got {limit!r}")
        self.refused = self.dropped = 0
        self._is_full = False  # what is lost is logged once, until there is room again
        self._limit = limit
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

    def put(self, item: Item) -> bool:
        """Add a call; return False if the queue is full."""
        with self._lock:
            if self._count >= self._limit:
                self.dropped += 1
                if not self._is_full:
                    logger.warning("%d calls wait for the service: others are lost", self._count)
                self._is_full = True
                return False
            self._is_full = False
            self._add(item)
            if self._spool:
                self._spool.add(item)
            return True

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

    def refuse(self, lane: Lane, reason: str) -> None:
        """The first one of a lane will never be taken."""
        logger.warning("a %s of policy %s was refused: %s", *lane, reason)
        self.refused += 1
        self.done(lane)

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
            try:
                kind, policy, event_id, body = msgspec.json.decode(
                    line, type=tuple[Kind, str, str, msgspec.Raw]
                )
            except msgspec.DecodeError:  # the process died while it was written
                continue
            found.append(Item(kind, policy, event_id, bytes(body)))
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
        self.close_file()
        self._lines = len(items)
        whole = self._path.with_name(self._path.name + ".new")
        try:
            whole.write_bytes(b"".join(map(_line, items)))
            whole.replace(self._path)
            self._file = self._path.open("ab")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Until it is written anew: a full disk must not stop anybody, and memory has it all."""
        logger.warning("the spool cannot be written: %s", error)
        self.close_file()

    def close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def close(self) -> None:
        self.close_file()
        self._lock.close()


def _line(item: Item) -> bytes:
    kind, policy, event_id, body = item
    return msgspec.json.encode((kind, policy, event_id, msgspec.Raw(body))) + b"\n"


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
