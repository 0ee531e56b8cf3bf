"""Stop learning in one call, and go on as before."""

from __future__ import annotations

import msgspec

from driftbandits import wire
from driftbandits.service.commands import Command
from driftbandits.service.fold import CHANGE, Fold
from driftbandits.service.unit_of_work import UnitOfWork
from driftbandits.service.views import policy_answer
from driftbandits.store import CONFIGURED

FROZEN = "frozen"


class Freeze(Command):
    """A version that differs by its mode alone: frozen, or what it was before it was frozen.

    A change that is being learned again goes on; it takes over when the policy is thawed.
    """

    def __init__(self, policy: str, is_frozen: bool, *, key: str) -> None:
        super().__init__(policy)
        self._is_frozen = is_frozen
        self._key = key

    def run(self, work: UnitOfWork) -> wire.PolicyAnswer:
        fold = work.fold(self.policy)
        before = fold.version.record
        if (before.mode == FROZEN) != self._is_frozen or self._must_hold(fold):
            modes = [version.record.mode for version in fold.versions]
            thawed = next((mode for mode in reversed(modes) if mode != FROZEN), "online")
            record = msgspec.structs.replace(
                before,
                version=before.version + 1,
                mode=FROZEN if self._is_frozen else thawed,
                fresh=False,
                key=self._key,
                keeps_change=CHANGE in fold.candidates,
            )
            work.touched.add(self.policy)
            fold.configure(record, work.time_for(fold))
            work.append(fold, CONFIGURED, "", record)
        return policy_answer(fold, work.followers)

    def _must_hold(self, fold: Fold) -> bool:
        """Whether a change would end the frost by itself: it was asked for meanwhile."""
        return self._is_frozen and CHANGE in fold.candidates and not fold.is_change_held
