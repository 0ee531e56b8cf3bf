"""Small tables and worlds for `test_zoo.py`: what is played, and what share of it came out right.

Every table is in good units as it is drawn: numbers are about 1 and centred, indicators are 0 or 1.
A share is a mean over `SEEDS`, and a seed draws the table anew.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from zoo_columns import INVERTIBLE, PREPARATIONS, Absurd, Floats, standardised, with_absurd
from zoo_players import chosen_by, share_of_way, way_to_best
from zoo_streams import FEATURES, Task, Visits, clusters, visits

import driftbandits as db

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


def sparse(rng: np.random.Generator, dim: int = 12, arms: int = 3, share: float = 0.2) -> Task:
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


def amounts(rng: np.random.Generator) -> Task:
    """Log-normal columns; the largest of four, in its own units, names the arm."""
    logs = rng.normal(size=(ROUNDS, 6))
    scores = logs[:, :4] + 0.1 * rng.normal(size=(ROUNDS, 4))
    return of_scores(np.exp(logs), scores)


def counts(rng: np.random.Generator) -> Task:
    """Integers with a rate for every column and arm."""
    labels = rng.integers(4, size=ROUNDS)
    rates = rng.gamma(2.0, 3.0, size=(4, 8))
    return of_labels(rng.poisson(rates[labels]).astype(np.float64), labels)


def late(rng: np.random.Generator, dim: int = 6) -> Task:
    """Two of the columns stand at 5 for 200 rounds; then they tell as much as the others."""
    task = gaussians(rng, dim=dim)
    rows = task.contexts.copy()
    rows[:, -2:] += 5.0
    rows[:200, -2:] = 5.0
    return task._replace(contexts=rows)


def returning(rng: np.random.Generator) -> Task:
    """Indicators that come, stay away for 400 rounds, and come back for the last 100."""
    task = gaussians(rng, dim=5)
    flags = (rng.random((ROUNDS, 3)) < 0.3).astype(np.float64)
    flags[100:500] = 0.0
    return task._replace(contexts=np.hstack([task.contexts, flags]))


def newly_large(rng: np.random.Generator) -> Task:
    """A number that is about 1 at first; then it is 1,000 in a quarter of the rows, for one arm."""
    task = gaussians(rng, dim=5, arms=4)
    extra = rng.normal(size=ROUNDS)
    extra[150:] += 1000.0 * task.rewards[150:, 0]
    return task._replace(contexts=np.column_stack([task.contexts, extra]))


TABLES: Mapping[str, Callable[[np.random.Generator], Task]] = {
    "gaussians": gaussians,
    "gaussians-20": lambda rng: gaussians(rng, dim=20, arms=5, spread=1.2),
    "sparse": sparse,
    "sparse-24": lambda rng: sparse(rng, dim=24, arms=4),
    "rare": rare,
    "levels": levels,
    "amounts": amounts,
    "counts": counts,
    "late": late,
    "late-20": lambda rng: late(rng, dim=20),
    "returning": returning,
    "newly-large": newly_large,
}
GOOD = "raw"
"""The preparation that others are held against."""
ROTATIONS = ("whitened", "components+30", "mixed")
PREPS = tuple(prep for prep in INVERTIBLE if prep not in ("raw", "min-max"))


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
    "1 % x 1e3": Absurd(1e3, 0.01),
    "1 % x 1e6, one column": Absurd(1e6, 0.01, columns=1),
    "1 % x 1e12, two columns": Absurd(1e12, 0.01, columns=2),
    ".2 % x 1e12": Absurd(1e12, 0.002),
    "round 1 x 1e6": Absurd(1e6, at=(0,)),
    "round 2 x 1e12, one column": Absurd(1e12, columns=1, at=(1,)),
    "round 100 x 1e4": Absurd(1e4, at=(99,)),
    "round 100 x -1e9, one column": Absurd(-1e9, columns=1, at=(99,)),
    "rounds 200 to 202 x 1e7": Absurd(1e7, at=(199, 200, 201)),
}
ABSURD_TABLES = ("gaussians", "gaussians-20", "sparse", "amounts", "levels")


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


# -- many arms -------------------------------------------------------------------------------------

ARMS_ROUNDS = 1500


def runs_of_ten(rng: np.random.Generator) -> Task:
    """Forty objects, each seen ten times in a row before the next one."""
    centres = rng.normal(size=(40, 20))
    labels = np.repeat(rng.integers(40, size=ARMS_ROUNDS // 10), 10)
    return Task(
        centres[labels] + 0.3 * rng.normal(size=(ARMS_ROUNDS, 20)),
        np.eye(40)[labels],
        np.tile(np.arange(40), (ARMS_ROUNDS, 1)),
    )


MANY_ARMS: Mapping[str, Callable[[np.random.Generator], Task]] = {
    "5 arms": lambda rng: clusters(5, rng, ARMS_ROUNDS),
    "10 arms": lambda rng: clusters(10, rng, ARMS_ROUNDS),
    "20 arms": lambda rng: clusters(20, rng, ARMS_ROUNDS),
    "40 arms": lambda rng: clusters(40, rng, 2 * ARMS_ROUNDS),
    "40 arms, runs of ten": runs_of_ten,
    "20 arms, two replaced every 500 rounds": lambda rng: clusters(
        20, rng, ARMS_ROUNDS, renewed=0.1
    ),
    "20 arms and a useless one": lambda rng: clusters(20, rng, ARMS_ROUNDS, useless=1),
}


def many_arms_share(name: str, player: str = "auto") -> float:
    shares = []
    for seed in range(SEEDS):
        task = MANY_ARMS[name](np.random.default_rng(seed))
        shares.append(right(task, player, seed).mean())
    return float(np.mean(shares))


def best_linucb_with_many_arms(name: str) -> float:
    return max(many_arms_share(name, f"LinUCB {bonus:g}") for bonus in BONUSES)


def plays_of_a_useless_arm() -> float:
    """Count plays of an arm that never pays, beside five others."""
    played = []
    for seed in range(SEEDS):
        task = clusters(5, np.random.default_rng(seed), ROUNDS, useless=1)
        played.append((chosen_by("auto", task, seed) == 5).sum())
    return float(np.mean(played))


# -- one model for all arms ------------------------------------------------------------------------

Actions = Callable[[np.random.Generator], tuple[Floats, Floats]]


def vectors(rng: np.random.Generator, dim: int, arms: int = 6) -> tuple[Floats, Floats]:
    """Features for every arm, drawn anew in every round, and means."""
    actions = rng.normal(size=(ROUNDS, arms, dim))
    theta = rng.normal(size=dim)
    z = 3.0 * actions @ theta / np.linalg.norm(theta) - 1.0
    return actions, 1.0 / (1.0 + np.exp(-z))


def fixed_arms(rng: np.random.Generator, arms: int) -> tuple[Floats, Floats]:
    """One-hot actions; one arm in five is good."""
    rates = np.where(np.arange(arms) % 5 == 2, 0.8, 0.2) + rng.uniform(-0.1, 0.1, size=arms)
    return np.tile(np.eye(arms), (ROUNDS, 1, 1)), np.tile(rates, (ROUNDS, 1))


def crossed_arms(rng: np.random.Generator, arms: int = 5) -> tuple[Floats, Floats]:
    """The context in the block of its arm: separate arms by hand."""
    context = np.column_stack([rng.normal(size=(ROUNDS, 3)), np.ones(ROUNDS)])
    actions = np.einsum("ij,tk->tijk", np.eye(arms), context).reshape(ROUNDS, arms, -1)
    z = 2.0 * np.einsum("tk,ik->ti", context, rng.normal(size=(arms, 4)))
    return actions, 1.0 / (1.0 + np.exp(-z))


def prepared_actions(actions: Floats, prep: str, rng: np.random.Generator) -> Floats:
    """Prepare the actions of all rounds and arms as one table."""
    T, K, dim = actions.shape
    return PREPARATIONS[prep](actions.reshape(T * K, dim), rng).reshape(T, K, -1)


def scaled(actions: Floats, rng: np.random.Generator) -> Floats:
    """Units from a millionth to a million."""
    return actions * 10.0 ** rng.uniform(-6.0, 6.0, size=actions.shape[2])


def absurd_actions(actions: Floats, rng: np.random.Generator, kind: str) -> Floats:
    """Multiply one number, or the row, of one arm in 1 % of the rounds."""
    what, _, factor = kind.partition(" x ")
    changed = actions.copy()
    hit = np.append(60, 61 + np.flatnonzero(rng.random(len(actions) - 61) < 0.01))
    arms = rng.integers(actions.shape[1], size=len(hit))
    columns = slice(None) if what == "row" else 0
    changed[hit, arms, columns] *= float(factor)
    return changed


SHARED: Mapping[str, tuple[Actions, str]] = {
    **{
        f"vectors, d = {dim}, {what}": (lambda rng, dim=dim: vectors(rng, dim), what)
        for dim in (5, 20)
        for what in (
            *("raw", "mixed", "std", "twice", "constants", "far", "scaled"),
            *("number x 1e4", "number x 1e12", "row x 1e6"),
        )
    },
    **{
        f"{arms} fixed arms, {what}": (lambda rng, arms=arms: fixed_arms(rng, arms), what)
        for arms in (5, 40)
        for what in ("raw", "std", "components+30")
    },
    **{
        f"crossed arms, {what}": (crossed_arms, what)
        for what in ("raw", "std", "mixed", "scaled", "row x 1e6")
    },
}


@lru_cache(maxsize=256)
def shared_share(name: str) -> float:
    """The share of the way from random to best choices, in the second half."""
    draw, what = SHARED[name]
    shares = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        actions, means = draw(rng)
        rewards = (rng.random(means.shape) < means).astype(np.float64)
        if " x " in what:
            actions = absurd_actions(actions, rng, what)
        elif what == "scaled":
            actions = scaled(actions, rng)
        else:
            actions = prepared_actions(actions, what, rng)
        chosen = chosen_of_vectors(actions, rewards, seed)
        shares.append(share_of_way(means, chosen, since=ROUNDS // 2))
    return float(np.mean(shares))


def chosen_of_vectors(actions: Floats, rewards: Floats, seed: int) -> np.ndarray:
    """Choices of one model for all arms."""
    agent = db.Agent(db.policy("auto", dim=actions.shape[2]), seed=seed)
    chosen = np.empty(len(actions), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an absurd number may be warned of
        for t, offered in enumerate(actions):
            choice = agent.decide(offered)
            chosen[t] = choice.index
            agent.update(choice, float(rewards[t, choice.index]))
    return chosen


# -- tables of visits, and amounts as rewards ------------------------------------------------------

VISITS = 1000
OF_MANY_ITEMS = db.Features(
    context={"age": "number"}, arm={"item": "category"}, cross=[("item", "age")]
)
"""Fewer coordinates, so that forty items are quick."""
ABSURD_VISITS = ("one age x 1e5", "ages x 1e3, 1 %", "baskets x 1e12, 1 %", "prices x 1e6, 1 %")


def shown(visits: Visits, features: db.Features) -> Visits:
    """Leave only the columns that the features name."""
    return visits._replace(
        contexts=[{n: row[n] for n in features.context} for row in visits.contexts],
        offers=[
            {item: {n: row[n] for n in features.arm} for item, row in offer.items()}
            for offer in visits.offers
        ],
    )


@lru_cache(maxsize=64)
def visits_share(items: int, absurd: str) -> float:
    """The share of the way from random to best choices, in the second half."""
    features = FEATURES if items < 10 else OF_MANY_ITEMS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an absurd number may be warned of
        shares = [
            way_to_best(
                shown(visits(items, absurd, np.random.default_rng(seed), VISITS), features),
                seed,
                features,
            )
            for seed in range(SEEDS)
        ]
    return float(np.mean(shares))


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
        agent = db.Agent(policy, seed=seed)
        chosen = np.empty(ROUNDS, dtype=np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an absurd number may be warned of
            for t, context in enumerate(task.contexts):
                choice = agent.decide(context, arms=[0, 1, 2, 3])
                chosen[t] = choice.index
                agent.update(choice, float(paid[t, choice.index]))
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


def moved(plays: Plays, at: int, row: Floats, reward: float, plain: Floats) -> float:
    """Mean change of the next 50 predictions when one row and its reward are others."""
    actions, rewards = plays.actions.copy(), plays.rewards.copy()
    actions[at], rewards[at] = row, reward
    means, _ = believed(plays._replace(actions=actions, rewards=rewards))
    return float(np.abs(means - plain)[at + 1 : at + 51].mean())


@lru_cache(maxsize=128)
def leverage(separate: bool, dim: int, at: int, factor: float) -> tuple[float, float]:
    """Movement by a row that is multiplied, and the most by six other ordinary rows."""
    absurd, ordinary = [], []
    for seed in range(2):
        plays = drawn_plays(separate, dim, seed)
        plain, _ = believed(plays)
        others = np.random.default_rng(seed).choice(np.arange(EXACT_ROUNDS), size=6, replace=False)
        flipped = (plays.rewards[at], 1.0 - plays.rewards[at])
        big = factor * plays.actions[at]
        absurd += [moved(plays, at, big, reward, plain) for reward in flipped]
        ordinary += [
            moved(plays, at, plays.actions[i], reward, plain) for i in others for reward in flipped
        ]
    return max(absurd), max(ordinary)


LEVERAGE: Mapping[str, tuple[bool, int, int, float]] = {
    f"{'separate' if separate else 'shared'}, d = {dim}, round {at + 1} x {factor:g}": (
        separate,
        dim,
        at,
        factor,
    )
    for separate in (True, False)
    for dim in (5, 20)
    for at, factor in ((1, 1e6), (100, 1e3), (100, 1e12), (180, -1e7))
}
