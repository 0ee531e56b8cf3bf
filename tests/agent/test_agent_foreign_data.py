"""Warming up from data that others have collected."""

import numpy as np
import pytest
from agent_checks import CALM, STEADY

import kinds
from policy_checks import Case, World


def foreign_rows(case, count):
    world = World(case, count, seed=21, largest=1)
    rows = np.vstack(world.sets)
    return rows, [world.reward(t, row) for t, row in enumerate(rows)]


@pytest.mark.parametrize("name", STEADY)
def test_learning_rows_is_having_played_them(name):
    case = Case(name, {**CALM, "intercept": True, "centre": 0.5})
    rows, rewards = foreign_rows(case, 30)
    taught, player = case.agent(), case.agent()
    taught.learn(rows[:10], rewards[:10])
    taught.learn(rows[10:], np.array(rewards[10:]))
    for row, reward in zip(rows, rewards, strict=True):
        player.update(player.decide([row]), reward)
    assert taught.clock == player.clock == 30
    assert (taught.pending, taught.late) == ((), 0)
    np.testing.assert_allclose(taught.theta_hat, player.theta_hat, rtol=1e-8, atol=1e-8)
    actions = World(case, 1, seed=22).sets[0]
    one, other = taught.decide(actions), player.decide(actions)
    assert one.index == other.index
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-8)


@pytest.mark.parametrize("name", STEADY)
def test_ages_say_when_rows_were_played(name):
    """Ages n-1..0, in any order, are the rounds that lead up to the present."""
    case = Case(name, {**CALM, "window": 12} if kinds.remembers_as_told(name) else CALM)
    rows, rewards = foreign_rows(case, 20)
    taught, aged = case.agent(), case.agent()
    taught.learn(rows, rewards)
    aged.tick(20)
    order = np.random.default_rng(0).permutation(20)
    aged.learn(rows[order], np.array(rewards)[order], ages=(19 - np.arange(20))[order])
    assert aged.clock == 20
    assert aged.late == (8 if case.policy().window else 0)
    np.testing.assert_allclose(aged.theta_hat, taught.theta_hat, rtol=1e-8, atol=1e-8)
    actions = World(case, 1, seed=22).sets[0]
    np.testing.assert_allclose(
        aged.decide(actions).scores, taught.decide(actions).scores, rtol=1e-8
    )


def test_foreign_rows_are_rescaled_like_actions():
    made = {"too_long": "rescale"}
    one, other = Case("LogisticUCB", made).agent(), Case("LogisticUCB", made).agent()
    one.learn([[3.0, 4.0]], [1.0])
    other.learn([[0.6, 0.8]], [1.0])
    np.testing.assert_allclose(one.theta_hat, other.theta_hat, rtol=1e-12)
