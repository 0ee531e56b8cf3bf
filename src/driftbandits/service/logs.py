"""The log for others to read: as JSON, and as Parquet for analysis."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from driftbandits.api import Arm, EventAnswer
from driftbandits.service.offers import offer_of
from driftbandits.service.state import CARRIED, FRESH, RELEARNED, Version
from driftbandits.service.views import clock_text, configuration
from driftbandits.store import ABOUT, Event, Kind
from driftbandits.store.records import unpacked

_FRAME_BYTES = 500_000
_ROW_BYTES = 200

_COPIED = (
    *("version", "suggested", "propensity", "caller_decided"),
    *("what", "value", "name", "retired", "reason"),
)
"""Fields of an answer that mean in every record what they are called."""

_encode = msgspec.json.Encoder().encode


def event_answer(event: Event) -> EventAnswer:
    answer = EventAnswer(event.seq, clock_text(event.at_ns), event.kind, event.event_id)
    if event.is_erased:
        answer.erased = True
        return answer
    record: Any = unpacked(event.kind, event.body)
    for field in _COPIED:
        setattr(answer, field, getattr(record, field, getattr(answer, field)))
    if event.kind in (Kind.DECISION, Kind.CORRECTED):
        offer = offer_of(record)
        rows = offer.x.tolist() or [UNSET] * len(offer.arms)
        columns, tables = offer.values
        answer.arms = [
            Arm(id, x, UNSET if table is None else table)
            for id, x, table in zip(offer.arms, rows, tables, strict=True)
        ]
        answer.context = columns if offer.context is None else offer.context.tolist()
        answer.place = record.place if record.place or record.ranking else None
        answer.baseline = record.arms[record.baseline] if record.baseline >= 0 else None
        answer.arm, answer.index, answer.round = (
            record.arms[record.index],
            record.index,
            record.number,
        )
        answer.scores = np.frombuffer(record.scores, dtype="<f8").tolist()
        answer.control, answer.conditional = record.control or None, record.conditional or None
        answer.unit, answer.reason = record.unit or None, record.reason or None
        answer.excluded = [record.arms[i] for i in record.excluded] or None
    elif event.kind == Kind.CONFIGURED:
        how = FRESH if record.fresh else CARRIED
        answer.configuration = configuration(Version(event.seq, event.at_ns, record, how, None))
    elif event.kind in (Kind.BEGUN, Kind.PROMOTED):
        version = Version(event.seq, event.at_ns, record.configured, RELEARNED, None)
        answer.version, answer.configuration = record.configured.version, configuration(version)
    elif event.kind == Kind.ERASED:
        answer.seqs = list(record.seqs)
    return answer


def _table(answer: EventAnswer) -> str | None:
    """The values of context and arms as JSON: which columns there are differs from row to row."""
    rows = [None if arm.features is UNSET else arm.features for arm in answer.arms or ()]
    context = answer.context if isinstance(answer.context, dict) else None
    if context is None and not any(row is not None for row in rows):
        return None
    return msgspec.json.encode([context, rows]).decode()


def json_events(events: Sequence[Event], following: int) -> bytes:
    """An `EventsAnswer` as JSON, one event at a time: others want the interpreter meanwhile."""
    parts = b",".join([_encode(event_answer(event)) for event in events])
    return b'{"events":[%b],"next":%d}' % (parts, following)


def parquet(events: Sequence[Event], *, version: Version | None = None) -> bytes:
    """One row an event; columns that its kind does not have are null.

    The file says by which version the policy was served when the last of them came.
    """
    import polars

    about = {}
    if version is not None:
        about[ABOUT] = _encode({"configuration": configuration(version)}).decode()
    frames, page, size = [], list[Event](), 0
    for event in events:
        page.append(event)
        size += len(event.body) + _ROW_BYTES
        if size >= _FRAME_BYTES:  # a few at a time: others want the interpreter meanwhile
            frames.append(_frame(page))
            page, size = [], 0
    file = io.BytesIO()
    polars.concat([*frames, _frame(page)]).write_parquet(file, metadata=about)
    return file.getvalue()


def _frame(events: Sequence[Event]) -> Any:
    import polars

    answers = [event_answer(event) for event in events]
    numbers = polars.List(polars.Float64)
    schema: dict[str, Any] = {
        "seq": polars.Int64,
        "at_ns": polars.Int64,
        "kind": polars.String,
        "event_id": polars.String,
        "erased": polars.Boolean,
        "version": polars.Int64,
        "arm_ids": polars.List(polars.String),
        "x": polars.List(numbers),
        "context": numbers,
        "table": polars.String,
        "baseline": polars.String,
        "arm": polars.String,
        "index": polars.Int64,
        "suggested": polars.Int64,
        "round": polars.Int64,
        "propensity": polars.Float64,
        "scores": numbers,
        "place": polars.Int64,
        "value": polars.Float64,
        "caller_decided": polars.Boolean,
        "control": polars.Boolean,
        "conditional": polars.Float64,
        "unit": polars.String,
        "excluded": polars.List(polars.String),
        "reason": polars.String,
    }
    special = {
        "at_ns": [event.at_ns for event in events],
        "arm_ids": [None if a.arms is None else [arm.id for arm in a.arms] for a in answers],
        "x": [[arm.x for arm in a.arms or () if arm.x is not UNSET] or None for a in answers],
        "context": [a.context if isinstance(a.context, list) else None for a in answers],
        "table": [_table(answer) for answer in answers],
    }
    columns = {
        name: special.get(name) or [getattr(answer, name, None) for answer in answers]
        for name in schema
    }
    return polars.DataFrame(columns, schema=schema)
