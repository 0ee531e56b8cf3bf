"""The OpenAPI document, made from the operations alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from driftbandits.api import ID_PATTERN, NAME_PATTERN, ErrorAnswer
from driftbandits.api.operations import JSON, Operation

_REFERENCE = "#/components/schemas/{name}"
_PATTERNS = {
    "policy": NAME_PATTERN,
    "event_id": ID_PATTERN,
    "shadow": NAME_PATTERN,
    "version": "^[0-9]{1,9}$",
}
_GROUPS = {None: "open", "reader": "look", "writer": "decide", "admin": "administer"}
"""Headings of the page of the interface, by the role that an operation needs."""


def document(operations: Iterable[Operation[Any]], *, root: str = "") -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    structs: set[type] = {ErrorAnswer}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
        structs |= {operation.answer} if JSON in operation.media_types else set()
        structs |= set() if operation.request is None else {operation.request}
    in_order = sorted(structs, key=lambda struct: struct.__name__)
    _, components = msgspec.json.schema_components(in_order, ref_template=_REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "driftbandits",
            "version": "1",
            "description": "Decisions now, rewards whenever they come, nothing lost.",
        },
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: Operation[Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.id,
        "tags": [_GROUPS[operation.role]],
        "responses": _responses(operation),
    }
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": _PATTERNS[name]},
        }
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    in_query = [
        {"name": name, "in": "query", **parameter._asdict()}
        for name, parameter in operation.query.items()
    ]
    if in_path or in_query:
        described["parameters"] = in_path + in_query
    if operation.request is not None:
        described["requestBody"] = {"required": True, "content": {JSON: _json(operation.request)}}
    if operation.role is not None:
        described["security"] = [{"key": []}]
        described["description"] = f"Needs the role {operation.role}."
    return described


def _json(struct: type) -> dict[str, Any]:
    return {"schema": {"$ref": _REFERENCE.format(name=struct.__name__)}}


def _responses(operation: Operation[Any]) -> dict[str, Any]:
    """Describe what is done, and refusals: its own, and those that come before its handler."""
    content = {
        kind: _json(operation.answer) if kind == JSON else {} for kind in operation.media_types
    }
    done = {"description": "done", "content": content}
    refused = {"description": "refused", "content": {JSON: _json(ErrorAnswer)}}
    statuses = set(operation.refused)
    if operation.role is not None:
        statuses |= {401, 403, 422, 500}
    if operation.request is not None:
        statuses |= {400, 408, 413, 422}
    if operation.query:
        statuses |= {422}
    return {
        **{str(status): done for status in operation.done},
        **{str(status): refused for status in sorted(statuses)},
    }
