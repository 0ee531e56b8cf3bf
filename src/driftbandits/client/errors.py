"""What can go wrong between a client and the service: one exception for each kind of answer."""

from __future__ import annotations


class ServiceError(Exception):
    """The service did not do what it was asked. `status` is 0 where no answer came."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class BadRequest(ServiceError):
    """The request was refused as it stands (other 4xx); the message says what is wrong."""


class NotAllowed(ServiceError):
    """The key is missing, unknown or may not do this (401, 403)."""


class NotFound(ServiceError):
    """There is no such policy or event (404)."""


class Conflict(ServiceError):
    """The event has another body or value already (409); nothing was changed."""


class TooMany(ServiceError):
    """A limit of this key was still exceeded when patience ended (429)."""


class Unavailable(ServiceError):
    """The service failed or was overloaded until patience ended (5xx).

    The event may or may not have been recorded. The same call with the same event_id is safe.
    """


class NoAnswer(Unavailable):
    """No answer came until patience ended: the service could not be reached, or took too long."""


def error_of(status: int, message: str) -> ServiceError:
    """The exception for an answer's status."""
    kinds: dict[int, type[ServiceError]] = {
        401: NotAllowed,
        403: NotAllowed,
        404: NotFound,
        409: Conflict,
        429: TooMany,
    }
    kind = kinds.get(status, Unavailable if status >= 500 else BadRequest)
    return kind(f"{status}: {message}", status=status)
