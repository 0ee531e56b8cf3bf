"""A policy through a trace in one compiled call, made of the kernels that an agent uses.

All that knows the kernels' state is here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.core import keeps_rows
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import (
    CHANGED_IN,
    DETECTED_IN,
    DETECTIONS,
    STATISTIC,
    THRESHOLD,
    Ints,
    N,
    counter_names,
)
from driftbandits.environments import Trace
from driftbandits.jit import Handle, compiled_for, handle_of, place
from driftbandits.policies import (
    ACCEPTED,
    ANY,
    BELIEVING,
    NOT_FINITE,
    SIZE_OF_CHANGE,
    TABLE_ROWS,
    TOO_LONG,
    Detection,
    Policy,
    family_of,
    parts_of,
)


class Run(NamedTuple):
    """The record of one policy on one trace. An array that was not recorded is empty."""

    regret: Floats  # (T,) cumulative
    chosen: Ints  # (T,)
    theta_hat: Floats  # (T, d), row t is what decision t used
    means: Floats  # (T, K) of every arm
    widths: Floats  # (T, K)
    seconds: float  # of the compiled call alone
    work: dict[str, int]  # what the estimator counted
    detections: tuple[Detection, ...] = ()


def unrecorded(trace: Trace) -> Run:
    """A run of which nothing has been recorded yet."""
    return Run(
        regret=np.empty(0),
        chosen=np.empty(trace.horizon, dtype=np.int64),
        theta_hat=np.empty((0, trace.dim)),
        means=np.empty((0, trace.arms)),
        widths=np.empty((0, trace.arms)),
        seconds=0.0,
        work=dict.fromkeys(counter_names(), 0),
    )


def play_compiled(
    policy: Policy, trace: Trace, seed: int, record: Sequence[str], starts: Sequence[int]
) -> Run:
    """The run, without its regret, of a policy that forgets everything at the rounds `starts`."""
    if trace.dim != policy.dim:
        raise ValueError(f"policy has dim={policy.dim}, but the world's actions have {trace.dim}")
    T, K = trace.horizon, trace.arms
    run = unrecorded(trace)._replace(
        theta_hat=np.empty((T if "theta_hat" in record else 0, policy.model_dim)),
        means=np.full((T if "intervals" in record else 0, K), np.nan),
        widths=np.full((T if "intervals" in record else 0, K), np.nan),
    )
    rewards = trace.rewards if policy.reward is None else policy.reward.all_taken(trace.rewards)
    available = np.ones((0, 0), dtype=np.bool_) if trace.available is None else trace.available
    low, high = policy.model_range()
    play_trace = _ready_player(policy)
    seconds = 0.0
    detections: list[Detection] = []
    for start, end in zip(starts, [*starts[1:], T + 1], strict=True):
        part = slice(start - 1, end - 1)
        buffers = policy.new_buffers(_capacity(policy, end - start))
        detected = np.full((end - start if "detections" in record else 0, 5), np.nan)
        before = time.perf_counter()
        verdict, t = play_trace(
            handle_of(buffers),
            seed,
            low,
            high,
            trace.actions[part],
            rewards[part],
            available[part],
            run.chosen[part],
            run.theta_hat[part],
            run.means[part],
            run.widths[part],
            detected,
        )
        seconds += time.perf_counter() - before
        for name, counter in counter_names().items():
            run.work[name] += int(buffers.counters[counter])
        detected[:, 4] *= 1.0 if policy.reward is None else policy.reward.unit
        for row in detected[: buffers.counters[DETECTIONS]]:
            detections.append(Detection.from_row(row).later(start - 1))
        if verdict != ACCEPTED:
            raise ValueError(_complaint(policy, trace, verdict, start + t))
    if policy.reward is not None:
        run = run._replace(
            means=policy.reward.worth(run.means), widths=policy.reward.unit * run.widths
        )
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
PLANE_WITH_CONSTANT = place(3)
"""The dimension of a belief in the plane, which appends a constant."""

_ready: dict[tuple[str, int], Callable[..., tuple[int, int]]] = {}


def _ready_player(policy: Policy) -> Callable[..., tuple[int, int]]:
    """Return the kernel that plays a policy, compiled or loaded before any clock starts."""
    family = family_of(policy)
    known = PLANE_WITH_CONSTANT if family == BELIEVING else PLANE
    kind = family, known if policy.model_dim == known else ANY
    if kind not in _ready:
        _ready[kind] = play_trace = _player(*kind)
        buffers = policy.new_buffers(1)
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
            np.empty((0, 5)),
        )
    return _ready[kind]


def _player(family: str, known_d: int) -> Callable[..., tuple[int, int]]:
    """The loop over the kernels of a family."""
    opened, (label, decide, update, _) = parts_of(family, known_d)
    believing = family.endswith(BELIEVING)

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
        played = opened(handle)  # once for all rounds
        state = played.state
        counters, gauges = state.counters, state.gauges
        offered = np.empty((K, dim))
        arm = np.empty(K, dtype=np.int64)
        table, picks = np.empty((TABLE_ROWS, K)), np.empty((2, 1))
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
            scores = table if count == K else np.empty((TABLE_ROWS, count))
            verdict = decide(played, seed, _BY_THE_CLOCK, offers, scores, picks)
            if verdict != ACCEPTED:
                return verdict, t
            index = int(picks[0, 0])
            k = index if available.size == 0 else arm[index]
            chosen[t] = k
            if theta_hat.shape[0] > 0:
                for j in range(theta_hat.shape[1]):
                    theta_hat[t, j] = state.theta_hat[j]
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
            update(played, offers, index, reward, counters[N])
            if detected.shape[0] > 0 and counters[DETECTIONS] > detections:
                detected[detections, 0] = counters[DETECTED_IN]
                detected[detections, 1] = counters[CHANGED_IN]
                detected[detections, 2] = gauges[STATISTIC]
                detected[detections, 3] = gauges[THRESHOLD]
                if believing:
                    detected[detections, 4] = gauges[SIZE_OF_CHANGE]
        return ACCEPTED, T

    return play_trace
