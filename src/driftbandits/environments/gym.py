"""Worlds as Gymnasium environments. Importing this module needs gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.environments.trace import Environment, Trace

Observation = dict[str, NDArray[Any]]


class BanditEnv(gymnasium.Env[Observation, np.int64]):
    """One episode is one trace of the world; one step is one round.

    observation  {"actions": (K, d), "available": (K,) of 0 and 1}; after the last round, that
                 round again
    action       the index of an arm
    reward       the reward drawn for it. An arm that is not available pays 0, and
                 info["available"] is False: choose by the mask
    terminated   after the last round; truncated is never true
    info         round; after a step also mean (None where it is unknown), regret and available
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium reads a plain class attribute

    def __init__(self, world: Environment, *, seed: int | None = None) -> None:
        if not isinstance(world, Environment):
            raise ValueError(
                f"environment must have draw(rng) -> Trace; got {type(world).__name__}"
            )
        self.world = world
        # A trace of its own tells the shape, so that making the environment uses up no randomness.
        shape = world.draw(np.random.default_rng(0)).actions.shape[1:]
        bound = getattr(world, "action_bound", np.inf)
        offered = spaces.Box(-bound, bound, shape=shape, dtype=np.float64)
        self.observation_space = spaces.Dict(
            {"actions": offered, "available": spaces.MultiBinary(shape[0])}
        )  # type: ignore[assignment]  # the stubs know no dictionary of different spaces
        self.action_space = spaces.Discrete(shape[0])
        # With a recipe to make it again, Gymnasium's checker can test closing and rendering too.
        self.spec = EnvSpec(
            "driftbandits/Bandit-v0",
            entry_point=f"{BanditEnv.__module__}:{BanditEnv.__name__}",
            kwargs={"world": world, "seed": seed},
        )
        self._trace: Trace | None = None
        self._best = np.empty(0)
        self._round = 0
        if seed is not None:
            super().reset(seed=checks.integer("seed", seed, least=0))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw the next trace; a seed fixes which one."""
        super().reset(seed=seed, options=options)
        trace = self.world.draw(self.np_random)
        if np.isnan(trace.rewards).any():
            raise ValueError(
                "environment must know the reward of every arm; got a log with partial feedback"
            )
        self._trace, self._best, self._round = trace, trace.best, 0
        return self._observe(trace), {"round": 1}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one arm in the current round."""
        trace, now = self._trace, self._round
        if trace is None or now >= trace.horizon:
            raise ValueError("step needs a running episode: call reset first")
        if not self.action_space.contains(action):
            raise ValueError(
                f"action must be an integer from 0 to {trace.arms - 1}; got {action!r}"
            )
        arm = int(action)
        allowed = trace.available is None or bool(trace.available[now, arm])
        mean = None if trace.means is None else float(trace.means[now, arm]) if allowed else 0.0
        reward = float(trace.rewards[now, arm]) if allowed else 0.0
        paid = reward if mean is None else mean
        self._round = now + 1
        info = {
            "round": self._round,
            "mean": mean,
            "regret": float(self._best[now]) - paid,
            "available": allowed,
        }
        return self._observe(trace), reward, self._round == trace.horizon, False, info

    def _observe(self, trace: Trace) -> Observation:
        now = min(self._round, trace.horizon - 1)
        mask = np.ones(trace.arms, bool) if trace.available is None else trace.available[now]
        return {"actions": trace.actions[now].copy(), "available": mask.astype(np.int8)}
