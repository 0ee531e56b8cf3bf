"""Patterns, limits and the two kinds of bodies that requests and answers are made of."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

# A `$` alone would let a line end follow.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}$(?!\n)"
ID_RULE = "1 to 128 characters of A-Z a-z 0-9 . _ : @ / + = -, the first a letter or digit"
ARM_PATTERN = r"^[^|\s\x00-\x1f\x7f](?:[^|\x00-\x1f\x7f]{0,126}[^|\s\x00-\x1f\x7f])?$(?!\n)"
ARM_RULE = "1 to 128 characters, none of them a control character or |, and no space at either end"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)"
LARGEST_INTEGER = 2**63 - 1
MOST_ARMS = 1000
MOST_DIMENSIONS = 1000
MOST_IN_A_BATCH = 1000
MOST_PLACES = 100
LARGEST_MAGNITUDE = 1e9
EventId = Annotated[str, Meta(pattern=ID_PATTERN, description="chosen by the caller")]
ArmId = Annotated[str, Meta(pattern=ARM_PATTERN)]
Value = Annotated[float, Meta(ge=-LARGEST_MAGNITUDE, le=LARGEST_MAGNITUDE)]
Mode = Literal["online", "apprentice", "frozen"]


def one_of(words: Any) -> Meta:
    """A text in an answer, as the document describes it; clients accept any other text."""
    return Meta(extra_json_schema={"enum": list(get_args(words))})


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A body; a field that is not listed is refused."""


class Answer(msgspec.Struct, gc=False):
    """A body; a field that is not listed is ignored."""
