"""Candidates on their way through their logs, beside the writer.

They read what was committed, a portion at a time, and never hold a lock of the log. Nothing depends
on how far they have come: what they learn is a function of the log, so every process may have its
own, and one that is lost begins again from what a snapshot has kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping

from driftbandits.service import snapshots
from driftbandits.service.fold import Candidate, Fold
from driftbandits.service.following import Follower, Place
from driftbandits.store import Corrupt, Store, StoreError

logger = logging.getLogger("driftbandits.service")

_PORTION_S = 0.004
_PAUSE_S = 0.004
"""Between portions: the interpreter is one, and decisions need it."""
_REST_S = 0.1
_KEPT_EVERY = 20_000

Key = tuple[str, str, int, int]


class Followers:
    """By chain, name, and what they depend on."""

    def __init__(self) -> None:
        self._all: dict[Key, Place] = {}
        # up to which event, of a log in which so often events were erased, and what
        self._kept: dict[Key, tuple[int, int | None, bytes]] = {}
        self._guard = threading.Lock()
        self._news = threading.Event()

    def of(self, chain: str, name: str, candidate: Candidate) -> Place:
        """That of a candidate, which begins where it was kept unless it is on its way."""
        key = chain, name, candidate.seq, candidate.since
        with self._guard:
            if key not in self._all:
                self._all[key] = Place(snapshots.unpacked_follower(chain, candidate))
                self._news.set()
            return self._all[key]

    def forget(self, chain: str, name: str, candidate: Candidate) -> None:
        """Begin again from what a snapshot has kept, if the candidate is asked for again."""
        key = chain, name, candidate.seq, candidate.since
        with self._guard:
            self._all.pop(key, None)
            self._kept.pop(key, None)

    def is_near(self, chain: str, name: str, candidate: Candidate) -> bool:
        """Whether it has been at the end of the log."""
        place = self._all.get((chain, name, candidate.seq, candidate.since))
        return place is not None and place.follower.is_near

    def keep(self, fold: Fold, *, erasures: int) -> None:
        """Tell a fold what its candidates have learned, for a snapshot; nothing of what is erased.

        One may have read the log when an erasure was not committed yet.
        """
        for name, candidate in fold.candidates.items():
            found = self._kept.get((fold.chain, name, candidate.seq, candidate.since))
            if found is not None and found[1] == erasures:
                kept = candidate._replace(kept=found[2])
                fold.candidates = {**fold.candidates, name: kept}

    # -- in a thread of its own ------------------------------------------------------------------

    def live(self, store: Store, folds: Mapping[str, Fold], ending: threading.Event) -> None:
        """Let all candidates learn until the end."""
        while not ending.is_set():
            try:
                is_all = self._one_round(store, folds, ending)
            except StoreError as error:
                logger.warning("candidates wait: %s", error)
                is_all = True
            if is_all:
                self._news.wait(_REST_S)
                self._news.clear()

    def _one_round(self, store: Store, folds: Mapping[str, Fold], ending: threading.Event) -> bool:
        """A portion of each; whether all are where their logs end."""
        wanted = [
            (fold.chain, name, candidate)
            for fold in list(folds.values())
            for name, candidate in list(fold.candidates.items())
        ]
        self._let_go(wanted, {fold.chain for fold in list(folds.values())})
        is_all = True
        for chain, name, candidate in wanted:
            if ending.is_set():
                break
            is_all &= self._portion(store, chain, name, candidate)
            time.sleep(_PAUSE_S)
        return is_all

    def _portion(self, store: Store, chain: str, name: str, candidate: Candidate) -> bool:
        place = self.of(chain, name, candidate)
        try:
            with place.lock, store.read() as session:
                if place.is_taken:
                    return True
                is_all = place.advance(session, seconds=_PORTION_S)
                place.follower.is_near |= is_all
                self._keep_now_and_then(chain, name, candidate, place.follower, is_all)
        except Corrupt as error:  # the log was restored from a backup
            logger.warning("candidate %r of %s begins again: %s", name, chain, error)
            place.follower = Follower(chain, candidate.record)
            return True
        return is_all

    def _keep_now_and_then(
        self, chain: str, name: str, candidate: Candidate, follower: Follower, is_all: bool
    ) -> None:
        key = chain, name, candidate.seq, candidate.since
        before = self._kept[key][0] if key in self._kept else 0
        news = follower.seq - before
        if follower.is_between_lists and (news >= _KEPT_EVERY or (is_all and before == 0)):
            content = snapshots.packed_follower(follower)
            self._kept[key] = follower.seq, follower.erasures, content

    def keep_all(self) -> None:
        """At the end: everything that was learned."""
        for key, place in list(self._all.items()):
            with place.lock:
                follower = place.follower
                if not place.is_taken and follower.versions and follower.is_between_lists:
                    content = snapshots.packed_follower(follower)
                    self._kept[key] = follower.seq, follower.erasures, content

    def _let_go(self, wanted: Iterable[tuple[str, str, Candidate]], known: set[str]) -> None:
        """Of those that learn no longer. A fold that is being made again has said nothing yet."""
        keys = {(chain, name, one.seq, one.since) for chain, name, one in wanted}
        with self._guard:
            gone = [key for key in {*self._all, *self._kept} - keys if key[0] in known]
            for key in gone:
                self._all.pop(key, None)
                self._kept.pop(key, None)
