"""Logs as Parquet files, one line a decision.

Columns: event_id (text), at (UTC, nanoseconds), arms (list of lists of numbers), arm_ids (list of
texts), chosen (from 0), propensity, reward (null where unknown). arm_ids may be missing.

The events that the service gives as Parquet, one line an event, are read as well. Both say in the
metadata of the file how the service was configured, where it wrote the log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftbandits import extras
from driftbandits.evaluate.join import Join
from driftbandits.evaluate.log import Log, LoggedDecision, Table, log_of
from driftbandits.features import features_from
from driftbandits.files import whole_file
from driftbandits.store import ABOUT, CORRECTED, DECISION

REQUIRED = ("event_id", "at", "arms", "chosen", "propensity", "reward")


def _polars() -> Any:
    return extras.load("polars", "Parquet needs polars")


def read_parquet(path: str | os.PathLike[str]) -> Log:
    """The log in a Parquet file."""
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
        return _joined(frame, served)
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{str(path)!r} must have the columns {', '.join(REQUIRED)}; "
            f"{', '.join(missing)} missing"
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


def _served(metadata: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The arguments of the policy that the service had, where the file says them."""
    text = metadata.get(ABOUT)
    if text is None:
        return None
    arguments: Mapping[str, Any] = json.loads(text)["configuration"]["arguments"]
    return arguments


def _joined(frame: Any, served: Mapping[str, Any] | None) -> Log:
    """The log that a table of the service's events tells."""
    join = Join()
    if served is not None:
        join.served, join.features = served, features_from(served.get("features"))
    for event in frame.sort("seq").iter_rows(named=True):
        if event["erased"] or event.get("place"):
            continue  # a later place shares the round of the first
        if event["kind"] in (DECISION, CORRECTED):
            join.decided(
                LoggedDecision(
                    event_id=event["event_id"],
                    at=event["at_ns"],
                    arm_ids=tuple(event["arm_ids"]),
                    arms=_actions(event),
                    chosen=event["index"],
                    propensity=event["propensity"],
                    reward=None,
                    table=_table(event),
                )
            )
        elif event["value"] is not None:
            join.came_of(event["event_id"], event["kind"], event["value"])
    return join.log()


def _actions(event: Mapping[str, Any]) -> Any:
    """The vectors of a decision: of each arm, of all of them, or none where it has a table."""
    if event["x"] is not None:
        return np.array(event["x"])
    return np.tile(event.get("context") or [], (len(event["arm_ids"]), 1))


def _table(event: Mapping[str, Any]) -> Table | None:
    text = event.get("table")
    if text is None:
        return None
    context, arms = json.loads(text)
    return context or {}, [arm or {} for arm in arms]


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
