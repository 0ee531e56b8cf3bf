"""Show docstrings of the package with the names that stand in columns as a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

_COLUMN = re.compile(r"^(\S[^\n]*?)  +(\S.*)$")


class Columns(griffe.Extension):  # type: ignore[misc]
    """Turn `name    what it is`, with lines that go on below, into the items of a list."""

    def on_object(self, *, obj: griffe.Object, **others: Any) -> None:
        if obj.docstring is not None:
            paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(map(_listed, paragraphs))


def _listed(paragraph: str) -> str:
    if paragraph.lstrip().startswith(">>>"):
        return f"```pycon\n{paragraph.strip()}\n```"
    lines = paragraph.split("\n")
    in_columns = all(_COLUMN.match(line) or line[:4].isspace() for line in lines)
    if not in_columns or not _COLUMN.match(lines[0]):
        return paragraph
    items: list[str] = []
    for line in lines:
        found = _COLUMN.match(line)
        if found:
            items.append(f"- `{found[1].strip()}`:")
        words = found[2] if found else line.strip()
        items[-1] += f" {words}".replace("*", "\\*")  # Markdown would take a star for emphasis
    return "\n".join(items)
