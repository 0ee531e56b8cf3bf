"""A call of the service as data, when to try it again, and the exceptions it may end in.

No connection is made here.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from driftbandits import api
from driftbandits.api.operations import Operation

if TYPE_CHECKING:
    from driftbandits.client.queue import Item

Answer = TypeVar("Answer")
Other = TypeVar("Other")

# Everything that changes something carries an event_id or says the whole configuration, so that
# trying again cannot do it twice.
_WORTH_ANOTHER_TRY = frozenset({429, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0

encoded = msgspec.json.Encoder(enc_hook=lambda value: value.tolist()).encode


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


def error_of(status: int, problem: api.Problem | None) -> ServiceError:
    """The exception for an answer's status."""
    kind = _KINDS.get(status, Unavailable if status >= 500 else BadRequest)
    said = problem or api.Problem(code="", message="")
    message = said.message or "no explanation given"
    return kind(f"{status}: {message}", status=status, code=said.code, path=said.path)


@dataclass(frozen=True)
class StandIn(Generic[Answer]):
    """The settings for what a client does by itself when no answer comes in time.

    budget   seconds that the call may take altogether
    answer   what it answers then, and what is sent `later`
    refused  what it answers where the service refuses the call for good
    """

    budget: float
    answer: Answer
    refused: Answer
    later: Sequence[Item]


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request, and what to make of its answer."""

    operation: Operation[Any]
    path: str
    body: bytes | None
    read: Callable[[int, bytes], Answer]
    retried: bool = True
    stand_in: StandIn[Answer] | None = None

    @property
    def method(self) -> str:
        return self.operation.method

    def then(self, change: Callable[[Answer], Other]) -> Call[Other]:
        """Return the same request with another way to read its answer."""

        def read(status: int, content: bytes) -> Other:
            return change(self.read(status, content))

        return Call(self.operation, self.path, self.body, read, self.retried)


def call(
    operation: Operation[Answer],
    *,
    body: Any = None,
    query: Mapping[str, int | None] | None = None,
    **names: str,
) -> Call[Answer]:
    """A call of an operation; `names` fill in its path, and a query leaves out what is None."""
    for key, name in names.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"{key} must be the name of a {key}; got {name!r}")
    path = operation.path.format(**{key: quote(name, safe="") for key, name in names.items()})
    given = {key: int(value) for key, value in (query or {}).items() if value is not None}
    return Call(
        operation,
        f"{path}?{urlencode(given)}" if given else path,
        None if body is None else encoded(body),
        functools.partial(_read, operation.answer),
    )


@functools.cache
def _decoder(struct: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct)


def _read(struct: Any, status: int, content: bytes) -> Any:
    if not 200 <= status < 300:
        raise refusal(status, content)
    try:
        return _decoder(struct).decode(content)
    except msgspec.DecodeError as error:
        said = f"the answer is not what a decision service says: {error}"
        raise ServiceError(said, status=status) from None


def refusal(status: int, content: bytes) -> ServiceError:
    """The exception for an answer that is no success."""
    try:
        problem = _decoder(api.ErrorAnswer).decode(content).error
    except msgspec.DecodeError:
        problem = api.Problem(code="", message=content[:200].decode(errors="replace"))
    return error_of(status, problem)


class Tries:
    """The tries of a call: pauses get longer until patience ends."""

    def __init__(self, call: Call[Any], *, patience: float) -> None:
        self._call = call
        self._pause = _FIRST_PAUSE
        self._end = time.monotonic() + patience

    def answered(self, status: int, retry_after: str | None) -> float | None:
        """Seconds to wait before another try; None: this answer is final."""
        if not self._call.retried or status not in _WORTH_ANOTHER_TRY:
            return None
        # The header may have a date, which our service never sends: it is left to the pauses.
        has_seconds = retry_after is not None and retry_after.isdecimal()
        return self._wait(at_least=float(retry_after or 0) if has_seconds else 0.0)

    def failed(self, error: Exception) -> float:
        """Seconds to wait before another try, or the exception that ends them."""
        wait = self._wait(at_least=0.0) if self._call.retried else None
        if wait is None:
            reason = str(error) or type(error).__name__
            raise NoAnswer(f"no answer to {self._call.method} {self._call.path}: {reason}")
        return wait

    def _wait(self, *, at_least: float) -> float | None:
        # Drawn at random, so that clients who failed together do not come back together.
        wait = at_least + self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2.0 * self._pause, _LONGEST_PAUSE)
        return wait if time.monotonic() + wait < self._end else None


def seconds(name: str, value: float, *, or_zero: bool = False) -> float:
    """An argument that is a time."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0 or (value == 0 and not or_zero):
        allowed = "at least 0" if or_zero else "above 0"
        raise ValueError(f"{name} must be a number of seconds {allowed}; got {value!r}")
    return float(value)
