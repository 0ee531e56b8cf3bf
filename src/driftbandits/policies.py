"""Policies as data: a link, a memory and a score make a row.

Notation (beyond estimator/model.py)
--------
A_t        (K, d)   the actions of round t = N + 1; K may differ in every round
rho        scalar   radius of the confidence bound     eq_rho_SW, eq_rho_D
B          (d, d)   matrix of the bonus norm: V^-1, or W^-1 W~ W^-1 for D-LinUCB
means      (K,)     centre + mu(a . theta)
widths     (K,)     bonus_scale rho ||a||_B
scores     (K,)     means + widths
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from driftbandits import links, theory
from driftbandits.estimator import Model, absorb, advance, fit, model_of, state_of
from driftbandits.estimator.batch import PROJECTIONS, estimator_model
from driftbandits.estimator.model import (
    DISCOUNT,
    EVERYTHING,
    MODEL_SIZE,
    WINDOW,
    Floats,
    Ints,
    N,
    State,
    as_numbers,
)
from driftbandits.jit import compiled
from driftbandits.linalg import cholesky, dot, inverse, quadratic_form, sandwich

UCB, GREEDY, CONSTANT = 0, 1, 2

ACCEPTED, NOT_FINITE, TOO_LONG = 0, 1, 2
"""What `choose` says of a set of actions."""

LENGTH_TOLERANCE = 1e-9


class Scoring(NamedTuple):
    """The numbers that turn an estimate into scores."""

    dim: int  # of the actions as they come, without the intercept
    intercept: int
    score: int
    bonus_scale: float
    epsilon: float
    centre: float
    longest: float  # L of the actions as they come
    rescale: int  # shrink longer actions instead of refusing them
    radius_scale: float
    radius_offset: float
    sigma: float
    coefficient: float
    delta: float
    horizon: float
    sample_lag: int  # 1 where the radius counts the n = t-1 samples seen, 0 where it counts t
    sandwiched: int  # the bonus norm is W^-1 W~ W^-1


@dataclass(frozen=True)
class Row:
    """A policy of the field, as data."""

    memory: int | None  # None: what the caller gives
    linear: bool
    score: int
    citation: str


_PAPER = "Russac, Cappe, Garivier (2020), Algorithms for Non-Stationary Generalized Linear Bandits"
_WEIGHTED = "Russac, Vernade, Cappe (2019), Weighted Linear Bandits for Non-Stationary Environments"

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
        return estimator_model(
            self.link,
            dim=self.model_dim,
            lam=self.lam,
            S=self.S,
            L=self.model_L,
            window=self.window,
            discount=self.discount,
            projection="none" if self.row.linear else self.projection,
        )

    @cached_property
    def scoring(self) -> Scoring:
        p, linear = self.problem, self.row.linear
        # k = c = 1 for the linear rows, whose radius has neither the factor 2 nor a bias term
        offset = math.sqrt(p.c * p.lam) * p.S
        if self.discount is not None and not linear:
            offset += theory.discount_bias(p, self.discount)
        return Scoring(
            dim=self.dim,
            intercept=int(self.intercept),
            score=self.row.score,
            bonus_scale=self.bonus_scale,
            epsilon=self.epsilon,
            centre=self.centre,
            longest=self.L,
            rescale=int(self.too_long == "rescale"),
            radius_scale=1.0 if linear else 2.0 * p.k / p.c,
            radius_offset=offset,
            sigma=p.m / 2.0,
            coefficient=p.c * p.L**2 / (p.d * p.lam),
            delta=p.delta,
            horizon=float(self.horizon or 0),
            sample_lag=int(linear),
            sandwiched=int(linear and self.discount is not None),
        )

    @cached_property
    def numbers(self) -> Floats:
        """Model and scoring, packed for the kernels."""
        return as_numbers(self.model, *self.scoring)

    @property
    def arguments(self) -> dict[str, Any]:
        """What `policy` has to be given to make this policy again."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        own["link"], own["m"] = self.link.name, self.link.m
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
    lam: float = 1.0,
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
) -> Policy:
    """A policy by its name, see `policy_names`.

    dim            features of an action
    link, m        reward model and largest reward (m is 1 unless given; see `links.link`)
    window         rounds that SW-* remember; or horizon (and changes) to follow the paper's rule
    discount       weight that D-* keep from round to round; or horizon (and changes)
    lam            penalty (lam/2)||theta||^2
    S, L           bounds of ||theta|| (the intercept included) and of an action's length
    delta          probability that a confidence bound fails
    bonus_scale    multiplies the bonus of the theory, which is several times too wide in practice
    intercept      append a constant 1 to every action
    centre         rewards are centre + mu(a.theta) + noise: 1/2 lets a linear model fit 0/1 rewards
    projection     of theta-hat on the ball: exact, radial or none
    epsilon        share of rounds in which the action is drawn uniformly
    too_long       what to do with an action longer than L: refuse it, or rescale it to L

    >>> policy("SW-GLUCB", dim=2, horizon=6000, changes=3).window
    252
    """
    name = ALIASES.get(name, name)
    if name not in ROWS:
        raise ValueError(f"name must be one of {', '.join(policy_names())}; got {name!r}")
    row = ROWS[name]
    _check_integer("dim", dim, 1)
    for label, value in (("lam", lam), ("S", S), ("L", L)):
        _check_number(label, value, above=0.0)
    _check_number("delta", delta, above=0.0, below=1.0)
    _check_number("bonus_scale", bonus_scale, at_least=0.0)
    _check_number("epsilon", epsilon, at_least=0.0, at_most=1.0)
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
    if projection not in PROJECTIONS:
        raise ValueError(f"projection must be one of {', '.join(PROJECTIONS)}; got {projection!r}")
    if too_long not in ("refuse", "rescale"):
        raise ValueError(f"too_long must be 'refuse' or 'rescale'; got {too_long!r}")
    if row.linear and m is None:
        m = 1.0
    reward_model = links.link("identity" if row.linear else link, m=m)
    window, discount = _memory_of(
        name, int(dim) + bool(intercept), window, discount, horizon, changes
    )
    made = Policy(
        name=name,
        dim=int(dim),
        link=reward_model,
        window=window,
        discount=discount,
        horizon=None if horizon is None else int(horizon),
        changes=None if changes is None else int(changes),
        lam=float(lam),
        S=float(S),
        L=float(L),
        delta=float(delta),
        bonus_scale=float(bonus_scale),
        intercept=bool(intercept),
        centre=float(centre),
        projection=projection,
        epsilon=float(epsilon),
        too_long=too_long,
    )
    _ = made.numbers  # refuses an L * S whose c_mu vanishes
    return made


def _memory_of(
    name: str,
    d: int,
    window: int | None,
    discount: float | None,
    horizon: int | None,
    changes: int | None,
) -> tuple[int | None, float | None]:
    """The window or discount that a row works with; the paper's rule where none is given."""
    memory = ROWS[name].memory
    if memory == WINDOW:
        if window is None:
            if horizon is None:
                raise ValueError(
                    f"{name} needs window=..., or horizon=... (and changes=... if known) to tune it"
                )
            window = theory.tuned_window(dim=d, horizon=int(horizon), changes=changes)
        return int(window), None
    if memory == DISCOUNT:
        if discount is None:
            if horizon is None:
                raise ValueError(
                    f"{name} needs discount=..., or horizon=... (and changes=... if known) "
                    "to tune it"
                )
            discount = theory.tuned_discount(dim=d, horizon=int(horizon), changes=changes)
        return None, float(discount)
    if memory == EVERYTHING:
        return None, None
    if window is not None and discount is not None:
        raise ValueError(f"give window or discount, not both; got {window!r} and {discount!r}")
    return (
        None if window is None else int(window),
        None if discount is None else float(discount),
    )


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
    if not number or not math.isfinite(value) or not all(holds(value, b) for _, b, holds in given):
        allowed = " and ".join(f"{words} {b:g}" for words, b, _ in given) or "a finite number"
        raise ValueError(f"{label} must be {allowed}; got {value!r}")


@compiled
def scoring_of(numbers: Floats) -> Scoring:
    n = numbers[MODEL_SIZE:]
    return Scoring(
        int(n[0]),
        int(n[1]),
        int(n[2]),
        n[3],
        n[4],
        n[5],
        n[6],
        int(n[7]),
        n[8],
        n[9],
        n[10],
        n[11],
        n[12],
        n[13],
        int(n[14]),
        int(n[15]),
    )


@compiled
def radius(model: Model, scoring: Scoring, clock: int) -> float:
    """The confidence radius of round t = clock + 1."""
    t = clock + 1.0
    n = t - scoring.sample_lag
    confidence = math.log(1.0 / scoring.delta)
    if model.memory == WINDOW:
        confidence = theory.union_log_confidence(t, scoring.horizon, scoring.delta)
        n = min(n, float(model.span))
    elif model.memory == DISCOUNT:
        n = theory.discounted_count(model.gamma, n)
    wide = theory.deviation(n, confidence, scoring.sigma, float(model.d), scoring.coefficient)
    return scoring.radius_scale * (wide + scoring.radius_offset)


@compiled
def _hash(x: int) -> int:
    """Mix 32 bits; every product fits 63, so that compiled and plain Python agree."""
    x ^= x >> 16
    x = (x * 0x21F0AAAD) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 0x735A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)


@compiled
def uniform(seed: int, t: int, stream: int) -> float:
    """A number in [0, 1) that is a function of (seed, round, stream) alone."""
    h = _hash(0x9E3779B9 ^ (seed & 0xFFFFFFFF))
    h = _hash(h ^ (seed >> 32))
    h = _hash(h ^ (t & 0xFFFFFFFF))
    h = _hash(h ^ (t >> 32))
    h = _hash(h ^ (2 * stream))
    low = _hash(h ^ (2 * stream + 1))
    return ((h >> 5) * 67108864.0 + (low >> 6)) / 9007199254740992.0


@compiled
def _bonus_matrix(model: Model, scoring: Scoring, state: State, B: Floats) -> None:
    C = np.empty((model.d, model.d))
    cholesky(state.V, C)
    inverse(C, B)
    if scoring.sandwiched:
        W_inverse = B.copy()
        sandwich(W_inverse, state.V2, B)


@compiled
def model_row(scoring: Scoring, action: Floats, out: Floats) -> int:
    """out := the action as the model sees it; says whether it may be used."""
    total = 0.0
    for j in range(scoring.dim):
        total += action[j] * action[j]
        out[j] = action[j]
    if scoring.intercept:
        out[scoring.dim] = 1.0
    if not math.isfinite(total):
        return NOT_FINITE
    if total > (scoring.longest * (1.0 + LENGTH_TOLERANCE)) ** 2:
        if not scoring.rescale:
            return TOO_LONG
        shrink = scoring.longest / math.sqrt(total)
        for j in range(scoring.dim):
            out[j] *= shrink
    return ACCEPTED


@compiled
def score(
    model: Model, scoring: Scoring, state: State, actions: Floats, means: Floats, widths: Floats
) -> int:
    """means and widths of every action under the fitted state; says whether all may be used."""
    d = model.d
    a = np.empty(d)
    B = np.empty((d, d))
    wide = 0.0
    if scoring.score == UCB:
        _bonus_matrix(model, scoring, state, B)
        wide = scoring.bonus_scale * radius(model, scoring, state.counters[N])
    for i in range(actions.shape[0]):
        verdict = model_row(scoring, actions[i], a)
        if verdict != ACCEPTED:
            return verdict
        means[i] = 0.0
        widths[i] = 0.0
        if scoring.score != CONSTANT:
            z = dot(a, state.theta)
            means[i] = scoring.centre + links.mean(model.link, model.m, z)
        if scoring.score == UCB:
            widths[i] = wide * math.sqrt(quadratic_form(B, a))
    return ACCEPTED


@compiled
def pick(epsilon: float, scores: Floats, taken: Ints, seed: int, t: int) -> tuple[int, float]:
    """The best action that is not taken, ties by the seed, mixed with a uniform draw.

    Returns its index and the probability with which it was chosen.
    """
    free, tied = 0, 0
    best = -math.inf
    for i in range(scores.size):
        if taken[i]:
            continue
        free += 1
        if scores[i] > best:
            best = scores[i]
            tied = 0
        if scores[i] == best:
            tied += 1
    explore = epsilon > 0.0 and uniform(seed, t, 0) < epsilon
    place = int(uniform(seed, t, 1) * (free if explore else tied))
    chosen = -1
    for i in range(scores.size):
        if not taken[i] and (explore or scores[i] == best):
            if place == 0:
                chosen = i
                break
            place -= 1
    greedy_share = (1.0 - epsilon) / tied if scores[chosen] == best else 0.0
    return chosen, greedy_share + epsilon / free


@compiled
def decide(
    numbers: Floats,
    ladder: Ints,
    small: Floats,
    rows: Floats,
    counters: Ints,
    seed: int,
    actions: Floats,
    means: Floats,
    widths: Floats,
    chosen: Ints,
    propensities: Floats,
) -> int:
    """Fill `chosen` with distinct actions, best first, as rounds N+1, N+2, ..., and let them pass.

    Everything is computed at the clock as it stands; a set of actions that cannot be used
    changes nothing.
    """
    model = model_of(numbers)
    scoring = scoring_of(numbers)
    state = state_of(numbers, ladder, small, rows, counters)
    row = np.empty(model.d)
    for i in range(actions.shape[0]):
        verdict = model_row(scoring, actions[i], row)
        if verdict != ACCEPTED:
            return verdict
    fit(model, ladder, state)
    score(model, scoring, state, actions, means, widths)
    scores = means + widths
    taken = np.zeros(actions.shape[0], dtype=np.int64)
    for place in range(chosen.size):
        index, propensity = pick(scoring.epsilon, scores, taken, seed, counters[N] + 1 + place)
        chosen[place] = index
        propensities[place] = propensity
        taken[index] = 1
    advance(model, ladder, state, chosen.size)
    return ACCEPTED


@compiled
def update(
    numbers: Floats,
    ladder: Ints,
    small: Floats,
    rows: Floats,
    counters: Ints,
    action: Floats,
    reward: float,
    s: int,
) -> None:
    """Learn the reward of round s; `rows` must have room and s be young enough."""
    model = model_of(numbers)
    scoring = scoring_of(numbers)
    state = state_of(numbers, ladder, small, rows, counters)
    a = np.empty(model.d)
    model_row(scoring, action, a)
    absorb(model, ladder, state, a, reward - scoring.centre, s)


@compiled
def tick(
    numbers: Floats, ladder: Ints, small: Floats, rows: Floats, counters: Ints, rounds: int
) -> None:
    """Let time pass without a decision."""
    advance(model_of(numbers), ladder, state_of(numbers, ladder, small, rows, counters), rounds)


@compiled
def refit(numbers: Floats, ladder: Ints, small: Floats, rows: Floats, counters: Ints) -> None:
    """Bring the estimate up to date."""
    fit(model_of(numbers), ladder, state_of(numbers, ladder, small, rows, counters))
