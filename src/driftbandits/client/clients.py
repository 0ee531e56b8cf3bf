"""The two clients: the same calls, one waiting and one to be awaited."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from driftbandits.client.calls import Call, Tries
from driftbandits.client.methods import Methods

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


class Client(Methods):
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

    def _run(self, describe: Callable[[], Call[Answer]]) -> Answer:
        call = describe()
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


class AsyncClient(Methods):
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

    async def _run(self, describe: Callable[[], Call[Answer]]) -> Answer:
        import asyncio  # late, as httpx: who imports this module may never need it

        call = describe()
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
