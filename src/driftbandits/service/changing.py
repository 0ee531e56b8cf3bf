"""Commands that change how a policy decides, and lose nothing that was learned unless told to."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import msgspec

from driftbandits import wire
from driftbandits.service import snapshots
from driftbandits.service.commands import Command, Unfinished
from driftbandits.service.fold import (
    CARRIED,
    CHANGE,
    FRESH,
    RELEARNED,
    Candidate,
    Fold,
    changes_of_model,
)
from driftbandits.service.following import readable
from driftbandits.service.refusals import Refused, invalid, unknown_policy
from driftbandits.service.unit_of_work import PORTION_S, UnitOfWork
from driftbandits.service.views import policy_answer, shadow_answers
from driftbandits.store import (
    BEGUN,
    CONFIGURED,
    DECISION,
    DROPPED,
    ERASED,
    PROMOTED,
    RENAMED,
    RETIRED,
)
from driftbandits.store.records import (
    Begun,
    Configured,
    Decided,
    Dropped,
    Promoted,
    Renamed,
    Retired,
    unpacked,
)

MOST_SHADOWS = 4
_LOOKED_AT = 200
"""Events at the end of the log, among which a decision must be that can be learned again."""


class Wanted(NamedTuple):
    """A configuration as it was asked for."""

    record: Configured
    seed: int | None  # None: as before
    fresh: bool = False
    dry_run: bool = False


class Configure(Command):
    """A new policy, a new version of one, or nothing if it is as it was.

    What the estimate depends on is learned again from the log, by a candidate that takes over when
    it has come to the end of it; until then nothing changes.
    """

    def __init__(self, policy: str, wanted: Wanted) -> None:
        super().__init__(policy)
        self._wanted = wanted

    def run(self, work: UnitOfWork) -> tuple[str | None, wire.PolicyAnswer]:
        """How the policy goes on, None if it is as it was, and what it is now."""
        fold = work.fold(self.policy) if self._wanted.dry_run else work.create(self.policy)
        if not fold.versions:
            self._configure(work, fold, self._first())
            return FRESH, policy_answer(fold, work.followers)
        record, how, changes = self._following(fold)
        if how == RELEARNED:
            _check_readable(work, fold, record)
        if not self._wanted.dry_run:
            self._go_on(work, fold, record, how)
        return how, self._answer(work, fold, how, changes)

    def _go_on(self, work: UnitOfWork, fold: Fold, record: Configured, how: str | None) -> None:
        under_way = fold.candidates.get(CHANGE)
        if how is None:
            if under_way is not None:  # it has been thought better of
                _drop(work, fold, CHANGE, self._wanted.record.key)
        elif how == RELEARNED:
            if under_way is None or not _same(under_way.record, record):
                _begin(work, fold, CHANGE, record)
        else:
            self._configure(work, fold, record)

    def _first(self) -> Configured:
        seed = secrets.randbits(62) if self._wanted.seed is None else self._wanted.seed
        return msgspec.structs.replace(self._wanted.record, version=1, seed=seed, fresh=True)

    def _following(self, fold: Fold) -> tuple[Configured, str | None, list[str]]:
        """The version after this one, how it goes on, and by what its estimate differs."""
        before, wanted = fold.version.record, self._wanted
        seed = before.seed if wanted.seed is None else wanted.seed
        record = msgspec.structs.replace(
            wanted.record, version=before.version + 1, seed=seed, keeps_change=False
        )
        if wanted.fresh:
            how = FRESH if fold.has_begun or not _same(before, record) else None
            return msgspec.structs.replace(record, fresh=True), how, []
        record = msgspec.structs.replace(record, fresh=False)
        if _same(before, record):
            return before, None, []
        changes = changes_of_model(before, record)
        if not changes:
            return record, CARRIED, []
        if not fold.counts[DECISION]:
            return msgspec.structs.replace(record, fresh=True), FRESH, changes
        return record, RELEARNED, changes

    def _configure(self, work: UnitOfWork, fold: Fold, record: Configured) -> None:
        work.touched.add(self.policy)
        fold.configure(record, work.time_for(fold))
        work.append(fold, CONFIGURED, "", record)

    def _answer(
        self, work: UnitOfWork, fold: Fold, how: str | None, changes: list[str]
    ) -> wire.PolicyAnswer:
        answer = policy_answer(fold, work.followers)
        if self._wanted.dry_run:
            answer.change = wire.Change(
                how=how or "none",
                version=fold.version.record.version + (how is not None),
                arguments=changes,
                of=fold.seq,
                learned_from=fold.learned if how == CARRIED else 0,
                dry_run=True,
            )
        return answer


def _same(one: Configured, other: Configured) -> bool:
    """Whether two records ask for the same."""
    one, other = (
        msgspec.structs.replace(record, version=0, fresh=False, key="", keeps_change=False)
        for record in (one, other)
    )
    return one == other


def _check_readable(work: UnitOfWork, fold: Fold, record: Configured) -> None:
    """Refuse what could learn nothing from what the log says last."""
    work.flush(fold.policy)
    last = work.session.page(
        fold.policy, after=max(0, fold.seq - _LOOKED_AT), limit=_LOOKED_AT, most_bytes=2**22
    )
    why = None
    for event in last:
        if event.kind == DECISION and not event.is_erased:
            decided: Decided = unpacked(DECISION, event.body)
            if not decided.place and (why := readable(record, decided)) is None:
                return
    if why is not None:
        raise invalid(
            "what was learned cannot be kept: this configuration cannot read the last decisions "
            f'of the log ({why}). Send "fresh": true to start from nothing',
            "$.fresh",
        )


def _begin(work: UnitOfWork, fold: Fold, name: str, record: Configured) -> None:
    work.touched.add(fold.policy)
    fold.begin(name, record, work.time_for(fold))
    work.append(fold, BEGUN, "", Begun(name, record, record.key))
    work.followers.of(fold.chain, name, fold.candidates[name])


def _drop(work: UnitOfWork, fold: Fold, name: str, key: str) -> None:
    work.touched.add(fold.policy)
    fold.drop(name, work.time_for(fold))
    work.append(fold, DROPPED, "", Dropped(name, key))


class Promote(Command):
    """Let a candidate decide that has learned all there is; what is left it learns first."""

    def __init__(self, policy: str, name: str, *, key: str = "", begun: int | None = None) -> None:
        super().__init__(policy)
        self._name = name
        self._key = key
        self._begun = begun  # None: whichever has the name

    def run(self, work: UnitOfWork) -> wire.PolicyAnswer | Unfinished | None:
        fold = work.fold(self.policy)
        candidate = fold.candidates.get(self._name)
        if candidate is None:
            if self._name == CHANGE:
                return None
            if self._name == fold.promoted:  # the answer to the same request may have been lost
                return policy_answer(fold, work.followers)
            raise unknown_shadow(self.policy, self._name)
        if self._begun not in (None, candidate.seq) or self._is_held(fold):
            return None
        work.flush(self.policy)
        place = work.followers.of(fold.chain, self._name, candidate)
        with place.lock:
            if not place.advance(work.session, until=fold.seq, seconds=PORTION_S):
                return Unfinished(self)
            place.is_taken = True
        work.followers.forget(fold.chain, self._name, candidate)
        follower = place.follower
        work.touched.add(self.policy)
        record = msgspec.structs.replace(
            candidate.record, version=fold.version.record.version + 1, fresh=False
        )
        fold.promote(self._name, follower, record, work.time_for(fold))
        work.append(fold, PROMOTED, "", Promoted(self._name, record))
        work.flush(self.policy)
        # Where events were erased, or are about to be, the log alone does not tell it again.
        has_erased = fold.counts[ERASED] > 0
        work.keep_snapshot(fold, is_foundation=has_erased)
        return policy_answer(fold, work.followers)

    def _is_held(self, fold: Fold) -> bool:
        return self._name == CHANGE and fold.is_change_held


# -- shadows -------------------------------------------------------------------------------------


def unknown_shadow(policy: str, name: str) -> Refused:
    return Refused(404, "unknown_shadow", f"policy {policy!r} has no shadow {name!r}")


class BeginShadow(Command):
    """A configuration that decides beside the one that is played."""

    def __init__(self, policy: str, name: str, wanted: Wanted) -> None:
        super().__init__(policy)
        self._name = name
        self._wanted = wanted

    def run(self, work: UnitOfWork) -> tuple[bool, wire.ShadowsAnswer]:
        fold = work.fold(self.policy)
        before = fold.candidates.get(self._name)
        record = self._record(fold, before)
        _check_readable(work, fold, record)
        others = fold.candidates.keys() - {CHANGE, self._name}
        if len(others) >= MOST_SHADOWS:
            raise Refused(409, "too_many_shadows", f"a policy has at most {MOST_SHADOWS} shadows")
        changed = before is None or not _same(before.record, record)
        if changed and not self._wanted.dry_run:
            _begin(work, fold, self._name, record)
        return changed, shadows_answer(fold, work)

    def _record(self, fold: Fold, before: Candidate | None) -> Configured:
        """Its draws must be its own: what it would have played is compared with what was."""
        seed = self._wanted.seed
        if seed is None:
            seed = secrets.randbits(62) if before is None else before.record.seed
        elif any(seed == version.record.seed for version in fold.versions):
            raise invalid("seed must differ from those of the versions; or leave it out", "$.seed")
        return msgspec.structs.replace(self._wanted.record, version=0, seed=seed, fresh=False)


class DropShadow(Command):
    """A shadow decides no more."""

    def __init__(self, policy: str, name: str, *, key: str) -> None:
        super().__init__(policy)
        self._name = name
        self._key = key

    def run(self, work: UnitOfWork) -> wire.ShadowsAnswer:
        fold = work.fold(self.policy)
        if self._name == CHANGE or self._name not in fold.candidates:
            raise unknown_shadow(self.policy, self._name)
        _drop(work, fold, self._name, self._key)
        return shadows_answer(fold, work)


class Shadows(Command):
    """What shadows would have done."""

    writes = False

    def run(self, work: UnitOfWork) -> wire.ShadowsAnswer:
        return shadows_answer(work.fold(self.policy), work)


def shadows_answer(fold: Fold, work: UnitOfWork) -> wire.ShadowsAnswer:
    return wire.ShadowsAnswer(shadow_answers(fold, work.followers))


# -- versions and policies -----------------------------------------------------------------------


class Restore(Command):
    """The configuration of an earlier version again."""

    def __init__(self, policy: str, version: int, *, key: str, fresh: bool, dry_run: bool) -> None:
        super().__init__(policy)
        self._version = version
        self._key = key
        self._fresh = fresh
        self._dry_run = dry_run

    def run(self, work: UnitOfWork) -> tuple[str | None, wire.PolicyAnswer]:
        fold = work.fold(self.policy)
        found = [v.record for v in fold.versions if v.record.version == self._version]
        if not found:
            raise Refused(
                404, "unknown_version", f"policy {self.policy!r} has no version {self._version}"
            )
        record = msgspec.structs.replace(found[-1], key=self._key)
        wanted = Wanted(record, record.seed, fresh=self._fresh, dry_run=self._dry_run)
        return Configure(self.policy, wanted).run(work)


class Retire(Command):
    """A policy makes no more decisions, or makes some again; its log goes on either way."""

    def __init__(self, policy: str, retired: bool, *, key: str) -> None:
        super().__init__(policy)
        self._retired = retired
        self._key = key

    def run(self, work: UnitOfWork) -> wire.PolicyAnswer:
        fold = work.fold(self.policy)
        if fold.retired != self._retired:
            work.touched.add(self.policy)
            fold.retire(self._retired, work.time_for(fold))
            work.append(fold, RETIRED, "", Retired(self._retired, self._key))
        return policy_answer(fold, work.followers)


class Rename(Command):
    """A policy is called otherwise, and its name is free; everything else stays as it is."""

    def __init__(self, policy: str, to: str, *, key: str) -> None:
        super().__init__(policy)
        self._to = to
        self._key = key

    def run(self, work: UnitOfWork) -> wire.PolicyAnswer:
        if work.session.head(self.policy) is None:
            return policy_answer(self._renamed_before(work), work.followers)
        fold = work.fold(self.policy)
        if self._to != self.policy:
            if not work.rename(fold, self._to):
                raise Refused(409, "name_taken", f"there is a policy {self._to!r}", path="$.to")
            fold.rename(self._to, work.time_for(fold))
            work.append(fold, RENAMED, "", Renamed(self.policy, self._to, self._key))
        return policy_answer(fold, work.followers)

    def _renamed_before(self, work: UnitOfWork) -> Fold:
        """The answer to the same request may have been lost; any process may give it again."""
        if work.session.head(self._to) is not None:
            fold = snapshots.load(work.session, self._to)
            if fold.former and fold.former[-1].name == self.policy:
                return fold
        raise unknown_policy(self.policy)
