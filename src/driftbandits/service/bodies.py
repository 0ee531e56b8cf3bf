"""From the bytes of a request to a checked struct, and what is wrong where they differ.

msgspec decodes fast and names the path of a bad field, with two gaps: it lets the last of two equal
keys win, and it cannot say where NaN stands, which is no JSON. Both are looked for by the slow
decoder of the standard library, which is asked only when there is a reason to.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from driftbandits.service.refusals import Refused

_AT_PATH = re.compile(r"^(?P<message>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)


class _Flaw:
    """Stands in a decoded tree where the text had something that is refused."""

    def __init__(self, message: str, key: str = "") -> None:
        self.message = message
        self.key = key


def decoded(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """The struct, or a refusal that names the field at fault."""
    try:
        value = decoder.decode(raw)
    except msgspec.ValidationError as error:
        _refuse_flaws(raw)
        match = _AT_PATH.match(str(error))
        assert match is not None
        raise Refused(422, "invalid", match["message"], path=match["path"] or "$") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse_flaws(raw)
        raise Refused(400, "malformed", f"the body is not JSON: {error}", path="$") from None
    # Every key is known to the struct, so strings can be counted: more of them, or escapes, are
    # looked at closely.
    if b"\\" in raw or raw.count(b'"') != 2 * value.strings:
        _refuse_flaws(raw)
    return value


def _refuse_flaws(raw: bytes) -> None:
    try:
        tree = json.loads(raw, object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError):
        return
    found = _first_flaw(tree, "$")
    if found is not None:
        path, flaw = found
        raise Refused(400, "malformed", flaw.message, path=path)


def _object(pairs: list[tuple[str, Any]]) -> Any:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            return _Flaw(f"the key {key!r} stands twice in one object", key)
        seen[key] = value
    return seen


def _constant(text: str) -> _Flaw:
    return _Flaw(f"{text} is not a JSON number")


def _first_flaw(tree: Any, path: str) -> tuple[str, _Flaw] | None:
    if isinstance(tree, _Flaw):
        return (f"{path}.{tree.key}" if tree.key else path), tree
    if isinstance(tree, dict):
        places = [(f"{path}.{key}", value) for key, value in tree.items()]
    elif isinstance(tree, list):
        places = [(f"{path}[{i}]", value) for i, value in enumerate(tree)]
    else:
        return None
    for place, value in places:
        found = _first_flaw(value, place)
        if found is not None:
            return found
    return None
