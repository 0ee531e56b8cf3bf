"""Refusals: what the service answers where it does not do what it was asked."""

from __future__ import annotations

from driftbandits.api import Problem
from driftbandits.store import Event


class Refused(Exception):
    """An answer other than 2xx. After one that `is_last` the connection ends."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        path: str | None = None,
        retry_after_s: int | None = None,
        is_last: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(code, message, path)
        self.retry_after_s = retry_after_s
        self.is_last = is_last


def invalid(message: str, path: str | None = None) -> Refused:
    """The body has the right shape and a value that cannot be used."""
    return Refused(422, "invalid", message, path=path)


def unavailable(code: str, message: str, *, retry_after_s: int = 1) -> Refused:
    """The service cannot do it now; the same request may be sent again and will not count twice."""
    return Refused(503, code, message, retry_after_s=retry_after_s)


def unknown_policy(policy: str) -> Refused:
    """No policy has this name."""
    return Refused(404, "unknown_policy", f"there is no policy {policy!r}")


def unknown_decision(policy: str, event_id: str, path: str) -> Refused:
    """The policy has made no such decision."""
    message = f"policy {policy!r} made no decision with event_id {event_id!r}"
    return Refused(404, "unknown_decision", message, path=path)


def gone(event: Event, event_id: str) -> Refused:
    """The content of an event is not here any more; what it stood for was done, and stays."""
    return Refused(410, "erased", f"the events of event_id {event_id!r} were erased")
