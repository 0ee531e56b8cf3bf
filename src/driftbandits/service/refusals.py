"""What the service says no with."""

from __future__ import annotations

from driftbandits.store import Event
from driftbandits.wire import Problem

MOVED = "moved"


class Refused(Exception):
    """An answer other than 2xx. After the last one its connection ends."""

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
    """Not now: the same request may be sent again, and will not count twice."""
    return Refused(503, code, message, retry_after_s=retry_after_s)


class Elsewhere(Refused):
    """Another process owns the policy, and has to be asked."""

    def __init__(self, policy: str) -> None:
        message = f"another process has taken over policy {policy!r}"
        super().__init__(503, MOVED, message, retry_after_s=1)


def unknown_policy(policy: str) -> Refused:
    return Refused(404, "unknown_policy", f"there is no policy {policy!r}")


def too_large(most: int) -> Refused:
    """The rest of the body is not wanted, so nothing can follow it."""
    return Refused(413, "too_large", f"a body may have {most} bytes", is_last=True)


def unknown_decision(policy: str, event_id: str, path: str) -> Refused:
    message = f"policy {policy!r} made no decision with event_id {event_id!r}"
    return Refused(404, "unknown_decision", message, path=path)


def gone(event: Event, event_id: str) -> Refused:
    """The content of an event is not here any more; what it stood for was done, and stays."""
    if event.is_archived:
        return Refused(410, "archived", f"the events of event_id {event_id!r} are in an archive")
    return Refused(410, "erased", f"the events of event_id {event_id!r} were erased")
