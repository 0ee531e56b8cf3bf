"""The OpenAPI document, made from the routes and the structs that serve them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from driftbandits.service.endpoints import Action
from driftbandits.service.wire import NAME_PATTERN, ErrorAnswer

_REFERENCE = "#/components/schemas/{name}"


def document(routes: Mapping[str, Mapping[str, Action]]) -> dict[str, Any]:
    actions = [action for methods in routes.values() for action in methods.values()]
    types = {type_ for a in actions for type_ in (a.request, a.answer) if type_ is not None}
    ordered = [*sorted(types, key=lambda type_: type_.__name__), ErrorAnswer]
    _, components = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "driftbandits",
            "version": "1",
            "description": "Decisions now, rewards whenever they come, nothing lost.",
        },
        "paths": {
            path: {method.lower(): _operation(path, action) for method, action in methods.items()}
            for path, methods in routes.items()
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _reference(type_: type) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=type_.__name__)}


def _operation(path: str, action: Action) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": action.summary,
        "operationId": getattr(action.handler or action.command, "__name__", ""),
        "responses": _responses(action),
    }
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": NAME_PATTERN},
        }
        for name in re.findall(r"\{(\w+)\}", path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": _query_schema(name)}
        for name, text in action.query.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if action.request is not None:
        content = {"application/json": {"schema": _reference(action.request)}}
        operation["requestBody"] = {"required": True, "content": content}
    if action.role is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Needs the role {action.role}."
    return operation


def _query_schema(name: str) -> dict[str, Any]:
    if name == "format":
        return {"enum": ["json", "parquet"]}
    return {"type": "integer", "minimum": 0}


def _responses(action: Action) -> dict[str, Any]:
    error = {"application/json": {"schema": _reference(ErrorAnswer)}}
    content: dict[str, Any] = {kind: {} for kind in action.media_types}
    if action.answer is not None:
        content["application/json"] = {"schema": _reference(action.answer)}
    done = {"description": "done", "content": content}
    refused = set(action.statuses) - {201}
    if action.role is not None:
        refused |= {401, 403, 500}
    if action.request is not None:
        refused |= {400, 408, 413, 422}
    if action.query or action.role is not None:
        refused |= {422}
    responses: dict[str, Any] = {"200": done}
    if 201 in action.statuses:
        responses["201"] = done
    for status in sorted(refused):
        responses[str(status)] = {"description": "refused", "content": error}
    return responses
