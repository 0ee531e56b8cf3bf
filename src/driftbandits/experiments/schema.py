"""The tables that an experiment file may hold (see `spec` for what they mean), and their refusal.

A refusal names the key by its path, what was given and what is allowed. Tables of a list are
counted from 1, as a reader of the file counts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect

from driftbandits import checks
from driftbandits.errors import SpecError

Table = dict[str, Any]
Read = TypeVar("Read")

Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]*\Z",
        description="a name of letters, digits and . _ = -, fit for a folder",
    ),
]
OptionalText = Annotated[str | None, Meta(description="a text")]
FromZero = Annotated[int, Meta(ge=0)]
FromOne = Annotated[int, Meta(ge=1)]
Rounds = Annotated[
    Literal["changes"] | list[Annotated[int, Meta(gt=1)]] | None,
    Meta(description='"changes" or a list of rounds above 1'),
]
Numbers = Annotated[list[int | float], Meta(min_length=1, description="a list of numbers")]


def _tables(name: str) -> Meta:
    return Meta(min_length=1, description=f"at least one [[{name}]] table")


class Heading(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[experiment]: what it is called, how long it is and what is kept."""

    name: Name
    title: OptionalText = None
    description: str = ""
    runs: FromOne
    seed: FromZero = 0
    every: FromOne = 10
    theta_every: FromOne = 1000
    coverage: bool = False


class Variant(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[[sweep]]: in what one of several experiments differs from the file."""

    name: Name
    title: OptionalText = None
    runs: Annotated[FromOne | None, Meta(description="an integer of at least 1")] = None
    environment: Table = {}
    defaults: Table = {}
    axes: Table = {}


class Line(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[[policies]] without the arguments of the policy."""

    label: OptionalText = None
    name: Annotated[str, Meta(description="the name of a policy")]
    restart: Rounds = None
    knows: Any = None


class Spec(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole file."""

    experiment: Heading
    environment: Table
    defaults: Table = {}
    policies: Annotated[list[Table], _tables("policies")]
    axes: Table = {}
    grid: Annotated[list[Table], _tables("grid")] = []
    sweep: Annotated[list[Variant], _tables("sweep")] = []


def read(kind: Any, given: Any, path: str = "") -> Any:
    """What was given as a value of a kind, or a refusal of what does not fit."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _refusal(inspect.type_info(kind), given, path, _steps(str(error))) from None


def read_line(path: str, line: Table, arguments: Iterable[str]) -> tuple[Line, Table]:
    """A line of [[policies]]: what it says of itself, and the arguments of its policy."""
    own, others = Line.__struct_fields__, tuple(arguments)
    keys(f"{path}.", line, (*own, *others))
    said = read(Line, {key: value for key, value in line.items() if key in own}, path)
    return said, {key: value for key, value in line.items() if key not in own}


def keys(path: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Refuse a table with a key that is not allowed."""
    names = tuple(allowed)
    for key in table:
        if key not in names:
            raise _unknown_key(f"{path}{key}", key, names)


def names(path: str, given: Any, allowed: Iterable[str]) -> list[str]:
    """A list of allowed names."""
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


_FIELD = re.compile(r"Object (contains unknown|missing required) field `(?P<key>.*)`")
_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")


def _steps(message: str) -> list[str | int]:
    """The way to what msgspec refuses: `Expected `int` >= 1 - at `$.sweep[0].runs``."""
    fault, _, where = message.partition(" - at `$")
    steps = [step["key"] or int(step["index"]) for step in _STEP.finditer(where)]
    field = _FIELD.match(fault)
    return steps if field is None else [*steps, field["key"]]


def _refusal(kind: inspect.Type, given: Any, path: str, steps: list[Any]) -> SpecError:
    """Follow the way as far as there are tables; what is allowed there follows from the kind."""
    bare = kind.type if isinstance(kind, inspect.Metadata) else kind
    match bare, steps:
        case inspect.StructType(fields=fields), [key, *rest]:
            there = f"{path}.{key}" if path else key
            kinds = {field.name: field.type for field in fields}
            if key not in kinds:
                return _unknown_key(there, key, kinds)
            return _refusal(kinds[key], given.get(key), there, rest)
        case inspect.ListType(item_type=inspect.StructType() as item), [index, *rest]:
            return _refusal(item, given[index], f"{path}[{index + 1}]", rest)
    got = "nothing" if given is None else repr(given)
    return SpecError(f"{path}: must be {_allowed(kind)}; got {got}")


def _allowed(node: inspect.Type) -> str:
    if isinstance(node, inspect.Metadata) and node.extra_json_schema:
        return str(node.extra_json_schema["description"])
    if isinstance(node, inspect.IntType):
        return f"an integer of at least {node.ge}"
    if isinstance(node, inspect.BoolType):
        return "true or false"
    return "a text" if isinstance(node, inspect.StrType) else "a table"
