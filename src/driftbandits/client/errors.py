"""Exceptions of the client, one for each kind of refusal."""

from __future__ import annotations

from collections.abc import Sequence

from driftbandits.api import Problem


class ServiceError(Exception):
    """The service did not do what it was asked.

    status  of the answer; 0 where none came
    code    the service's word for it
    path    of the field at fault, as in $.arms[1].x[0]
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", path: str | None = None
    ) -> None:
        super().__init__(message if path is None else f"{message} (at {path})")
        self.status = status
        self.code = code
        self.path = path


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


class SomeRefused(ServiceError):
    """Some of a batch were refused. `results` has the answer or the exception of every one."""

    def __init__(self, results: Sequence[object]) -> None:
        refused = [result for result in results if isinstance(result, ServiceError)]
        super().__init__(
            f"{len(refused)} of {len(results)} were refused; the first: {refused[0]}",
            status=refused[0].status,
            code=refused[0].code,
        )
        self.results = list(results)


_KINDS: dict[int, type[ServiceError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    429: TooMany,
}


def error_of(status: int, problem: Problem | None) -> ServiceError:
    """The exception for an answer's status."""
    kind = _KINDS.get(status, Unavailable if status >= 500 else BadRequest)
    said = problem or Problem(code="", message="")
    message = said.message or "no explanation given"
    return kind(f"{status}: {message}", status=status, code=said.code, path=said.path)
