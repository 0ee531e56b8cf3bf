"""Commands that change how a policy decides: versions, shadows, freezing, retiring.

They lose nothing that was learned unless they are told to.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from driftbandits import api
from driftbandits.service.refusals import Refused, invalid
from driftbandits.service.relearning import readable
from driftbandits.service.state import (
    CARRIED,
    CHANGE,
    FRESH,
    RELEARNED,
    Name,
    State,
    changes_of_model,
)
from driftbandits.service.transactions import PORTION_S, Command, Unfinished, UnitOfWork
from driftbandits.service.views import policy_answer, shadow_answers
from driftbandits.store import Kind
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


@dataclass
class Configure(Command):
    """A new policy, a new version of one, or nothing if it is as it was.

    What the estimate depends on is learned again from the log, by a candidate that takes over when
    it has come to the end of it; until then nothing changes.
    """

    wanted: Wanted

    def run(self, work: UnitOfWork) -> tuple[str | None, api.PolicyAnswer]:
        """Return how the policy goes on, None if nothing changes, and its state."""
        wanted = self.wanted
        state = work.state(self.policy) if wanted.dry_run else work.create(self.policy)
        if not state.versions:
            seed = secrets.randbits(62) if wanted.seed is None else wanted.seed
            record = msgspec.structs.replace(wanted.record, version=1, seed=seed, fresh=True)
            work.write(state, Kind.CONFIGURED, "", record)
            return FRESH, policy_answer(state, work.followers)
        record, how, changes = self._following(state)
        if how == RELEARNED:
            _check_readable(work, state, record)
        under_way = state.candidates.get(CHANGE)
        if wanted.dry_run:
            answer = policy_answer(state, work.followers)
            answer.change = api.Change(
                how=how or "none",
                version=state.version.record.version + (how is not None),
                arguments=changes,
                of=state.seq,
                learned_from=state.learned if how == CARRIED else 0,
                dry_run=True,
            )
            return how, answer
        if how == RELEARNED:
            if under_way is None or not _same(under_way.record, record):
                _begin(work, state, CHANGE, record)
        elif how is not None:
            work.write(state, Kind.CONFIGURED, "", record)
        elif under_way is not None:  # the caller has changed its mind
            work.write(state, Kind.DROPPED, "", Dropped(CHANGE, wanted.record.key))
        return how, policy_answer(state, work.followers)

    def _following(self, state: State) -> tuple[Configured, str | None, list[str]]:
        """The version after this one, how it goes on, and by what its estimate differs."""
        before, wanted = state.version.record, self.wanted
        seed = before.seed if wanted.seed is None else wanted.seed
        record = msgspec.structs.replace(
            wanted.record, version=before.version + 1, seed=seed, fresh=wanted.fresh
        )
        is_same, agent = _same(before, record), state.playing
        if wanted.fresh:
            is_untouched = not (state.learned or agent.issued or agent.clock)
            return record, None if is_same and is_untouched else FRESH, []
        if is_same:
            return before, None, []
        changes = changes_of_model(before, record)
        if changes and not state.counts[Kind.DECISION]:
            return msgspec.structs.replace(record, fresh=True), FRESH, changes
        return record, RELEARNED if changes else CARRIED, changes


def _same(one: Configured, other: Configured) -> bool:
    """Return True if two records ask for the same."""
    alike = {"version": 0, "fresh": False, "key": "", "keeps_change": False}
    return msgspec.structs.replace(one, **alike) == msgspec.structs.replace(other, **alike)


def _check_readable(work: UnitOfWork, state: State, record: Configured) -> None:
    """Refuse what could learn nothing from what the log says last."""
    work.flush(state.policy)
    last = work.session.page(
        state.policy, after=max(0, state.seq - _LOOKED_AT), limit=_LOOKED_AT, most_bytes=2**22
    )
    why = None
    for event in last:
        if event.kind == Kind.DECISION and not event.is_erased:
            decided: Decided = unpacked(Kind.DECISION, event.body)
            if not decided.place and (why := readable(record, decided)) is None:
                return
    if why is not None:
        raise invalid(
            "what was learned cannot be kept: this configuration cannot read the last decisions "
            f'of the log ({why}). Send "fresh": true to start from nothing',
            "$.fresh",
        )


def _begin(work: UnitOfWork, state: State, name: Name, record: Configured) -> None:
    work.write(state, Kind.BEGUN, "", Begun(name, record, record.key))
    work.followers.of(state.policy, name, state.candidates[name])


@dataclass
class Promote(Command):
    """Let a candidate decide that has learned all there is; what is left it learns first."""

    name: Name
    begun: int | None = None  # None: whichever has the name

    def run(self, work: UnitOfWork) -> api.PolicyAnswer | Unfinished | None:
        state = work.state(self.policy)
        candidate = state.candidates.get(self.name)
        if candidate is None:
            if self.name is None:
                return None
            if self.name == state.promoted:  # the answer to the same request may have been lost
                return policy_answer(state, work.followers)
            raise unknown_shadow(self.policy, self.name)
        if self.begun not in (None, candidate.seq):
            return None
        if self.name is CHANGE and state.is_change_held:
            return None
        work.flush(self.policy)
        place = work.followers.of(state.policy, self.name, candidate)
        with place.lock:
            if not place.advance(work.session, until=state.seq, seconds=PORTION_S):
                return Unfinished(self)
            place.is_taken = True
        work.followers.forget(state.policy, self.name, candidate)
        follower = place.follower
        record = msgspec.structs.replace(
            candidate.record, version=state.version.record.version + 1, fresh=False
        )
        state.promote(self.name, follower, record, work.time_for(state))
        work.append(state, Kind.PROMOTED, "", Promoted(self.name, record))
        work.flush(self.policy)
        # Where events were erased, or are about to be, the log alone does not tell it again.
        has_erased = state.counts[Kind.ERASED] > 0
        work.keep_snapshot(state, is_foundation=has_erased)
        return policy_answer(state, work.followers)


# -- shadows -------------------------------------------------------------------------------------


def unknown_shadow(policy: str, name: str) -> Refused:
    return Refused(404, "unknown_shadow", f"policy {policy!r} has no shadow {name!r}")


@dataclass
class BeginShadow(Command):
    """A configuration that decides beside the one that is played."""

    name: str
    wanted: Wanted

    def run(self, work: UnitOfWork) -> tuple[bool, api.ShadowsAnswer]:
        state = work.state(self.policy)
        before = state.candidates.get(self.name)
        seed = self.wanted.seed
        if seed is None:
            seed = secrets.randbits(62) if before is None else before.record.seed
        # Its draws must be its own: what it would have played is compared with what was.
        elif any(seed == version.record.seed for version in state.versions):
            raise invalid("seed must differ from those of the versions; or leave it out", "$.seed")
        record = msgspec.structs.replace(self.wanted.record, version=0, seed=seed, fresh=False)
        _check_readable(work, state, record)
        others = state.candidates.keys() - {CHANGE, self.name}
        if len(others) >= MOST_SHADOWS:
            raise Refused(409, "too_many_shadows", f"a policy has at most {MOST_SHADOWS} shadows")
        changed = before is None or not _same(before.record, record)
        if changed and not self.wanted.dry_run:
            _begin(work, state, self.name, record)
        return changed, shadows_answer(state, work)


@dataclass
class DropShadow(Command):
    """A shadow decides no more."""

    name: str
    key: str

    def run(self, work: UnitOfWork) -> api.ShadowsAnswer:
        state = work.state(self.policy)
        if self.name not in state.candidates:
            raise unknown_shadow(self.policy, self.name)
        work.write(state, Kind.DROPPED, "", Dropped(self.name, self.key))
        return shadows_answer(state, work)


class Shadows(Command):
    """List the shadows and their estimates."""

    writes = False

    def run(self, work: UnitOfWork) -> api.ShadowsAnswer:
        return shadows_answer(work.state(self.policy), work)


def shadows_answer(state: State, work: UnitOfWork) -> api.ShadowsAnswer:
    return api.ShadowsAnswer(shadow_answers(state, work.followers))


# -- versions and policies -----------------------------------------------------------------------


@dataclass
class Restore(Command):
    """The configuration of an earlier version again."""

    version: int
    key: str
    fresh: bool
    dry_run: bool

    def run(self, work: UnitOfWork) -> tuple[str | None, api.PolicyAnswer]:
        state = work.state(self.policy)
        found = [v.record for v in state.versions if v.record.version == self.version]
        if not found:
            raise Refused(
                404, "unknown_version", f"policy {self.policy!r} has no version {self.version}"
            )
        record = msgspec.structs.replace(found[-1], key=self.key, keeps_change=False)
        wanted = Wanted(record, record.seed, fresh=self.fresh, dry_run=self.dry_run)
        return Configure(self.policy, wanted).run(work)


@dataclass
class Retire(Command):
    """A policy makes no more decisions, or makes some again; its log goes on either way."""

    retired: bool
    key: str

    def run(self, work: UnitOfWork) -> api.PolicyAnswer:
        state = work.state(self.policy)
        if state.retired != self.retired:
            work.write(state, Kind.RETIRED, "", Retired(self.retired, self.key))
        return policy_answer(state, work.followers)


@dataclass
class Freeze(Command):
    """A version that differs by its mode alone: frozen, or what it was before.

    A change that is being learned again goes on; it takes over when the policy is thawed.
    """

    is_frozen: bool
    key: str

    def run(self, work: UnitOfWork) -> api.PolicyAnswer:
        state = work.state(self.policy)
        before = state.version.record
        # A change that was asked for meanwhile would end the freeze by itself.
        must_hold = self.is_frozen and CHANGE in state.candidates and not state.is_change_held
        if (before.mode == "frozen") != self.is_frozen or must_hold:
            modes = [version.record.mode for version in state.versions]
            thawed = next((mode for mode in reversed(modes) if mode != "frozen"), "online")
            record = msgspec.structs.replace(
                before,
                version=before.version + 1,
                mode="frozen" if self.is_frozen else thawed,
                fresh=False,
                key=self.key,
                keeps_change=CHANGE in state.candidates,
            )
            work.write(state, Kind.CONFIGURED, "", record)
        return policy_answer(state, work.followers)
