"""Off-policy values against worlds whose truth is known."""

import json
import math

import numpy as np
import pytest
import scipy.stats

import driftbandits as db
import kinds
from driftbandits.cli.commands import BAD_USAGE, DONE
from driftbandits.cli.commands import run as run_command
from driftbandits.evaluate import Log, evaluate, write_log
from driftbandits.evaluate.estimators import (
    choice_probabilities,
    effective_rounds,
    mean_value,
    ratio_of_means,
    replay,
    reward_model,
    student_quantile,
)
from driftbandits.experiments import play

THETA = np.array([1.6, -1.0, 0.6])
TASTE = np.array([0.8, 0.8, -0.8])  # of the logging policy


class World:
    """Random actions of length at most 1, a softmax logger, everything that is true of them."""

    def __init__(self, seed, n, *, arms=4, theta=THETA, taste=TASTE):
        rng = np.random.default_rng(seed)
        actions = rng.normal(size=(n, arms, 3))
        self.actions = actions / np.maximum(1.0, np.linalg.norm(actions, axis=2, keepdims=True))
        self.means = 1.0 / (1.0 + np.exp(-(self.actions @ np.transpose(theta))))
        if np.ndim(theta) == 2:  # a parameter for each round
            self.means = 1.0 / (1.0 + np.exp(-np.einsum("tkd,td->tk", self.actions, theta)))
        odds = np.exp(self.actions @ taste)
        self.probabilities = odds / odds.sum(axis=1, keepdims=True)
        draws = rng.random(n)
        self.chosen = (self.probabilities.cumsum(axis=1) > draws[:, None]).argmax(axis=1)
        self.rows = np.arange(n)
        self.outcomes = (rng.random((n, arms)) < self.means).astype(float)
        self.rewards = self.outcomes[self.rows, self.chosen]

    def log(self, **changes):
        columns = {
            "event_id": [f"e{i}" for i in self.rows],
            "at": self.rows * 10**9,
            "arms": list(self.actions),
            "chosen": self.chosen,
            "propensity": self.probabilities[self.rows, self.chosen],
            "reward": self.rewards,
        }
        return Log(**{**columns, **changes})


def greedy_agent(epsilon=0.1):
    """An agent that has seen a little: a fixed target, good but not perfect."""
    agent = db.Agent(db.policy("greedy", dim=3, epsilon=epsilon))
    agent.learn(np.eye(3), [1.0, 0.0, 1.0])
    return agent


def close(values, truth, *, errors=4.0):
    """Whether the mean of independent values agrees with the truth."""
    values = np.asarray(values)
    return abs(values.mean() - truth) <= errors * values.std(ddof=1) / math.sqrt(len(values))


# --- the target's probabilities ------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [{"name": "D-GLUCB", "discount": 0.9, "epsilon": 0.2}, {"name": "random"}]
)
def test_probabilities_are_those_of_the_agents_own_decisions(given):
    agent = db.Agent(db.policy(dim=3, **given))
    agent.learn(np.eye(3), [1.0, 0.0, 1.0])
    before = agent.digest
    actions = World(0, 40).actions
    sets = [offered[: 1 + t % 4] for t, offered in enumerate(actions)]
    sets[3] = np.repeat(sets[3][:1], 3, axis=0)  # three actions alike: a tie
    pi = np.split(choice_probabilities(agent, sets), np.cumsum([len(s) for s in sets])[:-1])
    assert agent.digest == before
    for probabilities, offered in zip(pi, sets, strict=True):
        assert probabilities.sum() == pytest.approx(1.0)
        decision = db.Agent.from_bytes(agent.to_bytes()).decide(offered)
        assert probabilities[decision.index] == pytest.approx(decision.propensity)
    np.testing.assert_allclose(pi[3], 1 / 3)


class Whimsical(db.Agent):
    """An agent that does not go by its scores."""

    def preview(self, actions, *, seed):
        choice = super().preview(actions, seed=seed)
        choice.propensity = 0.7
        return choice


def test_a_target_that_draws_its_scores_can_only_be_replayed():
    log = World(0, 60).log()
    with pytest.raises(ValueError, match=r"greedy draws its scores.*only replay can evaluate it"):
        evaluate(log, Whimsical(db.policy("greedy", dim=3)))


@pytest.mark.compiled
@pytest.mark.parametrize("name", kinds.one_of_each(lambda name: True))
def test_every_policy_can_be_a_target(name):
    result = evaluate(World(4, 200).log(), db.policy(name, dim=3, horizon=200), windows=2)
    frozen = {"IPS", "SNIPS", "DR"} & set(result.overall)
    assert "replay" in result.overall
    assert len(frozen) == 3 or any("only replay" in note for note in result.notes)
    for value in result.overall.values():
        assert 0.0 < value.value < 1.2


# --- values and intervals ------------------------------------------------------------------------


def test_the_estimators_by_hand():
    values = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    weights = np.array([2.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    rounds = 36 / 8
    t = student_quantile(0.975, rounds - 1)
    ips = mean_value(weights * values, level=0.95, rounds=effective_rounds(weights))
    assert ips.value == pytest.approx(3 / 6)
    assert ips.high - ips.value == pytest.approx(t * np.std(weights * values, ddof=1) / 6**0.5)
    snips = ratio_of_means(values, weights, level=0.95)
    assert snips.value == pytest.approx(3 / 6)
    # every residual is a half; a weight of 1 is a sixth of all, a weight of 2 a third
    parts = [1 / 3 * 0.5 / (2 / 3), *[1 / 6 * 0.5 / (5 / 6)] * 4]
    assert snips.value - snips.low == pytest.approx(t * math.hypot(*parts))
    assert ips.rounds == snips.rounds == pytest.approx(rounds)
    narrow = mean_value(values, level=0.5)
    wide = mean_value(values, level=0.95)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def test_the_quantiles_are_students():
    for freedom in (3, 5.5, 10, 100, 1e6):
        for probability in (0.75, 0.9, 0.975, 0.995):
            expected = scipy.stats.t.ppf(probability, freedom)
            assert student_quantile(probability, freedom) == pytest.approx(expected, rel=0.02)
    assert student_quantile(0.975, 10) == pytest.approx(scipy.stats.t.ppf(0.975, 10), rel=1e-4)


def test_too_few_rounds_have_no_interval():
    for few in (0, 1, 4):
        value = mean_value(np.ones(few), level=0.9)
        assert math.isnan(value.low)
        assert math.isnan(value.high)
        assert value.rounds == few
    assert math.isnan(mean_value(np.empty(0), level=0.9).value)
    assert mean_value(np.ones(4), level=0.9).value == 1.0
    assert mean_value(np.ones(5), level=0.9).low == 1.0
    assert math.isnan(ratio_of_means(np.ones(2), np.zeros(2), level=0.9).value)
    heavy = ratio_of_means(np.ones(9), np.array([1.0] * 8 + [1e9]), level=0.9)
    assert heavy.value == 1.0
    assert math.isnan(heavy.high)


@pytest.mark.compiled
def test_a_frozen_target_is_estimated_without_bias_and_covered():
    agent, runs = greedy_agent(), 150
    big = World(10**6, 100_000)
    pi = choice_probabilities(agent, list(big.actions)).reshape(big.means.shape)
    truth = float((pi * big.means).sum(axis=1).mean())
    found = [evaluate(World(run, 300).log(), agent, windows=2).overall for run in range(runs)]
    spread = {}
    for name in ("IPS", "SNIPS", "DR"):
        values = np.array([overall[name].value for overall in found])
        covered = [overall[name].low <= truth <= overall[name].high for overall in found]
        assert close(values, truth), name
        # 95 % of 150, give or take three standard deviations
        assert 0.95 - 0.054 <= np.mean(covered) <= 1.0, name
        spread[name] = values.std()
    logged = np.array([overall["logged"].value for overall in found])
    assert not close(logged, truth)
    assert spread["DR"] < spread["IPS"]
    assert spread["SNIPS"] < spread["IPS"]


def test_a_reward_model_is_learned_from_earlier_windows_only():
    world = World(3, 400)
    policy = db.policy("LogisticUCB", dim=3)
    half = slice(200, 400)
    model = reward_model(world.log(), policy, rounds=slice(0, 200), of=half)
    later = world.rewards.copy()
    later[half] = 1.0 - later[half]
    again = reward_model(world.log(reward=later), policy, rounds=slice(0, 200), of=half)
    np.testing.assert_array_equal(model, again)
    assert np.corrcoef(model, world.means[half].ravel())[0, 1] > 0.9
    nothing = reward_model(world.log(), policy, rounds=slice(0, 0), of=half)
    np.testing.assert_array_equal(nothing, np.zeros(800))


@pytest.mark.compiled
def test_a_learning_target_is_replayed_without_bias():
    """Against the same policy living in the world, with the rewards of a share c of its rounds."""
    policy = db.policy("LogisticUCB", dim=3, bonus_scale=0.05, S=2.0)
    runs, n = 120, 400
    taste = 0.5 * THETA  # the logger likes what is good, most of all where much is to be gained
    replayed, lived, gained, gained_without_thinning, covered = [], [], [], [], []
    for run in range(runs):
        world = World(run, n, arms=2, taste=taste)
        log, best = world.log(), world.means.max(axis=1)
        accepted, share = replay(log, policy, seed=run)
        value = mean_value(world.rewards[accepted], level=0.95)
        truth = world.means[world.rows, world.chosen][accepted].mean()
        covered.append(value.low <= truth <= value.high)
        replayed.append(value.value)
        gained.append(best[accepted].mean() - best.mean())
        agreed = play(policy, log.trace(), run, record=("chosen",)).chosen == world.chosen
        gained_without_thinning.append(best[agreed].mean() - best.mean())

        fresh = World(10_000 + run, n, arms=2, taste=taste)
        seen = np.random.default_rng(run).random(n) < share
        outcomes = np.where(seen[:, None], fresh.outcomes, np.nan)
        chosen = play(
            policy, db.Trace(fresh.actions, outcomes, partial=True), run, record=("chosen",)
        ).chosen
        lived.append(fresh.means[fresh.rows, chosen][seen].mean())
    assert close(np.array(replayed) - np.array(lived), 0.0)
    assert np.mean(replayed) > 0.55
    assert np.mean(covered) >= 0.95 - 0.06
    assert close(gained, 0.0)  # accepted rounds are no better and no worse than others
    assert not close(gained_without_thinning, 0.0)


def test_accepted_rounds_are_where_the_policy_agrees():
    world = World(1, 150, arms=2, taste=np.zeros(3))
    policy = db.policy("D-GLUCB", dim=3, discount=0.95)
    accepted, share = replay(world.log(), policy, seed=4)
    assert share == 0.5
    agent = db.Agent(policy, seed=4)
    for t in range(150):
        decision = agent.decide(world.actions[t])
        assert accepted[t] == (decision.index == world.chosen[t])
        if accepted[t]:
            agent.update(decision, world.rewards[t])


# --- the whole -----------------------------------------------------------------------------------


@pytest.mark.compiled
def test_windows_follow_a_world_that_turns_around():
    n = 4000
    theta = np.where(np.arange(n)[:, None] < n // 2, THETA, -THETA)
    world = World(5, n, arms=2, theta=theta, taste=np.zeros(3))
    policy = db.policy("SW-GLUCB", dim=3, window=300, bonus_scale=0.05, S=2.0)
    result = evaluate(world.log(), policy, windows=8)
    assert result.target == "SW-GLUCB"
    assert result.notes == []
    assert [w.first for w in result.windows] == list(range(0, n, n // 8))
    assert [(w.begins, w.ends) for w in result.windows][1] == (500 * 10**9, 999 * 10**9)
    best = world.means.max(axis=1).mean()
    assert "IPS" not in result.windows[0].values
    for name in ("SNIPS", "DR"):
        by_window = [window.values[name].value for window in result.windows[1:]]
        # what was learned before the turn is as wrong after it as it was right before
        assert by_window[3] < 0.5 < min(by_window[:3] + by_window[4:])
        assert max(by_window) == pytest.approx(best, abs=0.08)
    replayed = [window.values["replay"] for window in result.windows]
    assert sum(value.rounds for value in replayed) == result.overall["replay"].rounds
    assert 0.45 * n < result.overall["replay"].rounds < 0.55 * n
    logged = result.overall["logged"]
    assert logged.value == pytest.approx(world.rewards.mean())
    assert logged.high < result.overall["replay"].low


def test_an_agent_is_evaluated_as_it_is():
    agent = greedy_agent()
    before = agent.digest
    result = evaluate(World(7, 200).log(), agent, windows=2)
    assert agent.digest == before
    assert set(result.overall) == {"logged", "IPS", "SNIPS", "DR"}
    assert all(set(window.values) == set(result.overall) for window in result.windows)
    first = result.windows[0].values
    assert first["DR"].value == pytest.approx(first["IPS"].value)  # nothing to learn q from yet


@pytest.mark.compiled
def test_rewards_that_are_not_known_are_left_out_and_told():
    world = World(8, 400)
    reward = world.rewards.copy()
    reward[::4] = np.nan
    result = evaluate(world.log(reward=reward), db.policy("greedy", dim=3), windows=4)
    assert result.overall["logged"].rounds == 300
    assert result.overall["logged"].value == pytest.approx(np.nanmean(reward))
    assert len(result.notes) == 1
    assert "25.0 % of the rewards are unknown" in result.notes[0]
    assert math.isfinite(result.overall["DR"].value)


@pytest.mark.compiled
def test_a_log_that_never_tried_the_targets_choice_is_told():
    world = World(9, 300)
    favourite = world.probabilities.argmax(axis=1)
    log = world.log(
        chosen=favourite,
        propensity=np.ones(300),
        reward=world.outcomes[world.rows, favourite],
    )
    notes = evaluate(log, db.policy("greedy", dim=3)).notes
    assert len(notes) == 2
    assert "accepted rounds are 0." in notes[0]
    assert "Do not trust replay" in notes[0]
    assert "weights are 0." in notes[1]
    assert "Do not trust IPS, SNIPS and DR" in notes[1]
    itself = evaluate(log, db.policy("greedy", dim=3), windows=1)
    assert set(itself.overall) == {"logged", "replay"}


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({}, {"target": 7}, "target must be a policy, its name, or an agent; got 7"),
        (
            {},
            {"target": db.policy("greedy", dim=2)},
            "target has dim=2, but the log's actions have",
        ),
        ({}, {"windows": 11}, r"windows must be an integer from 1 to 10; got 11"),
        ({"reward": np.full(10, 3.0)}, {}, "rewards of round"),
        ({"arms": list(3 * World(0, 10).actions)}, {}, "longer than L"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(change, given, message):
    target = db.policy("greedy", dim=3)
    with pytest.raises(ValueError, match=message):
        evaluate(World(0, 10).log(**change), **{"target": target, "windows": 2, **given})


# --- the command and the page --------------------------------------------------------------------


@pytest.mark.compiled
def test_the_command_prints_what_the_function_finds(tmp_path, capsys):
    log = World(11, 150).log()
    write_log(log, tmp_path / "log.parquet")
    command = ["evaluate", str(tmp_path / "log.parquet"), "--policy", "D-GLUCB", "--windows", "3"]
    command += ["--policy", "random", "--discount", "0.99", "--bonus-scale", "0.1"]
    assert run_command([*command, "--json"]) == DONE
    printed = json.loads(capsys.readouterr().out)
    options = {"dim": 3, "discount": 0.99, "bonus_scale": 0.1}
    expected = [evaluate(log, db.policy(n, **options), windows=3) for n in ("D-GLUCB", "random")]
    assert printed == [result.as_dict() for result in expected]
    assert run_command(command) == DONE
    out = capsys.readouterr().out
    for result in expected:
        for value in result.overall.values():
            assert f"{value.value:.4f}" in out
        for window in result.windows:
            told = [v.value for v in window.values.values() if not math.isnan(v.value)]
            assert all(f"{value:.3f} ± " in out for value in told)


def test_options_for_several_policies_reach_those_that_take_them(tmp_path, capsys):
    write_log(World(11, 40).log(), tmp_path / "log.parquet")
    command = ["evaluate", str(tmp_path / "log.parquet"), "--windows", "1", "--discount", "0.99"]
    both = ["--policy", "D-GLUCB", "--policy", "auto", "--reward-kind", "click"]
    assert run_command([*command, *both]) == DONE
    assert run_command([*command, "--policy", "auto"]) == BAD_USAGE
    assert "discount has no effect on auto" in capsys.readouterr().err
