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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftbandits import checks
from driftbandits.environments import TableRows
from driftbandits.evaluate.dsjson import read_dsjson, write_dsjson
from driftbandits.evaluate.frames import log_from_frame
from driftbandits.evaluate.log import Log, LoggedDecision, Table, log_by_arm, log_of, timestamp
from driftbandits.features import Features, features_from
from driftbandits.store import ABOUT, START, Head, Kind, Session, checked

_DSJSON = (".json", ".dsjson", ".jsonl")
_TABLES = (".csv", ".csv.gz", ".tsv")
CSV = ("event_id", "time", "arm", "offered", "propensity", "reward")
"""The columns of a CSV file beside those of the context, named like the options of `read_log`."""
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
            raise ValueError(f"{', '.join(columns)} must not be given: {str(path)!r} is no table")
        return read_dsjson(path, features=features)
    if kind == ".parquet" and not columns:
        return read_parquet(path)
    rows = TableRows(Path(path))
    if not columns and set(CSV) <= set(rows.names):
        context = [name for name in rows.names if name not in CSV]
        columns = {"context": context, **dict(zip(CSV, CSV, strict=True))}
    missing = [name for name in ("context", "arm", "reward") if name not in columns]
    if missing:
        raise ValueError(
            f"{' and '.join(', '.join(missing).rsplit(', ', 1))} must name columns of the table "
            f"{str(path)!r}: context (what was known), arm (what was chosen) and reward (what it "
            f"earned). It has {', '.join(rows.names)}"
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
    checks.write_whole(path, gzip.compress(content) if _kind(path) == ".csv.gz" else content)


# -- Parquet ---------------------------------------------------------------------------------------


def read_parquet(path: str | os.PathLike[str]) -> Log:
    """Read the log in a Parquet file."""
    pl = _polars()
    with Path(path).open("rb") as file:
        try:
            about = pl.read_parquet_metadata(file).get(ABOUT)
            file.seek(0)
            frame = pl.read_parquet(file)
        except pl.exceptions.ComputeError as error:
            raise ValueError(
                f"path must be a Parquet file; {str(path)!r} is not: {error}"
            ) from None
    served = None if about is None else json.loads(about)["configuration"]["arguments"]
    if "kind" in frame.columns:
        return _joined(_exported(frame), served)
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
    lists = [column.to_list() for column in columns.values()]
    names = frame["arm_ids"].to_list() if "arm_ids" in frame.columns else [None] * len(frame)
    rows = [
        LoggedDecision(event_id, at, tuple(ids or map(str, range(len(arms)))), arms, *rest)
        for ids, event_id, at, arms, *rest in zip(names, *lists, strict=True)
    ]
    return replace(log_of(rows), served=served)


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
    with checks.whole_file(path) as file:
        frame.write_parquet(file, metadata=about)


# -- events of a service ---------------------------------------------------------------------------

Entry = tuple[str, str, Any]
"""The kind of an event, its id, and its decision, its value or the policy's new arguments."""


def _joined(entries: Iterable[Entry], served: Mapping[str, Any] | None = None) -> Log:
    """Join the events of a service, in their order, to a log.

    The reward is the one that was learned; one that came too late counts where nothing was.
    Decisions over actions of another dimension than those of the last one are left out; so are
    those over vectors where the last one had a table. Arms that had models of their own have
    coordinates of their own.
    """
    decided: dict[str, LoggedDecision] = {}
    late: dict[str, float] = {}
    for kind, id, content in entries:
        known = decided.get(id)
        if kind == Kind.CONFIGURED:
            served = content
        elif kind == Kind.LATE:
            late[id] = content
        elif kind == Kind.DECISION and known is not None:  # what was really shown
            row = known._replace(chosen=content.chosen, propensity=content.propensity)
            decided[id] = row
        elif kind == Kind.DECISION:
            decided[id] = content
        elif known is not None:
            decided[id] = known._replace(reward=content)
    if not decided:
        raise ValueError("events must hold at least one decision; got none")
    for id in late.keys() & decided.keys():
        if decided[id].reward is None:
            decided[id] = decided[id]._replace(reward=late[id])
    *_, last = decided.values()
    alike = [
        row
        for row in decided.values()
        if (row.table is None) == (last.table is None) and row.arms.shape[1] == last.arms.shape[1]
    ]
    if served is None:
        return log_of(alike)
    log = log_of(alike, features_from(served.get("features")))
    return replace(log_by_arm(log) if served.get("arms") == "separate" else log, served=served)


def _exported(frame: Any) -> Iterator[Entry]:
    """Read events from the table that the service makes of them."""
    for event in frame.sort("seq").iter_rows(named=True):
        if event["erased"] or event.get("place"):
            continue  # a later place shares the round of the first
        id, at, ids = event["event_id"], event["at_ns"], event["arm_ids"]
        if event["kind"] in (Kind.DECISION, Kind.CORRECTED):
            shared = np.tile(event.get("context") or [], (len(ids), 1))
            rows = shared if event["x"] is None else np.array(event["x"])
            how = event["index"], event["propensity"], None, _table(event.get("table"))
            yield Kind.DECISION, id, LoggedDecision(id, at, tuple(ids), rows, *how)
        elif event["kind"] in (Kind.REWARD, Kind.DEFAULT, Kind.LATE):
            yield event["kind"], id, event["value"]


def read_stored(session: Session, policy: str) -> Log:
    """Read the decisions of a policy and their rewards from a store, without erased events.

    A log that is not what was written raises `store.Corrupt`.
    """
    checks.choice("policy", policy, session.policies())
    return _joined(_stored(session, policy))


def _stored(session: Session, policy: str) -> Iterator[Entry]:
    from driftbandits.store.records import unpacked  # needs msgspec

    for event in checked(session.all_events(policy), after=Head(0, 0, START)):
        id, kind = event.event_id, event.kind
        record = None if event.is_erased else unpacked(kind, event.body)
        if record is None:
            continue
        if kind in (Kind.DECISION, Kind.CORRECTED):
            if record.place:
                continue  # it shares the round of the first place
            count = len(record.arms)
            shared = np.frombuffer(record.context or record.x, dtype="<f8").astype(np.float64)
            rows = np.tile(shared, (count, 1)) if record.context else shared.reshape(count, -1)
            how = record.index, record.propensity, None, _table(record.table)
            yield Kind.DECISION, id, LoggedDecision(id, event.at_ns, record.arms, rows, *how)
        elif kind in (Kind.CONFIGURED, Kind.PROMOTED):
            configured = record if kind == Kind.CONFIGURED else record.configured
            yield Kind.CONFIGURED, id, configured.arguments
        elif kind in (Kind.REWARD, Kind.DEFAULT, Kind.LATE):
            yield kind, id, record.value


def _table(text: str | bytes | None) -> Table | None:
    """Return the columns of the context and of each arm; what was not given has none."""
    if not text:
        return None
    context, arms = json.loads(text)
    return context or {}, [arm or {} for arm in arms]
