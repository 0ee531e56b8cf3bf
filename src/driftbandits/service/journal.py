"""Messages of the running service: on demand a line of JSON for each.

No line has content: no features, values, event ids, keys, bodies or messages of exceptions, which
may quote any of these. A policy's name and the id of a key, which is no secret, are in.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

ROOT = "driftbandits"
ACCESS = "driftbandits.access"
FIELDS = ("request_id", "method", "route", "status", "ms", "policy", "key")
"""Fields that a message may have beside its text."""

_MOST_WAITING = 10_000
_LAST_LINES_S = 2.0


def new_request_id() -> str:
    return os.urandom(12).hex()


class JsonLines(logging.Formatter):
    """`at`, `level`, `logger` and `message`, then whatever of `FIELDS` there is."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "at": at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond:06d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["exception"] = type(error).__name__
            line["where"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)
            ]
        return msgspec.json.encode(line).decode()


class _Handing(logging.Handler):
    """Hands lines to a thread: the event loop must not wait for a pipe that is never read."""

    def __init__(self, writer: logging.Handler) -> None:
        super().__init__()
        self._writer = writer
        self._waiting: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(record)

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None:
            self._writer.handle(record)

    def end(self) -> None:
        self._waiting.put(None)
        self._thread.join(_LAST_LINES_S)


@contextmanager
def journal(kind: str, *, stream: TextIO | None = None) -> Iterator[None]:
    """Write what is logged, "json" or "text", until it is left."""
    handler = logging.StreamHandler(stream or sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if kind == "json" else text)
    handing = _Handing(handler)
    root = logging.getLogger(ROOT)
    before = root.level, root.propagate
    root.addHandler(handing)
    root.setLevel(logging.INFO)
    root.propagate = False
    try:
        yield
    finally:
        root.removeHandler(handing)
        root.level, root.propagate = before
        handing.end()
