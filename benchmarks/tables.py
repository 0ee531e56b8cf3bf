"""Print a table of a page from what a benchmark wrote into results/: benchmarks/tables.py NAME."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

RESULTS = Path("results")


def markdown(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(headings: list[str], rows: list[list[str]]) -> list[str]:
    return [markdown(headings), "|---" * len(headings) + "|", *map(markdown, rows)]


def result(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def _three_digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"


def speed_table() -> list[str]:
    figures = result("speed.json")["figures"]
    return table(["figure", "measured"], [[n, _three_digits(x)] for n, x in figures.items()])


def first_use_table() -> list[str]:
    seconds = result("speed.json")["seconds"]
    labels = ("import driftbandits", "import of everything", "first decide, from the cache")
    return table(["a new process", "seconds"], [[name, f"{seconds[name]:.2f}"] for name in labels])


def dimensions_table(file: str) -> list[str]:
    found = result(file)["rows"]
    sizes = sorted({row["d"] for row in found})
    rows = []
    for name in dict.fromkeys(row["policy"] for row in found):
        own = {row["d"]: row for row in found if row["policy"] == name}
        cells = [name, *(_dimension_cell(own.get(d)) for d in sizes)]
        rows.append(cells)
    return table(["ms (textbook rounds)", *(f"d = {d}" for d in sizes)], rows)


def _dimension_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not measured"
    return f"{row['microseconds'] / 1e3:.3g} ({row['ratio']:.1f})"


def outages_table() -> list[str]:
    """The longest call of each client in each kind of outage, in ms; and what was lost."""
    found = result("outages.json")
    kinds = list(dict.fromkeys(name.partition(", ")[0] for name in found))
    rows = []
    for client in dict.fromkeys(name.partition(", ")[2] for name in found):
        own = [found[f"{kind}, {client}"] for kind in kinds]
        lost = sum(count for f in own for what, count in f["lost"].items() if what != "corrected")
        longest = [f"{f['longest_ms']:.0f}" for f in own]
        rows.append([f"`{client}`", *longest, f"{sum(f['calls'] for f in own):,}", f"{lost}"])
    return table(["longest call, ms", *kinds, "calls", "lost"], rows)


def torture_table(file: str) -> list[str]:
    """What the tests of tests/torture counted, summed over their parameters but the database."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for case in ElementTree.parse(RESULTS / file).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            raise ValueError(f"{case.get('name')} has failed")
        name, _, parameters = case.get("name", "").partition("[")
        database = next((kind for kind in ("sqlite", "postgresql") if kind in parameters), "")
        own = counts.setdefault((name, database), {})
        for found in case.iter("property"):
            unit, value = found.get("name", ""), int(found.get("value", ""))
            own[unit] = (
                max(own.get(unit, 0), value) if "at most" in unit else own.get(unit, 0) + value
            )
    rows = []
    for (name, database), own in counts.items():
        told = ", ".join(f"{value:,} {unit}" for unit, value in own.items())
        if told:
            words = name.removeprefix("test_").replace("_", " ")
            rows.append([f"{words}, {database}" if database else words, told])
    return table(["test", "counted, without a failure"], rows)


def service_table(files: list[str]) -> list[str]:
    rows = []
    for file in files:
        found = result(file)
        runs = found["runs"]

        def each(name: str, runs: list[dict[str, float]] = runs) -> str:
            return ", ".join(f"{run[name]:.1f}" for run in runs) + " ms"

        spent = sum(run["cpu_us_per_pair"] for run in runs) / len(runs)
        asked = f"{found['asked_pairs_per_second']:,.0f} a second"
        rows.append(
            [asked, each("p50_ms"), each("p99_ms"), each("stood_still_ms"), f"{spent:.0f} us"]
        )
    heads = ["asked for", "p50 of each run", "p99 of each run", "callers blocked"]
    return table([*heads, "server's processor time a pair"], rows)


def shop_table(directory: Path) -> list[str]:
    """How much of the way from random to best each policy went."""
    from driftbandits.experiments import load

    runs = load(directory).runs
    final = {
        str(name): part["final_regret"].to_numpy() for (name,), part in runs.group_by("policy")
    }
    worst = final.pop("random").mean()
    rows = []
    for name, regret in sorted(final.items(), key=lambda item: item[1].mean()):
        error = regret.std(ddof=1) / len(regret) ** 0.5
        share = f"{1 - regret.mean() / worst:.3f}".lstrip("0")
        rows.append([name, share, f"{regret.mean():.0f} ± {error:.0f}"])
    return table([f"{len(regret)} runs", "random to best", "final regret"], rows)


TABLES = {
    "speed": speed_table,
    "first-use": first_use_table,
    "dimensions": lambda: dimensions_table("dimensions.json"),
    "other-dimensions": lambda: dimensions_table("other-dimensions.json"),
    "outages": outages_table,
    "torture": lambda: torture_table("torture.xml"),
    "thousand-kills": lambda: torture_table("kills.xml"),
    "service": lambda: service_table([f"service-{rate}.json" for rate in (1000, 2000, 3000, 4000)]),
    "shop": lambda: shop_table(RESULTS / "figures" / "shop"),
}

if __name__ == "__main__":
    print("\n".join(TABLES[sys.argv[1]]()))
