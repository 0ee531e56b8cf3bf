"""The calls of the service as data, and when to try one again; no connection is made here."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from driftbandits import wire
from driftbandits.client.answers import (
    Arm,
    Configuration,
    Decision,
    Digest,
    Erasure,
    Events,
    Health,
    PolicyState,
    PolicySummary,
    Reward,
)
from driftbandits.client.errors import NoAnswer, ServiceError, SomeRefused, error_of

Answer = TypeVar("Answer")

# Everything that changes something carries an event_id or says the whole configuration, so that
# trying again cannot do it twice.
_WORTH_ANOTHER_TRY = frozenset({429, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0

_encoder = msgspec.json.Encoder(enc_hook=lambda value: value.tolist())


class Call(NamedTuple, Generic[Answer]):
    """One request, and what to make of its answer."""

    method: str
    path: str
    body: bytes | None
    read: Callable[[int, bytes], Answer]
    retried: bool = True


def read_as(kind: type[Any]) -> Callable[[int, bytes], Any]:
    decoder = msgspec.json.Decoder(kind)

    def read(status: int, content: bytes) -> Any:
        if not 200 <= status < 300:
            raise refusal(status, content)
        try:
            return decoder.decode(content)
        except msgspec.DecodeError as error:
            raise ServiceError(
                f"the answer is not what a decision service says: {error}", status=status
            ) from None

    return read


def refusal(status: int, content: bytes) -> ServiceError:
    try:
        problem = msgspec.json.decode(content, type=wire.ErrorAnswer).error
    except msgspec.DecodeError:
        problem = _unexplained(content[:200].decode(errors="replace"))
    return _error_of(status, problem)


def _unexplained(text: str = "") -> wire.Problem:
    return wire.Problem(code="", message=text or "no explanation given")


def _error_of(status: int, problem: wire.Problem | None) -> ServiceError:
    said = problem or _unexplained()
    return error_of(status, message=said.message, code=said.code, path=said.path)


_DECISION, _REWARD, _STATE = read_as(Decision), read_as(Reward), read_as(PolicyState)
_DECISIONS, _REWARDS = read_as(wire.DecisionsAnswer), read_as(wire.RewardsAnswer)
_POLICIES, _EVENTS = read_as(wire.PoliciesAnswer), read_as(Events)
_VERSIONS, _DIGEST, _ERASURE = read_as(wire.VersionsAnswer), read_as(Digest), read_as(Erasure)


def new_event_id() -> str:
    return os.urandom(16).hex()


def _path(policy: str, *rest: str) -> str:
    if not isinstance(policy, str) or not policy:
        raise ValueError(f"policy must be the name of a policy; got {policy!r}")
    return "/".join(["/v1/policies", quote(policy, safe=""), *rest])


def put_policy(policy: str, name: str, arguments: Mapping[str, Any]) -> Call[PolicyState]:
    body = _encoder.encode({"name": name, **arguments})
    return Call("PUT", _path(policy), body, _STATE)


def decide(policy: str, arms: Any, *, event_id: str | None, baseline: str | None) -> Call[Decision]:
    body = _encoder.encode(_decision(arms, event_id, baseline))
    return Call("POST", _path(policy, "decisions"), body, _DECISION)


def decide_many(policy: str, requests: Iterable[Mapping[str, Any]]) -> Call[list[Decision]]:
    wanted = []
    for i, request in enumerate(requests):
        unknown = request.keys() - {"arms", "event_id", "baseline"}
        if unknown or "arms" not in request:
            raise ValueError(
                f"requests[{i}] must have arms, and may have event_id and baseline; "
                f"got {', '.join(map(str, request))}"
            )
        wanted.append(_decision(request["arms"], request.get("event_id"), request.get("baseline")))

    def read(status: int, content: bytes) -> list[Decision]:
        return _all_of(_DECISIONS(status, content).results, "decision")

    body = _encoder.encode(wire.DecisionsRequest(wanted))
    return Call("POST", _path(policy, "decisions:batch"), body, read)


def _decision(arms: Any, event_id: str | None, baseline: str | None) -> wire.DecisionRequest:
    event_id = new_event_id() if event_id is None else event_id
    return wire.DecisionRequest(event_id, _arms(arms), baseline)


def _arms(arms: Any) -> list[Any]:
    """Arms as the service wants them: from {id: x}, or from a list of Arm or {"id", "x"}."""
    if isinstance(arms, Mapping):
        return [wire.OfferedArm(name, x) for name, x in arms.items()]
    if isinstance(arms, Sequence) and all(isinstance(arm, (Arm, Mapping)) for arm in arms):
        return list(arms)
    raise ValueError(
        'arms must be {id: x, ...}, or a list of Arm or {"id": ..., "x": ...}; '
        f"got {type(arms).__name__}"
    )


def reward(policy: str, event_id: str, value: float) -> Call[Reward]:
    body = _encoder.encode(wire.RewardRequest(event_id, value))
    return Call("POST", _path(policy, "rewards"), body, _REWARD)


def reward_many(policy: str, rewards: Mapping[str, float]) -> Call[list[Reward]]:
    wanted = [wire.RewardRequest(name, value) for name, value in rewards.items()]

    def read(status: int, content: bytes) -> list[Reward]:
        return _all_of(_REWARDS(status, content).results, "reward")

    body = _encoder.encode(wire.RewardsRequest(wanted))
    return Call("POST", _path(policy, "rewards:batch"), body, read)


def _all_of(results: Sequence[wire.DecisionResult | wire.RewardResult], field: str) -> list[Any]:
    """The answers of a batch; if some were refused, an exception that has all of them."""
    answers = [
        getattr(result, field) or _error_of(result.status, result.error) for result in results
    ]
    if any(isinstance(answer, ServiceError) for answer in answers):
        raise SomeRefused(answers)
    return answers


def policies() -> Call[list[PolicySummary]]:
    def read(status: int, content: bytes) -> list[PolicySummary]:
        found: wire.PoliciesAnswer = _POLICIES(status, content)
        return found.policies

    return Call("GET", "/v1/policies", None, read)


def policy(name: str) -> Call[PolicyState]:
    return Call("GET", _path(name), None, _STATE)


def events(policy: str, *, after: int, limit: int | None) -> Call[Events]:
    query = f"events?after={int(after)}" + ("" if limit is None else f"&limit={int(limit)}")
    return Call("GET", _path(policy, query), None, _EVENTS)


def versions(policy: str) -> Call[list[Configuration]]:
    def read(status: int, content: bytes) -> list[Configuration]:
        found: wire.VersionsAnswer = _VERSIONS(status, content)
        return found.versions

    return Call("GET", _path(policy, "versions"), None, read)


def digest(policy: str) -> Call[Digest]:
    return Call("GET", _path(policy, "digest"), None, _DIGEST)


def erase(policy: str, which: Mapping[str, Any]) -> Call[Erasure]:
    body = _encoder.encode(wire.ErasureRequest(**which))
    return Call("POST", _path(policy, "erasures"), body, _ERASURE)


def health() -> Call[Health]:
    def read(status: int, content: bytes) -> Health:
        if status == 200:
            return Health(ready=True, status="ok")
        return Health(ready=False, status=str(refusal(status, content)))

    return Call("GET", "/readyz", None, read, retried=False)


class Tries:
    """How often and when a call is tried: longer and longer pauses until patience ends."""

    def __init__(self, call: Call[Any], *, patience: float) -> None:
        self._call = call
        self._pause = _FIRST_PAUSE
        self._end = time.monotonic() + patience

    def answered(self, status: int, retry_after: str | None) -> float | None:
        """Seconds to wait before another try; None: this answer is final."""
        if not self._call.retried or status not in _WORTH_ANOTHER_TRY:
            return None
        return self._wait(at_least=_seconds(retry_after))

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


def _seconds(retry_after: str | None) -> float:
    """The header's seconds; a date, which our service never sends, is left to the pauses."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0
