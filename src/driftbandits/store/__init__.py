"""The durable log: SQLite in a file, or PostgreSQL for many machines. SQL stays in here.

    with store.open("sqlite:///bandits.db") as log:
        with log.write() as session:          # one transaction; leaving it commits, durably
            session.create("news")
            session.lock(["news"])
            session.append("news", [NewEvent(...), ...])
        with log.read() as session:
            session.events("news", after=0, limit=1000)

An `Event` has a gapless `seq` per policy and a checksum that continues the one before it. Its body
is a record, see `store.records`.
"""

from driftbandits.store.events import (
    ABOUT,
    BEGUN,
    CONFIGURED,
    CONFLICT,
    CORRECTED,
    DECISION,
    DEFAULT,
    DROPPED,
    DUPLICATE,
    ERASED,
    LATE,
    PROMOTED,
    REFUSED,
    RETIRED,
    REWARD,
    START,
    WITHDRAWN,
    Corrupt,
    Event,
    Head,
    Key,
    Known,
    NewEvent,
    Overtaken,
    Snapshot,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    checked,
)
from driftbandits.store.opening import backup, claim, open
from driftbandits.store.session import LAST_CHARACTER, Session, Store

__all__ = [
    "ABOUT",
    "BEGUN",
    "CONFIGURED",
    "CONFLICT",
    "CORRECTED",
    "DECISION",
    "DEFAULT",
    "DROPPED",
    "DUPLICATE",
    "ERASED",
    "LAST_CHARACTER",
    "LATE",
    "PROMOTED",
    "REFUSED",
    "RETIRED",
    "REWARD",
    "START",
    "WITHDRAWN",
    "Corrupt",
    "Event",
    "Head",
    "Key",
    "Known",
    "NewEvent",
    "Overtaken",
    "Session",
    "Snapshot",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "backup",
    "checked",
    "claim",
    "open",
]
