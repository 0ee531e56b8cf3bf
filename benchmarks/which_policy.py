"""Draw the picture of docs/which-policy.md, or print a table of docs/results.md from `make suite`.

python benchmarks/which_policy.py suite
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from tables import table

import driftbandits as db
from driftbandits.experiments import Results, draw_trace, load
from driftbandits.report.formats import number, plus_minus
from driftbandits.report.print_charts import SETTINGS, WIDTH
from driftbandits.report.statistics import Estimate, estimate
from driftbandits.report.style import INK, QUIET

PICTURE = Path("docs/figures/one-run.svg")
RESULTS = Path("results/suite")
SHOWN = ("auto", "D-GLUCB x0.1", "LogisticUCB x0.1")
"""The policies that are shown world by world."""
REFERENCE = "LogisticUCB x0.1"
"""The policy by which fixed arms are measured."""
STUCK = 0.05
"""Of the largest reward, what a run that is stuck loses a round: half of what the wrong of two
close arms does."""
RECENT = 200
"""Rounds that a reward rate is the average of."""
SEED = 7
COLOURS = ("#0072B2", "#D55E00")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OneRun:
    """What an agent earned and believed, round by round, and the changes it reported."""

    paid: Floats
    estimate: Floats
    chosen: NDArray[np.int64]
    reported: list[int]


def play(policy: db.Policy, trace: db.Trace) -> OneRun:
    agent = db.Agent(policy, seed=SEED)
    chosen = np.empty(trace.horizon, dtype=np.int64)
    estimate = np.empty((trace.horizon, trace.dim))
    paid = np.empty(trace.horizon)
    for t, actions in enumerate(trace.actions):
        choice = agent.decide(actions)
        chosen[t], estimate[t] = choice.index, agent.theta_hat[: trace.dim]
        paid[t] = trace.rewards[t, choice.index]
        agent.update(choice, paid[t])
    reported = [detection.round for detection in agent.detections]
    return OneRun(paid, estimate, chosen, reported)


def recent_mean(values: Floats) -> Floats:
    """The mean of the last RECENT values; not a number while there are fewer."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    mean: Floats = np.full(len(values), np.nan)
    mean[RECENT - 1 :] = (sums[RECENT:] - sums[:-RECENT]) / RECENT
    return mean


def draw(run: OneRun, trace: db.Trace, name: str) -> Figure:
    shown = np.arange(RECENT, trace.horizon, 10)  # more points than that are not seen
    rounds = shown + 1
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    best = recent_mean(trace.means.max(axis=1))
    above.plot(rounds, best[shown], color=QUIET, lw=1, label="best action")
    above.plot(rounds, recent_mean(run.paid)[shown], color=INK, label=name)
    above.set_ylim(bottom=0.0)
    above.set_ylabel(f"reward rate,\nlast {RECENT} rounds")
    for i, colour in enumerate(COLOURS):
        below.plot(rounds, trace.theta[shown, i], color=colour, lw=1, ls=(0, (1, 1)))
        below.plot(rounds, run.estimate[shown, i], color=colour, label=f"coordinate {i + 1}")
    below.plot([], [], color=QUIET, lw=1, ls=(0, (1, 1)), label="the truth")
    below.set_ylabel("theta and its estimate")
    below.set_xlabel("round")
    for axes in (above, below):
        _mark(axes, trace, run)
        # above the axes, where no curve can cross it
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, ncols=4)
    return figure


def _mark(axes: Axes, trace: db.Trace, run: OneRun) -> None:
    for change in trace.changes or ():
        axes.axvline(change, color=QUIET, lw=0.8, ls="--")
    edge: Any = axes.get_xaxis_transform()
    axes.plot(
        run.reported,
        np.full(len(run.reported), 0.97),
        ls="",
        marker="v",
        color="#882255",
        transform=edge,
        label="reported change" if run.reported else None,
    )


def one_run() -> list[str]:
    """Draw `auto` in one run of the paper's world; gives back the sentence below the picture."""
    trace = draw_trace(db.environment("abrupt2d"), SEED, 0)
    run = play(db.policy("auto", dim=2), trace)
    with mpl.rc_context(SETTINGS):
        draw(run, trace, "auto").savefig(PICTURE, metadata={"Date": None, "Creator": None})
    regret = float(trace.regret(run.chosen).sum())
    rounds = ", ".join(f"{t:,}" for t in run.reported)
    reported = f" It reported changes in rounds {rounds}." if rounds else ""
    return [f"`auto` in one run of the paper's world: regret {regret:.0f}.{reported}"]


# -- the tables of the suite -----------------------------------------------------------------------


class World(NamedTuple):
    """An experiment of the suite, with the points of its grid if it has one."""

    name: str
    title: str
    results: Results
    grid: Results | None

    @property
    def policies(self) -> list[str]:
        return [policy["label"] for policy in self.results.spec["policies"]]

    def regret(self, label: str) -> Floats:
        """Final regret of each run, in units of the largest reward."""
        mine = self.results.runs.filter(pl.col("policy") == label).sort("replicate")
        return mine["final_regret"].to_numpy() / self.largest

    def regret_after(self, label: str, share: float) -> Floats:
        """Regret of each run after this share of its rounds."""
        curves = self.results.curves.filter(pl.col("policy") == label).sort("replicate", "round")
        horizon = self.results.spec["world"]["horizon"]
        reached = curves.filter(pl.col("round") <= share * horizon)
        early = reached.group_by("replicate", maintain_order=True).last()["regret"].to_numpy()
        return self.regret(label) - early / self.largest

    @property
    def largest(self) -> float:
        """The largest reward."""
        return float(self.results.spec["environment"].get("m", 1.0))

    def stuck(self, label: str) -> Estimate:
        """Share of runs that lose at least STUCK a round in their last tenth."""
        rounds = 0.1 * self.results.spec["world"]["horizon"]
        return estimate((self.regret_after(label, 0.9) >= STUCK * rounds).astype(np.float64))

    def tuned(self, *, restart: bool) -> Floats:
        """Regret of the best of the grid, by which each half of the runs is chosen for the other.

        The best of many points looks better than it is on the runs that it was chosen on.
        """
        assert self.grid is not None
        points = [p for p in self.grid.spec["policies"] if bool(p["restart"]) == restart]
        own = World(self.name, self.title, self.grid, None)
        values = np.array([own.regret(point["label"]) for point in points])
        odd = np.arange(values.shape[1]) % 2 == 1
        regret = np.empty(len(odd))
        for here, other in ((odd, ~odd), (~odd, odd)) if len(odd) > 1 else ((~odd, ~odd),):
            best = int(values[:, other].mean(axis=1).argmin())
            regret[here] = values[best, here]
        return regret


def worlds_of(file: str) -> list[World]:
    """The worlds of an experiment file that have results, in its order."""
    found = [load(path.parent) for path in sorted(RESULTS.glob("*/spec.json"))]
    mine = [r for r in found if file in (r.spec["sweep"], r.spec["name"])]
    grids = {r.spec["variant"]: r for r in found if r.spec["sweep"] == file and r.spec["is_grid"]}
    return [
        World(str(spec["variant"] or spec["name"]), spec["title"], r, grids.get(spec["variant"]))
        for r in sorted(mine, key=lambda r: int(r.spec["position"]))
        if not (spec := r.spec)["is_grid"]
    ]


def ratio_of_means(one: Floats, other: Floats) -> Estimate:
    """Both played the same runs, so the error is that of what one has beyond its share."""
    ratio = float(one.mean() / other.mean())
    beyond = estimate(one - ratio * other)
    return Estimate(ratio, beyond.se / float(other.mean()), beyond.runs)


def geometric(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def words(found: Estimate) -> str:
    return plus_minus(found.mean, found.se).replace("\N{NO-BREAK SPACE}", " ")


def short(value: float) -> str:
    return number(value, ".2f" if value < 9.995 else ".0f")


def suite() -> list[str]:
    """Every policy over the best single memory of each world; the best policies first."""
    worlds = worlds_of("suite")
    best = [world.tuned(restart=False) for world in worlds]
    seconds = [
        dict(world.results.runs.group_by("policy").agg(pl.col("seconds").sum()).iter_rows())
        for world in worlds
    ]
    rows = []
    for label in worlds[0].policies:
        over = [ratio_of_means(w.regret(label), b).mean for w, b in zip(worlds, best, strict=True)]
        cost = geometric(own[label] / own["D-GLUCB"] for own in seconds)
        cells = [short(value) for value in (geometric(over), max(over), cost)]
        rows.append((geometric(over), [label, *cells]))
    jumps = [bool(world.results.spec["world"]["changes_a_run"]) for world in worlds]
    known = [
        world.tuned(restart=True).mean() / own.mean() if jump else math.nan
        for world, own, jump in zip(worlds, best, jumps, strict=True)
    ]
    told = [value for value in known if not math.isnan(value)]
    cells = [short(value) for value in (geometric(told), max(told), math.nan)]
    lines = [row for _, row in sorted(rows)]
    return [
        *table(
            ["policy", "geometric mean", "worst", "cost over D-GLUCB"],
            [*lines, ["restart at the true changes, tuned", *cells]],
        ),
        *("", f"The geometric mean of `auto` with its standard error: {_overall(worlds, best)}."),
    ]


def _overall(worlds: list[World], best: list[Floats]) -> str:
    """Worlds share their draws, so the errors of a run are added up over all worlds."""
    over = [ratio_of_means(w.regret("auto"), b).mean for w, b in zip(worlds, best, strict=True)]
    errors: dict[int, float] = {}
    for world, own, ratio in zip(worlds, best, over, strict=True):
        beyond = (world.regret("auto") - ratio * own) / (ratio * own.mean())
        for run, error in enumerate(beyond):
            errors[run] = errors.get(run, 0.0) + float(error) / len(worlds)
    found = estimate(np.array(list(errors.values())))
    return words(Estimate(geometric(over), geometric(over) * found.se, found.runs))


def worlds() -> list[str]:
    """Describe each world, and show some policies over its best single memory."""
    rows = []
    for world in worlds_of("suite"):
        regret = world.tuned(restart=False)
        over = [short(ratio_of_means(world.regret(label), regret).mean) for label in SHOWN]
        rows.append([world.name, world.title, f"{regret.mean() * world.largest:.3g}", *over])
    return table(["world", "what it is", "regret of the best", *SHOWN], rows)


def fixed_arms() -> list[str]:
    """Every policy among fixed arms over the reference, and its runs that are stuck."""
    worlds = worlds_of("suite-fixed-arms")
    rows = []
    for label in worlds[0].policies:
        found = [ratio_of_means(w.regret(label), w.regret(REFERENCE)).mean for w in worlds]
        stuck = max(world.stuck(label).mean for world in worlds)
        cells = [short(geometric(found)), short(max(found)), f"{100 * stuck:.0f} %"]
        rows.append((geometric(found), [label, *cells]))
    heads = ["policy", "geometric mean", "worst", "stuck, at worst"]
    return table(heads, [row for _, row in sorted(rows)])


def rest() -> list[str]:
    """`auto` where nothing changes: its regret in the second half, and what it reports."""
    rows = []
    for world in worlds_of("suite-quiet"):
        late = estimate(world.regret_after("auto", 0.5))
        rows.append([f"{world.title}: regret of the second half", words(late)])
    for world in (*worlds_of("suite-false-alarms"), *worlds_of("suite-rare-rewards")):
        spec = world.results.spec
        (policy,) = (p for p in spec["policies"] if p["label"] == "auto")
        allowed = policy["false_alarm_rate"] * spec["world"]["horizon"]
        runs = world.results.runs.filter(pl.col("policy") == "auto")
        share = estimate(runs["detections"].cast(pl.Float64).to_numpy() / allowed)
        rows.append([f"{world.title}: false reports over the {allowed:g} allowed", words(share)])
    return table(["`auto`", "measured"], rows)


TABLES: dict[str, Callable[[], list[str]]] = {
    **{"one-run": one_run, "suite": suite, "worlds": worlds, "fixed-arms": fixed_arms},
    "rest": rest,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=TABLES)
    print("\n".join(TABLES[parser.parse_args().table]()))


if __name__ == "__main__":
    main()
