"""What several processes over one PostgreSQL do, with one policy and with eight.

For each number of processes as many pairs a second as `benchmarks/service.py` gets out of it, and
what a pair costs in processor time, of the servers, the database and the callers; all of it in
turns, because machines are shared. Pairs a second depend on what else the machine does, processor
time much less. Prints a table for docs/scaling.md.

    python benchmarks/processes.py [--seconds 4] [--turns 2]
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from statistics import mean, median
from typing import NamedTuple

from tables import table

import service

PROCESSES = (1, 2)


class Setting(NamedTuple):
    """What is measured."""

    policies: int
    affinity: bool
    processes: int

    @property
    def row(self) -> str:
        policies = "one policy" if self.policies == 1 else "eight policies"
        way = "" if self.affinity else ", spread over all processes"
        return f"{policies}{way}"


SETTINGS = [
    Setting(policies, affinity, processes)
    for policies, affinity, processes in (
        *((1, True, count) for count in PROCESSES),
        *((8, True, count) for count in PROCESSES),
        (8, False, 2),
    )
]


def measured(setting: Setting, seconds: float) -> dict[str, float]:
    options = argparse.Namespace(
        **{
            "pairs_per_second": 0.0,
            "seconds": seconds,
            "runs": 1,
            "callers": 64 * setting.processes,
        },
        **{"policy": "auto", "processes": setting.processes, "policies": setting.policies},
        **{"affinity": setting.affinity and setting.processes > 1},
        store="postgresql",
    )
    print(f"# {setting.row}, {setting.processes}", flush=True)
    (run,) = service.figures_of(options)
    return run


PARTS = ("cpu_us_per_pair", "database_us", "callers_us")
Found = dict[Setting, list[dict[str, float]]]


def cell(runs: list[dict[str, float]]) -> str:
    pairs = median(run["pairs_per_second"] for run in runs)
    p99 = median(run["p99_ms"] for run in runs)
    parts = " + ".join(f"{mean(run[part] for run in runs):.0f}" for part in PARTS)
    return f"{pairs:,.0f} ({p99:.0f} ms); {parts} us"


def by_processor_time(setting: Setting, runs: list[dict[str, float]]) -> float:
    """Pairs a second of two cores that do nothing else: a process has one of them at most."""
    servers, *others = (mean(run[part] for run in runs) for part in PARTS)
    return min(
        2e6 / (servers + sum(others)), min(setting.processes, setting.policies) * 1e6 / servers
    )


def lines(found: Found, cells: dict[Setting, str]) -> list[str]:
    rows: defaultdict[str, list[str]] = defaultdict(lambda: [""] * len(PROCESSES))
    for setting in found:
        rows[setting.row][PROCESSES.index(setting.processes)] = cells[setting]
    return table(["", "1 process", "2"], [[name, *made] for name, made in rows.items()])


def told(found: Found) -> list[str]:
    """Both tables."""
    bounds = {setting: by_processor_time(setting, runs) for setting, runs in found.items()}
    alone = {one: one._replace(affinity=True, processes=1) for one in bounds}
    ratios = {
        setting: f"{bound:,.0f} ({bound / bounds[alone[setting]]:.2f})"
        for setting, bound in bounds.items()
    }
    return [
        *lines(found, {setting: cell(runs) for setting, runs in found.items()}),
        "",
        f"Measured while {os.getloadavg()[2]:.1f} programs wanted one of {os.cpu_count()} cores.",
        "Two that do nothing else would give by processor time, and over one process:",
        "",
        *lines(found, ratios),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    found: Found = defaultdict(list)
    for _ in range(options.turns):
        for setting in SETTINGS:
            found[setting].append(measured(setting, options.seconds))
    print()
    print("\n".join(told(found)))


if __name__ == "__main__":
    main()
