"""Writes src/api.ts, the types and operations of the service, from its OpenAPI document.

python clients/typescript/generate.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "src" / "api.ts"

_HEAD = """\
// Made by generate.py from the OpenAPI document of the service. Do not edit: `make typescript`.
"""
_PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean"}
_JSON = "application/json"


def source(document: dict[str, Any]) -> str:
    """The module for an OpenAPI document."""
    schemas = document["components"]["schemas"]
    parts = [_HEAD, *(_interface(name, schemas[name]) for name in sorted(schemas))]
    operations = list(_operations(document["paths"]))
    parts.append("export interface Operations {\n" + "".join(map(_typed, operations)) + "}\n")
    rows = "".join(
        f'  {op["operationId"]}: {{ method: "{op["method"]}", path: "{op["path"]}" }},\n'
        for op in operations
    )
    parts.append(f"export const OPERATIONS = {{\n{rows}}} as const;\n")
    return "\n".join(parts)


def _operations(paths: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield {**operation, "path": path, "method": method.upper()}


def _typed(operation: dict[str, Any]) -> str:
    parameters = operation.get("parameters", [])
    names = [p["name"] for p in parameters if p["in"] == "path"]
    query = [f"{p['name']}?: {_type(p['schema'])}" for p in parameters if p["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get(_JSON)
    done = next(r for status, r in operation["responses"].items() if status.startswith("2"))
    answer = done["content"].get(_JSON)
    return (
        f"  /** {operation['summary']} */\n"
        f"  {operation['operationId']}: {{\n"
        f"    names: {_inline([f'{name}: string' for name in names])};\n"
        f"    query: {_inline(query)};\n"
        f"    body: {_type(body['schema']) if body else 'undefined'};\n"
        f"    answer: {_type(answer['schema']) if answer else 'string'};\n"
        "  };\n"
    )


def _inline(members: list[str]) -> str:
    return f"{{ {'; '.join(members)} }}" if members else "{}"


def _interface(name: str, schema: dict[str, Any]) -> str:
    return f"{_comment(schema)}export interface {name} {_members(schema, '')}\n"


def _comment(schema: dict[str, Any], indent: str = "") -> str:
    lines = [line.strip() for line in schema.get("description", "").splitlines()]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in ("/**", *_starred(lines), " */"))


def _starred(lines: list[str]) -> list[str]:
    return [f" * {line}" for line in lines]


def _members(schema: dict[str, Any], indent: str) -> str:
    required = schema.get("required", [])
    lines = [
        f"{_comment(of, indent + '  ')}{indent}  {_key(name)}{'' if name in required else '?'}: "
        f"{_type(of, indent + '  ')};\n"
        for name, of in schema["properties"].items()
    ]
    return "{\n" + "".join(lines) + indent + "}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)


def _type(schema: dict[str, Any], indent: str = "") -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        words = [json.dumps(word) for word in schema["enum"]]
        # An answer may say a word that a later release has added: its document says so by a type.
        return " | ".join([*words, "(string & {})"] if "type" in schema else words)
    if "anyOf" in schema:
        return " | ".join(_type(one, indent) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        of = _type(schema.get("items", {}), indent)
        return f"({of})[]" if " " in of and not of.startswith("{") else f"{of}[]"
    if kind == "object":
        return _object(schema, indent)
    if kind == "null":
        return "null"
    return _PLAIN.get(kind or "", "unknown")


def _object(schema: dict[str, Any], indent: str) -> str:
    if "properties" in schema:
        return _members(schema, indent)
    more = schema.get("additionalProperties")
    return f"Record<string, {_type(more, indent) if isinstance(more, dict) else 'unknown'}>"


def current() -> str:
    """The module for the service as it is."""
    from driftbandits.service.openapi import document
    from driftbandits.service.routes import OPERATIONS

    return source(json.loads(json.dumps(document(OPERATIONS))))


if __name__ == "__main__":
    TARGET.write_text(current())
