"""Objects within objects, as services and logs have them, as the columns of a table.

    "price": 0.3           a column "price"
    "size": {"w": 2}       names are joined: a column "size.w"
    [{"a": 1}, {"b": 2}]   objects of a list are one object
    "tags": ["a", "b"]     a list of texts stays one, for a column of tags; numbers for a vector

Names that begin with an underscore are left out. Of what kind a column is, the policy's features
say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def columns(given: Any, label: str = "features") -> dict[str, Any]:
    """The columns of an object, or of a list of objects.

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
