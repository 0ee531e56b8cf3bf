"""Open the store at an address."""

from __future__ import annotations

from collections.abc import Callable

from driftbandits.store.session import Store

FILE = "sqlite:///"
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
    path = url.removeprefix(FILE)
    if path == url:
        return lambda: None
    from driftbandits.store.sqlite import claim as hold

    return hold(path).close


def _missing(package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"this store needs {package}: pip install 'driftbandits[service]'", name=package
    )
