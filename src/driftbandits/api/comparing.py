"""Structs that compare: changes of a policy's world, its lift over a control, its shadows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from driftbandits.api.values import Answer, one_of

Path = Literal["constant", "wandering", "turning"]


class Moved(Answer):
    """A coefficient, or the mean reward of an arm, before and after a change."""

    name: str
    before: float
    after: float


class Detection(Answer):
    """A change that the policy noticed in `round`, and believes to have come before `change`.

    Of `auto` the statistic is the probability of a change, and `size` by how much mean rewards have
    changed. `since` is when that was, to the minute, and `moved` and `arms` are the coefficients
    and the mean rewards of arms that differ most, where the last day still tells.
    """

    round: int
    at: str
    statistic: float
    threshold: float
    change: int | None
    size: float | None = None
    since: str | None = None
    moved: list[Moved] = []
    arms: list[Moved] = []


class Hypothesis(Answer, omit_defaults=True):
    """A hypothesis about the parameter and its posterior probability.

    A constant one is what it is since the round `since`, or always, and `prior` says how tight its
    prior was, as a share of lam. One that is wandering or turning goes its own way within `rounds`.
    """

    path: Annotated[str, one_of(Path)]
    probability: float
    since: int | None = None
    rounds: float | None = None
    prior: float | None = None


class Interval(Answer):
    """An estimate and where the truth lies, watched at any time; null where that is not known."""

    value: float
    low: float | None
    high: float | None


class Side(Answer):
    """Decisions of one side, and the rewards that count so far; the mean is of all decisions."""

    decisions: int
    rewards: int
    mean: Interval | None


class LiftOfDay(Answer):
    """The lift of one day's decisions (UTC), with an interval of its own."""

    day: str
    policy: Side
    control: Side
    difference: Interval | None


class Lift(Answer):
    """The policy beside its control since event `since_seq`, averages over that time.

    `until` is where the decisions end that are counted, null where all with a known outcome are.
    `pending` are not counted yet, `unknown` never will. `relative` is the difference as a share of
    the control's mean. `method` is bounded, where intervals hold for any number of rewards, or
    asymptotic, for many of them. `better` says which rewards are: higher, or lower ones of a cost.
    """

    since: str
    since_seq: int
    until: str | None
    share: float
    level: float
    method: str
    better: str
    policy: Side
    control: Side
    difference: Interval | None
    relative: Interval | None
    pending: int
    unknown: int


class LiftAnswer(Answer):
    """The lift as of event `seq`, with its last days, oldest first; null without a control."""

    policy: str
    seq: int
    lift: Lift | None
    days: list[LiftOfDay]


class ShadowAnswer(Answer):
    """A configuration that decides beside the one that is played, as of event `seq` `of` so many.

    It has seen `decisions`, and would have played the same arm in `agreed` of them. In `rounds`,
    those with a reward in which every arm had a chance, it would have earned `value`, and what was
    played earned `played_value`; `effective_rounds` of them tell as much if all told the same. The
    estimate is doubly robust: what its model expected, corrected by what came.
    `failed` says why it learns no more.
    """

    name: str
    since: str
    arguments: dict[str, Any]
    seed: int
    half_life_s: float | None
    window_s: float | None
    seq: int
    of: int
    learned_from: int
    skipped: int
    decisions: int
    agreed: int
    rounds: int
    effective_rounds: float
    value: Interval | None
    played_value: float | None
    difference: Interval | None
    failed: str | UnsetType = UNSET


class ShadowsAnswer(Answer):
    """By name."""

    shadows: list[ShadowAnswer]
