"""`auto` learns from the columns and arms that people have as well as from good ones.

What is played stands in `zoo_cases.py`. The margins below are what a correct build never exceeds.
"""

from __future__ import annotations

import numpy as np
import pytest

import driftbandits as db
import zoo_cases as zoo

pytestmark = pytest.mark.compiled

# Shares of right choices, over `zoo_cases.SEEDS` seeds.
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
ABSURD = 0.08
"""Behind the clean stream, for ordinary rows, 200 rounds after the first absurd number."""
MANY_ARMS = 0.05
"""Behind LinUCB where arms are many."""
USELESS = 25
"""Plays of an arm that never pays, in 600 rounds."""
# Shares of the way from random to best choices.
SHARED = 0.12
"""Behind good units and clean numbers, with one model for all arms."""
VISITS = 0.2
"""Behind clean visits, with features."""
# Beliefs after the same plays.
LEVERAGE = 14.0
"""Movement of predictions by an absurd row, over the most that an ordinary row moves them.

Least squares whose columns are each cut off at about four deviations has 4.1 at most."""
ROUNDING = 1e-6
"""Difference of means that is due to rounding."""
LEARNED = 0.35
"""What LinUCB gains over chance at least, or a table would say nothing."""
LONE = 0.65
"""Share of the way from random to best choices, of 40 arms without features (.54 with bases that
are believed to be alike)."""


QUICK = {
    *("gaussians", "sparse-24", "rare", "late-20", "newly-large", "levels"),
    *("std-online", "far", "mixed"),
    *("1 % x 1e6, one column", ".2 % x 1e12", "round 1 x 1e6", "round 100 x -1e9, one column"),
    *("5 arms", "40 arms", "20 arms, two replaced every 500 rounds"),
}
"""Tables, preparations and absurdities that are played every time; the others are slow tests."""


def cases(argument, names):
    marks = {name: () if name in QUICK else pytest.mark.slow for name in names}
    return pytest.mark.parametrize(argument, [pytest.param(n, marks=marks[n]) for n in names])


@pytest.mark.parametrize("name", zoo.TABLES)
def test_a_table_can_be_learned(name):
    arms = zoo.table(name, 0).rewards.shape[1]
    assert zoo.linucb_share(name) > 1.0 / arms + LEARNED


@cases("prep", [zoo.GOOD, *(p for p in zoo.PREPS if p not in zoo.ROTATIONS)])
@cases("name", zoo.TABLES)
def test_units_cost_nothing(name, prep):
    found = zoo.share(name, prep)
    assert found > zoo.share(name, zoo.GOOD) - UNITS
    assert found > zoo.linucb_share(name) - LINUCB


@cases("prep", zoo.ROTATIONS)
@cases("name", zoo.TABLES)
def test_columns_may_be_mixed(name, prep):
    found = zoo.share(name, prep)
    assert found > zoo.share(name, zoo.GOOD) - ROTATED
    assert found > zoo.linucb_share(name, "whitened") - ROTATED_LINUCB


@pytest.mark.parametrize("name", ["gaussians", "sparse", "amounts", "counts"])
def test_a_redundant_level_changes_nothing(name):
    shares = [zoo.share(name, prep) for prep in ("levels", "levels-less")]
    assert abs(shares[0] - shares[1]) < LEVELS
    assert min(shares) > zoo.linucb_share(name, "levels") - LINUCB


@cases("kind", zoo.ABSURD)
@cases("name", zoo.ABSURD_TABLES)
def test_absurd_numbers_are_got_over(name, kind):
    loss = zoo.absurd_loss(name, kind)
    assert loss.absurd > loss.clean - ABSURD


@pytest.mark.parametrize("prep", ["std", "components+30"])
@pytest.mark.parametrize("name", ["rare", "late-20"])
def test_absurd_numbers_are_got_over_in_other_units(name, prep):
    loss = zoo.absurd_loss(name, "1 % x 1e6, one column", prep)
    assert loss.absurd > loss.clean - ABSURD


@cases("name", zoo.MANY_ARMS)
def test_many_arms_are_learned(name):
    assert zoo.many_arms_share(name) > zoo.best_linucb_with_many_arms(name) - MANY_ARMS


def test_a_useless_arm_is_left():
    assert zoo.plays_of_a_useless_arm() < USELESS


def test_many_arms_without_features_are_told_apart():
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rates = 1.0 / (1.0 + np.exp(-rng.normal(size=40)))
        rewards = rng.random((2000, 40)) < rates
        agent = db.Agent(db.policy("auto", dim=1, arms="separate"), seed=seed)
        chosen = np.empty(2000, dtype=np.int64)
        for t in range(2000):
            choice = agent.decide([1.0], arms=list(range(40)))
            chosen[t] = choice.index
            agent.update(choice, float(rewards[t, choice.index]))
        shares.append(zoo.share_of_way(np.tile(rates, (2000, 1)), chosen, since=1000))
    assert np.mean(shares) > LONE


# -- one model for all arms ------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.SHARED)
def test_one_model_learns_in_any_units_and_gets_over_absurd_numbers(name):
    world, _, what = name.rpartition(", ")
    if what == zoo.GOOD:
        assert zoo.shared_share(name) > 0.8
    assert zoo.shared_share(name) > zoo.shared_share(f"{world}, {zoo.GOOD}") - SHARED


@pytest.mark.parametrize(
    ("items", "absurd"),
    [(5, absurd) for absurd in zoo.ABSURD_VISITS]
    + [(40, absurd) for absurd in zoo.ABSURD_VISITS if "age" in absurd],
)
def test_absurd_visits_are_got_over(items, absurd):
    assert zoo.visits_share(items, absurd) > zoo.visits_share(items, "clean") - VISITS


@pytest.mark.parametrize("factor", [1e3, 1e9])
@pytest.mark.parametrize("reward", ["amount", "amount:0..20"])
def test_absurd_rewards_are_got_over(reward, factor):
    assert zoo.amounts_share(reward, factor) > zoo.amounts_share(reward, 1.0) - ABSURD


# -- beliefs after the same plays ------------------------------------------------------------------

WIDE = {
    "a permutation": lambda rows, rng: rows[:, rng.permutation(rows.shape[1])],
    "a sign": lambda rows, rng: rows * rng.choice([-1.0, 1.0], size=rows.shape[1]),
    "other units": lambda rows, rng: rows * 10.0 ** rng.uniform(-9.0, 9.0, size=rows.shape[1]),
    "columns of zeros": lambda rows, rng: np.hstack([rows, np.zeros((len(rows), 3))]),
    "constants": lambda rows, rng: np.hstack([np.tile([1.0, -30.0], (len(rows), 1)), rows]),
}


@pytest.mark.parametrize("what", WIDE)
@pytest.mark.parametrize("dim", [5, 20])
@pytest.mark.parametrize("separate", [True, False], ids=["separate", "shared"])
def test_what_says_nothing_changes_nothing(separate, dim, what):
    for seed in range(2):
        plays = zoo.drawn_plays(separate, dim, seed)
        rng = np.random.default_rng(seed)
        changed = plays.mapped(lambda rows, rng=rng: WIDE[what](rows, rng))
        for mine, other in zip(zoo.believed(plays), zoo.believed(changed), strict=True):
            np.testing.assert_allclose(other, mine, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", zoo.LEVERAGE)
def test_an_absurd_row_moves_no_more_than_an_ordinary_one(name):
    absurd, ordinary = zoo.leverage(*zoo.LEVERAGE[name])
    assert absurd < LEVERAGE * ordinary
