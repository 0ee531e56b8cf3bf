"""Old events in Parquet files, with the chain that shows them whole.

A folder holds one file for each run of events, named by the first and the last of them. Nothing is
ever written into a file again. What the store keeps of an archived event is its place in the chain
and its event_id, so that nothing is decided twice.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from driftbandits.files import write_whole
from driftbandits.store.events import Corrupt, Event, StoreError
from driftbandits.store.session import Session

MOST_EVENTS = 100_000
MOST_BYTES = 32 * 1024 * 1024
"""Of one file, which is held in memory while it is written and read."""

_CLEARED_AT_ONCE = 2000
_SUFFIX = ".parquet"


def _files(folder: Path) -> list[tuple[int, int, Path]]:
    """First and last event of each file, and where it is; in order."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        first, _, last = path.name.removesuffix(_SUFFIX).partition("-")
        if not (first.isdigit() and last.isdigit()):
            raise StoreError(f"{path} is no part of an archive")
        found.append((int(first), int(last), path))
    return sorted(found)


def last_seq(folder: Path) -> int:
    """Up to where an archive goes; 0 where there is none."""
    return max((last for _, last, _ in _files(folder)), default=0)


def write(folder: Path, events: Iterable[Event]) -> int:
    """Add events that follow those that are there; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    count, size, part = 0, 0, list[Event]()
    for event in events:
        if part and (len(part) >= MOST_EVENTS or size >= MOST_BYTES):
            _write_file(folder, part)
            size, part = 0, []
        part.append(event)
        size += len(event.body)
        count += 1
    if part:
        _write_file(folder, part)
    return count


def _write_file(folder: Path, events: list[Event]) -> None:
    import polars

    columns = list(zip(*events, strict=True))
    frame = polars.DataFrame(dict(zip(Event._fields, map(list, columns), strict=True)))
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd")
    name = f"{events[0].seq:015d}-{events[-1].seq:015d}{_SUFFIX}"
    write_whole(folder / name, file.getvalue())


def read(folder: Path, chain: str) -> Iterator[Event]:
    """Every event of an archive in order, a file at a time."""
    import polars

    for first, last, path in _files(folder):
        try:
            rows = polars.read_parquet(path).select(Event._fields).iter_rows()
            events = [Event(*row) for row in rows]
        except (polars.exceptions.PolarsError, OSError) as error:
            raise Corrupt(f"{path} cannot be read: {error}") from error
        if not events or (events[0].seq, events[-1].seq) != (first, last):
            raise Corrupt(f"{path} does not hold the events that its name says")
        if any(event.policy != chain for event in events):
            raise Corrupt(f"{path} is the archive of another policy")
        yield from events


def with_archive(events: Iterable[Event], archived: Iterator[Event]) -> Iterator[Event]:
    """The events of a store, with the content of those that are in its archive."""
    old = next(archived, None)
    for event in events:
        if old is None:
            if event.is_archived:
                raise Corrupt(f"event {event.seq} was archived, and is not in this archive")
            yield event
            continue
        if old.seq != event.seq:
            raise Corrupt(f"event {event.seq} is not in the archive, and event {old.seq} is")
        if not _is_same(event, old):
            raise Corrupt(f"event {old.seq} of the archive is not what the store has")
        yield event if event.is_erased and not event.is_archived else old
        old = next(archived, None)
    if old is not None:
        raise Corrupt(f"the archive has event {old.seq}, and the store ends before it")


def _is_same(event: Event, old: Event) -> bool:
    """Whether it is one and the same event, of which the store may have less by now."""
    place = (event.at_ns, event.kind, event.digest, event.checksum)
    if place != (old.at_ns, old.kind, old.digest, old.checksum):
        return False
    return event.is_erased or event == old


def clear(session: Session, policy: str, *, after: int, until: int) -> int:
    """Take out the content of some archived events; up to which that was done."""
    last = min(until, after + _CLEARED_AT_ONCE)
    session.run(
        "UPDATE event SET body = ?, salt = ? WHERE policy = ? AND seq > ? AND seq <= ? "
        "AND length(salt) > 0",
        (b"", b"", session.number(policy), after, last),
    )
    return last


def last_before(session: Session, policy: str, at_ns: int) -> int:
    """The last event that is older; time never goes back in a log, so it is found by halves."""
    head = session.head(policy)
    low, high = 0, 0 if head is None else head.seq
    while low < high:
        middle = (low + high + 1) // 2
        (event,) = session.outlines(policy, after=middle - 1, limit=1)
        low, high = (middle, high) if event.at_ns < at_ns else (low, middle - 1)
    return low
