"""Small results of every kind that the report knows, made by the experiments themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from driftbandits.experiments import run_experiment
from driftbandits.experiments.spec import experiments_of
from driftbandits.policies import ROWS

SIX = ("LogisticUCB", "SW-GLUCB", "D-GLUCB", "LinUCB", "SW-LinUCB", "D-LinUCB")
"""The policies that the paper compares."""
NASTY = '<script>document.title = "broken"</script> & "quoted" <b>bold</b>'


def run(
    out: Path, name: str, environment: dict[str, Any], policies: list[Any], **more: Any
) -> None:
    """Play one experiment; `more` may have runs, title, defaults and sweep."""
    spec: dict[str, Any] = {
        "experiment": {
            "name": name,
            "title": more.get("title", name),
            "runs": more.get("runs", 6),
            "every": 10,
            "theta_every": 100,
            "coverage": more.get("coverage", False),
        },
        "environment": environment,
        "defaults": more.get("defaults", {}),
        "policies": [p if isinstance(p, dict) else {"name": p} for p in policies],
    }
    if "sweep" in more:
        spec["sweep"] = more["sweep"]
    for experiment in experiments_of(spec):
        run_experiment(experiment, out=out)


def abrupt2d(out: Path) -> None:
    run(out, "abrupt2d", {"name": "abrupt2d", "horizon": 600}, list(SIX), coverage=True)


def several(out: Path) -> None:
    """A chart of every kind, and a text that tries to break out."""
    abrupt2d(out)
    growth(out)
    pairs(out)
    own(out)


def everything(out: Path) -> None:
    world = {"name": "abrupt2d", "horizon": 600}
    small = {"bonus_scale": 0.1}
    run(out, "abrupt2d-small-bonus", world, list(SIX), defaults=small)
    run(
        out,
        "abrupt2d-intercept",
        world,
        [
            *({"name": name, "label": name} for name in ("SW-GLUCB", "D-GLUCB")),
            {"name": "SW-LinUCB", "label": "SW-LinUCB, intercept", "intercept": True},
            {"name": "SW-LinUCB", "label": "SW-LinUCB, centred", "centre": 0.5},
            {"name": "SW-GLUCB", "label": "SW-GLUCB x0.1", **small},
            {"name": "SW-LinUCB", "label": "SW-LinUCB, centred x0.1", "centre": 0.5, **small},
            {"name": "LinUCB", "label": "LinUCB, centred x0.1", "centre": 0.5, **small},
        ],
    )
    run(
        out,
        "abrupt2d-restart",
        world,
        [{"name": "LogisticUCB", "label": "LogisticUCB restarted", "restart": "changes"}],
    )
    today(out)
    several(out)


def today(out: Path) -> None:
    """`auto` and a tuned policy beside two of the paper's."""
    run(
        out,
        "abrupt2d-today",
        {"name": "abrupt2d", "horizon": 600},
        [
            *({"name": name, "label": name} for name in ("SW-GLUCB", "LogisticUCB")),
            {"name": "auto", "label": "auto", "knows": []},
            {"name": "SW-GLUCB", "label": "SW-GLUCB, tuned", "window": 100, "bonus_scale": 0.03},
        ],
    )


def growth(out: Path) -> None:
    run(
        out,
        "growth-horizon",
        {"name": "abrupt2d"},
        ["SW-GLUCB", "D-GLUCB"],
        runs=3,
        sweep=[{"name": str(T), "environment": {"horizon": T}} for T in (200, 400, 800)],
    )
    run(
        out,
        "growth-changes",
        {"name": "abrupt", "horizon": 400},
        ["SW-GLUCB", "LogisticUCB"],
        runs=3,
        sweep=[{"name": str(n), "environment": {"changes": n}} for n in (1, 2, 4)],
    )


def pairs(out: Path) -> None:
    paired = {"name": "paired", "table": "fair", "horizon": 160}
    run(out, "paired-fair", paired, list(SIX[:3]), defaults={"S": 5.0}, runs=4)
    run(
        out,
        "paired-fair-small-bonus",
        paired,
        list(SIX[:3]),
        defaults={"S": 5.0, "bonus_scale": 0.01},
        runs=4,
    )


def own(out: Path) -> None:
    run(
        out,
        "my-own",
        {"name": "drift", "horizon": 300},
        [{"name": "random", "label": NASTY}, "D-LinUCB"],
        title=NASTY,
        runs=2,
    )


SUITE_POLICIES: list[dict[str, Any]] = [
    {"name": "D-GLUCB"},
    {"name": "SW-GLUCB", "label": "SW-GLUCB x0.1", "bonus_scale": 0.1},
    {"name": "CD-GLUCB", "bonus_scale": 0.1},
    {"name": "random", "knows": []},
]


def suite(out: Path, policies: list[Any] | None = None) -> None:
    """Three small worlds with grids: one that jumps, one that turns, one that rests."""
    spec: dict[str, Any] = {
        "experiment": {"name": "suite", "runs": 6, "every": 50, "theta_every": 100},
        "environment": {"name": "abrupt", "horizon": 200, "changes": 2},
        "policies": [p if isinstance(p, dict) else {"name": p} for p in policies or SUITE_POLICIES],
        "axes": {"window": [40, 80], "discount": [0.95, 0.98], "bonus_scale": [0.0, 0.1]},
        "grid": [
            {"name": "SW-GLUCB", "over": ["window", "bonus_scale"]},
            {"name": "D-GLUCB", "over": ["discount", "bonus_scale"]},
            {"name": "LogisticUCB", "over": ["bonus_scale"]},
            {
                "name": "LogisticUCB",
                "label": "LogisticUCB restarted",
                "restart": "changes",
                "over": ["bonus_scale"],
            },
        ],
        "sweep": [
            {"name": "paper", "title": NASTY, "environment": {"name": "abrupt2d", "horizon": 600}},
            {"name": "turn", "environment": {"name": "drift", "horizon": 200}},
            {
                "name": "stationary",
                "environment": {"name": "stationary", "horizon": 200},
                "axes": {"window": [150]},
            },
        ],
    }
    for experiment in experiments_of(spec):
        run_experiment(experiment, out=out)
    at_rest(out)


def at_rest(out: Path) -> None:
    """Nothing changes, and the policies look for changes."""
    rest = {"name": "stationary", "horizon": 300}
    run(out, "suite-false-alarms", rest, [p for p in SUITE_POLICIES if looks_for_changes(p)])


def looks_for_changes(policy: dict[str, Any]) -> bool:
    return ROWS[policy["name"]].false_alarm_rate > 0


def renamed(results: Path, out: Path) -> None:
    """The same results under names that say nothing; a sweep keeps what binds it together."""
    for number, path in enumerate(sorted(results.glob("*/spec.json"))):
        name = f"e{number}"
        shutil.copytree(path.parent, out / name)
        spec = json.loads(path.read_text(encoding="utf-8"))
        sweep = spec["sweep"] and f"s{sum(spec['sweep'].encode())}"
        spec |= {"name": name, "sweep": sweep}
        (out / name / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
