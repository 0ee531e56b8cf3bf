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

A backup is a snapshot: what was committed when it began. In a file it is written beside it and
renamed when it is whole, so that there is no file of which only a part was written.
"""

import os
from collections.abc import Callable
from pathlib import Path

from driftbandits.store.events import *
from driftbandits.store.events import StoreError
from driftbandits.store.session import LAST_CHARACTER as LAST_CHARACTER
from driftbandits.store.session import Session as Session
from driftbandits.store.session import Store as Store

_FILE = "sqlite:///"
_PARTIAL = ".partial"
_ALLOWED = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"


def open(url: str, *, vfs: str | None = None) -> Store:
    """Open a store, and make it if there is none; `vfs` names a registered SQLite VFS."""
    if not isinstance(url, str):
        raise ValueError(f"store must be an address like {_ALLOWED}; got {url!r}")
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        try:
            from driftbandits.store.sqlite import SQLiteStore
        except ModuleNotFoundError as error:
            raise _missing("apsw") from error
        return SQLiteStore(rest[1:], vfs=vfs)
    if scheme in ("postgresql", "postgres") and rest:
        try:
            from driftbandits.store.postgres import PostgresStore
        except ModuleNotFoundError as error:
            raise _missing("psycopg") from error
        return PostgresStore(url)
    raise ValueError(f"store must be an address like {_ALLOWED}; got {url!r}")


def claim(url: str) -> Callable[[], None]:
    """Be the process that serves a store, if it takes only one, until the result is called.

    Raises `StoreError` if another process serves it.
    """
    path = url.removeprefix(_FILE)
    if path == url:
        return lambda: None
    from driftbandits.store.sqlite import claim as hold

    return hold(path).close


def _missing(package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"this store needs {package}: pip install 'driftbandits[service]'", name=package
    )


def backup(source: Store, url: str) -> None:
    """Copy everything into a new or empty store."""
    path = Path(url.removeprefix(_FILE)) if url.startswith(_FILE) else None
    if path is None or path.exists():
        with open(url) as target, target.read() as session:
            if session.policies():
                raise StoreError(f"a backup goes into an empty store; {url} has policies")
    if path is None:
        _copy(source, url)
        return
    partial = path.with_name(path.name + _PARTIAL)
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{partial}{suffix}").unlink(missing_ok=True)
    if not source.copy_file(str(partial)):
        _copy(source, f"{_FILE}{partial}")
    _sync(partial)
    partial.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(source: Store, url: str) -> None:
    """Row by row, from any kind of database to any other, in one transaction."""
    with open(url) as target, source.read() as rows, target.write() as copy:
        copy.set_about("secret", source.secret)
        for key in rows.api_keys():
            copy.add_key(key)
        for policy in rows.policies():
            _copy_policy(rows, copy, policy)


def _copy_policy(source: Session, copy: Session, policy: str) -> None:
    copy.create(policy)
    copy.lock([policy])
    after = 0
    while events := source.page(policy, after=after, limit=1000):
        copy.insert_all({policy: events})
        after = events[-1].seq
    copy.set_erasures(policy, source.erasures(policy))
    for snapshot in source.snapshots(policy):
        copy.save_snapshot(snapshot)
