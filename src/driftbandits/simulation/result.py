"""Whole runs: every policy of a run plays the same trace.

One trace is held at a time in each process, never more: it is drawn, played by every policy, and
dropped. Runs are sent to workers in blocks; what comes back of a block is what is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from driftbandits import checks
from driftbandits.checks import Floats
from driftbandits.environments import Environment
from driftbandits.policies import Detection, Policy
from driftbandits.simulation.players import Player, Restarted, draw_trace, play, player_seed
from driftbandits.simulation.run import RECORDS, USUAL_RECORDS, Ints, Run
from driftbandits.workers import Block, blocks_of, local_workers, run_blocks

_BLOCKS_PER_WORKER = 4


@dataclass(frozen=True)
class Result:
    """What every policy did in every run, by the policy's name."""

    regret: dict[str, Floats] = field(default_factory=dict)  # (runs, T) cumulative
    chosen: dict[str, Ints] = field(default_factory=dict)  # (runs, T)
    theta_hat: dict[str, Floats] = field(default_factory=dict)  # (runs, T, d)
    seconds: dict[str, Floats] = field(default_factory=dict)  # (runs,)
    work: dict[str, dict[str, Ints]] = field(default_factory=dict)  # name -> (runs,)
    detections: dict[str, list[tuple[Detection, ...]]] = field(default_factory=dict)  # by run


def simulate(
    policies: Mapping[str, Player],
    world: Environment,
    *,
    runs: int,
    seed: int = 0,
    workers: int = 1,
    record: Sequence[str] = USUAL_RECORDS,
) -> Result:
    """Let every policy play the same `runs` traces of a world.

    The outcome depends on seed and runs, not on the number of workers. Each worker reads the
    program again: a script that asks for more than one calls this under
    `if __name__ == "__main__":`.

    >>> import driftbandits as db
    >>> world = db.environment("abrupt2d", horizon=60)
    >>> result = db.simulate({"random": db.policy("random", dim=2)}, world, runs=2)
    >>> result.regret["random"].shape
    (2, 60)
    """
    _check_call(policies, runs, seed, workers, record)
    played: dict[int, dict[str, Run]] = {}
    task = partial(_play_block, dict(policies), world, seed, record)
    blocks = blocks_of(range(runs), size=math.ceil(runs / (workers * _BLOCKS_PER_WORKER)))
    with local_workers(workers) as executor:
        run_blocks(task, blocks, keep=played.update, executor=executor)
    result = Result()
    for name in policies:
        own = [played[replicate].pop(name) for replicate in range(runs)]
        if "regret" in record:
            result.regret[name] = np.stack([run.regret for run in own])
        if "chosen" in record:
            result.chosen[name] = np.stack([run.chosen for run in own])
        if "theta_hat" in record:
            result.theta_hat[name] = np.stack([run.theta_hat for run in own])
        if "detections" in record:
            result.detections[name] = [run.detections for run in own]
        result.seconds[name] = np.array([run.seconds for run in own])
        result.work[name] = {
            counter: np.array([run.work[counter] for run in own]) for counter in own[0].work
        }
    return result


def _check_call(
    policies: Mapping[str, Player], runs: int, seed: int, workers: int, record: Sequence[str]
) -> None:
    if not isinstance(policies, Mapping) or not policies:
        raise ValueError(f"policies must be a dict of at least one policy; got {policies!r}")
    for name, player in policies.items():
        if not isinstance(player, (Policy, Restarted)) and not callable(player):
            raise ValueError(
                f"policies[{name!r}] must come from driftbandits.policy(...) or be a factory "
                f"make(seed); got {player!r}"
            )
    checks.integer("runs", runs, least=1)
    checks.integer("seed", seed, least=0)
    checks.integer("workers", workers, least=1)
    unknown = [what for what in record if what not in RECORDS]
    if unknown:
        raise ValueError(f"record may hold {', '.join(RECORDS)}; got {unknown[0]!r}")


def _play_block(
    policies: Mapping[str, Player],
    world: Environment,
    seed: int,
    record: Sequence[str],
    replicates: Block,
) -> dict[int, dict[str, Run]]:
    """Play some replicates of a world, one trace at a time."""
    played = {}
    for replicate in replicates:
        trace = draw_trace(world, seed, replicate)
        own_seed = player_seed(seed, replicate)
        played[replicate] = {
            name: play(player, trace, own_seed, record) for name, player in policies.items()
        }
    return played
