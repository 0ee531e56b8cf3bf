"""Who plays a trace, and how a run comes of it.

A `Policy` plays in one compiled call, so that its run has the bits of a loop over an `Agent`. Any
other policy is given as a factory `make(seed)` and plays in a plain loop; so does an agent of
separate arms, whose ids are 0, 1, ..., and one with features, which is shown the tables of the
trace. Their estimates are not kept. An `Informed` player sees
the whole trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbandits.checks import Floats
from driftbandits.environments import Environment, Trace
from driftbandits.policies import Policy
from driftbandits.simulation.informed import Informed
from driftbandits.simulation.kernels import no_work, play_compiled
from driftbandits.simulation.run import USUAL_RECORDS, Ints, Run


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


Player = Policy | Restarted | Informed | Callable[[int], Any]


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
    record: Sequence[str] = USUAL_RECORDS,
) -> Run:
    """One policy on one trace."""
    _refuse_separate(player)
    if isinstance(player, Policy):
        run = play_compiled(player, trace, seed, record, [1])
    elif isinstance(player, Restarted):
        run = play_compiled(player.policy, trace, seed, record, player.starts(trace))
    elif isinstance(player, Informed):
        run = _play_informed(player, trace)
    else:
        run = _play_python(player, trace, seed, record)
    if "regret" in record:
        run = run._replace(regret=np.cumsum(trace.regret(run.chosen)))
    return run if "chosen" in record else run._replace(chosen=np.empty(0, dtype=np.int64))


def _refuse_separate(player: Player) -> None:
    policy = player.policy if isinstance(player, Restarted) else player
    if isinstance(policy, Policy) and (policy.separate or policy.features is not None):
        what = "features" if policy.features is not None else "arms='separate'"
        raise ValueError(
            f"a policy with {what} is played by an agent: give a factory, "
            "lambda seed: driftbandits.Agent(policy, seed=seed)"
        )


def _play_python(make: Callable[[int], Any], trace: Trace, seed: int, record: Sequence[str]) -> Run:
    player = make(seed)
    policy = getattr(player, "policy", None)
    separate = isinstance(policy, Policy) and policy.separate
    by_tables = isinstance(policy, Policy) and policy.features is not None
    T = trace.horizon
    chosen = np.empty(T, dtype=np.int64)
    estimates: list[Floats] = []
    before = time.perf_counter()
    for t in range(T):
        arms = np.arange(trace.arms)
        if trace.available is not None:
            arms = np.flatnonzero(trace.available[t])
        if by_tables:
            decision = player.decide(**_tables(trace, t, arms))
        else:
            named = {"arms": arms.tolist()} if separate else {}
            decision = player.decide(trace.actions[t, arms], **named)
        chosen[t] = arms[int(getattr(decision, "index", decision))]
        if "theta_hat" in record:
            unknown = np.full(trace.dim, np.nan)
            estimates.append(
                unknown
                if separate or by_tables
                else np.array(getattr(player, "theta_hat", unknown))
            )
        reward = trace.rewards[t, chosen[t]]
        if not np.isnan(reward):
            player.update(decision, float(reward))
    run = _run_of(chosen, trace, time.perf_counter() - before)
    return run._replace(
        theta_hat=np.array(estimates) if estimates else run.theta_hat,
        detections=tuple(getattr(player, "detections", ())),
    )


def _tables(trace: Trace, t: int, arms: Ints) -> dict[str, Any]:
    """What an agent with features is shown in a round."""
    if trace.contexts is None or trace.offers is None:
        raise ValueError("features need a world whose traces have contexts and offers")
    offers = trace.offers[t]
    return {"context": trace.contexts[t], "arms": [offers[k] for k in arms.tolist()]}


def _play_informed(player: Informed, trace: Trace) -> Run:
    before = time.perf_counter()
    chosen = player.choices(trace)
    return _run_of(chosen, trace, time.perf_counter() - before)


def _run_of(chosen: Ints, trace: Trace, seconds: float) -> Run:
    """What is known of a run of anything but compiled kernels."""
    return Run(
        regret=np.empty(0),
        chosen=chosen,
        theta_hat=np.empty((0, trace.dim)),
        means=np.empty((0, trace.arms)),
        widths=np.empty((0, trace.arms)),
        seconds=seconds,
        work=no_work(),
    )
