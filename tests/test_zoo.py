"""`auto` learns from the columns and arms that people have as well as from good ones.

Every table is in good units as it is drawn: numbers are about 1 and centred, indicators are 0 or 1.
A share is a mean over `SEEDS`, and a seed draws the table anew. The margins are what a correct
build never exceeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

import driftbandits as db
from driftbandits.bench import Task
from zoo import (
    PREPARATIONS,
    Absurd,
    Floats,
    chosen_by,
    share_of_way,
    standardised,
    with_absurd,
)

pytestmark = pytest.mark.compiled

# Shares of right choices, over three seeds.
UNITS = 0.09
"""Behind the same table in good units."""
ROTATED = 0.22
"""The same, where columns are mixed: what the units of a column say of its importance is lost, and
models of 16 coefficients and more have a diagonal prior."""
ROTATED_LINUCB = 0.2
"""Behind LinUCB on whitened columns; the worst is .16, in 24 sparse columns that are mixed."""
LINUCB = 0.09
"""Behind the better of two bonuses of a plain LinUCB."""
LEVELS = 0.06
"""Between indicators with and without their redundant level."""
ABSURD_LOSS = 0.08
"""Behind the clean stream, for ordinary rows, 200 rounds after the first absurd number."""
USELESS = 25
"""Plays of an arm that never pays, in 600 rounds."""
# Shares of the way from random to best choices.
SHARED_LOSS = 0.12
"""Behind good units and clean numbers, with one model for all arms."""
ROUNDING = 1e-6
"""Difference of means that is due to rounding."""
LEARNED = 0.35
"""What LinUCB gains over chance at least, or a table would say nothing."""
LONE = 0.65
"""Share of the way from random to best choices, of 40 arms without features (.54 with bases that
are believed to be alike)."""


SEEDS = 3
ROUNDS = 600
AFTERMATH = 200
"""Rounds after the first absurd number from which on a loss counts."""
BONUSES = (0.1, 0.3)

# -- tables ----------------------------------------------------------------------------------------


def of_scores(rows: Floats, scores: Floats) -> Task:
    """The arm with the highest score pays."""
    T, K = scores.shape
    return Task(rows, np.eye(K)[scores.argmax(axis=1)], np.tile(np.arange(K), (T, 1)))


def of_labels(rows: Floats, labels: np.ndarray) -> Task:
    return of_scores(rows, np.eye(labels.max() + 1)[labels])


def gaussians(
    rng: np.random.Generator, dim: int = 6, arms: int = 4, spread: float = 0.6, T: int = ROUNDS
) -> Task:
    """Dense clusters, one arm each."""
    centres, labels = rng.normal(size=(arms, dim)), rng.integers(arms, size=T)
    return of_labels(centres[labels] + spread * rng.normal(size=(T, dim)), labels)


def sparse(rng: np.random.Generator, dim: int = 24, arms: int = 4, share: float = 0.2) -> Task:
    """Indicators that are mostly 0; the arm with most votes pays."""
    rows = (rng.random((ROUNDS, dim)) < share).astype(np.float64)
    votes = 3.0 * np.eye(arms)[np.arange(dim) % arms] + rng.normal(size=(dim, arms))
    return of_scores(rows, rows @ votes + 0.3 * rng.normal(size=(ROUNDS, arms)))


def rare(rng: np.random.Generator) -> Task:
    """Clusters, and eight indicators of 2 %, standardised: constant but not 0 until they move."""
    task = gaussians(rng, dim=5, arms=3)
    flags = (rng.random((ROUNDS, 8)) < 0.02).astype(np.float64)
    return task._replace(contexts=np.hstack([task.contexts, standardised(flags, rng)]))


def levels(rng: np.random.Generator, count: int = 10, arms: int = 4) -> Task:
    """A category as indicators, some levels rare, and two numbers; both say which arm pays."""
    shares = np.geomspace(1.0, 0.05, count)
    drawn = rng.choice(count, size=ROUNDS, p=shares / shares.sum())
    numbers = rng.normal(size=(ROUNDS, 2))
    scores = 2.0 * rng.normal(size=(count, arms))[drawn] + numbers @ rng.normal(size=(2, arms))
    return of_scores(np.hstack([np.eye(count)[drawn], numbers]), scores)


def late(rng: np.random.Generator, dim: int = 20) -> Task:
    """Two of the columns stand at 5 for 200 rounds; then they tell as much as the others."""
    task = gaussians(rng, dim=dim)
    rows = task.contexts.copy()
    rows[:, -2:] += 5.0
    rows[:200, -2:] = 5.0
    return task._replace(contexts=rows)


def newly_large(rng: np.random.Generator) -> Task:
    """A number that is about 1 at first; then it is 1,000 in a quarter of the rows, for one arm."""
    task = gaussians(rng, dim=5, arms=4)
    extra = rng.normal(size=ROUNDS)
    extra[150:] += 1000.0 * task.rewards[150:, 0]
    return task._replace(contexts=np.column_stack([task.contexts, extra]))


TABLES: Mapping[str, Callable[[np.random.Generator], Task]] = {
    "gaussians": gaussians,
    "sparse-24": sparse,
    "rare": rare,
    "levels": levels,
    "late-20": late,
    "newly-large": newly_large,
}
GOOD = "raw"
"""The preparation that others are held against."""


@lru_cache(maxsize=256)
def table(name: str, seed: int) -> Task:
    return TABLES[name](np.random.default_rng(seed))


def right(task: Task, player: str, seed: int) -> Floats:
    """Rewards of every round."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an absurd number may be warned of
        chosen = chosen_by(player, task, seed)
    return task.rewards[np.arange(len(chosen)), chosen]


@lru_cache(maxsize=512)
def prepared_right(name: str, prep: str, player: str, seed: int) -> Floats:
    """Rewards of every round of a table after a preparation."""
    task = table(name, seed)
    rows = PREPARATIONS[prep](task.contexts, np.random.default_rng([seed, 1]))
    return right(task._replace(contexts=rows), player, seed)


def share(name: str, prep: str, player: str = "auto") -> float:
    return float(np.mean([prepared_right(name, prep, player, seed) for seed in range(SEEDS)]))


def linucb_share(name: str, prep: str = "std") -> float:
    """The better of two bonuses: says that a table can be learned."""
    return max(share(name, prep, f"LinUCB {bonus:g}") for bonus in BONUSES)


# -- absurd numbers --------------------------------------------------------------------------------

ABSURD: Mapping[str, Absurd] = {
    "1 % x 1e6, one column": Absurd(1e6, 0.01, columns=1),
    ".2 % x 1e12": Absurd(1e12, 0.002),
    "round 1 x 1e6": Absurd(1e6, at=(0,)),
    "round 100 x -1e9, one column": Absurd(-1e9, columns=1, at=(99,)),
}


class Loss(NamedTuple):
    """Shares of right choices for ordinary rows, from AFTERMATH rounds on."""

    clean: float
    absurd: float


def absurd_loss(name: str, kind: str, prep: str = GOOD, player: str = "auto") -> Loss:
    """Shares of a table with absurd numbers, and of the same rounds without them."""
    clean, absurd = [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 1])
        task = table(name, seed)
        rows = PREPARATIONS[prep](task.contexts, rng)
        rows, hit = with_absurd(rows, ABSURD[kind], rng)
        later = np.arange(len(rows)) >= np.flatnonzero(hit)[0] + AFTERMATH
        counted = later & ~hit
        clean.append(prepared_right(name, prep, player, seed)[counted].mean())
        absurd.append(right(task._replace(contexts=rows), player, seed)[counted].mean())
    return Loss(float(np.mean(clean)), float(np.mean(absurd)))


# -- one model for all arms ------------------------------------------------------------------------


def scaled(actions: Floats, rng: np.random.Generator) -> Floats:
    """Units from a millionth to a million."""
    return actions * 10.0 ** rng.uniform(-6.0, 6.0, size=actions.shape[2])


def absurd_actions(actions: Floats, rng: np.random.Generator, kind: str) -> Floats:
    """Multiply one number, or the row, of one arm in 1 % of the rounds."""
    what, _, factor = kind.partition(" x ")
    changed = actions.copy()
    hit = np.append(60, 61 + np.flatnonzero(rng.random(len(actions) - 61) < 0.01))
    arms = rng.integers(actions.shape[1], size=len(hit))
    changed[hit, arms, slice(None) if what == "row" else 0] *= float(factor)
    return changed


@lru_cache(maxsize=256)
def shared_share(dim: int, what: str, arms: int = 6) -> float:
    """The share of the way from random to best choices, in the second half."""
    shares = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        actions, theta = rng.normal(size=(ROUNDS, arms, dim)), rng.normal(size=dim)
        means = 1.0 / (1.0 + np.exp(1.0 - 3.0 * actions @ theta / np.linalg.norm(theta)))
        rewards = (rng.random(means.shape) < means).astype(np.float64)
        if " x " in what:
            actions = absurd_actions(actions, rng, what)
        elif what == "scaled":
            actions = scaled(actions, rng)
        else:
            actions = PREPARATIONS[what](actions.reshape(-1, dim), rng).reshape(ROUNDS, arms, -1)
        agent = db.Agent(db.policy("auto", dim=actions.shape[2]), seed=seed)
        chosen = followed(agent, rewards, lambda t, actions=actions: {"actions": actions[t]})
        shares.append(share_of_way(means, chosen, since=ROUNDS // 2))
    return float(np.mean(shares))


def followed(agent: db.Agent, rewards: Floats, offered: Callable[[int], dict]) -> np.ndarray:
    """Choices of an agent that learns what it has chosen."""
    chosen = np.empty(len(rewards), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an absurd number may be warned of
        for t in range(len(rewards)):
            choice = agent.decide(**offered(t))
            chosen[t] = choice.index
            agent.update(choice, float(rewards[t, choice.index]))
    return chosen


# -- amounts as rewards ----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def amounts_share(reward: str, factor: float) -> float:
    """Right choices when the right arm pays about 10, and 1 % of the rewards are multiplied."""
    shares = []
    for seed in range(SEEDS):
        task = table("gaussians", seed)
        rng = np.random.default_rng([seed, 2])
        paid = task.rewards * rng.normal(10.0, 2.0, size=(ROUNDS, 1))
        hit = rng.random(ROUNDS) < 0.01
        hit[100] = True
        paid[hit] *= factor
        policy = db.policy("auto", dim=6, arms="separate", reward=reward)
        agent, rows = db.Agent(policy, seed=seed), task.contexts
        chosen = followed(agent, paid, lambda t, x=rows: {"actions": x[t], "arms": [0, 1, 2, 3]})
        shares.append(task.rewards[np.arange(ROUNDS), chosen][300:].mean())
    return float(np.mean(shares))


# -- the same plays -------------------------------------------------------------------------------

EXACT_ROUNDS = 250


class Plays(NamedTuple):
    """Rounds in which the caller decides: actions of all arms, which is played, what it pays."""

    actions: Floats  # (T, d) a context for separate arms, (T, K, d) otherwise
    played: np.ndarray  # (T,)
    rewards: Floats  # (T,)

    def mapped(self, change: Callable[[Floats], Floats]) -> Plays:
        """Change the columns."""
        rows = self.actions.reshape(-1, self.actions.shape[-1])
        return self._replace(actions=change(rows).reshape(*self.actions.shape[:-1], -1))


def drawn_plays(separate: bool, dim: int, seed: int, arms: int = 3) -> Plays:
    """Play the right arm half of the time."""
    rng = np.random.default_rng([seed, dim])
    T = EXACT_ROUNDS
    task = gaussians(rng, dim=dim, arms=arms, T=T)
    chance = rng.integers(arms, size=T)
    played = np.where(rng.random(T) < 0.5, task.rewards.argmax(axis=1), chance)
    if separate:
        return Plays(task.contexts, played, task.rewards[np.arange(T), played])
    actions = rng.normal(size=(T, arms, dim))
    z = 2.0 * actions[np.arange(T), played] @ rng.normal(size=dim) / np.sqrt(dim)
    return Plays(actions, played, (rng.random(T) < 1.0 / (1.0 + np.exp(-z))).astype(np.float64))


def believed(plays: Plays, arms: int = 3) -> tuple[Floats, Floats]:
    """Means and widths of all arms in every round, when the caller decides."""
    separate = plays.actions.ndim == 2
    dim = plays.actions.shape[-1]
    policy = db.policy("auto", dim=dim, arms="separate") if separate else db.policy("auto", dim=dim)
    agent = db.Agent(policy, seed=0)
    named = {"arms": list(range(arms))} if separate else {}
    means, widths = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an absurd number may be warned of
        for actions, played, reward in zip(*plays, strict=True):
            choice = agent.decide(actions, played=int(played), **named)
            agent.update(choice, float(reward))
            means.append(choice.means)
            widths.append(choice.widths)
    return np.array(means), np.array(widths)


# -- what is promised -----------------------------------------------------------------------------


@pytest.mark.parametrize("prep", [GOOD, "std-online", "far"])
@pytest.mark.parametrize("name", TABLES)
def test_units_cost_nothing(name, prep):
    found, simple = share(name, prep), linucb_share(name)
    assert simple > 1.0 / table(name, 0).rewards.shape[1] + LEARNED
    assert found > share(name, GOOD) - UNITS
    assert found > simple - LINUCB


@pytest.mark.parametrize("name", TABLES)
def test_columns_may_be_mixed(name):
    found = share(name, "mixed")
    assert found > share(name, GOOD) - ROTATED
    assert found > linucb_share(name, "whitened") - ROTATED_LINUCB


@pytest.mark.parametrize("name", ["gaussians", "sparse-24"])
def test_a_redundant_level_changes_nothing(name):
    shares = [share(name, prep) for prep in ("levels", "levels-less")]
    assert abs(shares[0] - shares[1]) < LEVELS
    assert min(shares) > linucb_share(name, "levels") - LINUCB


@pytest.mark.parametrize(
    ("name", "kind", "prep"),
    [
        *((name, kind, GOOD) for name in ("gaussians", "levels") for kind in ABSURD),
        ("rare", "1 % x 1e6, one column", "std"),
        ("late-20", "1 % x 1e6, one column", "components+30"),
    ],
)
def test_absurd_numbers_are_got_over(name, kind, prep):
    loss = absurd_loss(name, kind, prep)
    assert loss.absurd > loss.clean - ABSURD_LOSS


def test_a_useless_arm_is_left():
    """One arm never pays, beside five that pay for a cluster each."""
    played = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        task = gaussians(rng, dim=10, arms=5)
        rewards = np.column_stack([task.rewards, np.zeros(ROUNDS)])
        task = task._replace(rewards=rewards, arms=np.tile(np.arange(6), (ROUNDS, 1)))
        played.append((chosen_by("auto", task, seed) == 5).sum())
    assert np.mean(played) < USELESS


def test_many_arms_without_features_are_told_apart():
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rates = 1.0 / (1.0 + np.exp(-rng.normal(size=40)))
        rewards = rng.random((2000, 40)) < rates
        agent = db.Agent(db.policy("auto", dim=1, arms="separate"), seed=seed)
        chosen = followed(agent, rewards, lambda t: {"actions": [1.0], "arms": list(range(40))})
        shares.append(share_of_way(np.tile(rates, (2000, 1)), chosen, since=1000))
    assert np.mean(shares) > LONE


# -- one model for all arms ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "what"),
    [
        *((5, what) for what in ("raw", "mixed", "far", "scaled", "number x 1e12")),
        *((20, what) for what in ("raw", "scaled", "row x 1e6")),
    ],
)
def test_one_model_learns_in_any_units_and_gets_over_absurd_numbers(dim, what):
    if what == GOOD:
        assert shared_share(dim, what) > 0.8
    assert shared_share(dim, what) > shared_share(dim, GOOD) - SHARED_LOSS


@pytest.mark.parametrize(("reward", "factor"), [("amount", 1e9), ("amount:0..20", 1e3)])
def test_absurd_rewards_are_got_over(reward, factor):
    assert amounts_share(reward, factor) > amounts_share(reward, 1.0) - ABSURD_LOSS


# -- beliefs after the same plays ------------------------------------------------------------------

WIDE = {
    "a permutation": lambda rows, rng: rows[:, rng.permutation(rows.shape[1])],
    "a sign": lambda rows, rng: rows * rng.choice([-1.0, 1.0], size=rows.shape[1]),
    "other units": lambda rows, rng: rows * 10.0 ** rng.uniform(-9.0, 9.0, size=rows.shape[1]),
    "columns of zeros": lambda rows, rng: np.hstack([rows, np.zeros((len(rows), 3))]),
    "constants": lambda rows, rng: np.hstack([np.tile([1.0, -30.0], (len(rows), 1)), rows]),
}


@pytest.mark.parametrize("what", WIDE)
@pytest.mark.parametrize(("separate", "dim"), [(True, 5), (True, 20), (False, 5), (False, 20)])
def test_what_says_nothing_changes_nothing(separate, dim, what):
    for seed in range(2):
        plays = drawn_plays(separate, dim, seed)
        rng = np.random.default_rng(seed)
        changed = plays.mapped(lambda rows, rng=rng: WIDE[what](rows, rng))
        for mine, other in zip(believed(plays), believed(changed), strict=True):
            np.testing.assert_allclose(other, mine, rtol=0, atol=ROUNDING)
