"""Policies that are to be evaluated on a log, with what the log says where nothing was given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftbandits.evaluate.log import Log
from driftbandits.policies import ACCEPTED, Policy, check_actions, policy, policy_names, takes


def policy_for(log: Log, name: str, **given: Any) -> Policy:
    """A policy by its name, for the actions and the rewards of a log.

    Its dimension is the log's. Where the service wrote the log, rewards mean what they meant there,
    unless the arguments say otherwise; one without a range has that of the log, if the policy needs
    one. L, unless it is given, is the length of the longest action where 1 would refuse some.
    """
    if name not in policy_names():
        return policy(name, dim=log.dim)  # which says what there is
    arguments = {**_rewards_of(log, name), **given}
    made = _made(log, name, arguments)
    longest = _longest(log)
    if "L" in given or "too_long" in given or not takes(name, "L"):
        return made
    if check_actions(made.numbers, np.ascontiguousarray(longest[None, :])) == ACCEPTED:
        return made
    return _made(log, name, {**arguments, "L": float(np.linalg.norm(longest))})


def _rewards_of(log: Log, name: str) -> dict[str, Any]:
    """What the service had been told about rewards."""
    told = log.served or {}
    names = ("reward", "outside") if told.get("reward") else ("link", "m", "centre")
    return {key: told[key] for key in names if told.get(key) is not None and takes(name, key)}


def _made(log: Log, name: str, arguments: dict[str, Any]) -> Policy:
    try:
        return policy(name, dim=log.dim, **arguments)
    except ValueError as error:
        text = arguments.get("reward")
        known = log.reward[log.known]
        if text not in ("amount", "cost", "count") or "range" not in str(error) or not known.size:
            raise
        low, high = float(known.min()), float(known.max())
        end = math.nextafter(max(high, low + 1.0), math.inf)
        ranged = f"count:{end!r}" if text == "count" else f"{text}:{low!r}..{end!r}"
        return policy(name, dim=log.dim, **{**arguments, "reward": ranged})


def _longest(log: Log) -> Any:
    lengths = [float(np.square(actions).sum(axis=1).max()) for actions in log.arms]
    actions = log.arms[int(np.argmax(lengths))]
    return actions[int(np.argmax(np.square(actions).sum(axis=1)))]
