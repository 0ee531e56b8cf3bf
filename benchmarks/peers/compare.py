"""The paper's 2-D problem played by other libraries and by ours: `make bench-peers`.

Every player sees the same traces: six fresh actions each round, rewards 0 or 1, three changes of
the parameter. The other libraries are given what the problem calls for: an intercept (VW and coba
have one of their own), the range of the costs, and several settings of exploration and forgetting,
so that each is shown at its best. They are called as an application would call them, one decision
and one reward at a time. Ours are shown both that way (`Agent`) and as whole compiled runs.

Regret is the cumulative dynamic regret at the end, the mean over runs with its standard error. Time
per round is the least over runs of the whole loop's time divided by its rounds: deciding, learning
and the conversion of features that a library asks for.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bayesianbandits as bb
import numpy as np
import vowpalwabbit
from coba.learners import LinTSLearner, LinUCBLearner

import driftbandits as db
from driftbandits.environments import abrupt2d
from driftbandits.experiments import draw_trace, play, player_seed

DISCOUNT, WINDOW, HORIZON = 0.996, 252, 6000


class VowpalWabbit:
    """One multiline example a round: action features only, VW adds its constant."""

    def __init__(self, options: str, seed: int) -> None:
        self.vw = vowpalwabbit.Workspace(f"--cb_explore_adf --quiet {options}")
        self.rng = np.random.default_rng(seed)
        self.pending: tuple[list[str], int, float] | None = None

    def decide(self, actions: np.ndarray) -> int:
        lines = [f"| x:{x:.9g} y:{y:.9g}" for x, y in actions.tolist()]
        shares = np.array(self.vw.predict(lines))
        index = int(np.searchsorted(np.cumsum(shares), self.rng.random() * shares.sum()))
        index = min(index, len(shares) - 1)
        self.pending = (lines, index, float(shares[index]))
        return index

    def update(self, decision: int, reward: float) -> None:
        lines, index, share = self.pending
        lines[index] = f"0:{1.0 - reward:g}:{share:.9g} {lines[index]}"
        self.vw.learn(lines)


class Coba:
    """Its learners take lists and give back the action and its probability."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self.pending: tuple[list[float], float] | None = None

    def decide(self, actions: np.ndarray) -> int:
        offered = actions.tolist()
        action, share = self.learner.predict(None, offered)[:2]
        self.pending = (action, share)
        return offered.index(action)

    def update(self, decision: int, reward: float) -> None:
        action, share = self.pending
        self.learner.learn(None, action, reward, share)


class BayesianBandits:
    """One learner shared by six arms, whose features are the actions of the round and a constant.

    The context handed over holds all actions; an arm's featurizer reads its own.
    """

    def __init__(self, policy: Any, learner: Any, seed: int) -> None:
        def features(X: np.ndarray, arms: Any) -> np.ndarray:
            table = X[0].reshape(-1, 2)[list(arms)]
            return np.column_stack([table, np.ones(len(table))]).T[None]

        self.agent = bb.LipschitzContextualAgent(
            arms=[bb.Arm(k, learner=None) for k in range(6)],
            policy=policy,
            arm_featurizer=bb.FunctionArmFeaturizer(features),
            learner=learner,
            random_seed=seed,
        )
        self.context: np.ndarray | None = None

    def decide(self, actions: np.ndarray) -> int:
        self.context = actions.reshape(1, -1)
        return self.agent.pull(self.context)[0]

    def update(self, decision: int, reward: float) -> None:
        self.agent.select_for_update(decision).update(self.context, np.array([reward]))


Players = dict[tuple[str, str], Callable[[int], Any]]


def other_players() -> Players:
    """(library, setting) -> a factory of players."""
    players: Players = {}
    costs = "--cb_min_cost 0 --cb_max_cost 1 --cb_type mtr"
    for options in (
        "--regcbopt --mellowness 0.1",
        "--regcbopt --mellowness 0.01",
        "--regcbopt --mellowness 0.001",
        "--regcbopt --mellowness 0.01 --power_t 0 -l 0.05",
        "--regcbopt --mellowness 0.001 --power_t 0 -l 0.02",
        "--squarecb --gamma_scale 100",
        "--squarecb --gamma_scale 100 --power_t 0 -l 0.05",
        "--cover 4",
        "--epsilon 0.05 --power_t 0 -l 0.05",
    ):
        full = f"{options} {costs if 'regcb' in options or 'squarecb' in options else ''}"
        players["vowpalwabbit", options] = lambda seed, full=full: VowpalWabbit(full, seed)
    for alpha in (0.1, 0.5, 1.0, 2.0):
        players["coba", f"LinUCB alpha={alpha}"] = lambda seed, alpha=alpha: Coba(
            LinUCBLearner(alpha=alpha, features=[1, "a"], seed=seed)
        )
    for v in (0.1, 1.0):
        players["coba", f"LinTS v={v}"] = lambda seed, v=v: Coba(
            LinTSLearner(v=v, features=[1, "a"], seed=seed)
        )
    for label, policy in (
        ("UCB alpha=0.68", lambda: bb.UpperConfidenceBound(alpha=0.68)),
        ("UCB alpha=0.95", lambda: bb.UpperConfidenceBound(alpha=0.95)),
        ("Thompson", bb.ThompsonSampling),
    ):
        for rate in (1.0, 0.99, DISCOUNT):
            forgetting = None if rate == 1.0 else bb.StabilizedForgetting(rate)
            name = f"GLM {label}" + ("" if rate == 1.0 else f", stabilised forgetting {rate}")
            players["bayesianbandits", name] = lambda seed, policy=policy, rule=forgetting: (
                BayesianBandits(policy(), bb.BayesianGLM(link="logit", forgetting=rule), seed)
            )
    return players


def our_policies() -> dict[str, db.Policy]:
    policies = {"auto, which needs no setting": db.policy("auto", dim=2)}
    for scale in (1.0, 0.1):
        for name in ("SW-GLUCB", "D-GLUCB", "LogisticUCB"):
            policies[f"{name}, bonus x{scale:g}"] = db.policy(
                name,
                dim=2,
                horizon=HORIZON,
                window=WINDOW,
                discount=DISCOUNT,
                bonus_scale=scale,
            )
        policies[f"SW-LinUCB centred, bonus x{scale:g}"] = db.policy(
            "SW-LinUCB", dim=2, horizon=HORIZON, window=WINDOW, centre=0.5, bonus_scale=scale
        )
    return policies


def played_online(player: Any, trace: db.Trace) -> tuple[float, float]:
    """Final regret, and seconds per round of the whole loop."""
    chosen = np.empty(trace.horizon, dtype=np.int64)
    actions, rewards = list(trace.actions), trace.rewards.tolist()
    before = time.perf_counter()
    for t in range(trace.horizon):
        decision = player.decide(actions[t])
        chosen[t] = getattr(decision, "index", decision)
        player.update(decision, rewards[t][chosen[t]])
    seconds = (time.perf_counter() - before) / trace.horizon
    return float(trace.regret(chosen).sum()), seconds


def row_of(library: str, setting: str, outcomes: list[tuple[float, float]]) -> dict[str, Any]:
    regrets = np.array([regret for regret, _ in outcomes])
    error = regrets.std(ddof=1) / np.sqrt(len(regrets)) if len(regrets) > 1 else float("nan")
    return {
        "library": library,
        "setting": setting,
        "regret": float(regrets.mean()),
        "standard_error": float(error),
        "microseconds_per_round": 1e6 * min(seconds for _, seconds in outcomes),
    }


def print_row(row: dict[str, Any]) -> None:
    print(
        f"{row['library']:<24}{row['setting']:<52}{row['regret']:>8.0f} "
        f"+-{row['standard_error']:>4.0f}{row['microseconds_per_round']:>12.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each player")
    parser.add_argument("--out", type=Path, default=Path("results/peers.json"))
    arguments = parser.parse_args()
    seeds = range(arguments.runs)
    traces = [draw_trace(abrupt2d(horizon=HORIZON), 0, replicate) for replicate in seeds]

    print(f"{'library':<24}{'setting':<52}{'regret':>8}{'':>7}{'us a round':>12}")
    rows = []

    def add(library: str, setting: str, outcomes: list[tuple[float, float]]) -> None:
        rows.append(row_of(library, setting, outcomes))
        print_row(rows[-1])

    for (library, setting), make in other_players().items():
        outcomes = [played_online(make(seed), traces[seed]) for seed in seeds]
        add(library, setting, outcomes)
    for setting, policy in our_policies().items():
        agents = [db.Agent(policy, seed=player_seed(0, seed)) for seed in seeds]
        agents[0].certificate  # noqa: B018 - compiles, or loads what is compiled
        online = [played_online(agent, traces[seed]) for seed, agent in enumerate(agents)]
        add("driftbandits, online", setting, online)
        runs = [play(policy, traces[seed], player_seed(0, seed)) for seed in seeds]
        compiled = [(float(run.regret[-1]), run.seconds / HORIZON) for run in runs]
        add("driftbandits, whole run", setting, compiled)

    print("\nthe best setting of each")
    for library in dict.fromkeys(row["library"] for row in rows):
        print_row(min((r for r in rows if r["library"] == library), key=lambda r: r["regret"]))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"runs": arguments.runs, "rows": rows}, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
