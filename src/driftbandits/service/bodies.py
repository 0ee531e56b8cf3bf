"""Decode the bytes of a request to a checked struct, or refuse with the field at fault.

msgspec decodes fast and names the path of a bad field, with three gaps: nothing limits how deep a
free-form field may be nested, the last of two equal keys wins, and the place of NaN, which is no
JSON, is not named. Depth is limited before anything is built. Two equal keys show in a count of
quotes: the text has more than the decoded value, written again. A slow decoder then looks for what
is wrong, in short bodies only: one caller's mistake must not cost the others their time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from driftbandits.api import ARM_PATTERN, ARM_RULE, ID_PATTERN, ID_RULE
from driftbandits.checks import perhaps
from driftbandits.service.refusals import Refused

MOST_DEPTH = 32
"""Objects and lists within one another; a request of ours has nine at most."""

_MOST_EXPLAINED = 64 * 1024
"""Bytes of a body in which the slow decoder looks for what is wrong."""

_AT_PATH = re.compile(r"^(?P<message>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_encode = msgspec.json.Encoder().encode


def decoded(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """The struct, or a refusal that names the field at fault."""
    _check_depth(raw)
    try:
        value = decoder.decode(raw)
    except msgspec.ValidationError as error:
        _refuse_flaws(raw)
        match = _AT_PATH.match(str(error))
        assert match is not None
        message, path = match["message"], match["path"] or "$"
        for pattern, rule in ((ID_PATTERN, ID_RULE), (ARM_PATTERN, ARM_RULE)):
            message = message.replace(f"matching regex {pattern!r}", f"of {rule}")
        if path == "$" and (field := _UNKNOWN.fullmatch(message)):
            message += perhaps(field[1], getattr(decoder.type, "__struct_encode_fields__", ()))
        raise Refused(422, "invalid", message, path=path) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse_flaws(raw)
        raise Refused(400, "malformed", f"the body is not JSON: {error}", path="$") from None
    quotes = _quotes(raw)
    if quotes != _quotes(_encode(value)) and quotes != _quotes(_encode(msgspec.json.decode(raw))):
        _refuse_flaws(raw)
        raise Refused(400, "malformed", "a key stands twice in one object", path="$")
    return value


def _check_depth(raw: bytes) -> None:
    """Refuse what is nested too deep; nothing but a few numbers a byte is made for it."""
    if raw.count(b"[") + raw.count(b"{") <= MOST_DEPTH:
        return
    bare = np.frombuffer(_STRING.sub(b"", raw), dtype=np.uint8)
    steps = np.zeros(len(bare), dtype=np.int8)
    steps[(bare == ord("[")) | (bare == ord("{"))] = 1
    steps[(bare == ord("]")) | (bare == ord("}"))] = -1
    if np.cumsum(steps, dtype=np.int32).max(initial=0) > MOST_DEPTH:
        raise Refused(400, "malformed", f"a body may be nested {MOST_DEPTH} deep", path="$")


def _quotes(text: bytes) -> int:
    """Count the quotes that begin and end strings, keys among them."""
    return (_ESCAPED.sub(b"", text) if b"\\" in text else text).count(b'"')


class _Flaw(str):
    """Says what was wrong with the text where it stands in a decoded tree."""


def _refuse_flaws(raw: bytes) -> None:
    """Refuse the first key that stands twice, or number that is none, in a short body."""
    if len(raw) > _MOST_EXPLAINED:
        return
    try:
        tree = json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return
    for path, flaw in _flaws(tree, "$"):
        raise Refused(400, "malformed", str(flaw), path=path)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        twice = _Flaw(f"the key {key!r} stands twice in one object")
        found[key] = twice if key in found else value
    return found


def _no_number(text: str) -> _Flaw:
    return _Flaw(f"{text} is not a JSON number")


def _flaws(tree: Any, path: str) -> Iterator[tuple[str, _Flaw]]:
    if isinstance(tree, _Flaw):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _flaws(value, f"{path}.{key}")
    elif isinstance(tree, list):
        for place, value in enumerate(tree):
            yield from _flaws(value, f"{path}[{place}]")
