"""Fallback decisions and queued rewards, when the service does not answer in time.

A call that fails is answered by the client, and put into the queue, which is sent in the
background. After some failures in a row no call waits any more: all are answered at once, until
something of the queue got through as quickly as callers need it (docs/decisions/14).
"""

from __future__ import annotations

import logging
import threading
from typing import Any, TypeVar

from driftbandits.client.calls import Call, StandIn
from driftbandits.client.errors import ServiceError
from driftbandits.client.queue import Item, Queue

logger = logging.getLogger("driftbandits.client")

Answer = TypeVar("Answer")

FAILURES = 3
"""In a row; after them calls are answered at once."""

# What may be otherwise later: a key that is being replaced, a limit.
_LATER = frozenset({401, 403, 408, 429})


class Breaker:
    """A circuit breaker that tells any thread whether to ask the service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._budget = 0.0  # the shortest that was missed

    @property
    def is_open(self) -> bool:
        return self._failures >= FAILURES

    def failed(self, budget: float, error: ServiceError) -> None:
        with self._lock:
            self._budget = min(self._budget, budget) if self._failures else budget
            self._failures += 1
            opens = self._failures == FAILURES
        if opens:
            logger.warning("the service is not asked until it answers again: %s", error)

    def answered(self, seconds: float) -> None:
        """Note an answer of the service, unless it took longer than callers had waited."""
        if self._failures and seconds <= self._budget:
            self.close()

    def close(self) -> None:
        with self._lock:
            was_open, self._failures = self.is_open, 0
        if was_open:
            logger.warning("the service is asked again")


class Fallback:
    """The state that outlives event loops and connections."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.breaker = Breaker()

    def must_wait(self, stand_in: StandIn[Any]) -> bool:
        """Return whether calls are answered without asking the service."""
        return self.breaker.is_open or any(
            self.queue.has_decision(*item.event) for item in stand_in.later if _is_reward(item)
        )

    def stand_in(self, call: Call[Answer], error: ServiceError | None = None) -> Answer:
        """The client's own answer; what was to be said is said later."""
        given = call.stand_in
        assert given is not None
        if error is not None:
            if _is_no_answer(error):
                self.breaker.failed(given.budget, error)
            else:
                logger.warning("%s %s: %s", call.method, call.path, error)
            if not is_passing(error):
                return given.refused
        for item in given.later:
            self.queue.put(item)
        return given.answer


def _is_reward(item: Item) -> bool:
    return item.kind == "reward"


def _is_no_answer(error: ServiceError) -> bool:
    """Return whether the error means that the service is away or overloaded.

    Its own refusals have a code; an answer without one comes from a proxy.
    """
    return not error.code or error.status in (502, 503, 504)


def is_passing(error: ServiceError) -> bool:
    """Return whether the same call may succeed later."""
    return _is_no_answer(error) or error.status in _LATER
