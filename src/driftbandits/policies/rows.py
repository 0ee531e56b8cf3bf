"""Policies as data: a link, a memory and a score make a row."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from driftbandits import links, theory
from driftbandits.estimator import Model
from driftbandits.estimator.batch import PROJECTIONS, estimator_model
from driftbandits.estimator.model import (
    DISCOUNT,
    EVERYTHING,
    POOL,
    SINCE_RESTART,
    WINDOW,
    Buffers,
    Floats,
    as_numbers,
)
from driftbandits.policies import models, pool, restarts
from driftbandits.policies.adaptation import (
    MODELS,
    NO_ADAPTATION,
    POOLED,
    RESTARTS,
    WINDOWS,
    Adaptation,
)
from driftbandits.policies.sampling import PERTURBED, POSTERIOR, SCALED
from driftbandits.policies.scoring import (
    CONSTANT,
    DEVIATION,
    GREEDY,
    LOCAL,
    OPTIMISTIC,
    SELF_CONCORDANT,
    UCB,
    Scoring,
)
from driftbandits.policies.tuning import Setting, tuned_memory, tuned_penalty
from driftbandits.policies.windows import bandit_over_windows

LENGTH_TOLERANCE = 1e-9
"""An action is too long only if it exceeds L by more than rounding does."""
LONGEST_AT_ALL = 1e150


@dataclass(frozen=True)
class Row:
    """A policy of the field, as data."""

    memory: int | None  # None: what the caller gives
    linear: bool
    score: int
    citation: str
    confidence: int = DEVIATION
    one_matrix: bool = False  # W alone, without W~ and without a term for the bias; for drift
    restarts: bool = False  # the window is emptied when it is full, instead of sliding
    votes: int = 0  # see sampling.py
    adaptation: int = NO_ADAPTATION  # what changes the memory as it goes
    false_alarm_rate: float = 0.0  # unless the caller gives one; 0: no change is looked for

    @property
    def projected(self) -> bool:
        """Whether theta-hat is projected: not where the theory does without, or samples."""
        deterministic = self.score in (UCB, GREEDY)
        return not self.linear and deterministic and self.confidence != SELF_CONCORDANT


_PAPER = "Russac, Cappe, Garivier (2020), Algorithms for Non-Stationary Generalized Linear Bandits"
_WEIGHTED = "Russac, Vernade, Cappe (2019), Weighted Linear Bandits for Non-Stationary Environments"
_GLM_SAMPLING = (
    "Kveton, Zaheer, Szepesvari, Li, Ghavamzadeh, Boutilier (2020), Randomized Exploration in "
    "Generalized Linear Bandits"
)
_LINEAR_SAMPLING = (
    "Kim, Tewari (2020), Randomized Exploration for Non-Stationary Stochastic Linear Bandits"
)
_DRIFT = (
    "Wang, Zhao, Zhou (2023), Revisiting Weighted Strategy for Non-stationary Parametric Bandits"
)
_FORGETTING = (
    "Russac, Faury, Cappe, Garivier (2021), Self-Concordant Analysis of Generalized Linear Bandits "
    "with Forgetting"
)
_RESTART = "Zhao, Zhang, Jiang, Zhou (2020), A Simple Approach for Non-stationary Linear Bandits"

_VOTES = 64
_REFITTED_VOTES = 8  # each costs a fit

ROWS: Mapping[str, Row] = {
    "SW-GLUCB": Row(WINDOW, False, UCB, f"{_PAPER}, Algorithm 1"),
    "D-GLUCB": Row(DISCOUNT, False, UCB, f"{_PAPER}, Algorithm 2"),
    "LogisticUCB": Row(
        EVERYTHING,
        False,
        UCB,
        "Filippi, Cappe, Garivier, Szepesvari (2010), Parametric Bandits: The Generalized Linear "
        "Case; penalised as in " + _PAPER,
    ),
    "LinUCB": Row(
        EVERYTHING,
        True,
        UCB,
        "Abbasi-Yadkori, Pal, Szepesvari (2011), Improved Algorithms for Linear Stochastic Bandits",
    ),
    "SW-LinUCB": Row(
        WINDOW,
        True,
        UCB,
        "Cheung, Simchi-Levi, Zhu (2019), Learning to Optimize under Non-Stationarity",
    ),
    "D-LinUCB": Row(DISCOUNT, True, UCB, _WEIGHTED),
    "GLB-WeightUCB": Row(DISCOUNT, False, UCB, _DRIFT, one_matrix=True),
    "LB-WeightUCB": Row(DISCOUNT, True, UCB, _DRIFT, one_matrix=True),
    "SCB-WeightUCB": Row(DISCOUNT, False, UCB, _DRIFT, LOCAL, one_matrix=True),
    "SC-SW-GLUCB": Row(WINDOW, False, UCB, _FORGETTING, SELF_CONCORDANT),
    "SC-D-GLUCB": Row(DISCOUNT, False, UCB, _FORGETTING, SELF_CONCORDANT),
    "Restart-GLUCB": Row(
        WINDOW, False, UCB, f"{_RESTART}; restarts the estimate of {_PAPER}", restarts=True
    ),
    "GLM-TSL": Row(EVERYTHING, False, POSTERIOR, _GLM_SAMPLING, votes=_VOTES),
    "SW-GLM-TSL": Row(
        WINDOW, False, POSTERIOR, f"{_GLM_SAMPLING}; in a window, a heuristic", votes=_VOTES
    ),
    "D-GLM-TSL": Row(
        DISCOUNT, False, POSTERIOR, f"{_GLM_SAMPLING}; discounted, a heuristic", votes=_VOTES
    ),
    "GLM-FPL": Row(EVERYTHING, False, PERTURBED, _GLM_SAMPLING, votes=_REFITTED_VOTES),
    "SW-GLM-FPL": Row(
        WINDOW,
        False,
        PERTURBED,
        f"{_GLM_SAMPLING}; in a window, a heuristic",
        votes=_REFITTED_VOTES,
    ),
    "D-GLM-FPL": Row(
        DISCOUNT,
        False,
        PERTURBED,
        f"{_GLM_SAMPLING}; discounted, a heuristic",
        votes=_REFITTED_VOTES,
    ),
    "D-RandLinUCB": Row(DISCOUNT, True, SCALED, _LINEAR_SAMPLING),
    "D-LinTS": Row(DISCOUNT, True, PERTURBED, _LINEAR_SAMPLING, votes=_VOTES),
    "CD-GLUCB": Row(
        SINCE_RESTART,
        False,
        UCB,
        "restarts on a detected change, docs/decisions/0007; base of Filippi et al. (2010)",
        adaptation=RESTARTS,
        false_alarm_rate=5e-4,
    ),
    "CD-LinUCB": Row(
        SINCE_RESTART,
        True,
        UCB,
        "restarts on a detected change, docs/decisions/0007; base of Abbasi-Yadkori et al. (2011)",
        adaptation=RESTARTS,
        false_alarm_rate=5e-4,
    ),
    "dLinUCB": Row(
        SINCE_RESTART,
        True,
        UCB,
        "Wu, Iyer, Wang (2018), Learning Contextual Bandits in a Non-stationary Environment",
        adaptation=MODELS,
        false_alarm_rate=0.1,
    ),
    "BOB-GLUCB": Row(
        WINDOW,
        False,
        UCB,
        "Cheung, Simchi-Levi, Zhu (2019), Learning to Optimize under Non-Stationarity: "
        f"bandit over bandit; base of {_PAPER}, Algorithm 1",
        adaptation=WINDOWS,
    ),
    "mixture": Row(
        POOL,
        False,
        OPTIMISTIC,
        "a mixture of discounts, docs/decisions/0008; after McCormick, Raftery, Madigan, Burd "
        "(2012), Dynamic Logistic Regression and Dynamic Model Averaging",
        adaptation=POOLED,
    ),
    "auto": Row(
        POOL,
        False,
        OPTIMISTIC,
        "the mixture, restarted on detected changes, docs/decisions/0008",
        adaptation=POOLED,
        false_alarm_rate=3e-4,
    ),
    "greedy": Row(None, False, GREEDY, "the mean alone, without a bonus"),
    "random": Row(EVERYTHING, True, CONSTANT, "uniform over the actions"),
}
ALIASES: Mapping[str, str] = {"GLM-UCB": "LogisticUCB"}


def policy_names() -> tuple[str, ...]:
    """Every name that `policy` takes, aliases last."""
    return (*ROWS, *ALIASES)


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

    @cached_property
    def model(self) -> Model:
        made = estimator_model(
            self.link,
            dim=self.model_dim,
            lam=self.lam,
            S=self.S,
            L=self.model_L,
            window=self.adaptation.block or self.window,
            discount=self.discount,
            projection=self.projection if self.row.projected and not self._in_curvature else "none",
        )
        # the models of MODELS keep sums, and need no rows
        if self.row.memory in (SINCE_RESTART, POOL) and self.row.adaptation != MODELS:
            made = made._replace(memory=self.row.memory)
        return made._replace(**self._adapted[1])

    @property
    def _in_curvature(self) -> bool:
        """Whether an exact projection is one in H^-1, which for a linear model is V^-1."""
        local = self.row.confidence == LOCAL and self.link.code != links.IDENTITY
        return local and self.projection == "exact"

    @cached_property
    def scoring(self) -> Scoring:
        p, row, linear = self.problem, self.row, self.row.linear
        # k = c = 1 for the linear rows, whose radius has neither the factor 2 nor a bias term
        offset = math.sqrt(p.c * p.lam) * p.S
        if self.discount is not None and not linear and not row.one_matrix:
            offset += theory.discount_bias(p, self.discount)
        scale = 1.0 if linear else 2.0 * p.k / p.c
        # A sample must be as spread as the confidence set is wide, A J^-1/2 or A J^-1 C^1/2 against
        # V^-1/2/c, and J <= k V; nothing is projected, so nothing is doubled
        if row.score == POSTERIOR:
            scale = p.k * math.sqrt(p.k) / p.c
        if row.score == PERTURBED:
            scale = p.k * p.k / p.c
        return Scoring(
            dim=self.dim,
            intercept=int(self.intercept),
            score=self.row.score,
            bonus_scale=self.bonus_scale,
            epsilon=self.epsilon,
            centre=self.centre,
            longest=self.longest,
            longest_square=(self.longest * (1.0 + LENGTH_TOLERANCE)) ** 2,
            rescale=int(self.too_long == "rescale"),
            radius_scale=scale,
            radius_offset=offset,
            sigma=p.m / 2.0,
            coefficient=p.c * p.L**2 / (p.d * p.lam),
            delta=p.delta,
            horizon=float(self.horizon or 0),
            sample_lag=int(linear),
            sandwiched=int(linear and self.discount is not None and not row.one_matrix),
            confidence=row.confidence,
            steepest=p.k,
            flattest_root=math.sqrt(p.c),
            one_matrix=int(row.one_matrix),
            project_in_curvature=int(self._in_curvature),
            period=(self.window or 0) if row.restarts else 0,
            votes=row.votes,
            measured=int(row.adaptation == MODELS),
        )

    @property
    def adaptation(self) -> Adaptation:
        return self._adapted[0]

    @cached_property
    def _adapted(self) -> tuple[Adaptation, dict[str, int]]:
        """The numbers by which the memory is adapted, and the entries its state needs."""
        if self.row.adaptation == RESTARTS:
            dispersion = (self.link.m / 2.0) ** 2 if self.link.code == links.IDENTITY else 1.0
            threshold = -math.log(self.false_alarm_rate)
            return Adaptation(RESTARTS, threshold, dispersion), restarts.MORE
        if self.row.adaptation == POOLED:
            threshold = -math.log(self.false_alarm_rate) if self.row.false_alarm_rate else 0.0
            return Adaptation(POOLED, threshold), pool.MORE
        if self.row.adaptation == MODELS:
            judgement = models.pool_of_models(
                sigma=self.link.m / 2.0, delta1=self.delta, delta2=self.false_alarm_rate
            )
            return judgement, models.MORE
        if self.row.adaptation == WINDOWS:
            assert self.horizon is not None  # checked by `policy`
            return bandit_over_windows(
                d=self.model_dim, horizon=self.horizon, reward_range=self.reward_range()
            )
        return Adaptation(), {}

    @cached_property
    def numbers(self) -> Floats:
        """Model, scoring and adaptation, packed for the kernels."""
        return as_numbers(self.model, *self.scoring, *self.adaptation)

    @property
    def arguments(self) -> dict[str, Any]:
        """What `policy` has to be given to make this policy again."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        own["link"], own["m"] = self.link.name, self.link.m
        own["false_alarm_rate"] = self.false_alarm_rate or None
        return own

    def reward_range(self) -> tuple[float, float]:
        """The closed interval of rewards that an agent accepts.

        The mean is centre + mu. A bounded mu moves with the centre; the identity has no range of
        its own, so there the rewards stay in [0, m].
        """
        low, high = self.link.reward_range()
        shift = 0.0 if self.link.code == links.IDENTITY else self.centre
        return low + shift, high + shift


def policy(
    name: str,
    *,
    dim: int,
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
    intercept: bool = False,
    projection: str = "exact",
    centre: float = 0.0,
    epsilon: float = 0.0,
    too_long: str = "refuse",
    false_alarm_rate: float | None = None,
) -> Policy:
    """A policy by its name, see `policy_names`.

    dim            features of an action
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
                   so that 0.01 finds none among rewards of 0 and m (see policies/models.py)
    bonus_scale    multiplies the bonus of the theory, which is several times too wide in practice
    intercept      append a constant 1 to every action
    centre         rewards are centre + mu(a.theta) + noise: 1/2 lets a linear model fit 0/1 rewards
    projection     of theta-hat on the ball: exact, radial or none
    epsilon        share of rounds in which the action is drawn uniformly
    too_long       what to do with an action longer than L: refuse it, or rescale it to L
    false_alarm_rate  of CD-* and auto: while nothing changes, restarts come at least 1/rate rounds
                   apart in the mean, as far as rewards are distributed as the model says;
                   of dLinUCB: with which a judgement may discard a sound model

    >>> policy("SW-GLUCB", dim=2, horizon=6000, changes=3).window
    252
    """
    if not isinstance(name, str) or name not in policy_names():
        raise ValueError(f"name must be one of {', '.join(policy_names())}; got {name!r}")
    name = ALIASES.get(name, name)
    row = ROWS[name]
    _check_integer("dim", dim, 1)
    for label, value in (("S", S), ("L", L)):
        _check_number(label, value, above=0.0)
    if lam is not None:
        _check_number("lam", lam, above=0.0)
    if path_length is not None:
        _check_number("path_length", path_length, at_least=0.0)
    _check_number("delta", delta, above=0.0, below=1.0)
    _check_number("bonus_scale", bonus_scale, at_least=0.0)
    _check_number("epsilon", epsilon, at_least=0.0, at_most=1.0)
    if false_alarm_rate is None:
        false_alarm_rate = row.false_alarm_rate
    else:
        _check_number("false_alarm_rate", false_alarm_rate, above=0.0, below=1.0)
    _check_number("centre", centre)
    if horizon is not None:
        _check_integer("horizon", horizon, 1)
    if changes is not None:
        _check_integer("changes", changes, 0)
    if window is not None:
        _check_integer("window", window, 1)
    if discount is not None:
        _check_number("discount", discount, above=0.0, below=1.0)
    if not isinstance(intercept, (bool, np.bool_)):
        raise ValueError(f"intercept must be True or False; got {intercept!r}")
    if not isinstance(projection, str) or projection not in PROJECTIONS:
        raise ValueError(f"projection must be one of {', '.join(PROJECTIONS)}; got {projection!r}")
    if too_long not in ("refuse", "rescale"):
        raise ValueError(f"too_long must be 'refuse' or 'rescale'; got {too_long!r}")
    if row.linear and m is None:
        m = 1.0
    if row.memory == POOL:
        S = L = 1.0  # which it does not use
    reward_model = links.link("identity" if row.linear else link, m=m)
    model_L = math.sqrt(L**2 + 1.0) if intercept else L
    setting = Setting(
        d=int(dim) + bool(intercept),
        k=reward_model.k_mu(L=model_L, S=S),
        c=reward_model.c_mu(L=model_L, S=S),  # refuses an L * S where it vanishes
        S=S,
        horizon=horizon,
        changes=changes,
        path_length=path_length,
    )
    window, discount = tuned_memory(name, row, setting, window, discount)
    return Policy(
        name=name,
        dim=int(dim),
        link=reward_model,
        window=window,
        discount=discount,
        horizon=None if horizon is None else int(horizon),
        changes=None if changes is None else int(changes),
        path_length=None if path_length is None else float(path_length),
        lam=float(tuned_penalty(row, setting) if lam is None else lam),
        S=float(S),
        L=float(L),
        delta=float(delta),
        bonus_scale=float(bonus_scale),
        intercept=bool(intercept),
        centre=float(centre),
        projection=projection,
        epsilon=float(epsilon),
        too_long=too_long,
        false_alarm_rate=float(false_alarm_rate),
    )


def weights_of_ages(policy: Policy, buffers: Buffers, ages: Floats) -> Floats:
    """What remembered rows of these ages weigh."""
    if policy.row.memory == POOL:
        return pool.weights_of_ages(buffers, ages)
    weights: Floats = (policy.discount or 1.0) ** ages
    return weights


def _check_integer(label: str, value: Any, least: int) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{label} must be an integer of at least {least}; got {value!r}")


def _check_number(
    label: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    bounds = [
        ("greater than", above, operator.gt),
        ("at least", at_least, operator.ge),
        ("less than", below, operator.lt),
        ("at most", at_most, operator.le),
    ]
    given = [(words, b, holds) for words, b, holds in bounds if b is not None]
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, bool
    )
    finite = number and abs(value) <= sys.float_info.max
    if not finite or not all(holds(value, b) for _, b, holds in given):
        allowed = " and ".join(f"{words} {b:g}" for words, b, _ in given) or "a finite number"
        raise ValueError(f"{label} must be {allowed}; got {value!r}")
