"""Whole runs: every policy of a run plays the same trace.

A `Policy` plays in one compiled call made of the same kernels as `Agent`, so both give the same
bits. Any other policy is given as a factory `make(seed)` and plays in a plain loop.

One trace is held at a time in each process, never more: it is drawn, played by every policy, and
dropped. Runs are sent to workers in blocks; what comes back of a block is what is recorded.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.environments import Environment, Trace
from driftbandits.estimator import keeps_rows, new_buffers, state_of
from driftbandits.estimator.model import (
    CHANGED_IN,
    COUNTERS,
    DETECTED_IN,
    DETECTIONS,
    NUMBERS,
    STATISTIC,
    THETA_HAT,
    THRESHOLD,
    Floats,
    Ints,
    N,
    counter_names,
    floats_of,
)
from driftbandits.jit import Handle, compiled_for, handle_of, place
from driftbandits.policies import (
    ACCEPTED,
    ANY,
    NOT_FINITE,
    TOO_LONG,
    Detection,
    Policy,
    family_of,
    kernels_of,
)

RECORDS = ("regret", "chosen", "theta_hat", "intervals", "detections")
_BLOCKS_PER_WORKER = 4


@dataclass(frozen=True)
class Restarted:
    """A policy that forgets everything at given rounds: what knowing the changes is worth.

    Without rounds it restarts at the changes of the trace it plays.
    """

    policy: Policy
    rounds: tuple[int, ...] | None = None

    def starts(self, trace: Trace) -> list[int]:
        rounds = self.rounds if self.rounds is not None else trace.changes
        if rounds is None:
            raise ValueError("rounds must be given for a world that does not tell its changes")
        return [1, *(t for t in rounds if 1 < t <= trace.horizon)]


Player = Policy | Restarted | Callable[[int], Any]


class Run(NamedTuple):
    """What one policy did in one run. What is not recorded is empty."""

    regret: Floats  # (T,) cumulative
    chosen: Ints  # (T,)
    theta_hat: Floats  # (T, d), row t is what decision t used
    means: Floats  # (T, K) of every arm
    widths: Floats  # (T, K)
    seconds: float  # of the compiled call alone
    work: Ints  # the counters of the estimator
    detections: tuple[Detection, ...] = ()


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
    record: Sequence[str] = ("regret", "chosen", "theta_hat"),
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
            label: np.array([run.work[i] for run in played]) for label, i in counter_names().items()
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
    for label, value in (("runs", runs), ("workers", workers)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{label} must be an integer of at least 1; got {value!r}")
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
    record: Sequence[str] = ("regret", "chosen", "theta_hat"),
) -> dict[str, list[Run]]:
    """Play some replicates of a world, one trace at a time."""
    played: dict[str, list[Run]] = {name: [] for name in policies}
    for replicate in replicates:
        trace = draw_trace(world, seed, replicate)
        for name, player in policies.items():
            played[name].append(play(player, trace, player_seed(seed, replicate), record))
    return played


def draw_trace(world: Environment, seed: int, replicate: int) -> Trace:
    """The trace of one replicate: a function of seed and replicate alone."""
    return world.draw(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replicate,))))


def player_seed(seed: int, replicate: int) -> int:
    """The seed by which every policy of a replicate breaks ties and draws."""
    state = np.random.SeedSequence(seed, spawn_key=(replicate, 1)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def play(
    player: Player,
    trace: Trace,
    seed: int,
    record: Sequence[str] = ("regret", "chosen", "theta_hat"),
) -> Run:
    """One policy on one trace."""
    if isinstance(player, Policy):
        run = _play_compiled(player, trace, seed, record, [1])
    elif isinstance(player, Restarted):
        run = _play_compiled(player.policy, trace, seed, record, player.starts(trace))
    else:
        run = _play_python(player, trace, seed, record)
    if "regret" in record:
        run = run._replace(regret=np.cumsum(trace.regret(run.chosen)))
    return run if "chosen" in record else run._replace(chosen=np.empty(0, dtype=np.int64))


def _play_compiled(
    policy: Policy, trace: Trace, seed: int, record: Sequence[str], starts: Sequence[int]
) -> Run:
    if trace.dim != policy.dim:
        raise ValueError(f"policy has dim={policy.dim}, but the world's actions have {trace.dim}")
    T, K = trace.horizon, trace.arms
    run = Run(
        regret=np.empty(0),
        chosen=np.empty(T, dtype=np.int64),
        theta_hat=np.empty((T if "theta_hat" in record else 0, policy.model_dim)),
        means=np.full((T if "intervals" in record else 0, K), np.nan),
        widths=np.full((T if "intervals" in record else 0, K), np.nan),
        seconds=0.0,
        work=np.zeros(COUNTERS, dtype=np.int64),
    )
    available = np.ones((0, 0), dtype=np.bool_) if trace.available is None else trace.available
    low, high = policy.reward_range()
    play_trace = _ready_player(policy)
    seconds = 0.0
    detections: list[Detection] = []
    for start, end in zip(starts, [*starts[1:], T + 1], strict=True):
        part = slice(start - 1, end - 1)
        buffers = new_buffers(policy.numbers, _capacity(policy, end - start))
        detected = np.empty((end - start if "detections" in record else 0, 4))
        before = time.perf_counter()
        verdict, t = play_trace(
            handle_of(buffers),
            seed,
            low,
            high,
            trace.actions[part],
            trace.rewards[part],
            available[part],
            run.chosen[part],
            run.theta_hat[part],
            run.means[part],
            run.widths[part],
            detected,
        )
        seconds += time.perf_counter() - before
        run.work[:] += buffers.counters[:COUNTERS]
        for row in detected[: buffers.counters[DETECTIONS]]:
            detections.append(Detection.from_row(row).later(start - 1))
        if verdict != ACCEPTED:
            raise ValueError(_complaint(policy, trace, verdict, start + t))
    return run._replace(seconds=seconds, detections=tuple(detections))


def _complaint(policy: Policy, trace: Trace, verdict: int, t: int) -> str:
    if verdict == TOO_LONG:
        return (
            f"actions of round {t} are longer than L = {policy.L:g}; give the policy a larger L or "
            "too_long='rescale'"
        )
    if verdict == NOT_FINITE:
        return f"actions of round {t} must be finite"
    low, high = policy.reward_range()
    return (
        f"rewards of round {t} lie outside [{low:g}, {high:g}], which is what {policy.name} "
        f"({policy.link.name}, m={policy.link.m:g}) accepts; got {trace.rewards[t - 1]}"
    )


def _capacity(policy: Policy, rounds: int) -> int:
    if not keeps_rows(policy.model):
        return 0
    span = policy.forgets_after
    return rounds if span is None else min(rounds, 2 * span + 1)


BAD_REWARD = place(100)
_BY_THE_CLOCK = place(0)  # a plain 0 would be a type of its own, and `decide` compiled for it


PLANE = place(2)
"""The dimension for which there are kernels of its own: that of the paper's experiments."""

_ready: dict[tuple[str, int], Callable[..., tuple[int, int]]] = {}


def _ready_player(policy: Policy) -> Callable[..., tuple[int, int]]:
    """What plays a policy through a trace, compiled or loaded before any clock is started."""
    kind = family_of(policy), PLANE if policy.model_dim == PLANE else ANY
    if kind not in _ready:
        _ready[kind] = play_trace = _player(*kind)
        buffers = new_buffers(policy.numbers, 1)
        play_trace(
            handle_of(buffers),
            0,
            0.0,
            1.0,
            np.zeros((0, 1, policy.dim)),
            np.zeros((0, 1)),
            np.ones((0, 0), dtype=np.bool_),
            np.empty(0, dtype=np.int64),
            np.empty((0, policy.model_dim)),
            np.empty((0, 1)),
            np.empty((0, 1)),
            np.empty((0, 4)),
        )
    return _ready[kind]


def _player(family: str, known_d: int) -> Callable[..., tuple[int, int]]:
    """The loop over the kernels of a family."""
    label, decide, update, _ = kernels_of(family, known_d)

    @compiled_for(label)
    def play_trace(
        handle: Handle,
        seed: int,
        low: float,
        high: float,
        actions: Floats,
        rewards: Floats,
        available: NDArray[np.bool_],
        chosen: Ints,
        theta_hat: Floats,
        means_out: Floats,
        widths_out: Floats,
        detected: Floats,
    ) -> tuple[int, int]:
        """Decide and update through a trace; a verdict and the round (from 0) where it ended."""
        T, K, dim = actions.shape
        state = state_of(handle, int(floats_of(handle, NUMBERS)[0]))
        counters, gauges, vectors = state.counters, state.gauges, state.vectors
        offered = np.empty((K, dim))
        arm = np.empty(K, dtype=np.int64)
        table, picks = np.empty((4, K)), np.empty((2, 1))
        for t in range(T):
            count = K
            if available.size > 0:
                count = 0
                for k in range(K):
                    if available[t, k]:
                        arm[count] = k
                        for j in range(dim):
                            offered[count, j] = actions[t, k, j]
                        count += 1
            offers = actions[t] if available.size == 0 else offered[:count]
            scores = table if count == K else np.empty((4, count))
            verdict = decide(
                handle,
                seed,
                _BY_THE_CLOCK,
                offers,
                scores,
                picks,
            )
            if verdict != ACCEPTED:
                return verdict, t
            index = int(picks[0, 0])
            k = index if available.size == 0 else arm[index]
            chosen[t] = k
            if theta_hat.shape[0] > 0:
                for j in range(vectors.shape[1]):
                    theta_hat[t, j] = vectors[THETA_HAT, j]
            if means_out.shape[0] > 0:
                for i in range(count):
                    place = i if available.size == 0 else arm[i]
                    means_out[t, place] = scores[0, i]
                    widths_out[t, place] = scores[1, i]
            reward = rewards[t, k]
            if math.isnan(reward):  # never observed: the decision stays pending
                continue
            if not low <= reward <= high:
                return BAD_REWARD, t
            detections = counters[DETECTIONS]
            update(
                handle,
                offers,
                index,
                reward,
                counters[N],
            )
            if detected.shape[0] > 0 and counters[DETECTIONS] > detections:
                detected[detections, 0] = counters[DETECTED_IN]
                detected[detections, 1] = counters[CHANGED_IN]
                detected[detections, 2] = gauges[STATISTIC]
                detected[detections, 3] = gauges[THRESHOLD]
        return ACCEPTED, T

    return play_trace


def _play_python(make: Callable[[int], Any], trace: Trace, seed: int, record: Sequence[str]) -> Run:
    player = make(seed)
    T = trace.horizon
    chosen = np.empty(T, dtype=np.int64)
    estimates: list[Floats] = []
    before = time.perf_counter()
    for t in range(T):
        arms = np.arange(trace.arms)
        if trace.available is not None:
            arms = np.flatnonzero(trace.available[t])
        decision = player.decide(trace.actions[t, arms])
        chosen[t] = arms[int(getattr(decision, "index", decision))]
        if "theta_hat" in record:
            estimates.append(np.array(getattr(player, "theta_hat", np.full(trace.dim, np.nan))))
        reward = trace.rewards[t, chosen[t]]
        if not np.isnan(reward):
            player.update(decision, float(reward))
    return Run(
        regret=np.empty(0),
        chosen=chosen,
        theta_hat=np.array(estimates) if estimates else np.empty((0, trace.dim)),
        means=np.empty((0, trace.arms)),
        widths=np.empty((0, trace.arms)),
        seconds=time.perf_counter() - before,
        work=np.zeros(COUNTERS, dtype=np.int64),
        detections=tuple(getattr(player, "detections", ())),
    )
