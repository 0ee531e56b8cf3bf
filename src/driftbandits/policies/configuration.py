"""A policy with every choice made, and the numbers that follow for the kernels."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from driftbandits import links, rewards, theory
from driftbandits.estimator import Buffers, Model, new_buffers
from driftbandits.estimator.model import (
    POOL,
    SINCE_RESTART,
    Floats,
    as_numbers,
    estimator_model,
)
from driftbandits.features import Features
from driftbandits.policies.adaptations import ADAPTATIONS
from driftbandits.policies.adaptations.belief import Hypothesis
from driftbandits.policies.arguments import (
    SEPARATE,
    SHARED,
    Arguments,
    checked,
    refuse_without_effect,
)
from driftbandits.policies.catalogue import RECORDED_AS, ROWS, Row
from driftbandits.policies.scoring import PERTURBED, POSTERIOR, SCALED, Scoring
from driftbandits.policies.tuning import Setting, tuned_memory, tuned_penalty

LENGTH_TOLERANCE = 1e-9
"""An action is too long only if it exceeds L by more than rounding does."""
LONGEST_AT_ALL = 1e150
EXACT = 1e-8
"""The tolerance with which every model is computed as small ones always are."""
LARGE = 16
"""Models of this many dimensions are computed in ways that pay off for large ones."""
_SEPARABLE = ("none", "pool of memories", "belief")
"""Adaptations whose models can be one for each arm."""
_ALWAYS_SMALL = ("arm tests", "exponential weights")
"""Adaptations that change V as they like, or have no use for its inverse."""


@dataclass(frozen=True)
class Policy:
    """A policy with every choice made. Make it with `policy`."""

    name: str
    dim: int
    link: links.Link
    window: int | None
    discount: float | None
    horizon: int | None
    changes: int | None
    path_length: float | None
    lam: float
    S: float
    L: float
    delta: float
    bonus_scale: float
    intercept: bool
    centre: float
    projection: str
    epsilon: float
    too_long: str
    false_alarm_rate: float
    tolerance: float | None
    arms: str = SHARED
    reward: rewards.Reward | None = None
    features: Features | None = None

    @property
    def separate(self) -> bool:
        """Whether each arm has a model of its own."""
        return self.arms == SEPARATE

    @property
    def row(self) -> Row:
        return ROWS[self.name]

    @property
    def model_dim(self) -> int:
        """Dimension of the parameter: the intercept counts."""
        return self.dim + self.intercept

    @property
    def model_L(self) -> float:
        """Bound of the actions as the model sees them."""
        return math.sqrt(self.L**2 + 1.0) if self.intercept else self.L

    @property
    def longest(self) -> float:
        """The longest action that is accepted; a pool takes any whose square is a number."""
        return LONGEST_AT_ALL if self.row.memory == POOL else self.L

    @property
    def forgets_after(self) -> int | None:
        """Age from which a reward changes nothing; None if it always counts."""
        return self.model.span or None

    @cached_property
    def problem(self) -> theory.Problem:
        """The constants that the theory needs."""
        L = self.model_L
        return theory.Problem(
            d=self.model_dim,
            k=self.link.k_mu(L=L, S=self.S),
            c=self.link.c_mu(L=L, S=self.S),
            lam=self.lam,
            L=L,
            S=self.S,
            m=self.link.m,
            delta=self.delta,
        )

    @property
    def fast(self) -> bool:
        """Whether the ways for large models are used."""
        return self.tolerance is None

    @property
    def adaptation(self) -> ModuleType:
        """What changes the memory as it goes."""
        return ADAPTATIONS[self.row.adaptation]

    @cached_property
    def model(self) -> Model:
        made = estimator_model(
            self.link,
            dim=self.model_dim,
            lam=self.lam,
            S=self.S,
            L=self.model_L,
            window=self.adaptation.window_for(self),
            discount=self.discount,
            projection=self.projection if self.row.projected and not self._in_curvature else "none",
        )
        memory = self.row.memory if self.row.memory in (SINCE_RESTART, POOL) else made.memory
        if self.row.adaptation == "online Newton":  # a ridge regression on what it predicts
            made = made._replace(linear=1, c=1.0, order=1)
        order = 0 if self.fast and not made.linear else made.order
        return made._replace(memory=memory, order=order, fast=int(self.fast))

    @property
    def _in_curvature(self) -> bool:
        """Whether an exact projection is one in H^-1, which for a linear model is V^-1."""
        local = self.row.radius == "local" and not self.link.linear
        return local and self.projection == "exact"

    @cached_property
    def confidence(self) -> theory.Confidence:
        return self.confidence_for(self.problem)

    def confidence_for(self, p: theory.Problem) -> theory.Confidence:
        """The numbers of the radius, for the problem of this policy or a larger one."""
        row = self.row
        # A sample must be as spread as the confidence set is wide, A J^-1/2 or A J^-1 C^1/2 against
        # V^-1/2/c, and J <= k V; nothing is projected, so nothing is doubled
        scales = {POSTERIOR: p.k * math.sqrt(p.k) / p.c, PERTURBED: p.k * p.k / p.c}
        return theory.confidence_of(
            p,
            radius=row.radius,
            window=self.adaptation.window_for(self),
            discount=self.discount,
            horizon=self.horizon,
            linear=row.linear,
            biased=not row.one_matrix,
            scale=scales.get(row.score),
        )

    @property
    def _exploration(self) -> float:
        """Epsilon, or where it is 0 what the source of a row explores by."""
        rule = getattr(self.adaptation, "exploration_for", None)
        return self.epsilon if rule is None or self.epsilon > 0.0 else float(rule(self))

    @cached_property
    def scoring(self) -> Scoring:
        row = self.row
        return Scoring(
            dim=self.dim,
            adaptation=list(ADAPTATIONS).index(row.adaptation),
            score=row.score,
            bonus_scale=self.bonus_scale,
            epsilon=self._exploration,
            centre=self.centre,
            longest=self.longest,
            longest_square=(self.longest * (1.0 + LENGTH_TOLERANCE)) ** 2,
            rescale=int(self.too_long == "rescale"),
            sandwiched=int(row.linear and self.discount is not None and not row.one_matrix),
            one_matrix=int(row.one_matrix),
            project_in_curvature=int(self._in_curvature),
            period=(self.window or 0) if row.periodic else 0,
            votes=row.votes,
            measured=int(row.adaptation in ("judged models", "arm tests")),
            kl=int(row.kl),
            told=int(row.adaptation == "online Newton"),
        )

    @cached_property
    def numbers(self) -> Floats:
        """Everything that the kernels read, packed for them."""
        own = self.adaptation.numbers_for(self)
        return as_numbers(self.model, self.scoring, self.confidence, own)

    def new_buffers(self, capacity: int) -> Buffers:
        """An empty memory with room for so many rows."""
        return new_buffers(self.numbers, capacity, self.adaptation.sizes_for(self))

    def weights_of_ages(self, buffers: Buffers, ages: Floats) -> Floats:
        """What remembered rows of these ages weigh."""
        weights: Floats = self.adaptation.weights_of_ages(self, buffers, ages)
        return weights

    def size_of_change(self, buffers: Buffers) -> float | None:
        """Of the last that was detected, in the units of rewards; None: this is not measured."""
        measured = getattr(self.adaptation, "size_of_change", None)
        unit = 1.0 if self.reward is None else self.reward.unit
        return None if measured is None else unit * float(measured(buffers))

    def hypotheses(self, buffers: Buffers) -> list[Hypothesis]:
        """What a belief holds to be possible; of all other policies none."""
        found = getattr(self.adaptation, "hypotheses", None)
        return [] if found is None else list(found(self, buffers))

    @property
    def arguments(self) -> dict[str, Any]:
        """What a record says of this policy, and `recorded_policy` makes it of again."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        own["name"], release = RECORDED_AS.get(self.name, (self.name, None))
        if release is not None:
            own["release"] = release
        del own["reward"]
        if self.reward is None:
            own["link"], own["m"] = self.link.name, self.link.m
        else:
            del own["link"]  # which follows, as m does
            own["reward"], own["outside"] = self.reward.text, self.reward.outside
        own["false_alarm_rate"] = self.false_alarm_rate or None
        if self.tolerance == EXACT:
            del own["tolerance"]  # as records had none before there was one, see `recorded_policy`
        if not self.separate:
            del own["arms"]  # likewise
        if self.features is None:
            del own["features"]  # likewise
        else:
            own["features"] = self.features.to_dict()
        return own

    def with_dim(self, dim: int, *, features: Features | None = None) -> Policy:
        """The same policy with room for so many coordinates, of other features where given."""
        other = {} if features is None else {"features": features}
        return recorded_policy({**self.arguments, "dim": dim, **other})

    def reward_range(self) -> tuple[float, float]:
        """The closed interval of rewards that an agent takes as they are."""
        return self.model_range() if self.reward is None else self.reward.range

    def model_range(self) -> tuple[float, float]:
        """The closed interval of rewards that kernels are given.

        The mean is centre + mu. A bounded mu moves with the centre; the identity has no range of
        its own, so there the rewards stay in [0, m].
        """
        if self.reward is not None:
            return self.reward.model_range
        low, high = self.link.reward_range()
        shift = 0.0 if self.link.linear else self.centre
        return low + shift, high + shift


def policy(
    name: str,
    *,
    dim: int | None = None,
    link: str = "logistic",
    window: int | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    changes: int | None = None,
    path_length: float | None = None,
    lam: float | None = None,
    S: float = 1.0,
    L: float = 1.0,
    m: float | None = None,
    delta: float = 0.01,
    bonus_scale: float = 1.0,
    intercept: bool | None = None,
    projection: str = "exact",
    centre: float = 0.0,
    epsilon: float = 0.0,
    too_long: str = "refuse",
    false_alarm_rate: float | None = None,
    tolerance: float | None = None,
    arms: str = SHARED,
    reward: str | None = None,
    outside: str | None = None,
    features: Features | Mapping[str, Any] | None = None,
) -> Policy:
    """A policy by its name, see `policy_names`.

    dim            features of an action, or of the context of separate arms
    features       instead of dim: how tables become vectors, see docs/features.md
    link, m        reward model and largest reward (m is 1 unless given; see `links.link`)
    window         rounds that SW-* remember, and from restart to restart of Restart-*; or horizon
                   (and changes or path_length) to follow the rule of the policy's source
    discount       weight that D-* and *-Weight* keep from round to round; or horizon (and ...)
    path_length    sum of ||theta_t - theta_{t-1}||, for *-Weight* and Restart-*; unless given
                   it is 2 S changes, or 1 where changes are unknown too
    lam            penalty (lam/2)||theta||^2; unless given it is 1, or for *-Weight* and SC-* what
                   their source asks for (of SCB-* and SC-*: given the horizon)
    S, L           bounds of ||theta|| (the intercept included) and of an action's length
    delta          probability that a confidence bound fails; of dLinUCB also that of a bad reward,
                   so that 0.01 finds none among rewards of 0 and m (see adaptations/dlinucb.py)
    bonus_scale    multiplies the bonus of the theory, which is several times too wide in practice
    intercept      append a constant 1 to every action; unless given, for features and for separate
                   arms only
    centre         rewards are centre + mu(a.theta) + noise: 1/2 lets a linear model fit 0/1 rewards
    projection     of theta-hat on the ball: exact, radial or none
    epsilon        share of rounds in which the action is drawn uniformly
    too_long       what to do with an action longer than L: refuse it, or rescale it to L
    false_alarm_rate  of CD-* and auto: about one false report in 1/rate decisions, while nothing
                   changes and as far as rewards are distributed as the model says; .0003 of auto
                   is one in 3,300 at most;
                   of dLinUCB: with which a judgement may discard a sound model
    tolerance      how far the estimate may be from the exact one; unless given it is 1e-8 for
                   models of up to 15 dimensions, and a ten-thousandth of each width for larger
    arms           shared: one model for all actions; separate: one for each arm, see
                   docs/separate-arms.md
    reward         what a reward is, instead of link and m: click, rating:1..5, count, count:20,
                   amount, amount:0..500, cost or cost:0..500, see docs/rewards.md
    outside        of rewards outside that range: clip them, which is counted, or refuse them

    `driftbandits policies` lists which arguments a policy refuses or ignores, see docs/rewards.md.

    >>> policy("SW-GLUCB", dim=2, horizon=6000, changes=3).window
    252
    """
    given = checked(locals())
    refuse_without_effect(given, _DEFAULTS)
    return _configured(given)


_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(policy).parameters.items()
    if parameter.default is not parameter.empty
}


def _configured(given: Arguments) -> Policy:
    row = ROWS[given.name]
    if given.arms == SEPARATE:
        _check_separable(given.name, row)
    if given.features is not None and not given.features.is_fitted:
        _check_grows(given.name, row)
    S, L = (1.0, 1.0) if row.memory == POOL else (given.S, given.L)  # a pool uses neither
    reward = _reward(given, row)
    if reward is None:
        reward_model = links.link("identity" if row.linear else given.link, m=given.m)
    else:
        reward_model = reward.link
    model_L = math.sqrt(L**2 + 1.0) if given.intercept else L
    setting = Setting(
        d=given.dim + given.intercept,
        k=reward_model.k_mu(L=model_L, S=S),
        c=reward_model.c_mu(L=model_L, S=S),  # refuses an L * S where it vanishes
        S=S,
        horizon=given.horizon,
        changes=given.changes,
        path_length=given.path_length,
    )
    small = setting.d < LARGE or row.adaptation in _ALWAYS_SMALL
    tau, gamma = tuned_memory(given.name, row, setting, given.window, given.discount)
    return Policy(
        name=given.name,
        dim=given.dim,
        link=reward_model,
        window=tau,
        discount=gamma,
        horizon=given.horizon,
        changes=given.changes,
        path_length=given.path_length,
        lam=float(tuned_penalty(row, setting) if given.lam is None else given.lam),
        S=S,
        L=L,
        delta=given.delta,
        bonus_scale=given.bonus_scale,
        intercept=given.intercept,
        centre=given.centre,
        projection=given.projection,
        epsilon=given.epsilon,
        too_long=given.too_long,
        false_alarm_rate=given.false_alarm_rate or 0.0,
        tolerance=EXACT if given.tolerance is None and small else given.tolerance,
        arms=given.arms,
        reward=reward,
        features=given.features,
    )


def _reward(given: Arguments, row: Row) -> rewards.Reward | None:
    if given.reward is None:
        if given.outside is not None:
            raise ValueError(
                f"outside is about the range of a reward: give reward too, as in "
                f"reward='amount:0..500'; got {given.outside!r}"
            )
        return None
    for label in ("link", "m"):
        if getattr(given, label) != _DEFAULTS[label]:
            raise ValueError(
                f"{label} must not be given with reward={given.reward!r}, from which it follows; "
                f"got {getattr(given, label)!r}"
            )
    reward = rewards.reward(
        given.reward,
        outside=given.outside,
        linear=row.linear,
        any_number=row.memory == POOL,
        name=given.name,
    )
    if given.centre and not reward.link.linear:
        raise ValueError(
            f"centre must be 0 for reward={given.reward!r}, whose model is {reward.link.name}; "
            f"got {given.centre!r}"
        )
    return reward


def _check_grows(name: str, row: Row) -> None:
    """Refuse features whose dimension and length are not known where the theory needs them."""
    if not hasattr(ADAPTATIONS[row.adaptation], "carry_over"):
        raise ValueError(
            f"features must be fitted for {name}, whose bonus follows from the dimension and the "
            "length L of the actions: give features.fit(frame); auto takes them as they are"
        )


def _check_separable(name: str, row: Row) -> None:
    """Refuse what is drawn or tested over all coefficients at once."""
    if row.score >= SCALED or row.adaptation not in _SEPARABLE:
        what = "draws" if row.score >= SCALED else "adapts"
        raise ValueError(
            f"arms must be {SHARED} for {name}, which {what} by one model of all actions; "
            f"got {SEPARATE!r}"
        )


def recorded_policy(arguments: Mapping[str, Any]) -> Policy:
    """The policy of which these are the `arguments`; a record without a tolerance is exact."""
    given = {**_DEFAULTS, "tolerance": EXACT, **arguments}
    recorded = given["name"], given.pop("release", None)
    for name, known_as in RECORDED_AS.items():
        if known_as == recorded:
            given["name"] = name
    return _configured(checked(given))
