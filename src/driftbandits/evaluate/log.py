"""Logs of decisions: what was offered, what was chosen, how likely that was, and the reward."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        for name, whole in (("at", 1), ("chosen", 1), ("propensity", 0), ("reward", 0)):
            hold(name, _column(name, getattr(self, name), len(self), whole=bool(whole)))
        given = enumerate(checks.listed("arms", self.arms))
        hold("arms", tuple(checks.array(f"arms of row {i}", one, ndim=2) for i, one in given))
        if len(self.arms) != len(self) or any(one.shape[1] != self.dim for one in self.arms):
            raise ValueError(
                f"arms must be {len(self)} arrays (K, d), one for each decision, with one d for "
                f"all; got {len(self.arms)} with d = {sorted({one.shape[1] for one in self.arms})}"
            )
        hold("arm_ids", _arm_names(self.arm_ids, self.arms))
        is_arm = (self.chosen >= 0) & (self.chosen < self.sizes)
        in_range = (self.propensity > 0.0) & (self.propensity <= 1.0)
        for name, good, allowed in (
            ("at", np.diff(self.at, prepend=self.at[0]) >= 0, "no earlier than in the row before"),
            ("chosen", is_arm, "the place of an arm, from 0"),
            ("propensity", in_range, "above 0 and at most 1"),
            ("reward", ~np.isinf(self.reward), "finite, or NaN where unknown"),
        ):
            if not good.all():
                row = int(good.argmin())
                raise ValueError(
                    f"{name} must be {allowed}; row {row} has {getattr(self, name)[row]}"
                )

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

    @property
    def dim(self) -> int:
        return int(self.arms[0].shape[1])

    @cached_property
    def sizes(self) -> Ints:
        """Return the number of actions offered in each round."""
        return np.array([len(actions) for actions in self.arms], dtype=np.int64)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return True where the reward is known."""
        return ~np.isnan(self.reward)

    @cached_property
    def played(self) -> Floats:
        """Return the actions that were chosen (n, d)."""
        rows = zip(self.arms, self.chosen, strict=True)
        return np.array([actions[index] for actions, index in rows])

    def trace(self, *, keep: NDArray[np.bool_] | bool = True) -> Trace:
        """Return the log as a trace: the reward of the logged arm, NaN for every other.

        keep  (n,) the rounds whose reward is shown; everywhere else it is NaN
        """
        available = np.arange(self.sizes.max()) < self.sizes[:, None]
        actions = np.zeros((*available.shape, self.dim))
        actions[available] = np.concatenate(self.arms)
        rewards = np.full(available.shape, np.nan)
        rewards[np.arange(len(self)), self.chosen] = np.where(keep, self.reward, np.nan)
        return Trace(actions=actions, rewards=rewards, available=available, partial=True)


def log_of(
    rows: Sequence[LoggedDecision], features: Features | None = None, *, keep: Iterable[str] = ()
) -> Log:
    """Make a log of its lines, in the order of time.

    Lines that have tables get vectors of at most length 1.

    features  what makes the vectors; guessed from the log if None, fitted to it if they are not
    keep      columns that the guess takes although they are named like an outcome
    """
    ordered = sorted(rows, key=lambda row: row.at)
    tables = [row.table for row in ordered if row.table is not None]
    if tables:
        ordered, features = _with_vectors(ordered, tables, features, keep)
    columns: list[Any] = list(zip(*ordered, strict=True)) or [()] * 8
    event_id, at, arm_ids, arms, chosen, propensity, reward, _ = columns
    log = Log(event_id, at, arms, chosen, propensity, reward, arm_ids)
    return replace(log, tables=tables, features=features) if tables else log


def _with_vectors(
    rows: list[LoggedDecision],
    tables: list[Table],
    features: Features | None,
    keep: Iterable[str],
) -> tuple[list[LoggedDecision], Features]:
    contexts = [context for context, _ in tables]
    offers: list[list[dict[str, Any]]] = [
        [{ID: id, **columns} for id, columns in zip(row.arm_ids, offered, strict=True)]
        for row, (_, offered) in zip(rows, tables, strict=True)
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
        encoding.encode(context, [(arm.pop(ID), arm) for arm in offer])
        for context, offer in zip(contexts, offers, strict=True)
    ]
    found = [
        row._replace(arms=one.dense(len(encoding))) for row, one in zip(rows, encoded, strict=True)
    ]
    return found, encoding.features


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
        wide[np.arange(len(names)), [places[name] for name in names]] = with_constant(actions)
        sets.append(wide.reshape(len(names), -1))
    return replace(log, arms=sets)


def with_constant(rows: Floats) -> Floats:
    """Append a 1 to every row."""
    return np.pad(rows, ((0, 0), (0, 1)), constant_values=1.0)


def nanoseconds(label: str, value: Any) -> int:
    """Return a time in nanoseconds since 1970; UTC unless it says otherwise."""
    beyond = 0  # what a datetime cannot hold
    if isinstance(value, str):
        digits = re.search(r"[.,]\d{6}(\d{1,3})", value)
        beyond = int(digits[1].ljust(3, "0")) if digits else 0
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{label} must be a time such as 2025-03-31 16:30:00, with the year first, or "
                f"seconds since 1970; got {value!r}"
            ) from None
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 + beyond
    return round(1e9 * checks.number(label, value))


def timestamp(at: int) -> str:
    """Format nanoseconds since 1970, with seven digits of a second or, where needed, nine."""
    whole, fraction = divmod(at, 10**9)
    moment = datetime.fromtimestamp(whole, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}"
    return f"{moment}.{digits[:7] if digits.endswith('00') else digits}Z"


def _names(given: Any) -> tuple[str, ...]:
    names = tuple(checks.listed("event_id", given))
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            "event_id must hold at least one decision, each with a text that is not empty; got "
            f"{checks.brief(names)}"
        )
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(f"event_id must differ from row to row; got {twice!r} twice")
    return names


def _column(name: str, given: Any, n: int, *, whole: bool) -> NDArray[Any]:
    values = np.asarray(given) if whole else checks.floats(name, given)
    if values.shape != (n,) or values.dtype.kind not in ("iu" if whole else "f"):
        raise ValueError(
            f"{name} must be {n} {'whole ' if whole else ''}numbers, one for each decision; got "
            f"shape {values.shape}, type {values.dtype}"
        )
    return np.ascontiguousarray(values, dtype=np.int64 if whole else np.float64)


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
