"""Logs as Vowpal Wabbit's DSJSON: one JSON object a line, as decision services wrote them.

    _label_cost         minus the reward; absent where none is known
    _label_probability  the propensity of the chosen action
    _label_Action       the chosen action, counted from 1
    _labelIndex         the same, counted from 0
    _skipLearn          true where nothing may be learned: the reward is then unknown
    a, p                actions (from 1), the chosen one first, and their probabilities
    c                   features: those of the context, and `_multi`, one object for each action
    pdrop               share of events dropped before logging, whatever came of them
    EventId, Timestamp  name and time

Files written here have the vector of an action as `c._multi[k].x` and its name as `_tag`. In files
of other programs context and actions are tables, with the columns that `columns` names.
A log has only the propensity of the chosen action; in `p` the others share the rest evenly. Lines
that are not decisions over one set of actions (with slots, or dangling rewards) are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.evaluate.log import Log, LoggedDecision, log_of, nanoseconds, timestamp
from driftbandits.features import Features

Floats = NDArray[np.float64]

_NEED = "DSJSON needs msgspec"


def read_dsjson(path: str | os.PathLike[str], *, features: Features | None = None) -> Log:
    """Read the log in a DSJSON file.

    features  what makes vectors of actions that have no `x`; guessed unless given
    """
    msgspec = checks.load("msgspec", _NEED)
    rows, dropped = [], set()
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                event = msgspec.json.decode(line)
                if not isinstance(event, dict):
                    raise ValueError(f"an event must be an object; got {event!r}")
                rows.append(_decision(event))
                dropped.add(_number({"pdrop": 0.0, **event}, "pdrop", least=0.0))
            except (ValueError, msgspec.DecodeError) as error:
                raise ValueError(f"line {number} of {str(path)!r}: {error}") from None
    if len(dropped) > 1:
        raise ValueError(
            f"pdrop must be the same in every line, so that it cancels in averages; {str(path)!r} "
            f"has values from {min(dropped)} to {max(dropped)}"
        )
    if not rows:
        raise ValueError(f"{str(path)!r} must hold at least one event; got none")
    if len({row.table is None for row in rows}) > 1:
        raise ValueError(f"every action of {str(path)!r} must have a vector x, or none of them")
    return log_of(rows, features)


def _decision(event: dict[str, Any]) -> LoggedDecision:
    context = event.get("c")
    if not isinstance(context, dict) or not isinstance(context.get("_multi"), list):
        raise ValueError("c._multi must be the list of actions; this is no decision over one set")
    if "_outcomes" in event or "_slots" in context:
        raise ValueError("c._slots and _outcomes must be absent: one choice from one set")
    actions = context["_multi"]
    if not actions or not all(isinstance(action, dict) for action in actions):
        raise ValueError("c._multi must hold one object for each action, and at least one")
    name = event.get("EventId")
    if not isinstance(name, str):
        raise ValueError(f"EventId must be a text; got {name!r}")
    if all("x" in action for action in actions):
        vectors, table = _vectors(actions), None
    else:  # the vectors are made of the columns, when all of the log is known
        vectors, table = (
            np.empty((len(actions), 0)),
            (columns(context), list(map(columns, actions))),
        )
    reward = None
    if not event.get("_skipLearn", False) and "_label_cost" in event:
        reward = 0.0 - _number(event, "_label_cost")
    return LoggedDecision(
        event_id=name,
        at=nanoseconds("Timestamp", event.get("Timestamp")),
        arm_ids=_arm_names(actions),
        arms=vectors,
        chosen=_chosen(event, len(actions)),
        propensity=_number(event, "_label_probability", least=0.0),
        reward=reward,
        table=table,
    )


def _number(event: Mapping[str, Any], name: str, *, least: float | None = None) -> float:
    return checks.number(name, event.get(name), at_least=least)


def _chosen(event: Mapping[str, Any], size: int) -> int:
    """Return the place of the chosen action, which any of three fields gives."""
    if "_labelIndex" in event:
        return checks.integer("_labelIndex", event["_labelIndex"], least=0, most=size - 1)
    ranking = event.get("a")
    first = ranking[0] if ranking and isinstance(ranking, list) else None
    number = event.get("_label_Action", first)
    return checks.integer("_label_Action, or the first of a,", number, least=1, most=size) - 1


def _arm_names(actions: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return their tags, or their places where these are missing or not different."""
    tags = [tag for action in actions if isinstance(tag := action.get("_tag"), str) and tag]
    if len(set(tags)) == len(actions):
        return tuple(tags)
    return tuple(map(str, range(len(actions))))


def _vectors(actions: list[dict[str, Any]]) -> Floats:
    try:
        vectors = np.array([action["x"] for action in actions], dtype=np.float64)
    except (TypeError, ValueError):
        vectors = np.empty(0)
    if vectors.ndim != 2:
        raise ValueError("every action must have a vector x of numbers, all of one length")
    return vectors


def write_dsjson(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log as DSJSON."""
    encoder = checks.load("msgspec", _NEED).json.Encoder()
    with checks.whole_file(path) as file:
        for row in log:
            file.write(encoder.encode(_event(row)) + b"\n")


def _event(row: LoggedDecision) -> dict[str, Any]:
    size = len(row.arms)
    others = [k + 1 for k in range(size) if k != row.chosen]
    rest = (1.0 - row.propensity) / max(len(others), 1)
    label = {"_skipLearn": True} if row.reward is None else {"_label_cost": 0.0 - row.reward}
    return {
        **label,
        "_label_probability": row.propensity,
        "_label_Action": row.chosen + 1,
        "_labelIndex": row.chosen,
        "Timestamp": timestamp(row.at),
        "Version": "1",
        "EventId": row.event_id,
        "a": [row.chosen + 1, *others],
        "c": {
            "_multi": [
                {"_tag": name, "x": x}
                for name, x in zip(row.arm_ids, row.arms.tolist(), strict=True)
            ]
        },
        "p": [row.propensity, *[rest] * len(others)],
    }


def columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an object; names of inner objects, and lists of them, are joined.

    Names that begin with an underscore are left out, and a list of texts stays one column.

    >>> columns({"time": "morning", "weather": [{"rain": 0.2}, {"_at": 7}]})
    {'time': 'morning', 'weather.rain': 0.2}
    """
    found: dict[str, Any] = {}
    for name, value in _named("", given):
        if name in found:
            raise ValueError(f"an object must have each column once; got {name!r} twice")
        found[name] = value
    return found


def _named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not key.startswith("_"):
                yield from _named(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        for inner in value:
            yield from _named(name, inner)
    else:
        yield name, value
