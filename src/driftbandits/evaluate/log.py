"""Logs of decisions: what was offered, what was chosen, how likely that was, and the reward."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.environments import Trace
from driftbandits.features import Encoding, Features

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Table = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]
"""The columns of a context and of each arm."""

ID = "id"
MOST_COORDINATES = 1000
_MOST_NUMBERS = 200_000_000
KNOWN, ESTIMATED, UNKNOWN = "known", "estimated", "unknown"


class LoggedDecision(NamedTuple):
    """One line of a log."""

    event_id: str
    at: int
    arm_ids: tuple[str, ...]
    arms: Floats
    chosen: int
    propensity: float
    reward: float | None
    table: Table | None = None


@dataclass(frozen=True, eq=False)
class Log:
    """A table of decisions, oldest first.

    event_id      a name of each decision; no two are equal
    at            (n,) when it was made, in nanoseconds since 1970, UTC
    arms          for each decision the actions that were offered, (K_t, d)
    arm_ids       for each decision the names of these actions; their places where none are known
    chosen        (n,) the place of the action that was chosen
    propensity    (n,) the probability with which the logging policy chose it
    reward        (n,) its reward, NaN where it is unknown
    tables        for each decision the columns of which the vectors were made, if they were
    features      the features by which they were made
    served        the last arguments of the policy, if a service wrote the log
    propensities  "known"; "estimated" from the choices; or "unknown": then `propensity` is that of
                  a choice at random, and only replay can use the log

    >>> log = Log(["a", "b"], [1, 2], [[[1.0], [0.5]], [[0.2]]], [1, 0], [0.5, 1], [1, None])
    >>> len(log), log.dim, log.reward.tolist()
    (2, 1, [1.0, nan])
    """

    event_id: Sequence[str]
    at: Ints
    arms: Sequence[Floats]
    chosen: Ints
    propensity: Floats
    reward: Floats
    arm_ids: Sequence[Sequence[str]] | None = None
    tables: Sequence[Table] | None = None
    features: Features | None = None
    served: Mapping[str, Any] | None = None
    propensities: str = KNOWN

    def __post_init__(self) -> None:
        def hold(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        checks.choice("propensities", self.propensities, (KNOWN, ESTIMATED, UNKNOWN))

        hold("event_id", _names(self.event_id))
        n = len(self.event_id)
        hold("at", _column("at", self.at, np.int64, n))
        hold("chosen", _column("chosen", self.chosen, np.int64, n))
        hold("propensity", _column("propensity", self.propensity, np.float64, n))
        hold("reward", _column("reward", self.reward, np.float64, n))
        if (np.diff(self.at) < 0).any():
            first = int(np.flatnonzero(np.diff(self.at) < 0)[0]) + 1
            raise ValueError(f"at must not go back in time; got an earlier time in row {first}")
        hold("arms", _action_sets(self.arms, n))
        hold("arm_ids", _arm_names(self.arm_ids, self.arms))
        sizes = self.sizes
        _refuse_rows("chosen", self.chosen, (self.chosen < 0) | (self.chosen >= sizes), "an arm")
        in_range = (self.propensity > 0.0) & (self.propensity <= 1.0)
        _refuse_rows("propensity", self.propensity, ~in_range, "above 0 and at most 1")
        _refuse_rows("reward", self.reward, np.isinf(self.reward), "finite, or NaN where unknown")

    def __len__(self) -> int:
        return len(self.event_id)

    def __repr__(self) -> str:
        return f"Log({len(self)} decisions, {int(self.known.sum())} rewards, {self.dim} features)"

    def __iter__(self) -> Iterator[LoggedDecision]:
        assert self.arm_ids is not None
        rewards = [None if math.isnan(r) else r for r in self.reward.tolist()]
        tables: Sequence[Table | None] = self.tables or [None] * len(self)
        numbers = self.chosen.tolist(), self.propensity.tolist(), rewards
        rows = zip(self.event_id, self.at.tolist(), self.arm_ids, self.arms, *numbers, tables)  # noqa: B905
        return map(LoggedDecision._make, rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        return len(self) == len(other) and all(
            np.array_equal(ours.arms, theirs.arms)
            and ours._replace(arms=theirs.arms, table=theirs.table) == theirs
            for ours, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def dim(self) -> int:
        return int(self.arms[0].shape[1])

    @cached_property
    def sizes(self) -> Ints:
        """Return the number of actions offered in each round."""
        return np.array([len(actions) for actions in self.arms], dtype=np.int64)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where the reward is known."""
        return ~np.isnan(self.reward)

    @cached_property
    def played(self) -> Floats:
        """The actions that were chosen (n, d)."""
        rows = zip(self.arms, self.chosen, strict=True)
        return np.array([actions[index] for actions, index in rows])

    def trace(self, *, keep: NDArray[np.bool_] | None = None) -> Trace:
        """Return the log as a trace: the reward of the logged arm, NaN for every other.

        keep  (n,) the rounds whose reward is shown; everywhere else it is NaN
        """
        sizes = self.sizes
        actions = np.zeros((len(self), int(sizes.max()), self.dim))
        for t, offered in enumerate(self.arms):
            actions[t, : len(offered)] = offered
        rewards = np.full(actions.shape[:2], np.nan)
        shown = self.reward if keep is None else np.where(keep, self.reward, np.nan)
        rewards[np.arange(len(self)), self.chosen] = shown
        available = np.arange(actions.shape[1]) < sizes[:, None]
        return Trace(actions=actions, rewards=rewards, available=available, partial=True)


def log_of(rows: Sequence[LoggedDecision]) -> Log:
    """Make a log of its lines, in the order of time."""
    ordered = sorted(rows, key=lambda row: row.at)
    columns: list[Any] = list(zip(*ordered, strict=True)) or [()] * 8
    event_id, at, arm_ids, arms, chosen, propensity, reward, _ = columns
    return Log(event_id, at, arms, chosen, propensity, reward, arm_ids)


def log_of_tables(
    rows: Sequence[LoggedDecision], features: Features | None, *, keep: Iterable[str] = ()
) -> Log:
    """Make a log of tables, with vectors of at most length 1.

    features  what makes the vectors; guessed from the log if None, fitted to it if they are not
    keep      columns that the guess takes although they are named like an outcome
    """
    ordered = sorted(rows, key=lambda row: row.at)
    tables = [row.table for row in ordered if row.table is not None]
    contexts = [context for context, _ in tables]
    offers: list[list[dict[str, Any]]] = [
        [{ID: id, **columns} for id, columns in zip(row.arm_ids, offered, strict=True)]
        for row, (_, offered) in zip(ordered, tables, strict=True)
    ]
    arms = [arm for offer in offers for arm in offer]
    if features is None:
        has_columns = any(contexts) or any(len(arm) > 1 for arm in arms)
        by_id = Features(arm={ID: "category"})
        guessed = Features.guess(contexts, arms, keep=keep) if has_columns else by_id
        features = replace(guessed, limit=MOST_COORDINATES)
    if not isinstance(features, Features):
        raise ValueError(f"features must be driftbandits.Features; got {checks.brief(features)}")
    encoding = Encoding(features if features.is_fitted else features.fit(contexts, arms))
    encoded = [
        encoding.encode(context, [(arm[ID], _without_id(arm)) for arm in offer])
        for context, offer in zip(contexts, offers, strict=True)
    ]
    vectors = [
        row._replace(arms=one.dense(len(encoding)))
        for row, one in zip(ordered, encoded, strict=True)
    ]
    return replace(log_of(vectors), tables=tables, features=encoding.features)


def _without_id(arm: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arm.items() if name != ID}


def log_by_arm(log: Log) -> Log:
    """Return the log with coordinates of its own for every arm, as separate arms have them.

    An arm has its features and a constant in the block of that arm, and zeros elsewhere.
    """
    assert log.arm_ids is not None
    ids = dict.fromkeys(name for names in log.arm_ids for name in names)
    places = {name: place for place, name in enumerate(ids)}
    size = (log.dim + 1) * len(places)
    if size > MOST_COORDINATES or size * int(log.sizes.sum()) > _MOST_NUMBERS:
        raise ValueError(
            f"the log has {len(places)} separate arms with {log.dim} features each, which is too "
            f"much to be evaluated: at most {MOST_COORDINATES} coordinates, and "
            f"{_MOST_NUMBERS:,} numbers in all"
        )
    sets = []
    for names, actions in zip(log.arm_ids, log.arms, strict=True):
        wide = np.zeros((len(names), len(places), log.dim + 1))
        at = [places[name] for name in names]
        wide[np.arange(len(names)), at, :-1] = actions
        wide[np.arange(len(names)), at, -1] = 1.0  # what it earns whatever the features are
        sets.append(wide.reshape(len(names), -1))
    return replace(log, arms=sets)


def _names(given: Any) -> tuple[str, ...]:
    names = tuple(checks.listed("event_id", given))
    if not names:
        raise ValueError("event_id must hold at least one decision; got none")
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(f"event_id must be texts that are not empty; row {i} has {name!r}")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(f"event_id must differ from row to row; got {twice!r} twice")
    return names


def _column(name: str, given: Any, kind: type[Any], n: int) -> NDArray[Any]:
    try:
        values = np.asarray(given, dtype=np.float64 if kind is np.float64 else None)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers; {error}") from None
    if values.shape != (n,) or (kind is np.int64 and values.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be {n} {'whole ' if kind is np.int64 else ''}numbers, one for each "
            f"decision; got shape {values.shape}, type {values.dtype}"
        )
    return np.ascontiguousarray(values, dtype=kind)


def _action_sets(given: Any, n: int) -> tuple[Floats, ...]:
    try:
        sets = tuple(np.ascontiguousarray(actions, dtype=np.float64) for actions in given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"arms must be an array (K, d) for each decision; {error}") from None
    if len(sets) != n:
        raise ValueError(f"arms must be {n} arrays, one for each decision; got {len(sets)}")
    for i, actions in enumerate(sets):
        if actions.ndim != 2 or 0 in actions.shape or actions.shape[1] != sets[0].shape[-1]:
            raise ValueError(
                "arms must be arrays (K, d) that are not empty, with one d for all; "
                f"row {i} has shape {actions.shape}, row 0 {sets[0].shape}"
            )
        if not np.isfinite(actions).all():
            raise ValueError(f"arms must be finite; row {i} is not")
    return sets


def _arm_names(given: Any, arms: Sequence[Floats]) -> tuple[tuple[str, ...], ...]:
    if given is None:
        return tuple(tuple(map(str, range(len(actions)))) for actions in arms)
    names = tuple(tuple(checks.listed("arm_ids", row)) for row in checks.listed("arm_ids", given))
    if [len(row) for row in names] != [len(actions) for actions in arms]:
        raise ValueError("arm_ids must have one name for each action of each decision")
    for i, row in enumerate(names):
        if not all(isinstance(name, str) for name in row) or len(set(row)) < len(row):
            raise ValueError(f"arm_ids must be texts that differ within a decision; row {i}: {row}")
    return names


def _refuse_rows(name: str, values: NDArray[Any], bad: NDArray[np.bool_], allowed: str) -> None:
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name} must be {allowed}; row {i} has {values[i]}")
