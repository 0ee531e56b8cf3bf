"""The two clients: the same calls, one waiting and one to be awaited."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from driftbandits.client import calls
from driftbandits.client.answers import (
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
from driftbandits.client.calls import Call, Tries

if TYPE_CHECKING:
    import httpx

Answer = TypeVar("Answer")

_ABOUT = """

    url       of the service, as http://127.0.0.1:8080
    key       an API key of the service; None where it runs without
    timeout   seconds that one try may take
    patience  seconds for which a call is tried again where no answer came, the service was
              overloaded or failed. That is safe: the service does nothing twice for one event_id,
              which is drawn at random where none is given. 0: never try again
    """


def _httpx() -> Any:
    """Imported late: it takes longer than everything else here."""
    try:
        import httpx
    except ModuleNotFoundError:
        raise ImportError("The client needs httpx: pip install 'driftbandits[client]'") from None
    return httpx


def _settings(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ValueError(f"url must begin with http:// or https://; got {url!r}")
    if key is not None and (not isinstance(key, str) or not key):
        raise ValueError(f"key must be a text, or None; got {type(key).__name__}")
    headers = {"content-type": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return {"base_url": url, "headers": headers, "timeout": _positive("timeout", timeout)}


def _positive(name: str, value: float, *, or_zero: bool = False) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0 or (value == 0 and not or_zero):
        allowed = "at least 0" if or_zero else "above 0"
        raise ValueError(f"{name} must be a number of seconds {allowed}; got {value!r}")
    return float(value)


class Client:
    """Decisions and rewards over HTTP. May be used by several threads."""

    __doc__ += _ABOUT

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 10.0, patience: float = 60.0
    ) -> None:
        self._patience = _positive("patience", patience, or_zero=True)
        settings = _settings(url, key, timeout)
        self._http: httpx.Client = _httpx().Client(**settings)

    def __repr__(self) -> str:
        return f"Client({str(self._http.base_url)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _send(self, call: Call[Answer]) -> Answer:
        httpx = _httpx()
        tries = Tries(call, patience=self._patience)
        while True:
            try:
                answer = self._http.request(call.method, call.path, content=call.body)
            except httpx.TransportError as error:
                time.sleep(tries.failed(error))
                continue
            wait = tries.answered(answer.status_code, answer.headers.get("retry-after"))
            if wait is None:
                return call.read(answer.status_code, answer.content)
            time.sleep(wait)

    def put_policy(self, policy: str, name: str, **arguments: Any) -> PolicyState:
        """Make a policy, or change its configuration; the arguments are those of `db.policy`.

        Further ones say how it is served: mode, reward_wait_s, default_reward, half_life_s,
        window_s, seed.
        """
        return self._send(calls.put_policy(policy, name, arguments))

    def decide(
        self,
        policy: str,
        arms: Any,
        *,
        event_id: str | None = None,
        baseline: str | None = None,
    ) -> Decision:
        """Choose one of `arms`: {id: x, ...}, or a list of Arm or {"id": ..., "x": ...}."""
        return self._send(calls.decide(policy, arms, event_id=event_id, baseline=baseline))

    def decide_many(self, policy: str, requests: Iterable[Mapping[str, Any]]) -> list[Decision]:
        """Decide for several requests {"arms", "event_id"?, "baseline"?}, one after the other."""
        return self._send(calls.decide_many(policy, requests))

    def reward(self, policy: str, event_id: str, value: float) -> Reward:
        """Report what came of a decision."""
        return self._send(calls.reward(policy, event_id, value))

    def reward_many(self, policy: str, rewards: Mapping[str, float]) -> list[Reward]:
        """Report what came of several decisions: {event_id: value, ...}."""
        return self._send(calls.reward_many(policy, rewards))

    def policies(self) -> list[PolicySummary]:
        """The policies that the key may see."""
        return self._send(calls.policies())

    def policy(self, policy: str) -> PolicyState:
        """A policy's estimate, radius, effective sample size, detections and counts."""
        return self._send(calls.policy(policy))

    def events(self, policy: str, *, after: int = 0, limit: int | None = None) -> Events:
        """A part of the policy's log."""
        return self._send(calls.events(policy, after=after, limit=limit))

    def versions(self, policy: str) -> list[Configuration]:
        """Every configuration the policy has had, oldest first."""
        return self._send(calls.versions(policy))

    def digest(self, policy: str) -> Digest:
        """The fingerprint of the policy's state, to compare with a replay."""
        return self._send(calls.digest(policy))

    def erase(
        self,
        policy: str,
        *,
        event_ids: Sequence[str] | None = None,
        prefix: str | None = None,
        older_than_days: float | None = None,
    ) -> Erasure:
        """Take the content out of events, by id, prefix of ids or age; what was learned stays."""
        which = {"event_ids": event_ids, "prefix": prefix, "older_than_days": older_than_days}
        return self._send(calls.erase(policy, which))

    def health(self) -> Health:
        """Whether the service is ready; tried once."""
        return self._send(calls.health())


class AsyncClient:
    """Decisions and rewards over HTTP, for asyncio: the methods of `Client`, to be awaited."""

    __doc__ += _ABOUT

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 10.0, patience: float = 60.0
    ) -> None:
        self._patience = _positive("patience", patience, or_zero=True)
        settings = _settings(url, key, timeout)
        self._http: httpx.AsyncClient = _httpx().AsyncClient(**settings)

    def __repr__(self) -> str:
        return f"AsyncClient({str(self._http.base_url)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, call: Call[Answer]) -> Answer:
        import asyncio  # late, as httpx: who imports this module may never need it

        httpx = _httpx()
        tries = Tries(call, patience=self._patience)
        while True:
            try:
                answer = await self._http.request(call.method, call.path, content=call.body)
            except httpx.TransportError as error:
                await asyncio.sleep(tries.failed(error))
                continue
            wait = tries.answered(answer.status_code, answer.headers.get("retry-after"))
            if wait is None:
                return call.read(answer.status_code, answer.content)
            await asyncio.sleep(wait)

    async def put_policy(self, policy: str, name: str, **arguments: Any) -> PolicyState:
        """See `Client.put_policy`."""
        return await self._send(calls.put_policy(policy, name, arguments))

    async def decide(
        self,
        policy: str,
        arms: Any,
        *,
        event_id: str | None = None,
        baseline: str | None = None,
    ) -> Decision:
        """See `Client.decide`."""
        return await self._send(calls.decide(policy, arms, event_id=event_id, baseline=baseline))

    async def decide_many(
        self, policy: str, requests: Iterable[Mapping[str, Any]]
    ) -> list[Decision]:
        """See `Client.decide_many`."""
        return await self._send(calls.decide_many(policy, requests))

    async def reward(self, policy: str, event_id: str, value: float) -> Reward:
        """See `Client.reward`."""
        return await self._send(calls.reward(policy, event_id, value))

    async def reward_many(self, policy: str, rewards: Mapping[str, float]) -> list[Reward]:
        """See `Client.reward_many`."""
        return await self._send(calls.reward_many(policy, rewards))

    async def policies(self) -> list[PolicySummary]:
        """See `Client.policies`."""
        return await self._send(calls.policies())

    async def policy(self, policy: str) -> PolicyState:
        """See `Client.policy`."""
        return await self._send(calls.policy(policy))

    async def events(self, policy: str, *, after: int = 0, limit: int | None = None) -> Events:
        """See `Client.events`."""
        return await self._send(calls.events(policy, after=after, limit=limit))

    async def versions(self, policy: str) -> list[Configuration]:
        """See `Client.versions`."""
        return await self._send(calls.versions(policy))

    async def digest(self, policy: str) -> Digest:
        """See `Client.digest`."""
        return await self._send(calls.digest(policy))

    async def erase(
        self,
        policy: str,
        *,
        event_ids: Sequence[str] | None = None,
        prefix: str | None = None,
        older_than_days: float | None = None,
    ) -> Erasure:
        """See `Client.erase`."""
        which = {"event_ids": event_ids, "prefix": prefix, "older_than_days": older_than_days}
        return await self._send(calls.erase(policy, which))

    async def health(self) -> Health:
        """See `Client.health`."""
        return await self._send(calls.health())
