"""Which policies this process owns, and where the others are served.

Each policy has one owner, so that only one process folds its log. Who is asked first for a policy
that nobody owns takes it, in the transaction of that request. A thread renews the lease of this
process and gives up on those that do not; it takes a share of what they leave behind. When a
process has joined, the one that owns most gives it some of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from driftbandits.store import Store, StoreError, leases
from driftbandits.store.leases import Peer

logger = logging.getLogger("driftbandits.service")

BEAT_S = 0.3
_LATE_S = 0.5
"""Who has been held up itself does not judge those who may have been held up by the same."""
_MOST_GIVEN = 16
"""Policies at a time: each of them is a snapshot, and others want a turn."""


class Listener(NamedTuple):
    """Who is told what changes; from the thread that notices."""

    give: Callable[[str, str], None]  # a policy of ours to a process
    taken: Callable[[list[str]], None]  # policies that have become ours
    gone: Callable[[Peer], None]  # a process that was given up


class Owners:
    """This process among the others."""

    def __init__(self, open_store: Callable[[], Store], me: Peer) -> None:
        self.me = me
        self.peers: Mapping[str, Peer] = {}  # the others that live
        self._open_store = open_store
        self._store: Store | None = None
        self._owner_of: dict[str, str] = {}  # as last seen
        self._looked_at = time.monotonic()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    # -- asked by others -------------------------------------------------------------------------

    def elsewhere(self, policy: str) -> Peer | None:
        """The living process that owns a policy, if it is another one; as last seen."""
        return self.peers.get(self._owner_of.get(policy, ""))

    def owns(self, policy: str) -> bool:
        """Whether this process owns a policy, as last seen."""
        return self._owner_of.get(policy) == self.me.id

    def note(self, policy: str, owner: str) -> None:
        """What a transaction has seen or changed."""
        self._owner_of[policy] = owner

    # -- a life ----------------------------------------------------------------------------------

    def free(self) -> list[str]:
        """The policies that no process owns which may live; blocks."""
        self._store = self._store or self._open_store()
        with self._store.read() as session:
            living = {peer.id for peer in leases.peers(session).values() if not peer.is_dead}
            return [name for name, id in leases.owners(session).items() if id not in living]

    def join(self, listener: Listener) -> None:
        """Be known to the others, own what nobody owns, and stay; blocks for a moment.

        Only for who can serve what it will own.
        """
        store = self._store
        assert store is not None
        with store.write() as session:
            leases.join(session, self.me)
            for peer in leases.peers(session).values():
                if peer.id != self.me.id and peer.is_dead:
                    leases.remove(session, peer)
        self._look()
        listener.taken(self._take_share())
        self._thread = threading.Thread(
            target=self._live, args=(listener,), name="owners", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        self._ending.set()

    def leave(self) -> None:
        """Own nothing any more; blocks."""
        self.end()
        if self._thread is not None:
            self._thread.join()
        if self._store is None:
            return
        try:
            with self._store.write() as session:
                leases.leave(session, self.me.id)
        except StoreError as error:
            logger.warning("others will wait until the lease of this process ends: %s", error)
        self._store.close()

    def _live(self, listener: Listener) -> None:
        while not self._ending.wait(BEAT_S):
            try:
                self.beat(listener)
            except StoreError as error:
                logger.warning("the lease could not be renewed: %s", error)
            except Exception:
                logger.exception("owners could not be looked after")

    def beat(self, listener: Listener) -> None:
        """Renew the lease where others might ask for it, and see to what they leave behind."""
        was_alone = not self.peers
        for peer in self._look():
            listener.gone(peer)
        if was_alone and not self.peers:
            return
        taken = self._take_share()
        if taken:
            listener.taken(taken)
        for policy, peer_id in self._surplus():
            listener.give(policy, peer_id)

    def _look(self) -> list[Peer]:
        """See who is there; those that were given up."""
        store = self._store
        assert store is not None
        with store.read() as session:
            found = leases.peers(session)
        others = {id: peer for id, peer in found.items() if id != self.me.id}
        given_up = []
        if others or self.me.id not in found:
            with store.write() as session:
                leases.renew(session, self.me)
                now_ms = session.now_ms()
            late_by_s = time.monotonic() - self._looked_at - BEAT_S
            for peer in others.values():
                has_lapsed = leases.has_lapsed(peer, now_ms=now_ms) and late_by_s < _LATE_S
                if peer.is_dead or has_lapsed:
                    given_up.append(peer)
        self._looked_at = time.monotonic()
        for peer in given_up:
            logger.warning("the process at %s is given up", peer.address)
            store.cut_off(peer.id)
            with store.write() as session:
                leases.remove(session, peer)
            del others[peer.id]
        gone = [peer for id, peer in self.peers.items() if id not in others]
        self.peers = others
        return gone

    def _take_share(self) -> list[str]:
        """Own a share of what no living process owns; what is ours and was not before."""
        store = self._store
        assert store is not None
        with store.read() as session:
            owner_of = dict(leases.owners(session))
        living = {self.me.id, *self.peers}
        free = [name for name, owner in owner_of.items() if owner not in living]
        share = -(-len(owner_of) // len(living)) - Counter(owner_of.values())[self.me.id]
        if wanted := free[: max(share, 0)]:
            with store.write() as session:
                for name in wanted:
                    if leases.take_free(session, name, before=owner_of[name], me=self.me.id):
                        owner_of[name] = self.me.id
        before, self._owner_of = self._owner_of, owner_of
        ours = [name for name, owner in owner_of.items() if owner == self.me.id]
        return [name for name in ours if before.get(name) != self.me.id]

    def _surplus(self) -> Iterable[tuple[str, str]]:
        """What to give to whom: the one that owns most to the one that owns least, half of it."""
        owned = Counter(dict.fromkeys([self.me.id, *self.peers], 0))
        mine = []
        for name, owner in self._owner_of.items():
            if owner in owned:
                owned[owner] += 1
            if owner == self.me.id:
                mine.append(name)
        most = max(owned, key=lambda id: (owned[id], id))
        least = min(owned, key=lambda id: (owned[id], id))
        if most != self.me.id:
            return []
        count = min((owned[most] - owned[least]) // 2, _MOST_GIVEN)
        return [(name, least) for name in mine[:count]]
