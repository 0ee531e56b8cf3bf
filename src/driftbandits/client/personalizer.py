"""The shapes of Azure Personalizer over our service: rank, reward, activate.

docs/personalizer.md says how to move, and where the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftbandits.client.answers import Decision
from driftbandits.client.clients import Client
from driftbandits.client.columns import columns


class Personalizer:
    """A policy of the service, called as Personalizer was.

    client  of the service
    policy  its name there; it must have features, whose columns `client.columns` makes of a request
    """

    def __init__(self, client: Client, policy: str) -> None:
        self._client = client
        self._policy = policy

    def rank(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a rank request with `ranking`, `eventId` and `rewardActionId`.

        The probability is known of the chosen action alone; the others share the rest evenly.
        """
        actions = _actions(request)
        if request.get("deferActivation", False):
            self._refuse_defaults()
        excluded = set(request.get("excludedActions", ()))
        offered = [action for action in actions if action["id"] not in excluded]
        if not offered:
            raise ValueError("actions must hold one that is not in excludedActions; got none")
        decision = self._decide(offered, request)
        ranking = _ranking([action["id"] for action in offered], decision)
        for place, action in enumerate(actions):
            if action["id"] in excluded:  # they keep their place
                ranking.insert(place, {"id": action["id"], "probability": 0.0})
        return {
            "ranking": ranking,
            "eventId": decision.event_id,
            "rewardActionId": decision.arm,
        }

    def _decide(self, offered: list[Mapping[str, Any]], request: Mapping[str, Any]) -> Decision:
        arms = {
            action["id"]: columns(action.get("features", ()), f"features of {action['id']!r}")
            for action in offered
        }
        context = columns(request.get("contextFeatures", ()), "contextFeatures")
        event_id = request.get("eventId")
        return self._client.decide(self._policy, arms, context=context, event_id=event_id)

    def _refuse_defaults(self) -> None:
        if self._client.policy(self._policy).configuration.reward_wait_s is not None:
            raise ValueError(
                f"deferActivation must not be used with policy {self._policy!r}, which has "
                "reward_wait_s: it would learn the default reward of events never activated"
            )

    def reward(self, event_id: str, value: float) -> None:
        """Report the reward of an event."""
        self._client.reward(self._policy, event_id, value)

    def activate(self, event_id: str) -> None:
        """Say that a deferred event was shown. Nothing is left to do: a reward is enough."""


def _actions(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    actions = request.get("actions")
    if not isinstance(actions, list) or not all(
        isinstance(action, Mapping) and isinstance(action.get("id"), str) for action in actions
    ):
        raise ValueError(f'actions must be a list of {{"id", "features"}}; got {actions!r}')
    names = [action["id"] for action in actions]
    if len(set(names)) < len(names):
        raise ValueError(f"actions must have different ids; got {names}")
    return actions


def _ranking(offered: list[str], decision: Decision) -> list[dict[str, Any]]:
    """The chosen action, and the others by their scores."""
    scores = dict(zip(offered, decision.scores, strict=True))
    del scores[decision.arm]
    others = sorted(scores, key=lambda name: -scores[name])
    rest = (1.0 - decision.propensity) / max(len(others), 1)
    return [
        {"id": decision.arm, "probability": decision.propensity},
        *({"id": name, "probability": rest} for name in others),
    ]
