"""Worlds made of recorded data: arrays, or a table in a file or a frame."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.environments.trace import Trace
from driftbandits.features import Encoding, Features, records_of

Record = Mapping[str, Any]

TABLE_FILES = (".csv", ".csv.gz", ".tsv", ".parquet")
_NO_VALUE = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
_MOST_COORDINATES = 1000


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A world with the same trace in every run, or with its rounds in random order.

    With full feedback (a reward for every arm) any policy can be played on it. With partial
    feedback the trace has NaN for what nobody observed, as `Trace` explains: a policy that
    chooses such an arm learns nothing in that round, and there is no regret.

    shuffle  draws the order of the rounds anew in each run. This removes every change over time,
             so the change points of the trace are dropped.
    """

    trace: Trace
    shuffle: bool = False

    def draw(self, rng: np.random.Generator) -> Trace:
        checks.generator("rng", rng)
        if not self.shuffle:
            return self.trace
        order = rng.permutation(self.trace.horizon)
        shuffled: dict[str, Any] = {"changes": None}
        for name in ("actions", "rewards", "means", "available", "theta"):
            values = getattr(self.trace, name)
            shuffled[name] = None if values is None else values[order]
        for name in ("contexts", "offers"):
            rows = getattr(self.trace, name)
            shuffled[name] = None if rows is None else tuple(rows[t] for t in order)
        return replace(self.trace, **shuffled)

    @property
    def dim(self) -> int:
        return self.trace.dim

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        return float(np.abs(self.trace.actions).max())


def logged(
    *,
    actions: ArrayLike,
    rewards: ArrayLike,
    chosen: ArrayLike | None = None,
    arms: int | None = None,
    means: ArrayLike | None = None,
    available: ArrayLike | None = None,
    changes: tuple[int, ...] | None = None,
    shuffle: bool = False,
) -> Logged:
    """Make a world of arrays.

    actions  (T, K, d), or (T, d): one context a round, for which every arm has its own parameter.
             Arm k's action then is the context in the k-th of K blocks, zeros elsewhere
    rewards  (T, K): of every arm, NaN where unknown; or (T,): of the arm that was `chosen`
    chosen   (T,) the arm that was chosen in each round, when rewards is (T,)
    arms     K, when neither actions nor rewards tells

    >>> world = logged(actions=[[1.0], [1.0]], rewards=[1, 0], chosen=[0, 1], arms=2)
    >>> world.trace.actions[0].tolist(), world.trace.rewards.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[1.0, nan], [nan, 0.0]])
    """
    checks.flag("shuffle", shuffle)
    offered = checks.array("actions", actions, ndim=2 if _is_matrix(actions) else 3)
    if offered.ndim == 3:
        arms = _number_of_arms(arms, offered.shape[1])
    elif _is_matrix(rewards):
        arms = _number_of_arms(arms, np.shape(rewards)[1])
    elif arms is None:
        raise ValueError("arms must be given when actions is (T, d) and rewards is (T,)")
    else:
        arms = checks.integer("arms", arms, least=1)
    known = _spread(rewards, chosen, rounds=len(offered), arms=arms)
    trace = Trace(
        actions=offered if offered.ndim == 3 else _for_each_arm(offered, arms),
        rewards=known,
        means=means,  # type: ignore[arg-type]  # Trace makes arrays of them
        available=available,  # type: ignore[arg-type]
        changes=changes,
        partial=bool(np.isnan(known).any()),
    )
    return Logged(trace=trace, shuffle=shuffle)


def _is_matrix(value: ArrayLike) -> bool:
    try:
        return np.ndim(value) == 2
    except ValueError:  # rows of different lengths: the check of the values will say so
        return False


def _number_of_arms(given: int | None, found: int) -> int:
    if given is not None and given != found:
        raise ValueError(f"arms must be {found}, as in the arrays; got {given!r}")
    return found


def _for_each_arm(contexts: NDArray[np.float64], arms: int) -> NDArray[np.float64]:
    rounds, dim = contexts.shape
    actions = np.zeros((rounds, arms, arms, dim))
    actions[:, np.arange(arms), np.arange(arms)] = contexts[:, None, :]
    return actions.reshape(rounds, arms, arms * dim)


def _spread(
    rewards: ArrayLike, chosen: ArrayLike | None, *, rounds: int, arms: int
) -> NDArray[np.float64]:
    """Return rewards as (T, K), with NaN for what was not observed."""
    if _is_matrix(rewards):
        if chosen is not None:
            raise ValueError("chosen must be left out when rewards is (T, K)")
        return checks.array("rewards", rewards, ndim=2, missing=True)
    observed = checks.array("rewards", rewards, ndim=1, missing=True)
    if chosen is None:
        raise ValueError("chosen must be given when rewards is (T,): the arm of each reward")
    picked = np.asarray(chosen)
    if observed.shape != (rounds,) or picked.shape != (rounds,) or picked.dtype.kind not in "iu":
        raise ValueError(
            f"rewards and chosen must have one value for each of the {rounds} rounds, chosen whole "
            f"numbers; got shapes {observed.shape} and {picked.shape}, type {picked.dtype}"
        )
    if picked.min() < 0 or picked.max() >= arms:
        raise ValueError(
            f"chosen must lie in 0..{arms - 1}; got values from {picked.min()} to {picked.max()}"
        )
    known = np.full((rounds, arms), np.nan)
    known[np.arange(rounds), picked] = observed
    return known


# -- tables ----------------------------------------------------------------------------------------


class TableRows:
    """The rows of a file, of a frame or of a list of dicts, with checks of the columns.

    A refusal names the argument, the column, and the columns that there are.
    """

    def __init__(self, table: Any) -> None:
        is_path = isinstance(table, (str, Path))
        self.name = str(table) if is_path else "the table"
        self.rows: list[Record] = records_of(_read(Path(table)) if is_path else table, "table")
        if not self.rows:
            raise ValueError(f"{self.name} must have at least one row; got none")
        self.names = list(dict.fromkeys(name for row in self.rows for name in row))

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, label: str, name: Any, *, complete: bool = True) -> list[Any]:
        """Return the values of a column; `complete` refuses missing ones."""
        if not isinstance(name, str) or name not in self.names:
            raise ValueError(
                f"{label} must name a column of {self.name}; got {name!r}"
                f"{checks.perhaps(str(name), self.names)}. It has {', '.join(self.names)}"
            )
        values = [row.get(name) for row in self.rows]
        if complete:
            for number, value in enumerate(values, start=1):
                if _is_missing(value):
                    raise ValueError(
                        f"{label}: column {name!r} of {self.name} must have a value in every row; "
                        f"row {number} has none"
                    )
        return values

    def numbers(self, label: str, name: Any, *, complete: bool = True) -> NDArray[np.float64]:
        """Return the values of a column of numbers, with NaN where one is missing."""
        values = self.column(label, name, complete=complete)
        found = np.full(len(values), np.nan)
        for i, value in enumerate(values):
            if not _is_missing(value):
                try:
                    found[i] = float(value)
                except (TypeError, ValueError):
                    raise ValueError(
                        f"{label}: column {name!r} of {self.name} must hold numbers; "
                        f"row {i + 1} has {value!r}"
                    ) from None
        return found

    def ids(self, label: str, name: Any) -> list[str]:
        """Return the values of a column of arm ids as texts; 3.0 is the id 3."""
        values = self.column(label, name)
        return [
            str(int(value) if isinstance(value, float) and value.is_integer() else value)
            for value in values
        ]

    def records(self, label: str, names: Any) -> list[dict[str, Any]]:
        """Return some columns of every row."""
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise ValueError(f"{label} must be a list of columns; got {names!r}")
        columns = [self.column(label, name, complete=False) for name in names]
        if len(set(names)) < len(names):
            raise ValueError(f"{label} must name each column once; got {', '.join(names)}")
        if not columns:
            return [{} for _ in self.rows]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124


def _read(path: Path) -> Any:
    """Read a table as a polars frame, with types that are those of the whole column."""
    name = path.name.lower()
    if not name.endswith(TABLE_FILES):
        raise ValueError(f"a table must be a file {', '.join(TABLE_FILES)}; got {str(path)!r}")
    pl = checks.load("polars", "Tables in files need polars")
    try:
        if name.endswith(".parquet"):
            return pl.read_parquet(path)
        open_text = gzip.open if name.endswith(".gz") else open
        with open_text(path, "rt", encoding="utf-8-sig") as file:
            header = file.readline()
        separator = max(",;\t", key=header.count)
        return pl.read_csv(
            path, separator=separator, infer_schema_length=None, null_values=_NO_VALUE
        )
    except (UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{str(path)!r} must be a readable table; {error}") from None


def trace_of_table(
    table: Any,
    *,
    context: Sequence[str],
    label: str | None,
    rewards: Sequence[str] | Mapping[str, str] | None,
    arm: str | None,
    reward: str | None,
    arms: str,
) -> Trace:
    """Make the trace that `Trace.from_frame` describes."""
    checks.choice("arms", arms, ("shared", "separate"))
    ways = [name for name, given in (("label", label), ("rewards", rewards), ("arm", arm)) if given]
    if len(ways) != 1 or (arm is None) != (reward is None):
        raise ValueError(
            "give label (the column with the right arm), or rewards (the columns with the reward "
            "of each arm), or arm and reward (what was chosen and what it earned); got "
            f"{' and '.join([*ways, *['reward'] * (reward is not None)]) or 'none of them'}"
        )
    rows = TableRows(table)
    contexts = rows.records("context", context)
    if rewards is not None:
        columns = rewards if isinstance(rewards, Mapping) else {name: name for name in rewards}
        ids = [str(id) for id in columns]
        known = np.column_stack([rows.numbers("rewards", column) for column in columns.values()])
    else:
        chosen = rows.ids(ways[0], label if arm is None else arm)
        ids = list(dict.fromkeys(chosen))
        places = np.array([ids.index(id) for id in chosen])
        if reward is None:
            known = np.eye(len(ids))[places]
        else:
            observed = rows.numbers("reward", reward, complete=False)
            known = _spread(observed, places, rounds=len(rows), arms=len(ids))
    offer = tuple({"id": id} for id in ids)
    return Trace(
        actions=encoded(contexts, ids, crossed=arms == "shared"),
        rewards=known,
        partial=bool(np.isnan(known).any()),
        contexts=contexts,
        offers=(offer,) * len(rows),
    )


def encoded(
    contexts: Sequence[Record], ids: Sequence[str], *, crossed: bool
) -> NDArray[np.float64]:
    """Encode contexts for every arm (T, K, d): in coordinates of its own, or the same for all."""
    arms = [{"id": id} for id in ids]
    columns = Features.guess(contexts, arms).context if contexts[0] else {}
    features = Features(
        context=columns,
        arm={"id": "category"} if crossed else {},
        cross=(("arm", "*"),) if crossed and columns else (),
        extra="ignore",
        limit=_MOST_COORDINATES,
    )
    encoding = Encoding(features.fit(contexts, arms))
    offer: list[Any] = [(id, {}) for id in ids]
    rows = np.array([encoding.encode(row, offer).dense(len(encoding)) for row in contexts])
    # Coordinates for missing values and unseen levels are never used in a table without any.
    return np.ascontiguousarray(rows[:, :, rows.any(axis=(0, 1))])


def table_world(
    *,
    path: str | Path | None = None,
    frame: Any = None,
    context: Sequence[str],
    label: str | None = None,
    rewards: Sequence[str] | Mapping[str, str] | None = None,
    arm: str | None = None,
    reward: str | None = None,
    arms: str = "shared",
    shuffle: bool = False,
) -> Logged:
    """Make a world of the table in a file (`path`) or a `frame`; see `Trace.from_frame`."""
    if (path is None) == (frame is None):
        raise ValueError("give either path, a CSV or Parquet file, or frame, a frame or rows")
    trace = Trace.from_frame(
        frame if path is None else path,
        context=context,
        label=label,
        rewards=rewards,
        arm=arm,
        reward=reward,
        arms=arms,
    )
    return Logged(trace=trace, shuffle=checks.flag("shuffle", shuffle))
