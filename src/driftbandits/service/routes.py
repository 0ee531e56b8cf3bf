"""Which handler serves which operation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from driftbandits.operations import Operation
from driftbandits.service.endpoints import Action, Call, Gate

Serves = TypeVar("Serves", bound=Callable[[Gate, Call], Any])


class Route(Action):
    """An operation and its handler: `async` and returning a reply, or plain with a command."""

    def __init__(
        self, operation: Operation[Any], handler: Callable[[Gate, Call], Any], *, anywhere: bool
    ) -> None:
        replies = inspect.iscoroutinefunction(handler)
        super().__init__(
            handler if replies else None,
            command=None if replies else handler,
            role=operation.role,
            request=operation.request,
            query=tuple(operation.query),
            limited=operation.limited,
            anywhere=anywhere,
        )
        self.operation = operation


class Routes(dict[str, Mapping[str, Route]]):
    """The routes of each path, by method."""

    def serve(
        self, operation: Operation[Any], *, anywhere: bool = False
    ) -> Callable[[Serves], Serves]:
        """Let the function below serve an operation; `anywhere` if it need not be the owner."""

        def enter(handler: Serves) -> Serves:
            route = Route(operation, handler, anywhere=anywhere)
            self[operation.path] = {**self.get(operation.path, {}), operation.method: route}
            return handler

        return enter

    @property
    def operations(self) -> list[Operation[Any]]:
        return [route.operation for methods in self.values() for route in methods.values()]
