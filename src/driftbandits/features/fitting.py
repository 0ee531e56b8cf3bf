"""Features with their levels and scales frozen, so that no vector is longer than 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from driftbandits.checks import brief
from driftbandits.features.columns import (
    is_missing,
    level_of,
    number_of,
    quantile_edges,
    signed_log,
)
from driftbandits.features.kinds import Kind
from driftbandits.features.tables import ID, Record, check_columns, records_of

if TYPE_CHECKING:
    from driftbandits.features.spec import Features

WIDEST = 4.0
"""Standard deviations from the centre beyond which a number is clipped."""


def fit(features: Features, frame: Any, arm: Any) -> Features:
    """The features with what a table says of them.

    `frame` holds the columns of the context, and those of the arm unless `arm` is a table of them.
    """
    of_arm = [name for name in features.arm if name != ID]
    if "arm" in features.kinds():
        of_arm.append(ID)
    check_columns("frame", frame, features.context)
    check_columns("frame" if arm is None else "arm", frame if arm is None else arm, of_arm)
    contexts = records_of(frame)
    arms = contexts if arm is None else records_of(arm, "arm")
    fitted = {}
    for name, kind in features.kinds().items():
        if name in features.context:
            values = _column(contexts, name)
        else:
            values = _column(arms, ID if name == "arm" else name)
        fitted[name] = _FITS[kind.name](name, kind, values)
    made = replace(features, fitted=fitted)
    dim = made.dim or 0
    if dim > features.limit:
        raise ValueError(
            f"limit must be at least {dim} for the levels of this table; got {features.limit}. "
            "Give a larger limit, or fewer crosses."
        )
    return made


def _column(rows: Iterable[Record], name: str) -> list[Any]:
    values = [row.get(name) for row in rows]
    known = [value for value in values if not is_missing(value)]
    if not known:
        raise ValueError(f"column {name!r} must have a value in some row to be fitted; got none")
    return known


def _scale(name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
    numbers = [number_of(name, value) for value in values]
    if kind.name == "log":
        numbers = [signed_log(x) for x in numbers]
    centre = math.fsum(numbers) / len(numbers)
    spread = math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / len(numbers))
    return {"centre": centre, "scale": WIDEST * (spread or 1.0)}


def _levels(name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
    return {"levels": list(dict.fromkeys(level_of(name, value) for value in values))}


def _tags(name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
    return _levels(name, kind, [tag for value in values for tag in value])


def _edges(name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
    if isinstance(kind.argument, tuple):
        return {"edges": list(kind.argument)}
    numbers = [number_of(name, value) for value in values]
    return {"edges": list(quantile_edges(numbers, kind.argument))}


def _length(name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
    longest = max(math.hypot(*(number_of(name, x) for x in value)) for value in values)
    return {"length": longest or 1.0}


def _nothing(name: str, kind: Kind, values: list[Any]) -> dict[str, Any]:
    return {}


_FITS: Mapping[str, Callable[[str, Kind, list[Any]], dict[str, Any]]] = {
    "number": _scale,
    "log": _scale,
    "category": _levels,
    "cycle": _nothing,
    "bins": _edges,
    "flag": _nothing,
    "tags": _tags,
    "vector": _length,
    "text": _nothing,
}


def check_fitted(features: Features) -> None:
    """Refuse what `fit` cannot have made, as a file or a request may hold it."""
    fitted = features.fitted
    if not isinstance(fitted, Mapping):
        raise ValueError(f"fitted must be what Features.fit has made; got {brief(fitted)}")
    for column, kind in features.kinds().items():
        found = fitted.get(column)
        wanted = _FITTED.get(kind.name, {})
        if not isinstance(found, Mapping) or not all(
            name in found and is_so(found[name]) for name, is_so in wanted.items()
        ):
            raise ValueError(
                f"fitted must have {', '.join(wanted) or 'a table'} for column {column!r}, as "
                f"Features.fit makes it; got {brief(found)}"
            )


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _are_levels(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(level, str) for level in value)


def _are_edges(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_is_number, value))


_FITTED: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "number": {"centre": _is_number, "scale": _is_positive},
    "log": {"centre": _is_number, "scale": _is_positive},
    "category": {"levels": _are_levels},
    "bins": {"edges": _are_edges},
    "tags": {"levels": _are_levels},
    "vector": {"length": _is_positive},
}
