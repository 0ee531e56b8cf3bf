"""Commands that change how a policy decides: versions, shadows, freezing, retiring.

They lose nothing that was learned unless they are told to.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import msgspec

from driftbandits import api
from driftbandits.service.refusals import Refused, invalid
from driftbandits.service.relearning import CandidateFailed, readable
from driftbandits.service.state import (
    CARRIED,
    CHANGE,
    FRESH,
    RELEARNED,
    Candidate,
    Name,
    State,
    changes_of_model,
)
from driftbandits.service.transactions import PORTION_S, Command, Unfinished, UnitOfWork
from driftbandits.service.views import policy_answer, shadow_answers
from driftbandits.store import (
    BEGUN,
    CONFIGURED,
    DECISION,
    DROPPED,
    ERASED,
    PROMOTED,
    RETIRED,
)
from driftbandits.store.records import (
    Begun,
    Configured,
    Decided,
    Dropped,
    Promoted,
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

    def run(self, work: UnitOfWork) -> tuple[str | None, api.PolicyAnswer]:
        """Return how the policy goes on, None if nothing changes, and its state."""
        state = work.state(self.policy) if self._wanted.dry_run else work.create(self.policy)
        if not state.versions:
            work.write(state, CONFIGURED, "", self._first())
            return FRESH, policy_answer(state, work.followers)
        record, how, changes = self._following(state)
        if how == RELEARNED:
            _check_readable(work, state, record)
        if not self._wanted.dry_run:
            self._go_on(work, state, record, how)
        return how, self._answer(work, state, how, changes)

    def _go_on(self, work: UnitOfWork, state: State, record: Configured, how: str | None) -> None:
        under_way = state.candidates.get(CHANGE)
        if how is None:
            if under_way is not None:  # the caller has changed its mind
                work.write(state, DROPPED, "", Dropped(CHANGE, self._wanted.record.key))
        elif how == RELEARNED:
            if under_way is None or not _same(under_way.record, record):
                _begin(work, state, CHANGE, record)
        else:
            work.write(state, CONFIGURED, "", record)

    def _first(self) -> Configured:
        seed = secrets.randbits(62) if self._wanted.seed is None else self._wanted.seed
        return msgspec.structs.replace(self._wanted.record, version=1, seed=seed, fresh=True)

    def _following(self, state: State) -> tuple[Configured, str | None, list[str]]:
        """The version after this one, how it goes on, and by what its estimate differs."""
        before, wanted = state.version.record, self._wanted
        seed = before.seed if wanted.seed is None else wanted.seed
        record = msgspec.structs.replace(
            wanted.record, version=before.version + 1, seed=seed, keeps_change=False
        )
        if wanted.fresh:
            how = FRESH if state.has_begun or not _same(before, record) else None
            return msgspec.structs.replace(record, fresh=True), how, []
        record = msgspec.structs.replace(record, fresh=False)
        if _same(before, record):
            return before, None, []
        changes = changes_of_model(before, record)
        if not changes:
            return record, CARRIED, []
        if not state.counts[DECISION]:
            return msgspec.structs.replace(record, fresh=True), FRESH, changes
        return record, RELEARNED, changes

    def _answer(
        self, work: UnitOfWork, state: State, how: str | None, changes: list[str]
    ) -> api.PolicyAnswer:
        answer = policy_answer(state, work.followers)
        if self._wanted.dry_run:
            answer.change = api.Change(
                how=how or "none",
                version=state.version.record.version + (how is not None),
                arguments=changes,
                of=state.seq,
                learned_from=state.learned if how == CARRIED else 0,
                dry_run=True,
            )
        return answer


def _same(one: Configured, other: Configured) -> bool:
    """Return True if two records ask for the same."""
    one, other = (
        msgspec.structs.replace(record, version=0, fresh=False, key="", keeps_change=False)
        for record in (one, other)
    )
    return one == other


def _check_readable(work: UnitOfWork, state: State, record: Configured) -> None:
    """Refuse what could learn nothing from what the log says last."""
    work.flush(state.policy)
    last = work.session.page(
        state.policy, after=max(0, state.seq - _LOOKED_AT), limit=_LOOKED_AT, most_bytes=2**22
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


def _begin(work: UnitOfWork, state: State, name: Name, record: Configured) -> None:
    work.write(state, BEGUN, "", Begun(name, record, record.key))
    work.followers.of(state.policy, name, state.candidates[name])


class Promote(Command):
    """Let a candidate decide that has learned all there is; what is left it learns first."""

    def __init__(self, policy: str, name: Name, *, key: str = "", begun: int | None = None) -> None:
        super().__init__(policy)
        self._name = name
        self._key = key
        self._begun = begun  # None: whichever has the name

    def run(self, work: UnitOfWork) -> api.PolicyAnswer | Unfinished | None:
        state = work.state(self.policy)
        candidate = state.candidates.get(self._name)
        if candidate is None:
            if self._name is None:
                return None
            if self._name == state.promoted:  # the answer to the same request may have been lost
                return policy_answer(state, work.followers)
            raise unknown_shadow(self.policy, self._name)
        if self._begun not in (None, candidate.seq) or self._is_held(state):
            return None
        work.flush(self.policy)
        place = work.followers.of(state.policy, self._name, candidate)
        with place.lock:
            try:
                has_learned = place.advance(work.session, until=state.seq, seconds=PORTION_S)
            except CandidateFailed as error:
                raise Refused(409, "failed", f"this configuration failed: {error}") from None
            if not has_learned:
                return Unfinished(self)
            place.is_taken = True
        work.followers.forget(state.policy, self._name, candidate)
        follower = place.follower
        record = msgspec.structs.replace(
            candidate.record, version=state.version.record.version + 1, fresh=False
        )
        state.promote(self._name, follower, record, work.time_for(state))
        work.append(state, PROMOTED, "", Promoted(self._name, record))
        work.flush(self.policy)
        # Where events were erased, or are about to be, the log alone does not tell it again.
        has_erased = state.counts[ERASED] > 0
        work.keep_snapshot(state, is_foundation=has_erased)
        return policy_answer(state, work.followers)

    def _is_held(self, state: State) -> bool:
        return self._name is None and state.is_change_held


# -- shadows -------------------------------------------------------------------------------------


def unknown_shadow(policy: str, name: str) -> Refused:
    return Refused(404, "unknown_shadow", f"policy {policy!r} has no shadow {name!r}")


class BeginShadow(Command):
    """A configuration that decides beside the one that is played."""

    def __init__(self, policy: str, name: str, wanted: Wanted) -> None:
        super().__init__(policy)
        self._name = name
        self._wanted = wanted

    def run(self, work: UnitOfWork) -> tuple[bool, api.ShadowsAnswer]:
        state = work.state(self.policy)
        before = state.candidates.get(self._name)
        record = self._record(state, before)
        _check_readable(work, state, record)
        others = state.candidates.keys() - {CHANGE, self._name}
        if len(others) >= MOST_SHADOWS:
            raise Refused(409, "too_many_shadows", f"a policy has at most {MOST_SHADOWS} shadows")
        changed = before is None or not _same(before.record, record)
        if changed and not self._wanted.dry_run:
            _begin(work, state, self._name, record)
        return changed, shadows_answer(state, work)

    def _record(self, state: State, before: Candidate | None) -> Configured:
        """Its draws must be its own: what it would have played is compared with what was."""
        seed = self._wanted.seed
        if seed is None:
            seed = secrets.randbits(62) if before is None else before.record.seed
        elif any(seed == version.record.seed for version in state.versions):
            raise invalid("seed must differ from those of the versions; or leave it out", "$.seed")
        return msgspec.structs.replace(self._wanted.record, version=0, seed=seed, fresh=False)


class DropShadow(Command):
    """A shadow decides no more."""

    def __init__(self, policy: str, name: str, *, key: str) -> None:
        super().__init__(policy)
        self._name = name
        self._key = key

    def run(self, work: UnitOfWork) -> api.ShadowsAnswer:
        state = work.state(self.policy)
        if self._name not in state.candidates:
            raise unknown_shadow(self.policy, self._name)
        work.write(state, DROPPED, "", Dropped(self._name, self._key))
        return shadows_answer(state, work)


class Shadows(Command):
    """List the shadows and their estimates."""

    writes = False

    def run(self, work: UnitOfWork) -> api.ShadowsAnswer:
        return shadows_answer(work.state(self.policy), work)


def shadows_answer(state: State, work: UnitOfWork) -> api.ShadowsAnswer:
    return api.ShadowsAnswer(shadow_answers(state, work.followers))


# -- versions and policies -----------------------------------------------------------------------


class Restore(Command):
    """The configuration of an earlier version again."""

    def __init__(self, policy: str, version: int, *, key: str, fresh: bool, dry_run: bool) -> None:
        super().__init__(policy)
        self._version = version
        self._key = key
        self._fresh = fresh
        self._dry_run = dry_run

    def run(self, work: UnitOfWork) -> tuple[str | None, api.PolicyAnswer]:
        state = work.state(self.policy)
        found = [v.record for v in state.versions if v.record.version == self._version]
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

    def run(self, work: UnitOfWork) -> api.PolicyAnswer:
        state = work.state(self.policy)
        if state.retired != self._retired:
            work.write(state, RETIRED, "", Retired(self._retired, self._key))
        return policy_answer(state, work.followers)


FROZEN = "frozen"


class Freeze(Command):
    """A version that differs by its mode alone: frozen, or what it was before it was frozen.

    A change that is being learned again goes on; it takes over when the policy is thawed.
    """

    def __init__(self, policy: str, is_frozen: bool, *, key: str) -> None:
        super().__init__(policy)
        self._is_frozen = is_frozen
        self._key = key

    def run(self, work: UnitOfWork) -> api.PolicyAnswer:
        state = work.state(self.policy)
        before = state.version.record
        if (before.mode == FROZEN) != self._is_frozen or self._must_hold(state):
            modes = [version.record.mode for version in state.versions]
            thawed = next((mode for mode in reversed(modes) if mode != FROZEN), "online")
            record = msgspec.structs.replace(
                before,
                version=before.version + 1,
                mode=FROZEN if self._is_frozen else thawed,
                fresh=False,
                key=self._key,
                keeps_change=CHANGE in state.candidates,
            )
            work.write(state, CONFIGURED, "", record)
        return policy_answer(state, work.followers)

    def _must_hold(self, state: State) -> bool:
        """Return True if a change that was asked for meanwhile would end the freeze by itself."""
        return self._is_frozen and CHANGE in state.candidates and not state.is_change_held
