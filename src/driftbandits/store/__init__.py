"""The durable log: SQLite in a file, or PostgreSQL for many machines. SQL stays in here.

    with store.open("sqlite:///bandits.db") as log:
        with log.write() as session:          # one transaction; leaving it commits, durably
            session.create("news")
            head = session.lock(["news"])["news"]
            session.append("news", head, [Entry(...), ...])
        with log.read() as session:
            session.events("news", after=0, limit=1000)

An `Event` has a gapless `seq` per policy and a checksum that continues the one before it. Its body
is a record, see `store.records`.
"""

from driftbandits.store.events import (
    CONFIGURED,
    CONFLICT,
    DECISION,
    DEFAULT,
    DUPLICATE,
    ERASED,
    KINDS,
    LATE,
    REWARD,
    START,
    Corrupt,
    Entry,
    Event,
    Head,
    Key,
    Known,
    Snapshot,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    checked,
)
from driftbandits.store.opening import open
from driftbandits.store.session import Session, Store

__all__ = [
    "CONFIGURED",
    "CONFLICT",
    "DECISION",
    "DEFAULT",
    "DUPLICATE",
    "ERASED",
    "KINDS",
    "LATE",
    "REWARD",
    "START",
    "Corrupt",
    "Entry",
    "Event",
    "Head",
    "Key",
    "Known",
    "Session",
    "Snapshot",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "checked",
    "open",
]
