"""Who plays an experiment: a line of its file made into a player, and a player as plain data."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from driftbandits.agent import Agent
from driftbandits.environments import Trace
from driftbandits.errors import SpecError
from driftbandits.experiments import schema
from driftbandits.experiments.schema import Table
from driftbandits.features import Features
from driftbandits.policies import Policy, policy, policy_names, takes
from driftbandits.simulation import Informed, Player, Restarted, informed_kinds

POLICY_ARGUMENTS = tuple(key for key in inspect.signature(policy).parameters if key != "name")
INFORMED = {f"informed {kind}": kind for kind in informed_kinds()}
"""Players that are shown the reward of every arm, by the name that a file has for them."""

GUESS = "guess"
"""In place of features: whatever the world's tables suggest."""
GUESSED_FROM = 500
"""Rounds that are looked at for that."""


@dataclass(frozen=True)
class ByAgent:
    """Makes the agent that plays a policy with separate arms or features; it goes to workers."""

    policy: Policy

    def __call__(self, seed: int) -> Agent:
        return Agent(self.policy, seed=seed)


def player_of(path: str, line: Table, facts: Mapping[str, Any], trace: Trace) -> tuple[str, Player]:
    """The label and the player of a line."""
    said, arguments = schema.read_line(path, line, POLICY_ARGUMENTS)
    label = said.name if said.label is None else said.label
    if said.name in INFORMED:
        schema.keys(f"{path}.", line, ("name", "label"))
        return label, Informed(INFORMED[said.name])
    knows = list(facts) if said.knows is None else said.knows
    known = schema.names(f"{path}.knows", knows, POLICY_ARGUMENTS)
    told = {
        key: value
        for key, value in facts.items()
        if key in known and (said.name not in policy_names() or takes(said.name, key))
    }
    wanted = {**told, **arguments}
    if "features" not in wanted:
        wanted["dim"] = wanted.get("dim", trace.dim)
    try:
        if "features" in wanted:
            wanted["features"] = _features(wanted["features"], trace)
        player = policy(said.name, **wanted)
    except (TypeError, ValueError) as error:
        raise SpecError(located(path, error, ("name", *POLICY_ARGUMENTS))) from None
    by_agent = player.separate or player.features is not None
    if said.restart is None:
        return label, ByAgent(player) if by_agent else player
    if said.restart != "changes":
        return label, Restarted(player, tuple(sorted(said.restart)))
    if trace.changes is None:
        raise SpecError(
            f"{path}.restart: must be a list of rounds in a world that tells no changes"
        )
    return label, Restarted(player)


def _features(given: Any, trace: Trace) -> Any:
    """Features of a line; "guess": those that the first tables of the world suggest."""
    if trace.contexts is None or trace.offers is None:
        raise ValueError("features need a world of tables, as shop is")
    if given != GUESS:
        return given
    offers = {row["id"]: row for offer in trace.offers[:GUESSED_FROM] for row in offer}
    return Features.guess(trace.contexts[:GUESSED_FROM], list(offers.values()))


def facts_of(label: str, player: Player) -> Table:
    """A player as a spec writes it down."""
    restart: Any = None
    if isinstance(player, Informed):
        return {"label": label, "name": f"informed {player.kind}", "restart": restart}
    if isinstance(player, Restarted):
        restart = "changes" if player.rounds is None else list(player.rounds)
    if isinstance(player, (Restarted, ByAgent)):
        player = player.policy
    assert isinstance(player, Policy)
    arguments = player.arguments
    if arguments.get("tolerance") is None:
        arguments.pop("tolerance", None)  # results are the same up to what it allows
    return {"label": label, **arguments, "restart": restart}


def located(path: str, error: Exception, keys: Iterable[str]) -> str:
    """The message of a check below, which mostly starts with an argument's name, with its path."""
    message = str(error)
    first = message.split(" ", 1)[0]
    return f"{path}.{message}" if first in {*keys, "horizon"} else f"{path}: {message}"
