"""Small results of every kind that the report knows, made by the experiments themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driftbandits.experiments import experiments_of, run_experiment

SIX = ("LogisticUCB", "SW-GLUCB", "D-GLUCB", "LinUCB", "SW-LinUCB", "D-LinUCB")
"""The policies that the paper compares."""
NASTY = '<script>document.title = "broken"</script> & "quoted" <b>bold</b>'


def run(
    out: Path, name: str, environment: dict[str, Any], policies: list[Any], **more: Any
) -> None:
    """Play one experiment; `more` may have keys of [experiment] and other tables of the file."""
    tables = ("defaults", "sweep", "axes", "grid")
    heading = {"name": name, "title": name, "runs": 6, "every": 10, "theta_every": 100}
    spec = {
        "experiment": heading | {key: value for key, value in more.items() if key not in tables},
        "environment": environment,
        "policies": [p if isinstance(p, dict) else {"name": p} for p in policies],
        **{key: value for key, value in more.items() if key in tables},
    }
    for experiment in experiments_of(spec):
        run_experiment(experiment, out=out)


def everything(out: Path) -> None:
    """An experiment for each section, and a text that tries to break out."""
    abrupt2d = {"name": "abrupt2d", "horizon": 600}
    run(out, "abrupt2d", abrupt2d, list(SIX), coverage=True, description="Three changes.")
    run(
        out,
        "my-own",
        {"name": "drift", "horizon": 300},
        [{"name": "random", "label": NASTY}],
        title=NASTY,
        description=NASTY,
        runs=2,
    )
    pairs = {"name": "paired", "table": "fair", "horizon": 160}
    run(out, "paired-fair", pairs, list(SIX[:3]), section="share", defaults={"S": 5.0}, runs=4)
    run(
        out,
        "growth-horizon",
        {"name": "abrupt2d"},
        ["SW-GLUCB", "LogisticUCB"],
        section="growth",
        runs=3,
        sweep=[{"name": str(T), "environment": {"horizon": T}} for T in (200, 400, 800)],
    )
    worlds(out)


def worlds(out: Path) -> None:
    """A sweep of eight worlds with a grid, enough for a table that scrolls on a phone."""
    run(
        out,
        "suite",
        {"name": "abrupt", "horizon": 60, "changes": 2},
        ["D-GLUCB", {"name": "SW-GLUCB", "label": "SW-GLUCB x0.1", "bonus_scale": 0.1}, "random"],
        section="worlds",
        runs=2,
        axes={"bonus_scale": [0.0, 0.1]},
        grid=[{"name": "LogisticUCB", "over": ["bonus_scale"]}],
        sweep=[
            {"name": "turn", "title": NASTY, "environment": {"name": "drift", "horizon": 60}},
            *({"name": f"{n}-arms", "environment": {"arms": n}} for n in range(2, 10)),
        ],
    )
