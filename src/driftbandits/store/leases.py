"""Which process owns which policy, over one database.

A process has a row with a lease, and a policy names the process that owns it. Time is the
database's, so clocks need not agree. A process that is alone does not renew its lease; one that
joins gives every other a new one, and who lives renews it from then on. Who does not loses its row,
and what it owned may be taken by others. The name of the owner is in the row that a writer locks:
whoever has lost a policy sees it before it writes, however long it has slept.
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from driftbandits.store.session import Session

LEASE_MS = 2000
"""How long a process that does not renew its lease still has it."""

NOBODY = ""


class Peer(NamedTuple):
    """A process that serves this store."""

    id: str
    address: str
    machine: str  # "": not known
    pid: int
    until_ms: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether it has certainly ended: only about a process of this machine one can know."""
        if not self.machine or self.machine != this_machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it is somebody else's, and lives
            pass
        return False


def this_process(address: str) -> Peer:
    """The one that runs, by a name that nobody had before."""
    return Peer(secrets.token_hex(8), address, this_machine(), os.getpid())


@functools.cache
def this_machine() -> str:
    """What processes have in common that can see one another's numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not this system
        return ""


def peers(session: Session) -> dict[str, Peer]:
    """All that have a row, by their ids."""
    rows = session.run("SELECT id, address, machine, pid, until_ms FROM process ORDER BY id")
    return {row[0]: Peer(*row) for row in rows}


def join(session: Session, me: Peer) -> None:
    """Be there, and ask the others to show that they are."""
    session.run("UPDATE process SET until_ms = ?", (session.now_ms() + LEASE_MS,))
    renew(session, me)


def renew(session: Session, me: Peer) -> None:
    """Have a lease from now on."""
    session.run(
        "INSERT INTO process (id, address, machine, pid, until_ms) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET until_ms = excluded.until_ms",
        (me.id, me.address, me.machine, me.pid, session.now_ms() + LEASE_MS),
    )


def has_lapsed(peer: Peer, *, now_ms: int) -> bool:
    """Whether it did not renew its lease; one that is too long is of a clock that was set back."""
    return not now_ms < peer.until_ms <= now_ms + LEASE_MS


def remove(session: Session, peer: Peer) -> None:
    """Take away the row of a process, unless it has renewed its lease meanwhile."""
    session.run("DELETE FROM process WHERE id = ? AND until_ms = ?", (peer.id, peer.until_ms))


def is_there(session: Session, id: str) -> bool:
    """Whether what this process owns is its own."""
    return any(True for _ in session.run("SELECT 1 FROM process WHERE id = ?", (id,)))


def leave(session: Session, id: str) -> None:
    """Own nothing any more, and go."""
    session.run("UPDATE policy SET owner = ? WHERE owner = ?", (NOBODY, id))
    session.run("DELETE FROM process WHERE id = ?", (id,))


def owners(session: Session) -> Mapping[str, str]:
    """The owner of each policy, as its row says."""
    return dict(session.run("SELECT name, owner FROM policy ORDER BY name"))  # type: ignore[arg-type]


def take_free(session: Session, policy: str, *, before: str, me: str) -> bool:
    """Own a policy, if it is still owned by who was there before."""
    rows = session.run(
        "UPDATE policy SET owner = ? WHERE name = ? AND owner = ? RETURNING name",
        (me, policy, before),
    )
    return bool(list(rows))
