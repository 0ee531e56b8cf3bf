"""Detections of change as people understand them: since when, what moved, and what it did to arms.

A detection is a round and a number. Beside it lie the estimates as minutes began and what arms have
earned in each part of the day, so that it can be said which coefficients and which arms differ from
before. This is a look at what is kept for people, and no test of its own.
"""

from __future__ import annotations

from typing import Any

from driftbandits import wire
from driftbandits.service.fold import Fold
from driftbandits.service.forgetting import TICKS
from driftbandits.service.history import OTHERS, ROUND, THETA, in_a_row, names

MOST_MOVED = 3
FEWEST_REWARDS = 10
"""Of an arm, before and after a change, for its means to be compared."""
_MINUTE_NS = 60_000_000_000


def minute_of_change(fold: Fold, change: int) -> int | None:
    """The minute in which the clock stood there; None where that is no longer known."""
    record = fold.version.record
    seconds = record.half_life_s or record.window_s
    if seconds is not None:
        minute = (fold.began_ns + round(change * seconds * 1e9 / TICKS)) // _MINUTE_NS
        return minute if minute in fold.history.minutes else None
    for minute, row in reversed(fold.history.minutes.items()):
        if (minute + 1) * _MINUTE_NS <= fold.began_ns:
            return None
        if row[ROUND] <= change:
            return minute
    return None


def moved(fold: Fold, minute: int, until: int | None) -> list[wire.Moved]:
    """The coefficients that differ most between that minute and a later one, or now."""
    before = fold.history.minutes[minute][THETA]
    after = in_a_row(fold.playing) if until is None else fold.history.minutes[until][THETA]
    labels = _labels(fold)
    if not before or len(before) > len(after) or len(after) > len(labels):
        return []
    if len(before) < len(after) and fold.playing.policy.separate:
        return []  # arms came between
    padded = [*before, *[0.0] * (len(after) - len(before))]
    found = [
        wire.Moved(label, old, new)
        for label, old, new in zip(labels, padded, after, strict=False)
        if old != new
    ]
    return sorted(found, key=lambda one: -abs(one.after - one.before))[:MOST_MOVED]


def _labels(fold: Fold) -> list[str]:
    agent = fold.playing
    theta, known = agent.theta_hat, names(agent)
    if isinstance(theta, dict):
        return [
            f"{arm} {label}"
            for arm, part in theta.items()
            for label in known or _numbered(len(part))
        ]
    return known or _numbered(len(theta))


def _numbered(size: int) -> list[str]:
    return [f"x{i + 1}" for i in range(size)]


def arms_changed(fold: Fold, minute: int, until: int | None) -> list[wire.Moved]:
    """The arms whose mean reward differs most before and after."""
    record = fold.version.record
    default = None if record.reward_wait_s is None else record.default_reward
    old, new = dict[str, list[Any]](), dict[str, list[Any]]()
    for begin, length, part in fold.history.arms.parts():
        if begin + length <= minute:
            _gather(old, part, default)
        elif begin > minute and (until is None or begin + length <= until):
            _gather(new, part, default)
    found = [
        wire.Moved(arm, old[arm][1] / old[arm][0], new[arm][1] / new[arm][0])
        for arm in old.keys() & new.keys()
        if min(old[arm][0], new[arm][0]) >= FEWEST_REWARDS
    ]
    return sorted(found, key=lambda one: (-abs(one.after - one.before), one.name))[:MOST_MOVED]


def _gather(into: dict[str, list[Any]], part: dict[str, list[Any]], default: float | None) -> None:
    """Rewards and their sum; where a default is waited for, what is open counts as that."""
    for arm, (decisions, rewards, total) in part.items():
        if arm != OTHERS:
            row = into.setdefault(arm, [0, 0.0])
            row[0] += rewards if default is None else decisions
            row[1] += total if default is None else total + (decisions - rewards) * default
