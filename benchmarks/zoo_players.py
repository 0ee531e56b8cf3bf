"""Who plays the zoo: `auto`, a plain LinUCB, Vowpal Wabbit and a player that sees everything."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from zoo_streams import FEATURES, Floats, Ints, Task, Visits

import driftbandits as db
from driftbandits.bench.entries import PlainLinUCB
from driftbandits.bench.running import full_information
from driftbandits.bench.tasks import facts_of, standardised_so_far

sys.path.append(str(Path(__file__).parent))

BONUSES = (0.03, 0.1, 0.3, 1.0)
VW = {
    "epsilon": "--cb_type mtr --epsilon 0.05",
    "squarecb": "--cb_type mtr --squarecb",
    "regcbopt": "--cb_type mtr --regcbopt --mellowness 0.01",
}


class Auto:
    """An agent with separate arms."""

    def __init__(self, dim: int, seed: int) -> None:
        self.agent = db.Agent(db.policy("auto", dim=dim, arms="separate"), seed=seed)

    def decide(self, context: Floats, arms: Ints) -> int:
        self.choice = self.agent.decide(context, arms=arms.tolist())
        return self.choice.index

    def update(self, index: int, reward: float) -> None:
        self.agent.update(self.choice, reward)


def player_labels() -> list[str]:
    peers = [f"VW {label}" for label in VW] if find_spec("vowpalwabbit") else []
    return ["auto", *(f"LinUCB {bonus:g}" for bonus in BONUSES), *peers, "ceiling"]


def chosen_by(label: str, task: Task, seed: int) -> Ints:
    """The index that a player chose in every round."""
    T, dim = task.contexts.shape
    kind, _, setting = label.partition(" ")
    if kind == "ceiling":
        contexts = standardised_so_far(task.contexts)
        return full_information(task._replace(contexts=contexts), memory=1.0)
    facts = facts_of(task)
    player: Any
    if kind == "auto":
        player = Auto(dim, seed)
    elif kind == "LinUCB":
        player = PlainLinUCB(facts, seed, bonus=float(setting))
    else:
        from peers.entries import VowpalWabbit

        player = VowpalWabbit(facts, seed, options=VW[setting])
    chosen = np.empty(T, dtype=np.int64)
    for t, (context, arms) in enumerate(zip(task.contexts, task.arms, strict=True)):
        chosen[t] = player.decide(context, arms)
        player.update(chosen[t], float(task.rewards[t, chosen[t]]))
    return chosen


def way_to_best(visits: Visits, seed: int, features: db.Features = FEATURES) -> float:
    """What one model with features gains over random choices, over what the best would gain.

    Gains are those of the second half of the visits.
    """
    agent = db.Agent(db.policy("auto", features=features), seed=seed)
    T = len(visits.contexts)
    chosen = np.empty(T, dtype=np.int64)
    for t, (context, offer) in enumerate(zip(visits.contexts, visits.offers, strict=True)):
        choice = agent.decide(context=context, arms=offer)
        chosen[t] = choice.index
        agent.update(choice, float(visits.rewards[t, choice.index]))
    return share_of_way(visits.means, chosen, since=T // 2)


def share_of_way(means: Floats, chosen: Ints, since: int) -> float:
    """0 for random choices, 1 for the best, from some round on."""
    earned = means[np.arange(len(chosen)), chosen][since:].mean()
    random, best = means[since:].mean(), means[since:].max(axis=1).mean()
    return float((earned - random) / (best - random))
