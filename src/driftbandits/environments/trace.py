"""Trace: the action sets and rewards of one run of a world, fixed before any policy plays.

A world draws a trace, or it is made of arrays or of a table. `Logged` is the world of one trace.

Notation
--------
T, K, d            rounds, arms, features
actions  (T, K, d) A_t, the actions offered in round t (row t-1)
rewards  (T, K)    X_t, one for every arm, so that every policy of a run plays the same world
means    (T, K)    mu(a . theta_t), by which regret is measured; None where they are unknown
available (T, K)   which arms may be chosen; None: all of them
theta    (T, d)    theta*_t, the parameter of each round
changes            the rounds, counted from 1, at which a new parameter takes effect
contexts (T)       the context of each round as columns, for policies with features
offers   (T, K)    the columns of every arm in each round, its "id" among them
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.features import Encoding, Features, records_of

Record = Mapping[str, Any]

TABLE_FILES = (".csv", ".csv.gz", ".tsv", ".parquet")
_NO_VALUE = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "-"]
_DECIMAL_COMMA = r"^\s*[+-]?\d+(,\d+)?\s*$"
_MOST_COORDINATES = 1000


@dataclass(frozen=True, eq=False)
class Trace:
    """One run's action sets and rewards, before any choice is made.

    Arrays that are already float64 and contiguous are not copied.

    `partial=True` allows NaN for rewards that were never observed, as in the log of a policy that
    saw only the arm it chose. A NaN is played as a reward that never arrives: the decision stays
    pending and teaches nothing. Regret is refused, because the best arm is unknown;
    `driftbandits.evaluate` estimates what another policy would have earned.

    >>> trace = Trace(actions=[[[1.0], [-1.0]]], rewards=[[1, 0]], means=[[0.7, 0.3]])
    >>> trace.horizon, trace.arms, trace.dim
    (1, 2, 1)
    >>> trace.regret([1]).round(3).tolist()
    [0.4]
    """

    actions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    means: NDArray[np.float64] | None = None
    available: NDArray[np.bool_] | None = None
    theta: NDArray[np.float64] | None = None
    changes: tuple[int, ...] | None = None
    partial: bool = False
    contexts: Sequence[Mapping[str, Any]] | None = None
    offers: Sequence[Sequence[Mapping[str, Any]]] | None = None

    def __post_init__(self) -> None:
        hold(self, actions=checks.array("actions", self.actions, ndim=3))
        rounds, arms, dim = self.actions.shape
        hold(self, partial=checks.flag("partial", self.partial))
        hold(self, rewards=checks.array("rewards", self.rewards, ndim=2, missing=True))
        if np.isnan(self.rewards).any() and not self.partial:
            raise ValueError(
                "rewards must be finite; got NaN. If these were never observed, give partial=True"
            )
        for name in ("means", "theta"):
            if (given := getattr(self, name)) is not None:
                hold(self, **{name: checks.array(name, given, ndim=2)})
        if self.available is not None:
            mask = np.asarray(self.available)
            if mask.dtype != np.bool_:
                raise ValueError(f"available must be an array of booleans; got type {mask.dtype}")
            hold(self, available=np.ascontiguousarray(mask))
        for name in ("rewards", "means", "available", "theta"):
            expected = (rounds, dim if name == "theta" else arms)
            found = np.shape(getattr(self, name))
            if found not in (expected, ()):
                raise ValueError(
                    f"{name} must have shape {expected} to go with the actions; got {found}"
                )
        if self.available is not None and not self.available.any(axis=1).all():
            empty = int(self.available.any(axis=1).argmin()) + 1
            raise ValueError(
                f"available must leave an arm in every round; got none in round {empty}"
            )
        if self.changes is not None:
            hold(self, changes=change_rounds(self.changes, horizon=rounds))
        if (self.contexts is None) != (self.offers is None):
            raise ValueError("contexts and offers must be given together; got one of them")
        if self.contexts is not None:
            contexts = checks.listed("contexts", self.contexts)
            offers = [checks.listed("offers", o) for o in checks.listed("offers", self.offers)]
            hold(self, contexts=contexts, offers=offers)
            if len(contexts) != rounds or [len(offer) for offer in offers] != [arms] * rounds:
                raise ValueError(
                    f"contexts and offers must be one for each of {rounds} rounds, with {arms} "
                    f"arms; got {len(contexts)} and {len(offers)}"
                )

    @classmethod
    def from_frame(
        cls,
        table: Any,
        *,
        context: Sequence[str],
        label: str | None = None,
        rewards: Sequence[str] | Mapping[str, str] | None = None,
        arm: str | None = None,
        reward: str | None = None,
        arms: str = "shared",
    ) -> Trace:
        """Make a trace of a table: one row a round, in the order of the rows.

        table    a CSV or Parquet file, a frame of pandas, polars or Arrow, or a list of dicts
        context  the columns that a policy may look at
        label    the column that has the right arm: choosing it pays 1, any other arm 0; or
        rewards  the columns that have the reward of each arm, by the arm's id where it is not the
                 column's name; or
        arm      the column that has the arm that was chosen, and
        reward   the one that has its reward; the rewards of other arms are unknown
        arms     `actions` are the context's columns as numbers of at most length 1. "shared": each
                 arm has coordinates of its own; "separate": all arms have the same row, as policies
                 with arms="separate" take it

        >>> rows = [{"age": 20, "best": "tea"}, {"age": 60, "best": "mate"}]
        >>> trace = Trace.from_frame(rows, context=["age"], label="best")
        >>> trace.rewards.tolist(), trace.offers[0]
        ([[1.0, 0.0], [0.0, 1.0]], [{'id': 'tea'}, {'id': 'mate'}])
        """
        checks.choice("arms", arms, ("shared", "separate"))
        ways = [
            name for name, given in (("label", label), ("rewards", rewards), ("arm", arm)) if given
        ]
        if len(ways) != 1 or (arm is None) != (reward is None):
            raise ValueError(
                "give label (the column with the right arm), or rewards (the columns with the "
                "reward of each arm), or arm and reward (what was chosen and what it earned); got "
                f"{' and '.join([*ways, *['reward'] * (reward is not None)]) or 'none of them'}"
            )
        rows = TableRows(table)
        contexts = rows.records("context", context)
        if rewards is not None:
            columns = rewards if isinstance(rewards, Mapping) else {name: name for name in rewards}
            ids = [str(id) for id in columns]
            known = np.column_stack(
                [rows.numbers("rewards", column) for column in columns.values()]
            )
        else:
            chosen = rows.ids(ways[0], label if arm is None else arm)
            ids = list(dict.fromkeys(chosen))
            places = np.array([ids.index(id) for id in chosen])
            if reward is None:
                known = np.eye(len(ids))[places]
            else:
                known = np.full((len(rows), len(ids)), np.nan)
                known[np.arange(len(rows)), places] = rows.numbers("reward", reward, complete=False)
        offer = tuple({"id": id} for id in ids)
        return cls(
            actions=_encoded(contexts, ids, crossed=arms == "shared"),
            rewards=known,
            partial=bool(np.isnan(known).any()),
            contexts=contexts,
            offers=(offer,) * len(rows),
        )

    def __repr__(self) -> str:
        return f"Trace({self.horizon} rounds, {self.arms} arms, {self.dim} features)"

    @property
    def horizon(self) -> int:
        return int(self.actions.shape[0])

    @property
    def arms(self) -> int:
        return int(self.actions.shape[1])

    @property
    def dim(self) -> int:
        return int(self.actions.shape[2])

    @property
    def payoffs(self) -> NDArray[np.float64]:
        """The means (T, K), or the rewards where the means are unknown (realised regret)."""
        if self.means is not None:
            return self.means
        if np.isnan(self.rewards).any(where=True if self.available is None else self.available):
            raise ValueError(
                "rewards must be known for every arm, or means given, to measure regret; "
                "got a trace with rewards that were never observed"
            )
        return self.rewards

    @property
    def best(self) -> NDArray[np.float64]:
        """The largest payoff among the arms available in each round (T,)."""
        allowed = True if self.available is None else self.available
        best: NDArray[np.float64] = self.payoffs.max(axis=1, where=allowed, initial=-np.inf)
        return best

    def regret(self, chosen: ArrayLike) -> NDArray[np.float64]:
        """Return the regret of each round (T,) for the arm indices `chosen` (T,)."""
        picked, rounds = np.asarray(chosen), np.arange(self.horizon)
        if picked.shape != rounds.shape or picked.dtype.kind not in "iu":
            raise ValueError(
                f"chosen must hold {self.horizon} arm indices, one a round; "
                f"got shape {picked.shape}, type {picked.dtype}"
            )
        allowed = (picked >= 0) & (picked < self.arms)
        if self.available is not None:
            allowed[allowed] = self.available[rounds[allowed], picked[allowed]]
        if not allowed.all():
            first = int(allowed.argmin())
            raise ValueError(
                f"chosen must be available arms; got arm {picked[first]} in round {first + 1}"
            )
        difference: NDArray[np.float64] = self.best - self.payoffs[rounds, picked]
        return difference


@runtime_checkable
class Environment(Protocol):
    """A world: any object that draws traces. It is sent to worker processes, so it must pickle."""

    def draw(self, rng: np.random.Generator) -> Trace:
        """Draw one run, which depends on nothing but the world and `rng`."""
        ...


def hold(frozen: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def option(default: Any, check: Callable[..., Any], **limits: Any) -> Any:
    """A field of a world with its check; one whose default is None may be left out."""
    return field(default=default, metadata={"check": partial(check, **limits)})


def check_options(world: Any) -> None:
    """Replace every option of a world by what its check makes of it."""
    for one in (one for one in fields(world) if "check" in one.metadata):
        value = getattr(world, one.name)
        if value is not None or one.default is not None:
            hold(world, **{one.name: one.metadata["check"](one.name, value)})


def change_rounds(changes: Any, *, horizon: int) -> tuple[int, ...]:
    """Return `changes` as a tuple of increasing rounds in 2..horizon."""
    listed = checks.listed("changes", changes)
    rounds = tuple(checks.integer("changes", value, least=2, most=horizon) for value in listed)
    if list(rounds) != sorted(set(rounds)):
        raise ValueError(f"changes must be increasing rounds; got {listed!r}")
    return rounds


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A world with the same trace in every run, or with its rounds in random order.

    shuffle  draws the order of the rounds anew in each run. This removes every change over time,
             so the change points of the trace are dropped.

    >>> trace = Trace(actions=[[[1.0], [-1.0]]], rewards=[[1, 0]])
    >>> Logged(trace=trace).draw(np.random.default_rng(0)) is trace
    True
    """

    trace: Trace
    shuffle: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.trace, Trace):
            raise ValueError(f"trace must be a driftbandits.Trace; got {type(self.trace).__name__}")
        checks.flag("shuffle", self.shuffle)

    def draw(self, rng: np.random.Generator) -> Trace:
        checks.generator("rng", rng)
        if not self.shuffle:
            return self.trace
        order = rng.permutation(self.trace.horizon)
        shuffled: dict[str, Any] = {"changes": None}
        for name in ("actions", "rewards", "means", "available", "theta", "contexts", "offers"):
            rows = getattr(self.trace, name)
            if rows is not None:
                shuffled[name] = (
                    rows[order] if isinstance(rows, np.ndarray) else [rows[t] for t in order]
                )
        return replace(self.trace, **shuffled)

    @property
    def dim(self) -> int:
        return self.trace.dim

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        return float(np.abs(self.trace.actions).max())


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
        if f"{name}_duplicated_0" in self.names:  # as polars calls the second one
            raise ValueError(f"{label}: {self.name} must have one column {name!r}; it has more")
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
                with suppress(TypeError, ValueError, OverflowError):
                    found[i] = float(value)
                if not math.isfinite(found[i]):
                    raise ValueError(
                        f"{label}: column {name!r} of {self.name} must hold finite numbers "
                        f"(1 and 0 for yes and no, 0.5 for 0,5); row {i + 1} has {value!r}"
                    )
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
        for name in names:
            self.column(label, name, complete=False)
        if len(set(names)) < len(names):
            raise ValueError(f"{label} must name each column once; got {', '.join(names)}")
        return [{name: row.get(name) for name in names} for row in self.rows]


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
        separator = max(",;\t|", key=header.count)
        frame = pl.read_csv(
            path, separator=separator, infer_schema_length=None, null_values=_NO_VALUE
        )
    except (UnicodeDecodeError, pl.exceptions.PolarsError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # there is no such file, or it may not be read
        reason = str(error).partition("\n")[0]  # polars goes on with its own options
        raise ValueError(
            f"{str(path)!r} must be a readable table, saved as UTF-8, with a value for each column "
            f"in every row; {reason}"
        ) from None
    texts = [] if separator == "," else frame.select(pl.col(pl.String)).iter_columns()
    numbers = [
        column.str.strip_chars().str.replace(",", ".").cast(pl.Float64)
        for column in texts
        if column.str.contains(_DECIMAL_COMMA).all() and column.str.contains(",").any()
    ]
    return frame.with_columns(numbers)


def _encoded(
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
    shuffle: bool = False,
    **columns: Any,
) -> Logged:
    """Make a world of the table in a file (`path`) or a `frame`; see `Trace.from_frame`."""
    if (path is None) == (frame is None):
        raise ValueError("give either path, a CSV or Parquet file, or frame, a frame or rows")
    trace = Trace.from_frame(frame if path is None else path, **columns)
    return Logged(trace=trace, shuffle=shuffle)
