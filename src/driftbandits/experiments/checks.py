"""Checks of the tables of an experiment file; a refused key is named by its path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from driftbandits.errors import SpecError

Table = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")


def keys(path: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
    names = tuple(allowed)
    for key in table:
        if key not in names:
            raise SpecError(f"{path}{key}: unknown key; allowed: {', '.join(names)}")


def distinct(path: str, key: str, values: list[str]) -> None:
    for number, value in enumerate(values, 1):
        if value in values[: number - 1]:
            raise SpecError(f"{path}[{number}].{key}: must differ from the others; got {value!r}")


def table(
    tables: Mapping[str, Any], key: str, *, path: str = "", default: Table | None = None
) -> Table:
    value = tables.get(key, default)
    if not isinstance(value, dict):
        got = "nothing" if value is None else repr(value)
        raise SpecError(f"{path}{key}: must be a table; got {got}")
    return value


def tables(spec: Mapping[str, Any], key: str) -> list[Table]:
    value = spec.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(x, dict) for x in value):
        got = "nothing" if value is None else repr(value)
        raise SpecError(f"{key}: must be at least one [[{key}]] table; got {got}")
    return value


def name(path: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SpecError(
            f"{path}: must be a name of letters, digits and . _ = -, fit for a folder; "
            f"got {value!r}"
        )
    return value


def text(path: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{path}: must be a text; got {value!r}")
    return value


def integer(path: str, value: Any, *, least: int) -> int:
    if type(value) is not int or value < least:
        raise SpecError(f"{path}: must be an integer of at least {least}; got {value!r}")
    return value


def names(path: str, value: Any, allowed: Iterable[str]) -> list[str]:
    known = tuple(allowed)
    if not isinstance(value, list) or any(entry not in known for entry in value):
        raise SpecError(f"{path}: must be a list out of {', '.join(known)}; got {value!r}")
    return value
