"""Which experiment is shown where, found by what it recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftbandits.report import claims, hindsight
from driftbandits.report.hindsight import World
from driftbandits.report.recordings import PAPER_WORLD, Recording, is_linear, sweeps, swept_by


@dataclass(frozen=True)
class Contents:
    """Experiments by the place where they are shown."""

    worlds: Sequence[World]
    resting: Sequence[Recording]  # beside the worlds: what policies report where nothing changes
    paper: Recording | None
    today: Recording | None
    narrow_bonus: Recording | None
    intercept: Recording | None
    known_changes: Recording | None
    paired: Sequence[Recording]
    counts: Sequence[Recording]
    sweeps: Mapping[str, Sequence[Recording]]
    side_by_side: Mapping[str, Sequence[Recording]]  # sweeps whose worlds are of different kinds
    further: Sequence[Recording]
    alone: Sequence[Recording]  # all but those of the worlds


def contents_of(recordings: Sequence[Recording]) -> Contents:
    worlds = hindsight.worlds_of(recordings)
    inside = hindsight.members(recordings)
    outside = [recording for recording in recordings if recording not in inside]
    resting = hindsight.at_rest(outside) if worlds else []
    alone = [recording for recording in outside if recording not in resting]
    swept = {name: group for name, group in sweeps(alone).items() if _shows_growth(group)}
    single = [r for r in alone if r.spec.get("sweep") not in swept]
    paired, counts = ([r for r in single if r.world == world] for world in ("paired", "counts"))
    variations = _variations([r for r in single if r.world == PAPER_WORLD])
    placed = [*paired, *counts, *variations.values()]
    groups = _side_by_side([recording for recording in single if recording not in placed])
    placed += [recording for group in groups.values() for recording in group]
    return Contents(
        worlds=worlds,
        resting=resting,
        paper=variations.get("paper"),
        today=variations.get("today"),
        narrow_bonus=variations.get("narrow bonus"),
        intercept=variations.get("intercept"),
        known_changes=variations.get("known changes"),
        paired=paired,
        counts=counts,
        sweeps=swept,
        side_by_side=groups,
        further=[recording for recording in single if recording not in placed],
        alone=alone,
    )


def _side_by_side(recordings: Sequence[Recording]) -> dict[str, list[Recording]]:
    """Real streams, however told, and what else is a sweep of several worlds."""
    streams = [recording for recording in recordings if recording.world == "stream"]
    others = sweeps(recording for recording in recordings if recording not in streams)
    several = {name: group for name, group in others.items() if len(group) > 1}
    return {**({"streams": streams} if streams else {}), **several}


def _shows_growth(group: Sequence[Recording]) -> bool:
    by_regret = all(recording.measure == "final regret" for recording in group)
    return by_regret and len(group) > 1 and swept_by(group) is not None


def _variations(in_paper_world: Sequence[Recording]) -> dict[str, Recording]:
    """At most one experiment of each variation, all on the same traces."""
    ranked = sorted(in_paper_world, key=_paper_policies, reverse=True)
    papers_own = (recording for recording in ranked if _variation(recording) == "paper")
    first = next(papers_own, next(iter(ranked), None))
    found: dict[str, Recording] = {}
    for recording in ranked:
        variation = _variation(recording)
        if variation is not None and first is not None and recording.traces == first.traces:
            found.setdefault(variation, recording)
    return found


def _paper_policies(recording: Recording) -> int:
    return sum(recording.labelled(name) is not None for pair in claims.PAIRS for name in pair)


def _variation(recording: Recording) -> str | None:
    """What is particular to the policies of an experiment; None where nothing fits."""
    policies = recording.policies.values()
    if all(policy.get("restart") == "changes" for policy in policies):
        return "known changes"
    if any(policy.get("restart") for policy in policies):
        return None
    if recording.labelled("auto") is not None and recording.bonus is None:
        return "today"  # beside policies with the bonus of the theory, and tuned ones
    if any(is_linear(p) and (p.get("intercept") or p.get("centre")) for p in policies):
        return "intercept"
    if recording.bonus == 1.0:
        return "paper"
    return "narrow bonus" if recording.bonus is not None and recording.bonus < 1.0 else None
