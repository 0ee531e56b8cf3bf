"""Parts of pages that are made of the code, where a page says `<!-- made of the code: NAME -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[2]
_FIGURES = re.compile(r"^<!-- (?:figures: [^\n]*|end figures) -->\n", re.MULTILINE)
_MARK = re.compile(r"^<!-- made of the code: ([a-z-]+) -->(?:\n\*[^\n]+\*)?$", re.MULTILINE)
"""A line in italics after a mark is for readers of the source; the part takes its place."""


def with_parts(text: str, *, page: str) -> str:
    """Return the text of a page with the parts that its marks ask for."""

    def put_in(match: re.Match[str]) -> str:
        if match[1] not in PARTS:
            raise SystemExit(f"{page}: there is no part {match[1]!r}; there are {sorted(PARTS)}")
        return "\n".join(PARTS[match[1]]())

    return _FIGURES.sub("", _MARK.sub(put_in, text))


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell).replace('|', '&#124;') for cell in cells)} |"


def _table(headings: tuple[str, ...], rows: Iterator[str]) -> Iterator[str]:
    yield ""
    yield _row(*headings)
    yield "|---" * len(headings) + "|"
    yield from rows
    yield ""


# -- the command line ------------------------------------------------------------------------------


def command_line() -> Iterator[str]:
    """Print every command with its help."""
    from driftbandits.cli.commands import group

    yield from _commands(group, "driftbandits", level=2)


def _commands(command: click.Command, name: str, *, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, max_content_width=88, terminal_width=88)
    yield from (f"{'#' * level} `{name}`", "", "```text", command.get_help(context), "```", "")
    if isinstance(command, click.Group):
        for inner in sorted(command.commands):
            yield from _commands(command.commands[inner], f"{name} {inner}", level=level + 1)


# -- HTTP ------------------------------------------------------------------------------------------


def http() -> Iterator[str]:
    """List every operation and every body of the OpenAPI document."""
    from driftbandits.service.openapi import document
    from driftbandits.service.routes import OPERATIONS

    described = document(OPERATIONS)
    roles = {operation.id: operation.role for operation in OPERATIONS}
    yield from ("## Requests", "")
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield from _operation(method, path, operation, roles.get(operation["operationId"]))
    yield from ("## Bodies", "")
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _sentence(words: str) -> str:
    return words if words.endswith("?") else f"{words}."


def _operation(
    method: str, path: str, operation: dict[str, Any], role: str | None
) -> Iterator[str]:
    yield from (f"### `{method.upper()} {path}`", "", _sentence(operation["summary"]), "")
    yield f"- role: {role or 'none'}"
    if "requestBody" in operation:
        yield f"- body: {_bodies(operation['requestBody'])}"
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query":
            yield f"- `{parameter['name']}`: {parameter.get('description', '')}"
    answers = {status: _bodies(answer) for status, answer in operation["responses"].items()}
    refusals = [status for status, body in answers.items() if "ErrorAnswer" in body]
    done = (
        f"{status} {body}".strip() for status, body in answers.items() if status not in refusals
    )
    yield f"- answers: {', '.join(done)}"
    if refusals:
        yield f"- refusals: {', '.join(refusals)}, all [ErrorAnswer](#erroranswer)"
    yield ""


def _bodies(described: dict[str, Any]) -> str:
    said = []
    for media, content in described.get("content", {}).items():
        reference = content.get("schema", {}).get("$ref")
        said.append(_linked(reference) if reference else f"`{media.partition(';')[0]}`")
    return " or ".join(dict.fromkeys(said))


def _linked(reference: str) -> str:
    name = reference.rpartition("/")[2]
    return f"[{name}](#{name.lower()})"


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name}", "", schema.get("description", "").split("\n")[0], "")
    required = set(schema.get("required", ()))
    if fields := schema.get("properties", {}):
        rows = (
            _row(f"`{field}`", _kind(kind), "" if field in required else _default(kind))
            for field, kind in fields.items()
        )
        yield from _table(("field", "what it is", "unless given"), rows)


def _kind(kind: dict[str, Any]) -> str:
    if "$ref" in kind:
        return _linked(kind["$ref"])
    if "anyOf" in kind:
        return " or ".join(_kind(one) for one in kind["anyOf"])
    if "enum" in kind:
        return " or ".join(f"`{value}`" for value in kind["enum"])
    if kind.get("type") == "array":
        return f"list of {_kind(kind['items'])}" if isinstance(kind.get("items"), dict) else "list"
    bounds = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "above",
        "exclusiveMaximum": "below",
    }
    limits = ", ".join(f"{word} {kind[bound]:g}" for bound, word in bounds.items() if bound in kind)
    return f"{kind.get('type', 'anything')}{f' ({limits})' if limits else ''}"


def _default(kind: dict[str, Any]) -> str:
    value = kind.get("default")
    if value is None:
        return "absent"
    return "empty" if value == "" else f"`{value}`"


# -- configuration ---------------------------------------------------------------------------------

USED, IGNORED, REFUSED, NEEDED = "●", "", "✕", "◆"


def configuration() -> Iterator[str]:
    """Show which policy uses which argument."""
    from driftbandits.policies import LIMITED, ROWS, takes, uses

    def cell(name: str, argument: str) -> str:
        if not takes(name, argument):
            return REFUSED
        if argument in _needed(name):
            return NEEDED
        return USED if uses(name, argument) else IGNORED

    rows = (_row(f"`{name}`", *(cell(name, each) for each in LIMITED)) for name in ROWS)
    yield from _table(("policy", *(f"`{argument}`" for argument in LIMITED)), rows)


def _needed(name: str) -> tuple[str, ...]:
    """Return the arguments of which the policy says that it needs one."""
    import driftbandits as db

    try:
        db.policy(name, dim=2)
    except ValueError as error:
        arguments = re.findall(r"(\w+)=\.\.\.", str(error))
        return tuple(argument for argument in arguments if argument not in _NOT_NEEDED)
    return ()


_NOT_NEEDED = ("changes", "path_length")  # "if known"


def arguments() -> Iterator[str]:
    """List the arguments of `driftbandits.policy`, those of the theory apart."""
    from driftbandits.policies.arguments import ARGUMENTS, PRODUCT, THEORY

    for title, group in (
        ("What an application needs", PRODUCT),
        ("What the theory asks for", THEORY),
    ):
        rows = (
            _row(f"`{name}`", "" if one.default is None else f"`{one.default!r}`", one.says)
            for name, one in ((name, ARGUMENTS[name]) for name in group)
        )
        yield from ("", f"### {title}")
        yield from _table(("argument", "unless given", "what it is"), rows)


def metrics() -> Iterator[str]:
    """List the metrics of the collector that serves /metrics."""
    from driftbandits.service.metrics import Metrics, Scrape

    families = Scrape(Metrics(), (), waiting=0, ready=True).collect()
    labels = {"counter": "_total", "histogram": "_bucket, _sum, _count"}
    rows = (
        _row(
            f"`{family.name}`",
            family.type + (f" (`{labels[family.type]}`)" if family.type in labels else ""),
            " ".join(f"`{label}`" for label in getattr(family, "_labelnames", ())),
            family.documentation,
        )
        for family in families
    )
    yield from _table(("metric", "type", "labels", "what it counts"), rows)


# -- lists -----------------------------------------------------------------------------------------


def decisions() -> Iterator[str]:
    """List the decision records by their titles."""
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        yield f"- [{title}](decisions/{path.name})"


def examples() -> Iterator[str]:
    """Show the programs of examples/, each under the first line of its docstring."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        title = text.split('"""')[1].partition("\n")[0].rstrip(".")
        yield from (f"## {title}", "", f"`python examples/{path.name}`", "")
        yield from ("```python", text.rstrip(), "```", "")


def catalogue() -> Iterator[str]:
    """Describe every policy with its formula, its citation and its use."""
    from policy_words import described

    yield from described()


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "arguments": arguments,
    "catalogue": catalogue,
    "command-line": command_line,
    "configuration": configuration,
    "decisions": decisions,
    "examples": examples,
    "http": http,
    "metrics": metrics,
}
