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
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.checks import whole_file
from driftbandits.evaluate.log import Log, LoggedDecision, Table, log_of, log_of_tables
from driftbandits.features import Features

Floats = NDArray[np.float64]

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _msgspec() -> Any:
    return checks.load("msgspec", "DSJSON needs msgspec")


def read_dsjson(path: str | os.PathLike[str], *, features: Features | None = None) -> Log:
    """Read the log in a DSJSON file.

    features  what makes vectors of actions that have no `x`; guessed unless given
    """
    msgspec = _msgspec()
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
                dropped.add(_number(event, "pdrop", least=0.0, otherwise=0.0))
            except (ValueError, msgspec.DecodeError) as error:
                raise ValueError(f"line {number} of {str(path)!r}: {error}") from None
    if len(dropped) > 1:
        raise ValueError(
            f"pdrop must be the same in every line, so that it cancels in averages; {str(path)!r} "
            f"has values from {min(dropped)} to {max(dropped)}"
        )
    if not rows:
        raise ValueError(f"{str(path)!r} must hold at least one event; got none")
    if all(row.table is None for row in rows):
        return log_of(rows)
    if any(row.table is None for row in rows):
        raise ValueError(f"every action of {str(path)!r} must have a vector x, or none of them")
    return log_of_tables(rows, features)


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
    reward = None
    if not event.get("_skipLearn", False) and "_label_cost" in event:
        reward = 0.0 - _number(event, "_label_cost")
    return LoggedDecision(
        event_id=name,
        at=nanoseconds(event.get("Timestamp")),
        arm_ids=_arm_names(actions),
        arms=_vectors(actions),
        chosen=_chosen(event, len(actions)),
        propensity=_number(event, "_label_probability", least=0.0),
        reward=reward,
        table=None if all("x" in action for action in actions) else _table(context, actions),
    )


def _table(context: dict[str, Any], actions: list[dict[str, Any]]) -> Table:
    shared = {name: value for name, value in context.items() if name != "_multi"}
    return columns(shared, "c"), [columns(action, "c._multi") for action in actions]


def _number(
    event: Mapping[str, Any],
    name: str,
    *,
    least: float | None = None,
    otherwise: float | None = None,
) -> float:
    return checks.number(name, event.get(name, otherwise), at_least=least)


def _chosen(event: Mapping[str, Any], size: int) -> int:
    """Return the place of the chosen action, which up to three fields give; they must agree."""
    found = {}
    if "_labelIndex" in event:
        found["_labelIndex"] = event["_labelIndex"]
    if "_label_Action" in event:
        found["_label_Action - 1"] = int(_number(event, "_label_Action")) - 1
    ranking = event.get("a")
    if not found and isinstance(ranking, list) and ranking and isinstance(ranking[0], int):
        found["a[0] - 1"] = ranking[0] - 1
    places = set(found.values())
    if len(places) != 1 or not all(
        isinstance(k, int) and not isinstance(k, bool) and 0 <= k < size for k in places
    ):
        raise ValueError(
            f"_labelIndex, _label_Action or a must name one of the {size} actions; got {found}"
        )
    return int(places.pop())


def _arm_names(actions: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return their tags, or their places where these are missing or not different."""
    tags = [tag for action in actions if isinstance(tag := action.get("_tag"), str) and tag]
    if len(set(tags)) == len(actions):
        return tuple(tags)
    return tuple(map(str, range(len(actions))))


def _vectors(actions: list[dict[str, Any]]) -> Floats:
    if not all("x" in action for action in actions):
        return np.empty((len(actions), 0))  # made of the table, when all of the log is known
    try:
        vectors = np.array([action["x"] for action in actions], dtype=np.float64)
    except (TypeError, ValueError):
        vectors = np.empty(0)
    if vectors.ndim != 2:
        raise ValueError("every action must have a vector x of numbers, all of one length")
    return vectors


def nanoseconds(text: Any) -> int:
    """Parse a time such as 2021-02-04T16:31:29.2460000Z (UTC unless it says otherwise)."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"Timestamp must be like 2021-02-04T16:31:29.246Z; got {text!r}")
    seconds, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{seconds}{'+00:00' if zone in (None, 'Z') else zone}")
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    return whole * 10**9 + int((fraction or "").ljust(9, "0"))


def timestamp(at: int) -> str:
    """Format nanoseconds since 1970, with seven digits of a second or, where needed, nine."""
    whole, fraction = divmod(at, 10**9)
    moment = datetime.fromtimestamp(whole, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}"
    return f"{moment}.{digits[:7] if digits.endswith('00') else digits}Z"


def write_dsjson(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log as DSJSON."""
    encoder = _msgspec().json.Encoder()
    with whole_file(path) as file:
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


def columns(given: Any, label: str = "features") -> dict[str, Any]:
    """Return the columns of an object, or of a list of objects; names of inner objects are joined.

    Names that begin with an underscore are left out, and a list of texts stays one column.

    >>> columns([{"time": "morning"}, {"weather": {"rain": 0.2, "_at": 7}}])
    {'time': 'morning', 'weather.rain': 0.2}
    """
    found: dict[str, Any] = {}
    for name, value in _named(label, "", given):
        if name in found:
            raise ValueError(f"{label} must have each column once; got {name!r} twice")
        found[name] = value
    return found


def _named(label: str, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{label} must have texts for names; got {key!r}")
            if not key.startswith("_"):
                yield from _named(label, f"{name}.{key}" if name else key, inner)
    elif isinstance(value, (list, tuple)) and all(isinstance(one, Mapping) for one in value):
        for inner in value:
            yield from _named(label, name, inner)
    elif name:
        yield name, value
    else:
        raise ValueError(f"{label} must be an object or a list of objects; got {value!r}")
