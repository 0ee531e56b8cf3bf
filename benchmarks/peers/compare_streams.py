"""The real streams of experiments/streams.toml played by other libraries and by ours.

Every player meets the same rows in the same order, both standardised as they come and in their own
units. The other libraries are called as an application would call them: Vowpal Wabbit with one
namespace an arm at its default settings of epsilon, squarecb and regcbopt; coba's and
bayesianbandits' learners with features of their own for every arm. `make bench-peers` plays this
after the paper's problem.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bayesianbandits as bb
import numpy as np
from coba.learners import LinTSLearner, LinUCBLearner

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from streams import correct_and_time, line_of, stream_experiments
from vowpal import VowpalWabbit

import driftbandits as db
from driftbandits.experiments import draw_trace

OURS = ("auto", "LinUCB x0.03", "informed majority", "informed logistic")
VW = {
    label: f"--cb_min_cost 0 --cb_max_cost 1 {options}"
    for label, options in {
        "epsilon .05": "--epsilon 0.05",
        "squarecb": "--squarecb",
        "regcbopt": "--regcbopt",
        "regcbopt .01": "--regcbopt --mellowness 0.01",
    }.items()
}


class Coba:
    """Its linear learners, on a constant and the context for every arm."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self.pending: tuple[Any, Any, float] = (None, None, 1.0)

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        row = context.tolist()
        offered = [tuple(float(j == k) for j in arms) for k in arms]
        action, share = self.learner.predict(row, offered)[:2]
        self.pending = (row, action, share)
        return offered.index(action)

    def update(self, index: int, reward: float) -> None:
        row, action, share = self.pending
        self.learner.learn(row, action, reward, share)


class BayesianBandits:
    """A logistic regression of its own for every arm."""

    def __init__(self, policy: Any, arms: int, seed: int) -> None:
        made = [bb.Arm(k, learner=bb.BayesianGLM(link="logit")) for k in range(arms)]
        self.agent = bb.ContextualAgent(made, policy, random_seed=seed)
        self.context = np.empty((1, 0))

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        self.context = np.append(context, 1.0)[None]
        return self.agent.pull(self.context)[0]

    def update(self, index: int, reward: float) -> None:
        self.agent.select_for_update(index).update(self.context, np.array([reward]))


def other_players() -> dict[str, Callable[[int, int], Any]]:
    """Label -> a factory of players, given the arms and a seed."""
    players: dict[str, Callable[[int, int], Any]] = {
        f"VW {label}": lambda arms, seed, options=options: VowpalWabbit(options, seed)
        for label, options in VW.items()
    }
    crossed = [1, "a", "xa"]
    players["coba LinUCB"] = lambda arms, seed: Coba(LinUCBLearner(features=crossed, seed=seed))
    players["coba LinTS v=.1"] = lambda arms, seed: Coba(
        LinTSLearner(v=0.1, features=crossed, seed=seed)
    )
    players["bayesianbandits GLM UCB"] = lambda arms, seed: BayesianBandits(
        bb.UpperConfidenceBound(alpha=0.68), arms, seed
    )
    players["bayesianbandits GLM Thompson"] = lambda arms, seed: BayesianBandits(
        bb.ThompsonSampling(), arms, seed
    )
    return players


def played(player: Any, trace: db.Trace) -> tuple[float, float]:
    """The share correct, and seconds a round."""
    earned = 0.0
    before = time.perf_counter()
    for context, rewards in zip(trace.actions[:, 0], trace.rewards, strict=True):
        index = player.decide(context, range(trace.arms))
        player.update(index, float(rewards[index]))
        earned += rewards[index]
    return earned / trace.horizon, (time.perf_counter() - before) / trace.horizon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--player", help="only players whose label contains this")
    parser.add_argument("--stream", help="only streams whose name contains this")
    parser.add_argument("--most-dim", type=int, default=30, help="for coba, whose rounds are d^3")
    parser.add_argument("--out", type=Path, default=Path("results/peers-streams.json"))
    given = parser.parse_args()
    print(f"{'stream':<24}{'player':<34}{'correct':>7}{'':>9}{'us a round':>12}")
    rows: list[dict[str, Any]] = []

    def add(stream: str, label: str, shares: np.ndarray, seconds: float) -> None:
        print(line_of(stream, label, shares, seconds), flush=True)
        shared = {"stream": stream, "player": label, "microseconds": 1e6 * seconds}
        rows.append({**shared, "shares": shares.tolist()})

    for experiment in stream_experiments():
        name = experiment.name.removeprefix("streams-")
        if given.stream and given.stream not in name:
            continue
        traces = [draw_trace(experiment.world, experiment.seed, run) for run in range(given.runs)]
        arms, dim = traces[0].arms, traces[0].dim
        for label, make in other_players().items():
            wanted = not given.player or given.player in label
            if wanted and (dim * arms <= given.most_dim * 10 or "coba" not in label):
                runs = [played(make(arms, seed), trace) for seed, trace in enumerate(traces)]
                add(name, label, np.array([s for s, _ in runs]), min(t for _, t in runs))
        for label in OURS:
            if label in experiment.players and (not given.player or given.player in label):
                add(name, label, *correct_and_time(experiment, label, given.runs))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"runs": given.runs, "rows": rows}, indent=2) + "\n")
    print(f"\nwritten to {given.out}")


if __name__ == "__main__":
    main()
