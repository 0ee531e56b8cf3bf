"""Whole runs: every policy of a run plays the same trace.

One trace is held at a time in each process, never more: it is drawn, played by every policy, and
dropped. Runs are sent to workers in blocks; what comes back of a block is what is recorded.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np

from driftbandits import checks
from driftbandits.checks import Floats
from driftbandits.environments import Environment
from driftbandits.policies import Detection, Policy
from driftbandits.simulation.players import Player, Restarted, draw_trace, play, player_seed
from driftbandits.simulation.run import RECORDS, USUAL_RECORDS, Ints, Run

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

    The outcome depends on seed and runs, not on the number of workers.

    >>> import driftbandits as db
    >>> world = db.environment("abrupt2d", horizon=60)
    >>> result = db.simulate({"random": db.policy("random", dim=2)}, world, runs=2)
    >>> result.regret["random"].shape
    (2, 60)
    """
    _check_call(policies, runs, workers, record)
    by_name: dict[str, list[Run]] = {name: [] for name in policies}
    with local_executor(workers) as executor:
        for block in play_blocks(policies, world, range(runs), seed, workers, record, executor):
            for name, played in block.items():
                by_name[name].extend(played)
    result = Result()
    for name, played in by_name.items():
        if "regret" in record:
            result.regret[name] = np.stack([run.regret for run in played])
        if "chosen" in record:
            result.chosen[name] = np.stack([run.chosen for run in played])
        if "theta_hat" in record:
            result.theta_hat[name] = np.stack([run.theta_hat for run in played])
        if "detections" in record:
            result.detections[name] = [run.detections for run in played]
        result.seconds[name] = np.array([run.seconds for run in played])
        result.work[name] = {
            counter: np.array([run.work[counter] for run in played]) for counter in played[0].work
        }
        played.clear()
    return result


def _check_call(
    policies: Mapping[str, Player], runs: int, workers: int, record: Sequence[str]
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
    checks.integer("workers", workers, least=1)
    unknown = [what for what in record if what not in RECORDS]
    if unknown:
        raise ValueError(f"record may hold {', '.join(RECORDS)}; got {unknown[0]!r}")


@contextmanager
def local_executor(workers: int) -> Iterator[Executor | None]:
    """Worker processes on this machine; none for a single worker."""
    if workers == 1:
        yield None
        return
    # A forked child would share the compiler's threads and locks.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        yield executor


def play_blocks(
    policies: Mapping[str, Player],
    world: Environment,
    replicates: Iterable[int],
    seed: int,
    workers: int,
    record: Sequence[str],
    executor: Executor | None,
) -> Iterator[dict[str, list[Run]]]:
    """Play blocks of replicates on an executor, and give them back in order."""
    wanted = list(replicates)
    size = max(1, math.ceil(len(wanted) / (workers * _BLOCKS_PER_WORKER)))
    blocks = [wanted[i : i + size] for i in range(0, len(wanted), size)]
    if executor is None:
        for block in blocks:
            yield play_block(policies, world, block, seed, record)
        return
    waiting = deque(
        executor.submit(play_block, policies, world, block, seed, record) for block in blocks
    )
    while waiting:
        yield waiting.popleft().result()


def play_block(
    policies: Mapping[str, Player],
    world: Environment,
    replicates: Sequence[int],
    seed: int,
    record: Sequence[str] = USUAL_RECORDS,
) -> dict[str, list[Run]]:
    """Play some replicates of a world, one trace at a time."""
    played: dict[str, list[Run]] = {name: [] for name in policies}
    for replicate in replicates:
        trace = draw_trace(world, seed, replicate)
        for name, player in policies.items():
            played[name].append(play(player, trace, player_seed(seed, replicate), record))
    return played
