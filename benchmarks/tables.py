"""Write what was measured last into the tables of docs/speed.md.

The page marks where a table begins and ends; a result that is absent leaves its table as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path("docs/speed.md")
RESULTS = Path("results")


def speed_table(report: dict[str, Any]) -> list[str]:
    lines = ["| figure | measured | reach | dream | reached |", "|---|---|---|---|---|"]
    for f in report["figures"]:
        bound = "at least " if f["more_is_better"] else ""
        limits = f"{bound}{f['reach']:g} | {bound}{f['dream']:g}"
        lines.append(f"| {f['name']} | {f['measured']:.3g} | {limits} | {f['reached']} |")
    return lines


def first_use_table(report: dict[str, Any]) -> list[str]:
    lines = ["| a new process | seconds |", "|---|---|"]
    labels = ("import driftbandits", "import of everything", "first decide, from the cache")
    return lines + [f"| {label} | {report['seconds'][label]:.2f} |" for label in labels]


def dimensions_table(report: dict[str, Any]) -> list[str]:
    rows = report["rows"]
    sizes = sorted({row["d"] for row in rows})
    lines = [f"| ms (yardsticks) | {' | '.join(f'd = {d}' for d in sizes)} | reach | dream |"]
    lines.append("|---" * (len(sizes) + 3) + "|")
    for name in dict.fromkeys(row["policy"] for row in rows):
        own = {row["d"]: row for row in rows if row["policy"] == name}
        cells = [_dimension_cell(own.get(d)) for d in sizes]
        limits = next(iter(own.values()))
        lines.append(f"| {name} | {' | '.join(cells)} | {limits['reach']} | {limits['dream']} |")
    return lines


def _dimension_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not measured"
    return f"{row['microseconds'] / 1e3:.3g} ({row['ratio']:.1f})"


def peers_table(report: dict[str, Any]) -> list[str]:
    lines = ["| library | setting | regret | us a round |", "|---|---|---|---|"]
    rows = sorted(report["rows"], key=lambda row: (row["library"], row["regret"]))
    for row in rows:
        regret = f"{row['regret']:.0f} ± {row['standard_error']:.0f}"
        microseconds = row["microseconds_per_round"]
        time = f"{microseconds:,.0f}" if microseconds > 99 else f"{microseconds:.1f}"
        lines.append(f"| {row['library']} | {row['setting']} | {regret} | {time} |")
    return lines


def with_table(page: str, name: str, lines: list[str]) -> str:
    """The page with the lines between the two marks of a table."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return before + begin + "\n".join(lines) + "\n" + end + after


def main() -> None:
    tables: list[tuple[str, str, Callable[[dict[str, Any]], list[str]]]] = [
        ("speed", "speed.json", speed_table),
        ("first use", "speed.json", first_use_table),
        ("dimensions", "dimensions.json", dimensions_table),
        ("peers", "peers.json", peers_table),
    ]
    page = PAGE.read_text(encoding="utf-8")
    for name, file, table in tables:
        if (RESULTS / file).exists():
            page = with_table(page, name, table(json.loads((RESULTS / file).read_text())))
    PAGE.write_text(page, encoding="utf-8")
    print(f"the tables of {PAGE} hold the last results")


if __name__ == "__main__":
    main()
