"""Features with names, as services and logs have them, turned into the vector of an action.

The features of an action, those of the context, and every product of one of each are added up in
`dim` buckets; a hash of the name says in which, and with which sign:

    "price": 0.3           a number is the value of the feature "price"; true is 1, false is 0
    "colour": "red"        a text is the feature "colour=red" with the value 1
    "size": {"w": 2}       names are joined: "size.w"
    "tags": ["a", "b"]     each item counts: "tags=a", "tags=b"; numbers by their place: "tags[0]"

Names that begin with an underscore are left out, and so is null. A vector longer than 1 is scaled
to the length 1, which is what a policy accepts unless it is told otherwise. The products let
what is liked depend on the context: the context alone is the same for every action. The hash
is the same on every machine. Two names may share a bucket; choose `dim` a few times larger than
the number of names that matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any


def encode(context: Any, action: Any, *, dim: int) -> list[float]:
    """The vector of an action in a context; both are objects, or lists of objects.

    >>> encode([], [{"price": 0.25}], dim=4)
    [-0.25, 0.0, 0.0, 0.0]
    """
    if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
        raise ValueError(f"dim must be an integer of at least 1; got {dim!r}")
    of_context = list(_named("context", context))
    of_action = list(_named("action", action))
    x = [0.0] * dim
    for name, value in (*of_context, *of_action):
        _add(x, name, value)
    for left, first in of_context:
        for right, second in of_action:
            _add(x, f"{left}^{right}", first * second)
    length = math.hypot(*x)
    if not math.isfinite(length):
        raise ValueError("features must be so small that the vector's length is finite")
    return [value / length for value in x] if length > 1.0 else x


def _named(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Every feature below `name`, with its value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("_"):
                yield from _named(f"{name}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            is_number = isinstance(inner, (int, float))
            yield from _named(f"{name}[{place}]" if is_number else name, inner)
    elif isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif isinstance(value, (int, float)):
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite; got {value!r}")
        yield name, float(value)
    elif value is not None:
        raise ValueError(
            f"{name} must be a number, a text, true, false, null, a list or an object; "
            f"got {value!r}"
        )


def _add(x: list[float], name: str, value: float) -> None:
    number = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
    x[(number >> 1) % len(x)] += value if number & 1 else -value
