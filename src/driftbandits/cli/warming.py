"""A policy in a store that begins with what a log can teach it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from driftbandits.api import ARM_PATTERN, ARM_RULE, ID_PATTERN, ID_RULE
from driftbandits.evaluate import Log, LoggedDecision
from driftbandits.policies import Policy
from driftbandits.service.offers import Offer
from driftbandits.service.state import State
from driftbandits.store import Kind, NewEvent, Store
from driftbandits.store.records import Configured, Rewarded, packed

KEY = "import"
"""Stands where events have the id of the key that they came with."""


def warm(store: Store, name: str, log: Log, *, policy: Policy, **how: Any) -> None:
    """Make the policy `name` and let it learn the log as an apprentice; all of it or nothing.

    Its events are those that a service would have written while somebody else decided, so that
    every replay ends in the same state. Then it is online.

    how  the seed, and by what age rewards are forgotten: half_life_s and window_s
    """
    apprentice = Configured(
        version=1,
        arguments=policy.arguments,
        mode="apprentice",
        reward_wait_s=None,
        default_reward=0.0,
        fresh=True,
        key=KEY,
        **how,
    )
    with store.write() as session:
        if name in session.policies():
            raise ValueError(f"--as must be the name of a new policy; {name!r} is in the store")
        session.create(name)
        session.lock([name])
        session.append(name, list(_new_events(name, log, apprentice)))


def check(log: Log) -> None:
    """Refuse a log that the service could not go on with, before a store is made for it."""
    arms = sorted({id for ids in log.arm_ids or () for id in ids})
    for label, ids, pattern, rule in (
        ("event_id", log.event_id, ID_PATTERN, ID_RULE),
        ("arm", arms, ARM_PATTERN, ARM_RULE),
    ):
        for id in ids:
            if not re.fullmatch(pattern, id):
                raise ValueError(f"{label} must be {rule} to be served; got {id!r}")


def _new_events(name: str, log: Log, apprentice: Configured) -> Iterator[NewEvent]:
    state = State(name)

    def configured(record: Configured, at_ns: int) -> NewEvent:
        state.configure(record, at_ns)
        return NewEvent(Kind.CONFIGURED, "", at_ns, packed(record))

    yield configured(apprentice, int(log.at[0]))
    for row in log:
        [made] = state.decide(row.event_id, _offer(row), row.at)
        yield NewEvent(Kind.DECISION, row.event_id, row.at, packed(made))
        if row.reward is not None:
            kind = state.reward(row.event_id, row.reward, row.at)
            yield NewEvent(kind, row.event_id, row.at, packed(Rewarded(row.reward, KEY)))
    online = msgspec.structs.replace(apprentice, version=2, mode="online", fresh=False)
    yield configured(online, int(log.at[-1]))


def _offer(row: LoggedDecision) -> Offer:
    if row.table is None:
        return Offer(row.arm_ids, row.arms, row.chosen, KEY, row.propensity)
    table = msgspec.json.encode(row.table)
    return Offer(row.arm_ids, np.empty((0, 0)), row.chosen, KEY, row.propensity, table=table)
