"""Players of a trace, and the block of replicates in which they all play the same traces.

A `Policy` plays in one compiled call, so that its run has the bits of a loop over an `Agent`. A
policy with separate arms or features is played by that loop itself: separate arms have the ids
0, 1, ..., features read the tables of the trace, and estimates are not kept. Any other policy is
given as a factory `make(seed)`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent import Agent
from driftbandits.environments import Environment, Trace
from driftbandits.experiments.kernels import Run, play_compiled, unrecorded
from driftbandits.experiments.workers import Block
from driftbandits.policies import Policy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RECORDS = ("regret", "chosen", "theta_hat", "intervals", "detections")
"""Everything that a run may record."""
USUAL_RECORDS = ("regret", "chosen", "theta_hat")


@dataclass(frozen=True)
class Restarted:
    """A policy that forgets everything at the changes of the trace that it plays.

    It says what it would be worth to know them.
    """

    policy: Policy

    def __post_init__(self) -> None:
        if needs_an_agent(self.policy):
            raise ValueError("policy must have neither features nor separate arms to be restarted")


Player = Policy | Restarted | Callable[[int], Any]


class Played(NamedTuple):
    """A run and what it was a run of."""

    label: str
    replicate: int
    player: Player
    trace: Trace
    run: Run


Kept = TypeVar("Kept")


def play_block(
    players: Mapping[str, Player],
    world: Environment,
    seed: int,
    record: Sequence[str],
    keep: Callable[[Played], Kept],
    replicates: Block,
) -> list[Kept]:
    """Play some replicates and return what `keep` makes of each run.

    Only one trace is held at a time: it is drawn, played by every player, and dropped.
    """
    kept = []
    for replicate in replicates:
        trace = draw_trace(world, seed, replicate)
        for label, player in players.items():
            run = play(player, trace, player_seed(seed, replicate), record)
            kept.append(keep(Played(label, replicate, player, trace, run)))
    return kept


def draw_trace(world: Environment, seed: int, replicate: int) -> Trace:
    """The trace of one replicate: a function of seed and replicate alone."""
    return world.draw(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replicate,))))


def player_seed(seed: int, replicate: int) -> int:
    """The seed by which every policy of a replicate breaks ties and draws."""
    state = np.random.SeedSequence(seed, spawn_key=(replicate, 1)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def play(player: Player, trace: Trace, seed: int, record: Sequence[str] = USUAL_RECORDS) -> Run:
    """Play one policy on one trace."""
    if isinstance(player, Restarted):
        if trace.changes is None:
            raise ValueError("changes must be given in a trace to restart a policy at them")
        run = play_compiled(player.policy, trace, seed, record, [1, *trace.changes])
    elif isinstance(player, Policy):
        if needs_an_agent(player):
            run = _play_python(Agent(player, seed=seed), trace, record)
        else:
            run = play_compiled(player, trace, seed, record, [1])
    else:
        run = _play_python(player(seed), trace, record)
    if "regret" in record:
        run = run._replace(regret=np.cumsum(trace.regret(run.chosen)))
    return run if "chosen" in record else run._replace(chosen=np.empty(0, dtype=np.int64))


def needs_an_agent(policy: Policy) -> bool:
    """Return whether a policy cannot be played in one compiled call."""
    return policy.separate or policy.features is not None


def _play_python(player: Any, trace: Trace, record: Sequence[str]) -> Run:
    """The loop over `decide` and `update`."""
    if isinstance(player, Agent):
        player.warns = False  # nobody reads the warnings of many runs
    run = unrecorded(trace)
    policy = getattr(player, "policy", None)
    by_ids = isinstance(policy, Policy) and needs_an_agent(policy)
    estimates: list[Floats] = []
    before = time.perf_counter()
    for t in range(trace.horizon):
        arms = np.arange(trace.arms)
        if trace.available is not None:
            arms = np.flatnonzero(trace.available[t])
        if by_ids:
            decision = player.decide(**_offer(policy, trace, t, arms))
        else:
            decision = player.decide(trace.actions[t, arms])
        chosen = run.chosen[t] = arms[int(getattr(decision, "index", decision))]
        if "theta_hat" in record:
            unknown = np.full(trace.dim, np.nan)
            estimates.append(unknown if by_ids else np.array(getattr(player, "theta_hat", unknown)))
        reward = trace.rewards[t, chosen]
        if not np.isnan(reward):
            player.update(decision, float(reward))
    return run._replace(
        seconds=time.perf_counter() - before,
        theta_hat=np.array(estimates) if estimates else run.theta_hat,
        detections=tuple(getattr(player, "detections", ())),
    )


def _offer(policy: Any, trace: Trace, t: int, arms: Ints) -> dict[str, Any]:
    """The arguments of `decide` in a round, for an agent with separate arms or features."""
    if policy.features is None:
        return {"actions": trace.actions[t, arms], "arms": arms.tolist()}
    if trace.contexts is None or trace.offers is None:
        raise ValueError("features need a world whose traces have contexts and offers")
    offers = trace.offers[t]
    return {"context": trace.contexts[t], "arms": [offers[k] for k in arms.tolist()]}
