"""The picture and the tables of docs/which-policy.md.

python benchmarks/which_policy.py --policy D-GLUCB --bonus-scale 0.1

With --tables also the tables, from the results of `make suite`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats
from tables import markdown, table, with_table

import driftbandits as db
from driftbandits import experiments
from driftbandits.report import goals, hindsight
from driftbandits.report.contents import contents_of
from driftbandits.report.formats import number, plus_minus, ratio
from driftbandits.report.print_charts import SETTINGS, WIDTH
from driftbandits.report.recordings import Recording, find_recordings
from driftbandits.report.sections.many_worlds import point_words
from driftbandits.report.statistics import Estimate, estimate
from driftbandits.report.style import INK, QUIET
from driftbandits.simulation import draw_trace

PAGE = Path("docs/which-policy.md")
PICTURE = Path("docs/figures/one-run.svg")
RESULTS = Path("results/suite")
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


def picture(name: str, bonus_scale: float | None) -> list[str]:
    """Draw one run of the paper's world; gives back the sentence below it."""
    world = db.environment("abrupt2d")
    trace = draw_trace(world, SEED, 0)
    narrow = {} if bonus_scale is None else {"bonus_scale": bonus_scale}
    policy = db.policy(name, dim=2, horizon=trace.horizon, changes=3, **narrow)
    run = play(policy, trace)
    label = name if bonus_scale is None else f"{name}, bonus x {bonus_scale:g}"
    with mpl.rc_context(SETTINGS):
        draw(run, trace, label).savefig(PICTURE, metadata={"Date": None, "Creator": None})
    regret = float(trace.regret(run.chosen).sum())
    rounds = ", ".join(f"{t:,}" for t in run.reported)
    reported = f" It reported changes in rounds {rounds}." if rounds else ""
    return [f"`{label}` in one run of the paper's world: regret {regret:.0f}.{reported}"]


def ratios_table(worlds: list[hindsight.World]) -> list[str]:
    names = [world.name for world in worlds]
    restarted = hindsight.restarted_standing(worlds)
    heading = ["policy", "geometric mean", "worst", *names, "cost over D-GLUCB"]
    lines = [markdown(heading), markdown(["---"] * len(heading))]
    for line in [*hindsight.standings_of(worlds), *([] if restarted is None else [restarted])]:
        ratios = [ratio(line.ratios[name].mean) if name in line.ratios else "–" for name in names]
        worst = ratio(line.ratios[line.worst].mean)
        lines.append(markdown([line.policy, ratio(line.overall), worst, *ratios, ratio(line.cost)]))
    return lines


def goals_table(worlds: list[hindsight.World], beside: list[Recording]) -> list[str]:
    """What was to be reached, and was."""
    rows = [
        [goal.what, _words(goal.reached), f"{goal.wanted:g}", f"{goal.hoped:g}", goal.verdict]
        for goal in goals.goals_of(worlds, beside)
    ]
    return table(["`auto`; less is better", "measured", "goal", "hoped for", "reached"], rows)


def _words(found: Estimate) -> str:
    return plus_minus(found.mean, found.se).replace("\N{NO-BREAK SPACE}", " ")


def runs_in_words(recordings: list[Recording]) -> list[str]:
    """How many runs each file of the suite has, and where it asks for more."""
    words = []
    for file in dict.fromkeys(str(r.spec["sweep"] or r.name) for r in recordings):
        own = [
            r for r in recordings if file in (r.spec["sweep"], r.name) and not r.spec["hindsight"]
        ]
        asked = experiments.read_experiments(experiments.published()[file])
        played, wanted = {r.replicates for r in own}, {e.runs for e in asked}
        fewer = "" if played == wanted else f" (of {_from_to(wanted)} that it asks for)"
        names = {r.name for r in own}
        absent = [str(e.variant) for e in asked if not e.hindsight and e.name not in names]
        without = f", without {' and '.join(absent)}" if absent else ""
        words.append(f"{file} {_from_to(played)}{fewer}{without}")
    return ["", f"Runs by file: {'; '.join(words)}."]


def _from_to(counts: set[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def fixed_arms_table(beside: list[Recording]) -> list[str]:
    """Every policy over the reference, and the runs that are stuck in percent."""
    reference = goals.among_fixed_arms(beside, goals.REFERENCE)
    found = {
        label: goals.among_fixed_arms(beside, label) for label in reference[0].recording.policies
    }
    overall = {
        label: float(stats.gmean([row.over.mean for row in rows])) for label, rows in found.items()
    }
    lines = []
    for label in sorted(overall, key=lambda label: overall[label]):
        cells = [
            f"{ratio(row.over.mean)} ({number(100 * row.stuck.mean, '.0f')})"
            for row in found[label]
        ]
        lines.append([label, ratio(overall[label]), *cells])
    return table(["policy", "geometric mean", *(row.name for row in reference)], lines)


def hard_worlds_table(rows: list[goals.Beside], over: str, *, stuck: bool) -> list[str]:
    """`auto` world by world, with standard errors."""
    headings = ["world", "what it is", "runs", "regret of `auto`", f"over {over}"]
    lines = []
    for row in rows:
        title = row.recording.title
        cells = [row.name, title, str(row.regret.runs), _words(row.regret), _words(row.over)]
        lines.append([*cells, f"{100 * row.stuck.mean:.1f} %"] if stuck else cells)
    return table([*headings, "stuck"] if stuck else headings, lines)


def at_rest_table(beside: list[Recording]) -> list[str]:
    """Mean regrets of what is made for worlds that stay as they are."""
    worlds = [recording for recording in beside if recording.spec["sweep"] == "suite-at-rest"]
    found = {
        label: [estimate(goals.regret_of(world, label)) for world in worlds]
        for label in worlds[0].policies
    }
    ranked = sorted(found, key=lambda label: sum(np.log(own.mean) for own in found[label]))
    rows = [[label, *map(_words, found[label])] for label in ranked]
    return table(["policy", *(world.title for world in worlds)], rows)


def write_tables(page: str) -> str:
    recordings = find_recordings(RESULTS)
    found = contents_of(recordings)
    worlds, beside = list(found.worlds), [*found.resting, *found.alone]
    units = [row for group in goals.in_other_units(beside, "auto").values() for row in group]
    fixed = goals.among_fixed_arms(beside, "auto")
    for name, lines in {
        "reached": [*goals_table(worlds, beside), *runs_in_words(recordings)],
        "suite": ratios_table(worlds),
        "worlds": worlds_table(worlds),
        "fixed arms": fixed_arms_table(beside),
        "fixed arms by world": hard_worlds_table(fixed, goals.REFERENCE, stuck=True),
        "at rest": at_rest_table(beside),
        "units": hard_worlds_table(units, "the base", stuck=False),
    }.items():
        page = with_table(page, name, lines)
    return page


def worlds_table(worlds: list[hindsight.World]) -> list[str]:
    lines = [
        markdown(["world", "what it is", "best single memory in hindsight", "its regret"]),
        markdown(["---"] * 4),
    ]
    for world in worlds:
        best = " / ".join(point_words(point) for point in world.best.points)
        regret = f"{world.best.regret.mean():.3g}"
        lines.append(markdown([world.name, world.recording.title, best, regret]))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="D-GLUCB")
    parser.add_argument("--bonus-scale", type=float, help="instead of the policy's own")
    parser.add_argument("--tables", action="store_true", help="those of the suite as well")
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    page = with_table(page, "one run", picture(given.policy, given.bonus_scale))
    if given.tables:
        page = write_tables(page)
    PAGE.write_text(page, encoding="utf-8")
    print(f"{PICTURE} and {PAGE} are written")


if __name__ == "__main__":
    main()
