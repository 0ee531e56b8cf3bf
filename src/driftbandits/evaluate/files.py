"""Logs in files and stores: Parquet, DSJSON, CSV, and the events of a service.

Parquet files have one line a decision, with the columns event_id (text), at (UTC, nanoseconds),
arms (list of lists of numbers), arm_ids (list of texts, may be missing), chosen (from 0),
propensity, and reward (null where unknown). The metadata of the file say how the service was
configured, if it wrote the log. The events that a service exports as Parquet, one line an event,
are read as well.

CSV files written here have the columns `CSV`, and those of the context. Of other tables the columns
must be named, see `log_from_frame`.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftbandits import checks
from driftbandits.checks import whole_file
from driftbandits.environments import TableRows
from driftbandits.evaluate.dsjson import read_dsjson, timestamp, write_dsjson
from driftbandits.evaluate.frames import log_from_frame
from driftbandits.evaluate.log import (
    Log,
    LoggedDecision,
    Table,
    log_by_arm,
    log_of,
    log_of_tables,
)
from driftbandits.features import Features, features_from
from driftbandits.store import ABOUT, START, Event, Head, Kind, Session, checked

_DSJSON = (".json", ".dsjson", ".jsonl")
_TABLES = (".csv", ".csv.gz", ".tsv")
CSV = ("event_id", "at", "arm", "offered", "propensity", "reward")
"""The columns of a CSV file beside those of the context."""
REQUIRED = ("event_id", "at", "arms", "chosen", "propensity", "reward")


def read_log(
    path: str | os.PathLike[str], *, features: Features | None = None, **columns: Any
) -> Log:
    """Read the log in a file: .parquet, .csv, .csv.gz, .tsv, or .dsjson, .json, .jsonl.

    features  what makes vectors of a log of tables; guessed unless given
    columns   which columns of a table hold what: context, arm, reward, propensity, offered, time
              and event_id, as in `log_from_frame`. A table needs the first three; a file that
              `write_log` wrote needs none
    """
    kind = _kind(path)
    if kind in _DSJSON:
        if columns:
            raise ValueError(f"{', '.join(columns)}: {str(path)!r} is no table, it has no columns")
        return read_dsjson(path, features=features)
    if kind == ".parquet" and not columns:
        return read_parquet(path)
    rows = TableRows(Path(path))
    if not columns and set(CSV) <= set(rows.names):  # as `write_csv` names them
        event_id, time, arm, offered, propensity, reward = CSV
        own = {"event_id": event_id, "time": time, "offered": offered, "propensity": propensity}
        columns = {"context": [name for name in rows.names if name not in CSV], **own}
        columns |= {"arm": arm, "reward": reward}
    missing = [name for name in ("context", "arm", "reward") if name not in columns]
    if missing:
        raise ValueError(
            f"{' and '.join(missing)} must name columns of the table {str(path)!r}: context (what "
            "was known), arm (what was chosen) and reward (what it earned). It has "
            f"{', '.join(rows.names)}"
        )
    return log_from_frame(rows, features=features, **columns)


def write_log(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log in the format of the file's name."""
    kind = _kind(path)
    if kind in _DSJSON:
        write_dsjson(log, path)
    elif kind == ".parquet":
        write_parquet(log, path)
    else:
        write_csv(log, path)


def _kind(path: str | os.PathLike[str]) -> str:
    known = (".parquet", *_TABLES, *_DSJSON)
    name = Path(path).name.lower()
    for suffix in known:
        if name.endswith(suffix):
            return suffix
    raise ValueError(f"path must end in {', '.join(known[:-1])} or {known[-1]}; got {str(path)!r}")


def _polars() -> Any:
    return checks.load("polars", "Parquet and CSV need polars")


# -- CSV -------------------------------------------------------------------------------------------


def write_csv(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log of tables as CSV: the context, what was offered and chosen, and its reward.

    The columns that arms have are left out.
    """
    if log.tables is None:
        raise ValueError(
            "CSV holds tables, and this log has vectors: write .parquet or .dsjson instead"
        )
    lines = []
    for row, (context, _) in zip(log, log.tables, strict=True):
        offered = "|".join(row.arm_ids)
        own = row.event_id, timestamp(row.at), row.arm_ids[row.chosen], offered, row.propensity
        lines.append({**dict(context), **dict(zip(CSV, (*own, row.reward), strict=True))})
    separator = "\t" if _kind(path) == ".tsv" else ","
    text = _polars().DataFrame(lines, infer_schema_length=None).write_csv(separator=separator)
    content = text.encode()
    with whole_file(path) as file:
        file.write(gzip.compress(content) if _kind(path) == ".csv.gz" else content)


# -- Parquet ---------------------------------------------------------------------------------------


def read_parquet(path: str | os.PathLike[str]) -> Log:
    """Read the log in a Parquet file."""
    pl = _polars()
    with Path(path).open("rb") as file:
        try:
            served = _served(pl.read_parquet_metadata(file))
            file.seek(0)
            frame = pl.read_parquet(file)
        except pl.exceptions.ComputeError as error:
            raise ValueError(
                f"path must be a Parquet file; {str(path)!r} is not: {error}"
            ) from None
    if "kind" in frame.columns:
        return _log_of_events(frame, served)
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{str(path)!r} must have the columns {', '.join(REQUIRED)}; "
            f"{', '.join(missing)} missing. If it is another table, say which columns hold what, "
            f"with context, arm and reward; it has {', '.join(frame.columns)}"
        )
    columns = {name: frame[name] for name in REQUIRED}
    if columns["at"].dtype.is_temporal():
        columns["at"] = columns["at"].dt.epoch("ns")
    for name in REQUIRED[:-1]:
        if columns[name].null_count():
            raise ValueError(f"{name} must be known in every line; {str(path)!r} has nulls")
    lists = {name: column.to_list() for name, column in columns.items()}
    names = frame["arm_ids"].to_list() if "arm_ids" in frame.columns else [None] * len(frame)
    log = log_of(
        [
            LoggedDecision(event_id, at, _places(arms) if ids is None else tuple(ids), arms, *rest)
            for ids, event_id, at, arms, *rest in zip(names, *lists.values(), strict=True)
        ]
    )
    return log if served is None else replace(log, served=served)


def _places(arms: list[Any]) -> tuple[str, ...]:
    return tuple(map(str, range(len(arms))))


def write_parquet(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log to a Parquet file."""
    pl = _polars()
    frame = pl.DataFrame(
        {
            "event_id": log.event_id,
            "at": log.at,
            "arms": [actions.tolist() for actions in log.arms],
            "arm_ids": [list(names) for names in log.arm_ids or ()],
            "chosen": log.chosen,
            "propensity": log.propensity,
            "reward": log.reward,
        },
        schema_overrides={"arms": pl.List(pl.List(pl.Float64)), "arm_ids": pl.List(pl.String)},
    ).with_columns(pl.col("at").cast(pl.Datetime("ns", "UTC")), pl.col("reward").fill_nan(None))
    about = {}
    if log.served is not None:
        about[ABOUT] = json.dumps({"configuration": {"arguments": dict(log.served)}})
    with whole_file(path) as file:
        frame.write_parquet(file, metadata=about)


# -- events of a service ---------------------------------------------------------------------------


class Join:
    """Joins the events of a service to a log. They are added in their order.

    The reward is the one that was learned; one that came too late counts where nothing was.
    Decisions over actions of another dimension than those of the last one are left out; so are
    those over vectors where the last one had a table, which becomes vectors by `features`.
    """

    def __init__(self, served: Mapping[str, Any] | None = None) -> None:
        self._rows: dict[str, LoggedDecision] = {}
        self._late: dict[str, float] = {}
        self.configure(served)

    def configure(self, served: Mapping[str, Any] | None) -> None:
        """Add new arguments of the policy."""
        self._served = served
        self._features = None if served is None else features_from(served.get("features"))

    def decided(self, row: LoggedDecision) -> None:
        """Add a decision, or what was really shown in its place."""
        known = self._rows.get(row.event_id)
        if known is not None:
            row = known._replace(chosen=row.chosen, propensity=row.propensity)
        self._rows[row.event_id] = row

    def rewarded(self, event_id: str, kind: str, value: float) -> None:
        """Add an event that has a value; kinds other than rewards do nothing."""
        if kind in (Kind.REWARD, Kind.DEFAULT) and event_id in self._rows:
            self._rows[event_id] = self._rows[event_id]._replace(reward=value)
        elif kind == Kind.LATE:
            self._late[event_id] = value

    def log(self) -> Log:
        """Return the log; arms that had models of their own have coordinates of their own."""
        if not self._rows:
            raise ValueError("events must hold at least one decision; got none")
        rows = [
            row._replace(reward=self._late.get(row.event_id)) if row.reward is None else row
            for row in self._rows.values()
        ]
        if rows[-1].table is not None:
            found = log_of_tables([row for row in rows if row.table is not None], self._features)
        else:
            dim = rows[-1].arms.shape[1]
            found = log_of([r for r in rows if r.table is None and r.arms.shape[1] == dim])
        if self._served is None:
            return found
        separate = self._served.get("arms") == "separate"
        return replace(log_by_arm(found) if separate else found, served=self._served)


def _served(metadata: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the arguments of the policy that the service had, where the file says them."""
    text = metadata.get(ABOUT)
    if text is None:
        return None
    arguments: Mapping[str, Any] = json.loads(text)["configuration"]["arguments"]
    return arguments


def _log_of_events(frame: Any, served: Mapping[str, Any] | None) -> Log:
    join = Join(served)
    for event in frame.sort("seq").iter_rows(named=True):
        if event["erased"] or event.get("place"):
            continue  # a later place shares the round of the first
        id, at, ids = event["event_id"], event["at_ns"], event["arm_ids"]
        if event["kind"] in (Kind.DECISION, Kind.CORRECTED):
            shared = np.tile(event.get("context") or [], (len(ids), 1))
            rows = shared if event["x"] is None else np.array(event["x"])
            how = event["index"], event["propensity"], None, _table(event.get("table"))
            join.decided(LoggedDecision(id, at, tuple(ids), rows, *how))
        elif event["value"] is not None:
            join.rewarded(id, event["kind"], event["value"])
    return join.log()


def _table(text: str | bytes | None) -> Table | None:
    """Return the columns of the context and of each arm; what was not given has none."""
    if not text:
        return None
    context, arms = json.loads(text)
    return context or {}, [arm or {} for arm in arms]


def read_stored(session: Session, policy: str) -> Log:
    """Read the decisions of a policy and their rewards from a store, without erased events.

    A log that is not what was written raises `store.Corrupt`.
    """
    checks.choice("policy", policy, session.policies())
    join = Join()
    for event in checked(session.all_events(policy), after=Head(0, 0, START)):
        if not event.is_erased:
            _add(event, join)
    return join.log()


def _add(event: Event, join: Join) -> None:
    from driftbandits.store.records import unpacked  # needs msgspec

    if event.kind in (Kind.DECISION, Kind.CORRECTED):
        record = unpacked(Kind.DECISION, event.body)
        if record.place:
            return  # it shares the round of the first place, and has no action set of its own
        count = len(record.arms)
        shared = np.frombuffer(record.context or record.x, dtype="<f8")
        arms = np.tile(shared, (count, 1)) if record.context else shared.reshape(count, -1)
        rows, how = arms.astype(np.float64), (record.index, record.propensity, None)
        of = event.event_id, event.at_ns, tuple(record.arms), rows
        join.decided(LoggedDecision(*of, *how, _table(record.table)))
    elif event.kind in (Kind.CONFIGURED, Kind.PROMOTED):
        record = unpacked(event.kind, event.body)
        configured = record if event.kind == Kind.CONFIGURED else record.configured
        join.configure(configured.arguments)
    elif event.kind in (Kind.REWARD, Kind.DEFAULT, Kind.LATE):
        join.rewarded(event.event_id, event.kind, unpacked(event.kind, event.body).value)
