"""From an address to a store."""

from __future__ import annotations

from driftbandits.store.session import Store

FILE = "sqlite:///"
_ALLOWED = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"


def open(url: str, *, vfs: str | None = None, process: str = "") -> Store:
    """Open a store, and make it if there is none.

    `vfs` names a registered SQLite VFS, `process` the one that will own policies.
    """
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
        return PostgresStore(url, process=process)
    raise ValueError(f"store must be an address like {_ALLOWED}; got {url!r}")


def _missing(package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"this store needs {package}: pip install 'driftbandits[service]'", name=package
    )
