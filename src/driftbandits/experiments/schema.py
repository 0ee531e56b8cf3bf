"""The tables that an experiment file may hold (see `spec` for what they mean), and their refusal.

A refusal names the key by its path, what is allowed and what was given. Tables of a list are
counted from 1, as a reader of the file counts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from driftbandits import checks
from driftbandits.checks import SpecError

Table = dict[str, Any]

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]*\Z")]
"""A name that is fit for a folder."""
FromZero = Annotated[int, Meta(ge=0)]
FromOne = Annotated[int, Meta(ge=1)]
Numbers = Annotated[list[int | float], Meta(min_length=1)]
Tables = Annotated[list[Table], Meta(min_length=1)]


class Heading(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[experiment]: what it is called, how long it is and what is kept."""

    name: Name
    title: str | None = None
    description: str = ""
    section: str = "regret"
    runs: FromOne
    seed: FromZero = 0
    every: FromOne = 10
    theta_every: FromZero = 0
    coverage: bool = False


class Variant(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[[sweep]]: in what one of several experiments differs from the file."""

    name: Name
    title: str | None = None
    runs: FromOne | None = None
    environment: Table = {}
    defaults: Table = {}
    axes: Table = {}


class Line(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[[policies]] without the arguments of the policy."""

    label: str | None = None
    name: str
    restart: str | list[Annotated[int, Meta(gt=1)]] | None = None
    knows: list[str] | None = None


class Spec(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole file."""

    experiment: Heading
    environment: Table
    defaults: Table = {}
    policies: Tables
    axes: Table = {}
    grid: Tables | None = None
    sweep: Annotated[list[Variant], Meta(min_length=1)] | None = None


_FIELDS: dict[str, tuple[str, ...]] = {
    "": Spec.__struct_fields__,
    "experiment": Heading.__struct_fields__,
    "sweep": Variant.__struct_fields__,
}
"""The keys of a table by the last key of its path."""

_WORDS = {"object": "table", "array": "list", "str": "string", "int": "integer"}
"""The names that TOML has for the types of msgspec."""

_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def read(kind: Any, given: Any, path: str = "") -> Any:
    """Read what was given as a kind of value, or refuse what does not fit."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), given, path) from None


def _refusal(message: str, given: Any, path: str) -> SpecError:
    """Name the place that msgspec writes as in `Expected `int` >= 1 - at `$.sweep[0].runs``."""
    fault, _, where = message.partition(" - at `$")
    last = ""
    for step in _STEP.finditer(where):
        if step["key"]:
            last = step["key"]
            path += f".{last}" if path else last
            given = given[last]
        else:
            path += f"[{int(step['index']) + 1}]"
            given = given[int(step["index"])]
    if field := _UNKNOWN.fullmatch(fault):
        return _unknown_key(f"{path}.{field[1]}".lstrip("."), field[1], _FIELDS[last])
    if field := _MISSING.fullmatch(fault):
        return SpecError(f"{path}.{field[1]}".lstrip(".") + ": is missing")
    allowed = fault.partition(", got ")[0].removeprefix("Expected ")
    for theirs, ours in _WORDS.items():
        allowed = allowed.replace(f"`{theirs}", f"`{ours}")
    return SpecError(f"{path}: must be {allowed}; got {given!r}")


def read_line(path: str, line: Table, arguments: Iterable[str]) -> tuple[Line, Table]:
    """Read a line of [[policies]]: what it says of itself, and the arguments of its policy."""
    own = Line.__struct_fields__
    keys(path, line, (*own, *arguments))
    said = read(Line, {key: value for key, value in line.items() if key in own}, path)
    return said, {key: value for key, value in line.items() if key not in own}


def keys(path: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Refuse a table with a key that is not allowed."""
    names = tuple(allowed)
    for key in table:
        if key not in names:
            raise _unknown_key(f"{path}.{key}", key, names)


def choice(path: str, given: Any, allowed: Iterable[str]) -> None:
    """Refuse anything but one of the names that are allowed."""
    try:
        checks.choice(f"{path}:", given, allowed)
    except ValueError as error:
        raise SpecError(str(error)) from None


def names(path: str, given: Any, allowed: Iterable[str]) -> list[str]:
    """Return a list of allowed names, or refuse it."""
    known = tuple(allowed)
    if not isinstance(given, list) or any(entry not in known for entry in given):
        raise SpecError(f"{path}: must be a list out of {', '.join(known)}; got {given!r}")
    return given


def distinct(path: str, key: str, values: list[str]) -> None:
    """Refuse a list of tables of which two have the same value."""
    for number, value in enumerate(values, 1):
        if value in values[: number - 1]:
            raise SpecError(f"{path}[{number}].{key}: must differ from the others; got {value!r}")


def _unknown_key(path: str, key: str, allowed: Iterable[str]) -> SpecError:
    known = tuple(allowed)
    return SpecError(
        f"{path}: unknown key{checks.perhaps(key, known)}; allowed: {', '.join(known)}"
    )
