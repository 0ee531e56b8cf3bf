"""What a request is answered with, and its bytes."""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from driftbandits.service.refusals import Refused
from driftbandits.wire import ErrorAnswer

_encode = msgspec.json.Encoder().encode


class Reply(NamedTuple):
    """What a handler gives back."""

    body: Any  # a struct, or bytes
    status: int = 200
    media_type: str = "application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    is_last: bool = False  # whether its connection ends with it

    def with_header(self, name: bytes, value: bytes) -> Reply:
        return self._replace(headers=(*self.headers, (name, value)))


def refusal(refused: Refused, *, allow: bytes = b"") -> Reply:
    """The reply that says no; `allow` lists the methods that there are."""
    headers: list[tuple[bytes, bytes]] = []
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % refused.retry_after_s))
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.status == 405:
        headers.append((b"allow", allow))
    return Reply(
        ErrorAnswer(refused.problem),
        refused.status,
        headers=tuple(headers),
        is_last=refused.is_last,
    )


def written(reply: Reply, *, closing: bool, bodiless: bool) -> bytes:
    """The reply as it goes over the wire, in one piece."""
    body = reply.body if isinstance(reply.body, bytes) else _encode(reply.body)
    lines = b"connection: close\r\n" if closing else b""
    for header in reply.headers:
        lines += b"%b: %b\r\n" % header
    beginning = _beginning(reply.status, reply.media_type)
    return b"%b%d\r\n%b\r\n%b" % (beginning, len(body), lines, b"" if bodiless else body)


@functools.cache
def _beginning(status: int, media_type: str) -> bytes:
    phrase = HTTPStatus(status).phrase
    return (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {media_type}\r\ncontent-length: "
    ).encode()
