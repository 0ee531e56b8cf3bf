"""The catalogue: every policy of the field as a row of data, and a policy made of a row.

A row says which memory, reward model and score a policy has. Its source says how to tune it. A
`Policy` is a row with every choice made, and the numbers that follow for the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

from driftbandits.core import RADII, Buffers, Model, links, new_buffers, theory
from driftbandits.core.estimator.model import (
    BELIEF,
    DISCOUNT,
    EVERYTHING,
    MEMORIES,
    SINCE_RESTART,
    WINDOW,
    Floats,
    as_numbers,
    estimator_model,
)
from driftbandits.features import Features, rewards
from driftbandits.policies import auto
from driftbandits.policies.adaptations import (
    arm_tests,
    change_test,
    dlinucb,
    exponential,
    fixed,
    mirror,
    online,
    windows,
)
from driftbandits.policies.auto import Hypothesis
from driftbandits.policies.scoring import (
    AUGMENTED,
    CONSTANT,
    GREEDY,
    OPTIMISTIC,
    PERTURBED,
    POSTERIOR,
    SCALED,
    SCORES,
    UCB,
    WEIGHTED,
    Scoring,
)

ADAPTATIONS: Mapping[str, ModuleType] = {
    "none": fixed,
    "change test": change_test,
    "bandit over windows": windows,
    "judged models": dlinucb,
    "arm tests": arm_tests,
    "belief": auto,
    "online Newton": online,
    "exponential weights": exponential,
    "mirror descent": mirror,
}
"""Modules that adapt a memory, see policies/adaptations; `auto` is an engine of its own."""
ONE_PASS = ("online Newton", "mirror descent")
"""Adaptations that learn a row and do not keep it."""


@dataclass(frozen=True)
class Row:
    """A policy of the field: a memory, a reward model and a way to make a score."""

    memory: int | None  # None: what the caller gives
    linear: bool  # always the identity; otherwise the link that the caller gives
    score: int
    radius: str = "deviation"  # see core/theory.py
    one_matrix: bool = False  # W alone, without W~ and without a term for the bias; for drift
    periodic: bool = False  # the window is emptied when it is full, instead of sliding
    votes: int = 0  # see sampling.py
    adaptation: str = "none"  # what changes the memory as it goes, see policies/adaptations
    test: str = ""  # of single arms, see policies/adaptations/arm_tests.py
    kl: bool = False  # widths by the divergence of two probabilities, instead of a norm
    false_alarm_rate: float = 0.0  # unless the caller gives one; 0: no change is looked for

    def __post_init__(self) -> None:
        for label, code, known in (
            ("memory", self.memory, (*MEMORIES, None)),
            ("score", self.score, SCORES),
            ("radius", self.radius, tuple(RADII)),
            ("adaptation", self.adaptation, tuple(ADAPTATIONS)),
            ("test", self.test, arm_tests.TESTS),
        ):
            if code not in known:
                raise ValueError(f"{label} of a row must be one of {known}; got {code!r}")

    @property
    def believes(self) -> bool:
        """The engine of `auto` plays such a row, and the estimator's all others."""
        return self.memory == BELIEF

    @property
    def separable(self) -> bool:
        """Each arm can have a model of its own: nothing is drawn or tested over all of them."""
        return self.score < SCALED and self.adaptation in ("none", "belief")

    @property
    def projected(self) -> bool:
        """Theta-hat is projected, unless the theory does without or samples."""
        deterministic = self.score in (UCB, GREEDY)
        without = self.radius == "self-concordant" or self.adaptation in ONE_PASS
        return not self.linear and deterministic and not without


_VOTES = 64
_REFITTED_VOTES = 8  # each costs a fit, or a pass over all rows

ROWS: Mapping[str, Row] = {
    # the six of the paper, and their kin for drift and without 1/c
    "SW-GLUCB": Row(WINDOW, False, UCB),
    "D-GLUCB": Row(DISCOUNT, False, UCB),
    "LogisticUCB": Row(EVERYTHING, False, UCB),
    "LinUCB": Row(EVERYTHING, True, UCB),
    "SW-LinUCB": Row(WINDOW, True, UCB),
    "D-LinUCB": Row(DISCOUNT, True, UCB),
    "GLB-WeightUCB": Row(DISCOUNT, False, UCB, one_matrix=True),
    "LB-WeightUCB": Row(DISCOUNT, True, UCB, one_matrix=True),
    "SCB-WeightUCB": Row(DISCOUNT, False, UCB, "local", one_matrix=True),
    "SC-SW-GLUCB": Row(WINDOW, False, UCB, "self-concordant"),
    "SC-D-GLUCB": Row(DISCOUNT, False, UCB, "self-concordant"),
    # other sources for worlds that stay, and one pass over the rewards
    "UCB-GLM": Row(EVERYTHING, False, OPTIMISTIC, "predictor"),
    "LogUCB": Row(EVERYTHING, False, UCB, "local"),
    "GLOC": Row(EVERYTHING, False, UCB, adaptation="online Newton"),
    "GLB-OMD": Row(EVERYTHING, False, UCB, "mirror", adaptation="mirror descent"),
    "DOMD-GLB": Row(DISCOUNT, False, UCB, "mirror", adaptation="mirror descent"),
    # for fixed arms, one-hot actions
    "UCB1": Row(EVERYTHING, True, UCB, "count"),
    "SW-UCB": Row(WINDOW, True, UCB, "count"),
    "D-UCB": Row(DISCOUNT, True, UCB, "count", one_matrix=True),
    "klUCB": Row(EVERYTHING, True, UCB, "count", kl=True),
    "CUSUM-UCB": Row(EVERYTHING, True, UCB, "count", adaptation="arm tests", test="sums"),
    "M-UCB": Row(EVERYTHING, True, UCB, "count", adaptation="arm tests", test="halves"),
    "GLR-klUCB": Row(
        EVERYTHING, True, UCB, "count", adaptation="arm tests", test="likelihood ratio", kl=True
    ),
    "REXP3": Row(WINDOW, True, WEIGHTED, "count", periodic=True, adaptation="exponential weights"),
    # restarts, and draws at random
    "Restart-GLUCB": Row(WINDOW, False, UCB, periodic=True),
    "GLM-TSL": Row(EVERYTHING, False, POSTERIOR, votes=_VOTES),
    "SW-GLM-TSL": Row(WINDOW, False, POSTERIOR, votes=_VOTES),
    "D-GLM-TSL": Row(DISCOUNT, False, POSTERIOR, votes=_VOTES),
    "PG-TS": Row(EVERYTHING, False, AUGMENTED, "posterior", votes=_REFITTED_VOTES),
    "GLM-FPL": Row(EVERYTHING, False, PERTURBED, votes=_REFITTED_VOTES),
    "SW-GLM-FPL": Row(WINDOW, False, PERTURBED, votes=_REFITTED_VOTES),
    "D-GLM-FPL": Row(DISCOUNT, False, PERTURBED, votes=_REFITTED_VOTES),
    "D-RandLinUCB": Row(DISCOUNT, True, SCALED),
    "D-LinTS": Row(DISCOUNT, True, PERTURBED, votes=_VOTES),
    # what adapts to changes
    "CD-GLUCB": Row(SINCE_RESTART, False, UCB, adaptation="change test", false_alarm_rate=5e-4),
    "CD-LinUCB": Row(SINCE_RESTART, True, UCB, adaptation="change test", false_alarm_rate=5e-4),
    "dLinUCB": Row(EVERYTHING, True, UCB, adaptation="judged models", false_alarm_rate=0.1),
    "BOB-GLUCB": Row(WINDOW, False, UCB, adaptation="bandit over windows"),
    "auto": Row(BELIEF, False, OPTIMISTIC, adaptation="belief", false_alarm_rate=3e-4),
    "greedy": Row(None, False, GREEDY),
    "random": Row(EVERYTHING, True, CONSTANT),
}
_CITED = {
    "SW-GLUCB": "Russac, Cappe, Garivier (2020), Algorithms for Non-Stationary Generalized Linear "
    "Bandits, Algorithm 1",
    "D-GLUCB": "Russac, Cappe, Garivier (2020), Algorithms for Non-Stationary Generalized Linear "
    "Bandits, Algorithm 2",
    "LogisticUCB": "Filippi, Cappe, Garivier, Szepesvari (2010), Parametric Bandits: The "
    "Generalized Linear Case; penalised as D-GLUCB is",
    "LinUCB": "Abbasi-Yadkori, Pal, Szepesvari (2011), Improved Algorithms for Linear Stochastic "
    "Bandits",
    "SW-LinUCB": "Cheung, Simchi-Levi, Zhu (2019), Learning to Optimize under Non-Stationarity",
    "D-LinUCB": "Russac, Vernade, Cappe (2019), Weighted Linear Bandits for Non-Stationary "
    "Environments",
    "GLB-WeightUCB LB-WeightUCB SCB-WeightUCB": "Wang, Zhao, Zhou (2023), Revisiting Weighted "
    "Strategy for Non-stationary Parametric Bandits",
    "SC-SW-GLUCB SC-D-GLUCB": "Russac, Faury, Cappe, Garivier (2021), Self-Concordant Analysis of "
    "Generalized Linear Bandits with Forgetting",
    "UCB-GLM": "Li, Lu, Zhou (2017), Provably Optimal Algorithms for Generalized Linear Contextual "
    "Bandits; penalised, instead of a start at random",
    "LogUCB": "Faury, Abeille, Calauzenes, Fercoq (2020), Improved Optimistic Algorithms for "
    "Logistic Bandits: Logistic-UCB-1, whose projection is by the local curvature",
    "GLOC": "Jun, Bhargava, Nowak, Willett (2017), Scalable Generalized Linear Bandits: Online "
    "Computation and Hashing; one pass, and memory that does not grow",
    "GLB-OMD": "Zhang, Xu, Zhao, Sugiyama (2025), Generalized Linear Bandits: Almost Optimal "
    "Regret with One-Pass Update; arXiv 2507.11847",
    "DOMD-GLB": "Lee, Oh (2026), Nonstationary Generalized Linear Bandits with Discounted Online "
    "Mirror Descent; arXiv 2605.25590, from its abstract: recursion, radius and tuning are "
    "derived, see core/theory.py",
    "UCB1": "Auer, Cesa-Bianchi, Fischer (2002), Finite-time Analysis of the Multiarmed Bandit "
    "Problem; for fixed arms, one-hot actions",
    "SW-UCB D-UCB": "Garivier, Moulines (2011), On Upper-Confidence Bound Policies for Switching "
    "Bandit Problems; for fixed arms, one-hot actions",
    "klUCB": "Garivier, Cappe (2011), The KL-UCB Algorithm for Bounded Stochastic Bandits and "
    "Beyond; for fixed arms, one-hot actions",
    "CUSUM-UCB": "Liu, Lee, Shroff (2018), A Change-Detection based Framework for "
    "Piecewise-stationary Multi-Armed Bandit Problem; for fixed arms, one-hot actions",
    "M-UCB": "Cao, Wen, Kveton, Xie (2019), Nearly Optimal Adaptive Procedure with Change "
    "Detection for Piecewise-Stationary Bandit; for fixed arms, one-hot actions",
    "GLR-klUCB": "Besson, Kaufmann, Maillard, Seznec (2022), Efficient Change-Point Detection for "
    "Tackling Piecewise-Stationary Bandits; for fixed arms, one-hot actions",
    "REXP3": "Besbes, Gur, Zeevi (2014), Stochastic Multi-Armed-Bandit Problem with Non-stationary "
    "Rewards; for fixed arms, one-hot actions",
    "Restart-GLUCB": "Zhao, Zhang, Jiang, Zhou (2020), A Simple Approach for Non-stationary Linear "
    "Bandits; restarts the estimate of SW-GLUCB",
    "GLM-TSL GLM-FPL": "Kveton, Zaheer, Szepesvari, Li, Ghavamzadeh, Boutilier (2020), Randomized "
    "Exploration in Generalized Linear Bandits",
    "SW-GLM-TSL D-GLM-TSL SW-GLM-FPL D-GLM-FPL": "Kveton, Zaheer, Szepesvari, Li, Ghavamzadeh, "
    "Boutilier (2020), Randomized Exploration in Generalized Linear Bandits; in a window or "
    "discounted, a heuristic",
    "PG-TS": "Dumitrascu, Feng, Engelhardt (2018), PG-TS: Improved Thompson Sampling for Logistic "
    "Contextual Bandits; sweeps begin at a draw from Laplace's approximation",
    "D-RandLinUCB D-LinTS": "Kim, Tewari (2020), Randomized Exploration for Non-Stationary "
    "Stochastic Linear Bandits",
    "CD-GLUCB CD-LinUCB": "forgets what is before a detected change, docs/decisions/07; base of "
    "LogisticUCB or LinUCB",
    "dLinUCB": "Wu, Iyer, Wang (2018), Learning Contextual Bandits in a Non-stationary Environment",
    "BOB-GLUCB": "Cheung, Simchi-Levi, Zhu (2019), Learning to Optimize under Non-Stationarity: "
    "bandit over bandit; base of SW-GLUCB",
    "auto": "a belief over segments and drifts, docs/auto.md; after Adams, MacKay (2007), Bayesian "
    "Online Changepoint Detection, and Hartikainen, Sarkka (2010), Kalman Filtering and Smoothing "
    "Solutions to Temporal Gaussian Process Regression Models",
    "greedy": "the mean alone, without a bonus",
    "random": "uniform over the actions",
}
SOURCES: Mapping[str, str] = {
    name: source for names, source in _CITED.items() for name in names.split()
}
"""Where each policy comes from."""
ALIASES: Mapping[str, str] = {"GLM-UCB": "LogisticUCB"}


def policy_names() -> tuple[str, ...]:
    """Every name that `policy` takes, aliases last."""
    return (*ROWS, *ALIASES)


# -- the rules of the sources ---------------------------------------------------------------------


def problem_of(link: links.Link, *, dim: int, S: float, L: float) -> theory.Problem:
    """The constants of a reward model; refused where the smallest slope vanishes."""
    return theory.Problem(
        d=dim,
        k=link.k_mu(L=L, S=S),
        c=link.c_mu(L=L, S=S),
        L=L,
        S=S,
        m=link.m,
        R=0.0 if link.linear else 1.0,
    )


class Setting(NamedTuple):
    """Problem and world, as far as the rules of the sources need them."""

    problem: theory.Problem
    horizon: int | None
    changes: int | None
    path_length: float | None

    @property
    def drift(self) -> float:
        """P_T as given, or the longest path of so many changes; 1 where nothing is known."""
        if self.path_length is not None:
            return float(self.path_length)
        return 1.0 if self.changes is None else 2.0 * self.problem.S * self.changes


def tuned_penalty(row: Row, setting: Setting) -> float:
    """The penalty that the source of a row asks for; 1 where it does not, or not without T."""
    if row.radius == "count":
        return 1e-3  # the sources of fixed arms have none: a thousandth of a reward
    p = setting.problem
    if row.radius == "mirror":
        return theory.mirror_penalty(p)
    if row.radius in ("local", "self-concordant"):
        T = setting.horizon
        return 1.0 if T is None else theory.self_concordant_penalty(dim=p.d, horizon=T)
    return theory.drift_penalty(dim=p.d, slope=p.c) if row.one_matrix else 1.0


def tuned_memory(
    name: str, row: Row, setting: Setting, window: int | None, discount: float | None
) -> tuple[int | None, float | None]:
    """The window or discount that a row works with; the rule of its source where none is given."""
    if row.memory is None:
        if window is not None and discount is not None:
            raise ValueError(f"give window or discount, not both; got {window!r} and {discount!r}")
        return window, discount
    if row.adaptation == "bandit over windows":
        if setting.horizon is None:
            raise ValueError(f"{name} needs horizon=...: it is what its windows follow from")
        return None, None
    if row.memory == WINDOW:
        return _window(name, row, setting) if window is None else window, None
    if row.memory == DISCOUNT:
        return None, _discount(name, row, setting) if discount is None else discount
    return None, None


def _window(name: str, row: Row, setting: Setting) -> int:
    p, changes, T = setting.problem, setting.changes, _horizon(name, "window", row, setting)
    if row.score == WEIGHTED:
        known = changes if setting.path_length is None else setting.path_length
        variation = 1.0 if known is None else float(known)
        return theory.restart_batch(arms=p.d, horizon=T, variation=variation)
    if row.radius == "count":
        return theory.fixed_arms_window(horizon=T, changes=changes)
    if row.periodic:
        return theory.restart_period(dim=p.d, horizon=T, path_length=setting.drift)
    slope = p.c if row.radius == "self-concordant" else 1.0
    return theory.tuned_window(dim=p.d, horizon=T, changes=changes, slope=slope)


def _discount(name: str, row: Row, setting: Setting) -> float:
    p, changes, T = setting.problem, setting.changes, _horizon(name, "discount", row, setting)
    if row.radius == "count":
        return theory.fixed_arms_discount(horizon=T, changes=changes)
    if row.one_matrix or (row.radius == "mirror" and setting.path_length is not None):
        slope = {"local": p.k, "mirror": 1.0}.get(row.radius, p.k * p.c)
        return theory.drift_discount(dim=p.d, horizon=T, path_length=setting.drift, slope=slope)
    slope = p.c if row.radius in ("self-concordant", "mirror") else 1.0
    return theory.tuned_discount(dim=p.d, horizon=T, changes=changes, slope=slope)


def _horizon(name: str, label: str, row: Row, setting: Setting) -> int:
    if setting.horizon is None:
        drifts = (row.one_matrix and row.radius != "count") or row.periodic
        helpful = "path_length" if drifts else "changes"
        raise ValueError(
            f"{name} needs {label}=..., or horizon=... (and {helpful}=... if known) to tune it"
        )
    return setting.horizon


# -- a policy --------------------------------------------------------------------------------------

ARMS = SHARED, SEPARATE = "shared", "separate"
"""One model serves all actions, or each arm has its own."""
LENGTH_TOLERANCE = 1e-9
"""An action is too long only if it exceeds L by more than rounding does."""
LONGEST_AT_ALL = 1e150
LARGE = 16
"""Models of this many dimensions are computed in ways that pay off for large ones."""
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
    exact: bool = False
    arms: str = SHARED
    reward: rewards.Reward | None = None
    features: Features | None = None

    @property
    def separate(self) -> bool:
        """Each arm has a model of its own."""
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
        """The longest action that is accepted; a belief takes any whose square is a number."""
        return LONGEST_AT_ALL if self.row.believes else self.L

    @property
    def forgets_after(self) -> int | None:
        """Age from which a reward changes nothing; None if it always counts."""
        return self.model.span or None

    @cached_property
    def problem(self) -> theory.Problem:
        """The constants that the theory needs."""
        p = problem_of(self.link, dim=self.model_dim, S=self.S, L=self.model_L)
        return p._replace(lam=self.lam, delta=self.delta)

    @property
    def fast(self) -> bool:
        """The algorithms for large models are used."""
        large = self.model_dim >= LARGE and self.row.adaptation not in _ALWAYS_SMALL
        return large and not self.exact

    @property
    def adaptation(self) -> ModuleType:
        """The module that changes the memory as it goes."""
        return ADAPTATIONS[self.row.adaptation]

    def _adapted(self, name: str, *arguments: Any) -> Any:
        """Call a function of the adaptation."""
        return fixed.own_or_fixed(self.adaptation, name)(*arguments)

    @cached_property
    def model(self) -> Model:
        made = estimator_model(
            self.link,
            dim=self.model_dim,
            lam=self.lam,
            S=self.S,
            L=self.model_L,
            window=self._adapted("window_for", self),
            discount=self.discount,
            projection=self.projection if self.row.projected and not self._in_curvature else "none",
        )
        memory = self.row.memory if self.row.memory in (SINCE_RESTART, BELIEF) else made.memory
        if self.row.adaptation in ONE_PASS:  # sums are enough, and V has no factor 1/c
            made = made._replace(linear=1, c=1.0, order=1)
        order = 0 if self.fast and not made.linear else made.order
        return made._replace(memory=memory, order=order, fast=int(self.fast))

    @property
    def _in_curvature(self) -> bool:
        """An exact projection is one in H^-1, which for a linear model is V^-1."""
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
            window=self._adapted("window_for", self),
            discount=self.discount,
            horizon=self.horizon,
            linear=row.linear,
            biased=not row.one_matrix,
            scale=scales.get(row.score),
        )

    @cached_property
    def scoring(self) -> Scoring:
        row = self.row
        return Scoring(
            dim=self.dim,
            adaptation=list(ADAPTATIONS).index(row.adaptation),
            score=row.score,
            bonus_scale=self.bonus_scale,
            epsilon=self.epsilon or self._adapted("exploration_for", self),
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
            radius_given=int(row.adaptation == "online Newton"),
        )

    @cached_property
    def numbers(self) -> Floats:
        """Everything that the kernels read, packed for them."""
        own = self._adapted("numbers_for", self)
        return as_numbers(self.model, self.scoring, self.confidence, own)

    def new_buffers(self, capacity: int) -> Buffers:
        """An empty memory with room for so many rows."""
        return new_buffers(self.numbers, capacity, self._adapted("sizes_for", self))

    def weights_of_ages(self, buffers: Buffers, ages: Floats) -> Floats:
        """The weights of remembered rows of these ages."""
        if self.row.believes:
            return auto.weights_of_ages(self, buffers, ages)
        weights: Floats = (self.discount or 1.0) ** ages
        return weights

    def size_of_change(self, buffers: Buffers) -> float | None:
        """The size of the last detected change in units of rewards; None: not measured."""
        unit = 1.0 if self.reward is None else self.reward.unit
        return unit * float(buffers.gauges[auto.SIZE_OF_CHANGE]) if self.row.believes else None

    def hypotheses(self, buffers: Buffers) -> list[Hypothesis]:
        """The hypotheses of `auto` and their probabilities; other policies have none."""
        return auto.hypotheses(self, buffers) if self.row.believes else []

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that `policy_from` makes this policy of again."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        del own["reward"]
        if self.reward is None:
            own["link"], own["m"] = self.link.name, self.link.m
        else:
            del own["link"]  # which follows, as m does
            own["reward"], own["outside"] = self.reward.text, self.reward.outside
        own["false_alarm_rate"] = self.false_alarm_rate or None
        own["features"] = None if self.features is None else self.features.to_dict()
        for name, usual in (("exact", False), ("arms", SHARED), ("features", None)):
            if own[name] == usual:
                del own[name]
        return own

    def with_dim(self, dim: int, *, features: Features | None = None) -> Policy:
        """Return this policy with room for more coordinates, or for those of other features."""
        if features is None:
            return replace(self, dim=max(dim, self.dim))
        return replace(self, dim=dim, features=features)

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
