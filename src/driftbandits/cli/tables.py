"""Tables for people, on a terminal or in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headings."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    # In a pipe every row stays on its line.
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)
