"""Servers that say what they are told to, and the asynchronous client as if it waited."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from driftbandits.client import AsyncClient


class Script:
    """A server that gives the answers it was told to, one after the other, the last for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""


@contextmanager
def scripted(*answers: Any) -> Iterator[Script]:
    """Each answer is (status, body) or (status, body, headers), or seconds until it hangs up.

    A function makes the answer from the body of the request.
    """
    script = Script(*answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size)
            asked = json.loads(body) if body else None
            script.requests.append((self.command, self.path, asked))
            script.headers.append(dict(self.headers))
            told = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            if callable(told):
                told = told(asked)
            if isinstance(told, float):
                time.sleep(told)
                self.close_connection = True
                return
            status, content, *headers = told
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def problem(message: str, code: str = "", path: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "path": path}}


class Waited:
    """`Client` with the methods of `AsyncClient` behind it: one test for both."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*arguments, **options)

    def __enter__(self) -> Waited:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            return self._runner.run(method(*arguments, **options))

        return call
