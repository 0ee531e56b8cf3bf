"""From bytes to the parts of requests, with limits on what says nothing.

httptools keeps what it has of a head until the head ends, and passes over the extensions of chunks
and what follows the last one. None of that has a limit of its own, so bytes are counted from one
piece of news to the next.

Nothing is upgraded: a request that offers to go on in another protocol is read as if it did not.
httptools would take its body for the other protocol, so the head is given to a new parser without
the offer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import httptools

from driftbandits.service.refusals import Refused

MOST_HEAD_BYTES = 32 * 1024
"""Of a head, or of anything else that is no body."""

MOST_HEADERS = 100

_OFFERS = (b"upgrade", b"http2-settings")


class Head(NamedTuple):
    """What comes before a body."""

    method: str
    target: bytes
    headers: Mapping[bytes, bytes]
    keep_alive: bool

    @property
    def size(self) -> int:
        """Of the body, as announced; 0 where only the end will tell."""
        return int(self.headers.get(b"content-length", 0))


class Receiver(Protocol):
    """Who is told what comes."""

    def begin_message(self) -> None: ...

    def take_head(self, head: Head) -> None: ...

    def take_body(self, body: bytes) -> None: ...

    def end_message(self) -> None: ...


class RequestParser:
    """Tells a receiver what the bytes say, for as long as they are HTTP."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._parser = self._new_parser()
        self.is_in_head = True  # and not in a body
        self._offered = False  # the head at hand, to go on in another protocol
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._has_news = False
        self._without_news = 0

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def feed(self, data: bytes) -> None:
        """Read on; raises `Refused` where nothing that follows can be read."""
        self._has_news = False
        size = len(data)
        while data:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                if not self._offered:  # CONNECT
                    raise _malformed("nothing is upgraded here") from None
                data = data[upgrade.args[0] :]
                self._read_head_again()
            except httptools.HttpParserCallbackError as error:
                if isinstance(error.__context__, Refused):
                    raise error.__context__ from None
                raise
            except httptools.HttpParserError:
                raise _malformed("this is no HTTP request") from None
        self._without_news = 0 if self._has_news else self._without_news + size
        if self._without_news > MOST_HEAD_BYTES:
            raise _head_too_large(f"{MOST_HEAD_BYTES} bytes")

    def _read_head_again(self) -> None:
        head = self._head
        lines = [b"%b %b HTTP/1.1" % (head.method.encode(), head.target)]
        keeps = b"keep-alive" if head.keep_alive else b"close"
        for name, value in {**head.headers, b"connection": keeps}.items():
            if name not in _OFFERS:
                lines.append(b"%b: %b" % (name, value))
        self._offered = False
        self._parser = self._new_parser()
        self._parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    # -- the parser's calls ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._target, self._headers, self._header_count = b"", {}, 0
        self._has_news = True
        self._receiver.begin_message()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > MOST_HEADERS:
            raise _head_too_large(f"{MOST_HEADERS} headers")
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        parser = self._parser
        method = parser.get_method().decode("ascii")
        keeps = parser.get_http_version() != "1.0" and parser.should_keep_alive()
        self._head = Head(method, self._target, self._headers, keeps)
        self._headers = {}  # what still comes are trailers, for nobody
        self._has_news = True
        self._offered = method != "CONNECT" and parser.should_upgrade()
        if not self._offered:
            self.is_in_head = False
            self._receiver.take_head(self._head)

    def on_body(self, body: bytes) -> None:
        self._has_news = True
        self._receiver.take_body(body)

    def on_message_complete(self) -> None:
        if not self._offered:
            self.is_in_head = True
            self._receiver.end_message()


def _malformed(message: str) -> Refused:
    return Refused(400, "malformed", message, is_last=True)


def _head_too_large(most: str) -> Refused:
    message = f"what comes before or after a body may have {most}"
    return Refused(431, "head_too_large", message, is_last=True)
