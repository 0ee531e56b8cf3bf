"""Contexts and arms as people have them: frames, rows, dicts, lists with ids.

Frames of pandas, polars and Arrow are read by narwhals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from driftbandits import checks
from driftbandits.checks import brief, perhaps

ArmId = str | int
Record = Mapping[str, Any]
Offered = list[tuple[ArmId, Record | None]]
"""The arms by id, each with its columns; None where only the id was given."""

ID = "id"
LONGEST_ID = 1024
_FRAMES = ("pandas", "polars", "pyarrow", "modin", "cudf")


def frame_of(columns: Mapping[str, list[Any]]) -> Any:
    """A frame of these columns, by the first of polars, pandas and pyarrow that is installed."""
    for package, make in (("polars", "DataFrame"), ("pandas", "DataFrame"), ("pyarrow", "table")):
        if find_spec(package):
            return getattr(import_module(package), make)(columns)
    raise ImportError("frames need polars, pandas or pyarrow: pip install polars")


def arm_rows(arms: Any) -> Sequence[Record]:
    """The rows of a table of arms, or of arms by id."""
    if isinstance(arms, Mapping):
        return [{ID: id, **(row or {})} for id, row in arms_of(arms, ())]
    return records_of(arms, "arm")


def is_frame(table: Any) -> bool:
    """True for a frame (not for a single row of one)."""
    home = type(table).__module__.partition(".")[0]
    return home in _FRAMES and hasattr(table, "columns")


def records_of(table: Any, label: str = "frame") -> list[Record]:
    """The rows of a frame, or of a list of dicts."""
    if is_frame(table):
        need = "Frames of pandas, polars and Arrow need narwhals"
        narwhals = checks.load("narwhals", need, extra="frames")
        rows: list[Record] = narwhals.from_native(table, eager_only=True).rows(named=True)
        return rows
    if isinstance(table, (str, bytes, Mapping)) or not isinstance(table, Iterable):
        raise ValueError(
            f"{label} must be a frame of pandas, polars or Arrow, or a list of dicts; "
            f"got {brief(table)}"
        )
    return [record_of(row, f"row {number} of {label}") for number, row in enumerate(table)]


def check_columns(label: str, table: Any, wanted: Collection[str]) -> None:
    """Refuse a frame that lacks a column, which a dict may."""
    if is_frame(table):
        given = table.column_names if hasattr(table, "column_names") else table.columns
        names = [str(name) for name in given]
        lost = next((column for column in wanted if column not in names), None)
        if lost is not None:
            raise ValueError(
                f"{label} must have the column {lost!r}{perhaps(lost, names)}; "
                f"got {', '.join(names) or 'none'}"
            )


def record_of(given: Any, label: str) -> Record:
    """One row: a dict, a row of a frame, or a frame of one row."""
    row: Any = given
    if is_frame(given):
        rows = records_of(given, label)
        if len(rows) != 1:
            raise ValueError(f"{label} must be one row; got a frame of {len(rows)}")
        row = rows[0]
    elif hasattr(given, "_asdict"):  # a named tuple, as pandas' itertuples gives
        row = given._asdict()
    elif hasattr(given, "to_dict"):  # a row of a pandas frame
        row = given.to_dict()
    if not isinstance(row, Mapping):
        raise ValueError(f"{label} must be a dict of columns and values; got {brief(given)}")
    return row


def offered(arms: Any, wanted: Collection[str]) -> Offered:
    """The arms that are offered: distinct ids, with the columns of each."""
    found = arms_of(arms, wanted)
    if not found:
        raise ValueError("arms must hold at least one arm; got none")
    refuse_twice([id for id, _ in found])
    return found


def refuse_twice(ids: Sequence[ArmId]) -> None:
    """Refuse arms of which two have the same id."""
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise ValueError(f"arms must differ; got {twice!r} twice")


def offers_of(arms: Any, rows: int, wanted: Collection[str]) -> list[Offered]:
    """The arms of so many decisions: those of every one, or a list with those of each."""
    is_one = isinstance(arms, (str, bytes, Mapping)) or is_frame(arms)
    if not is_one and isinstance(arms, Iterable):
        first = next(iter(arms), None)
        is_one = isinstance(first, (str, int)) or (isinstance(first, Mapping) and ID in first)
        if not is_one:
            found = [offered(one, wanted) for one in arms]
            check_count("offer", len(found), rows)
            return found
    return [offered(arms, wanted)] * rows


def check_count(what: str, given: int, wanted: int) -> None:
    if given != wanted:
        raise ValueError(
            f"arms must be one {what} for each context; got {given} for {wanted} contexts"
        )


def arms_of(arms: Any, wanted: Collection[str]) -> Offered:
    """Arms by id, each with its columns; an arm may be named often."""
    if isinstance(arms, Mapping):
        return [
            (arm_id(id), None if row is None else record_of(row, f"arm {id!r}"))
            for id, row in arms.items()
        ]
    if is_frame(arms):
        check_columns("arms", arms, (ID, *wanted))
        arms = records_of(arms, "arms")
    if arms is None or isinstance(arms, (str, bytes)) or not isinstance(arms, Iterable):
        raise ValueError(
            "arms must be a dict of arms by id, a list of ids, a list of dicts with an id, or a "
            f"frame with a column {ID!r}; got {brief(arms)}"
        )
    return [_arm(arm) for arm in arms]


def _arm(arm: Any) -> tuple[ArmId, Record | None]:
    if type(arm) is str or not isinstance(arm, Mapping):
        return arm_id(arm), None
    if ID not in arm:
        raise ValueError(f"arms must each have an {ID!r}; got {brief(dict(arm))}")
    return arm_id(arm[ID]), {name: value for name, value in arm.items() if name != ID}


def arm_id(arm: Any) -> ArmId:
    """The id of an arm: a text or a whole number."""
    if isinstance(arm, str):
        if len(arm) <= LONGEST_ID:
            return arm if type(arm) is str else str(arm)
        raise ValueError(
            f"arms must have ids of at most {LONGEST_ID} characters; got {len(arm)}: "
            f"{arm[:20]!r}..."
        )
    if isinstance(arm, (int, np.integer)) and not isinstance(arm, bool):
        return int(arm)
    raise ValueError(f"arms must be strings or integers; got {brief(arm)}")
