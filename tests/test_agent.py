"""The agent: rewards that come late, ranked lists, foreign data, threads, files, bad input."""

import hashlib
import io
import json
import pickle
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import driftbandits as db
from policy_checks import POOLS, RANDOMISED, Case, World, all_same, digest, play, same
from reference import Played, Reference

# -- late rewards --------------------------------------------------------------------------------

CALM = {"false_alarm_rate": 1e-9}
"""In so few rounds a policy that restarts then does not; others have no use for it."""
STEADY = [name for name in db.policy_names() if name not in ("BOB-GLUCB", *POOLS)]
"""Whose memory is not cut into blocks."""
BY_THE_CLOCK = [name for name in STEADY if name != "dLinUCB"]
"""Whose radius counts rounds; that of dLinUCB counts what a model has learned."""
SAME_AS = {"GLM-UCB": "LogisticUCB", "CD-GLUCB": "LogisticUCB", "CD-LinUCB": "LinUCB"}


def oracle_of(case):
    given = {name: value for name, value in case.given.items() if name not in CALM}
    return Reference(SAME_AS.get(case.name, case.name), **given)


coordinates = st.integers(-4, 4).map(lambda n: n / 6)
action_sets = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=4)
levels = st.sampled_from([0.0, 0.25, 1.0])


class Schedule(RuleBasedStateMachine):
    """Any order of calls, against an oracle that keeps a list of what was rewarded when.

    The oracle: clock N; decisions that were rewarded in time, with their rounds; everything else
    is recomputed from that list by its definition.
    """

    name = ""
    arguments: dict = {}  # noqa: RUF012 - a constant of each subclass

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.oracle = Reference(self.name, dim=2, **self.arguments)
        self.agent = db.Agent(db.policy(self.name, dim=2, **self.arguments), seed=1)
        self.span = self.agent.policy.forgets_after or float("inf")
        self.clock = 0
        self.late = 0
        self.played: list[Played] = []
        self.issued: dict[int, tuple[int, np.ndarray]] = {}  # id: round, action
        self.waiting: set[int] = set()
        self.used = (np.zeros(2), np.zeros(2))

    def teardown(self):
        self.folder.cleanup()

    def forgotten(self, number):
        return self.clock - self.issued[number][0] >= self.span

    def moved(self):
        """After an update or a tick the estimate is that of the present."""
        self.used = None

    @rule(actions=action_sets, data=st.data())
    def decide(self, actions, data):
        n = data.draw(st.integers(0, min(3, len(actions))))  # 0: a plain call
        expected = self.oracle.score(self.clock, self.played, actions)
        made = self.agent.decide(actions, n=n) if n else [self.agent.decide(actions)]
        free = list(range(len(actions)))
        for decision in made:
            self.clock += 1
            assert (decision.id, decision.round) == (self.clock, self.clock)
            np.testing.assert_allclose(decision.means, expected.means, rtol=1e-7, atol=1e-7)
            np.testing.assert_allclose(decision.widths, expected.widths, rtol=1e-9, atol=1e-9)
            best = max(expected.scores[i] for i in free)
            assert decision.index in free
            assert expected.scores[decision.index] >= best - 1e-7
            free.remove(decision.index)
            self.issued[decision.id] = (self.clock, np.array(actions[decision.index]))
            self.waiting.add(decision.id)
        self.used = (expected.theta_hat, expected.theta)

    @precondition(lambda self: self.issued)
    @rule(data=st.data(), level=levels)
    def reward(self, data, level):
        s = data.draw(st.sampled_from(sorted(self.issued)))
        if self.forgotten(s):
            assert self.agent.update(s, level) == "late"
            self.late += 1
        elif s in self.waiting:
            assert self.agent.update(s, level) == "learned"
            self.waiting.remove(s)
            self.played.append(Played(*self.issued[s], level))
            self.moved()
        else:
            with pytest.raises(db.UnknownDecision, match=rf"decision {s} "):
                self.agent.update(s, level)

    @rule(ahead=st.integers(1, 5), level=levels)
    def reward_what_was_never_issued(self, ahead, level):
        last = self.clock
        for s in (last + ahead, -ahead, 0):
            with pytest.raises(db.UnknownDecision, match=rf"decision {s} "):
                self.agent.update(s, level)

    @precondition(lambda self: self.issued)
    @rule(data=st.data())
    def withdraw(self, data):
        s = data.draw(st.sampled_from(sorted(self.issued)))
        if s in self.waiting and not self.forgotten(s):
            self.agent.withdraw(s)
            self.waiting.remove(s)
        elif not self.forgotten(s):
            with pytest.raises(db.UnknownDecision, match=rf"decision {s} "):
                self.agent.withdraw(s)

    @rule(rounds=st.sampled_from([0, 1, 1, 2, 5, 14]))
    def tick(self, rounds):
        self.agent.tick(rounds)
        self.clock += rounds
        self.moved()

    @rule(
        rows=st.lists(
            st.tuples(st.tuples(coordinates, coordinates), levels, st.integers(0, 40)),
            min_size=1,
            max_size=3,
        )
    )
    def learn_with_ages(self, rows):
        actions, rewards, ages = zip(*rows, strict=True)
        self.agent.learn(actions, rewards, ages=ages)
        for action, level, age in rows:
            if age >= self.span:
                self.late += 1
            else:
                self.played.append(Played(self.clock - age, np.array(action), level))
                self.moved()

    @rule(
        rows=st.lists(
            st.tuples(st.tuples(coordinates, coordinates), levels), min_size=1, max_size=3
        )
    )
    def learn(self, rows):
        actions, rewards = zip(*rows, strict=True)
        self.agent.learn(actions, rewards)
        for action, level in rows:
            self.clock += 1
            self.played.append(Played(self.clock, np.array(action), level))
        self.moved()

    @rule()
    def save_and_load(self):
        path = Path(self.folder.name) / "agent.npz"
        self.agent.save(path)
        self.agent = db.Agent.load(path)

    @rule()
    def look(self):
        if self.used is None:
            now = self.oracle.score(self.clock, self.played, [])
            self.used = (now.theta_hat, now.theta)
        np.testing.assert_allclose(self.agent.theta_hat, self.used[0], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(self.agent.theta, self.used[1], rtol=1e-7, atol=1e-7)

    @invariant()
    def the_books_agree(self):
        assert self.agent.clock == self.clock
        assert self.agent.late == self.late
        assert set(self.agent.pending) == {s for s in self.waiting if not self.forgotten(s)}


SCHEDULES = {
    "SW-GLUCB": {"window": 7, "S": 0.6, "lam": 0.3},
    "SW-GLUCB alone": {"window": 1},
    "D-GLUCB": {"discount": 0.5, "lam": 0.5},
    "D-GLUCB projected": {"discount": 0.8, "S": 0.4, "lam": 0.2},
    "LogisticUCB": {"S": 0.6, "lam": 0.3},
    "LinUCB": {},
    "SW-LinUCB": {"window": 5, "centre": 0.5},
    "D-LinUCB": {"discount": 0.5},
    "greedy poisson": {"link": "poisson", "m": 1.0, "discount": 0.6},
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_late_rewards(schedule):
    body = {"name": schedule.split()[0], "arguments": SCHEDULES[schedule]}
    machine = type("Schedule", (Schedule,), body)
    case = machine.TestCase
    case.settings = settings(
        max_examples=settings.default.max_examples // 5 or 1, stateful_step_count=30, deadline=None
    )
    case("runTest").runTest()


@pytest.mark.parametrize("name", ["D-GLUCB", "D-LinUCB"])
@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.996])
@pytest.mark.parametrize("extra", [{}, {"m": 4.0, "L": 2.0, "lam": 0.1, "link": "binomial"}])
def test_what_truncation_leaves_out_is_certified(name, gamma, extra):
    """The rows that are called late could have moved theta-hat by next to nothing."""
    policy = db.policy(name, dim=2, discount=gamma, intercept=True, **extra)
    n = policy.forgets_after
    longest = np.sqrt(extra.get("L", 1.0) ** 2 + 1)
    scale = extra.get("m", 1.0) * longest / ((1 - gamma) * extra.get("lam", 1.0))
    assert scale * gamma**n <= 1e-8
    assert scale * gamma ** (n // 2) > 1e-8  # and it does not keep rows for nothing


def test_the_estimate_is_the_one_of_the_last_decision_until_an_update_or_a_tick():
    agent = db.Agent(db.policy("D-GLUCB", dim=1, discount=0.5))
    agent.update(agent.decide([[1.0]]), 1.0)
    waiting = agent.decide([[1.0]])
    used = agent.theta_hat
    agent.decide_many([[[1.0]]] * 3)
    latest = agent.theta_hat
    assert 0 < latest[0] < used[0]  # the reward has aged, the penalty has not
    late = agent.decide([[1.0]])
    assert agent.explain(late).theta.tobytes() == agent.theta.tobytes()
    before = agent.theta_hat
    agent.withdraw(late)
    assert agent.theta_hat.tobytes() == before.tobytes()
    agent.tick(1)
    assert agent.theta_hat[0] < before[0]
    agent.update(waiting, 1.0)
    assert agent.theta_hat[0] > 0


def test_a_late_reward_changes_nothing_but_its_count(tmp_path):
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=3))
    first = agent.decide(np.eye(2))
    agent.tick(2)
    agent.save(tmp_path / "young.npz")
    copy = db.Agent.load(tmp_path / "young.npz")
    assert copy.update(first.id, 1.0) == "learned"  # age 2 of 3
    assert copy.late == 0
    agent.tick(1)
    theta = agent.theta_hat
    assert agent.pending == ()
    for count in (1, 2):
        assert agent.update(first, 1.0) == "late"
        assert agent.late == count
    assert agent.theta_hat.tobytes() == theta.tobytes()
    assert not agent.theta_hat.any()


def test_second_rewards_raise_while_the_decision_is_young():
    for name in ("LogisticUCB", "LinUCB"):  # which forget nothing: for ever
        agent = Case(name).agent()
        choice = agent.decide(np.eye(2))
        agent.update(choice, 1.0)
        agent.tick(10**9)
        before = digest(agent)
        with pytest.raises(db.UnknownDecision, match=r"decision 1 is not waiting"):
            agent.update(choice.id, 1.0)
        with pytest.raises(db.UnknownDecision, match=r"decision 1 is not waiting"):
            agent.withdraw(choice.id)
        assert digest(agent) == before


def test_rounds_that_passed_without_a_decision_have_no_reward():
    agent = Case("LinUCB").agent()
    agent.decide(np.eye(2))
    agent.tick(2)
    agent.learn([[1.0, 0.0]], [1.0])
    agent.decide(np.eye(2))
    for s in (2, 3, 4):
        with pytest.raises(db.UnknownDecision, match=rf"decision {s} "):
            agent.update(s, 1.0)
    assert agent.pending == (1, 5)


@pytest.mark.parametrize("name", STEADY)
def test_the_order_of_arrival_does_not_matter(name):
    """The same rewards in another order, all before the next decision, give the same estimate."""
    case = Case(name, CALM)
    world = World(case, 12, seed=3)
    forth, back = case.agent(), case.agent()
    for agent in (forth, back):
        agent.decide_many(world.sets[:11])
    rewards = {
        s: world.reward(s, world.sets[s - 1][forth.explain(s).decision.index])
        for s in forth.pending
    }
    for s in sorted(rewards):
        forth.update(s, rewards[s])
    for s in sorted(rewards, reverse=True):
        back.update(s, rewards[s])
    np.testing.assert_allclose(forth.theta_hat, back.theta_hat, rtol=1e-9, atol=1e-9)
    one, other = forth.decide(world.sets[11]), back.decide(world.sets[11])
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-9)


# -- time without decisions ----------------------------------------------------------------------


def assert_alike(one, other, *, tolerance=1e-9):
    """The same decision up to rounding: the two agents have fitted at different times."""
    assert (one.id, one.index, one.round) == (other.id, other.index, other.round)
    assert one.propensity == pytest.approx(other.propensity, rel=1e-9)  # of a random scale, a real
    np.testing.assert_allclose(one.scores, other.scores, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", db.policy_names())
def test_a_withdrawn_decision_is_a_tick(name):
    case = Case(name)
    world = World(case, 25)
    withdrawn, ticked = case.agent(), case.agent()
    # the width of a sampler has J(theta_hat) in it, and theta_hat is certified to 4e-9
    tolerance = 1e-8 if name in RANDOMISED else 1e-9
    for t, actions in enumerate(world.sets):
        if t % 4 == 2:
            withdrawn.withdraw(withdrawn.decide(actions))
            ticked.tick()
            continue
        one, other = withdrawn.decide(actions), ticked.decide(actions)
        assert_alike(one, other, tolerance=tolerance)
        reward = world.reward(t, actions[one.index])
        withdrawn.update(one, reward)
        ticked.update(other, reward)
    assert withdrawn.pending == ticked.pending == ()
    assert withdrawn.late == 0


@pytest.mark.parametrize("name", db.policy_names())
def test_ticks_add_up(name):
    case = Case(name)
    world = World(case, 16)
    agents = [case.agent() for _ in range(2)]
    for agent in agents:
        play(agent, world, 0, 15)
    agents[0].tick(5)
    agents[0].tick(0)
    for _ in range(5):
        agents[1].tick(1)
    np.testing.assert_allclose(agents[0].theta_hat, agents[1].theta_hat, rtol=1e-9, atol=1e-9)
    assert_alike(*(agent.decide(world.sets[15]) for agent in agents))


@pytest.mark.parametrize("name", db.policy_names())
def test_tick_zero_lets_no_time_pass(name):
    case = Case(name)
    world = World(case, 20)
    still, plain = case.agent(), case.agent()
    for t, actions in enumerate(world.sets):
        still.tick(0)
        one, other = still.decide(actions), plain.decide(actions)
        assert_alike(one, other)
        still.tick(0)
        assert still.clock == t + 1
        reward = world.reward(t, actions[one.index])
        still.update(one, reward)
        plain.update(other, reward)


@pytest.mark.parametrize("name", BY_THE_CLOCK)
def test_an_age_passes_in_one_step(name):
    """10^12 rounds at once: nothing overflows, the past is forgotten or kept, scores are exact."""
    case = Case(name, CALM)
    world = World(case, 31)
    agent = case.agent()
    decisions = play(agent, world, 0, 30)
    played = [
        Played(d.id, actions[d.index], world.reward(t, actions[d.index]))
        for t, (d, actions) in enumerate(zip(decisions, world.sets, strict=False))
    ]
    agent.decide(world.sets[30])
    size = len(digest(agent))
    agent.tick(10**12)
    assert agent.clock == 10**12 + 31
    assert len(digest(agent)) <= size
    assert len(agent.pending) == (0 if case.forgets else 1)
    oracle = oracle_of(case)
    expected = oracle.score(agent.clock, played, world.sets[30])
    decision = agent.decide(world.sets[30])
    assert decision.id == 10**12 + 32
    np.testing.assert_allclose(agent.theta_hat, expected.theta_hat, atol=1e-8)
    np.testing.assert_allclose(decision.scores, expected.scores, rtol=1e-7)
    agent.update(decision, 1.0)
    restarts = name == "Restart-GLUCB" and agent.clock % case.given["window"] == 0
    assert agent.theta_hat.any() != restarts


# -- foreign data --------------------------------------------------------------------------------


def foreign_rows(case, count):
    world = World(case, count, seed=21, largest=1)
    rows = np.vstack(world.sets)
    return rows, [world.reward(t, row) for t, row in enumerate(rows)]


@pytest.mark.parametrize(
    "extra", [{}, {"intercept": True, "centre": 0.5}], ids=["plain", "shifted"]
)
@pytest.mark.parametrize("name", STEADY)
def test_learning_rows_is_having_played_them(name, extra):
    case = Case(name, {**CALM, **extra})
    rows, rewards = foreign_rows(case, 30)
    taught, player = case.agent(), case.agent()
    taught.learn(rows[:10], rewards[:10])
    taught.learn(rows[10:], np.array(rewards[10:]))
    for row, reward in zip(rows, rewards, strict=True):
        player.update(player.decide([row]), reward)
    assert taught.clock == player.clock == 30
    assert taught.pending == ()
    assert taught.late == 0
    np.testing.assert_allclose(taught.theta_hat, player.theta_hat, rtol=1e-8, atol=1e-8)
    actions = World(case, 1, seed=22).sets[0]
    one, other = taught.decide(actions), player.decide(actions)
    assert one.index == other.index
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-8)


@pytest.mark.parametrize("name", STEADY)
def test_ages_say_when_rows_were_played(name):
    """Ages n-1..0, in any order, are the rounds that lead up to the present."""
    case = Case(name, {**CALM, "window": 12} if name == "greedy" else CALM)
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


@pytest.mark.parametrize("name", ["SW-GLUCB", "SW-LinUCB", "D-GLUCB", "D-LinUCB"])
def test_rows_older_than_the_memory_are_late(name):
    agent = Case(name).agent()
    span = agent.policy.forgets_after
    agent.learn([[1.0, 0.0]] * 3, [1.0] * 3, ages=[span, span + 1, 10**9])
    assert (agent.late, agent.clock) == (3, 0)
    assert not agent.theta_hat.any()
    agent.learn([[1.0, 0.0]], [1.0], ages=[span - 1])
    assert agent.late == 3
    assert agent.theta_hat[0] > 0
    agent.tick(1)
    assert agent.theta_hat[0] < 1e-8


def test_foreign_rows_are_rescaled_like_actions():
    made = {"too_long": "rescale"}
    one, other = Case("LogisticUCB", made).agent(), Case("LogisticUCB", made).agent()
    one.learn([[3.0, 4.0]], [1.0])
    other.learn([[0.6, 0.8]], [1.0])
    np.testing.assert_allclose(one.theta_hat, other.theta_hat, rtol=1e-12)


# -- ranked lists --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEADY)
def test_a_ranked_list(name, tmp_path):
    case = Case(name, CALM)
    world = World(case, 20)
    agent = case.agent()
    play(agent, world)
    actions = np.random.default_rng(1).uniform(-0.6, 0.6, size=(7, 2))
    agent.save(tmp_path / "agent.npz")
    single = db.Agent.load(tmp_path / "agent.npz").decide(actions)
    everything = db.Agent.load(tmp_path / "agent.npz").decide(actions, n=7)
    ranked = agent.decide(actions, n=3)
    assert isinstance(ranked, list)
    assert all_same(ranked[:1], [single])
    assert all_same(ranked, everything[:3])
    assert sorted(decision.index for decision in everything) == list(range(7))
    assert [decision.round for decision in ranked] == [21, 22, 23]
    assert [decision.id for decision in ranked] == [21, 22, 23]
    assert all((decision.scores == single.scores).all() for decision in ranked)
    if name not in ("random", *RANDOMISED):
        assert [d.index for d in everything] == np.argsort(-single.scores).tolist()
    assert agent.clock == 23
    assert agent.pending == (21, 22, 23)
    # each place is a decision of its own
    agent.update(ranked[2], 1.0)
    agent.withdraw(ranked[0])
    assert agent.pending == (22,)
    assert agent.explain(22).decision.index == ranked[1].index


def test_a_list_of_one_is_a_list():
    one, other = Case("LinUCB").agent(), Case("LinUCB").agent()
    assert all_same(one.decide(np.eye(2), n=1), [other.decide(np.eye(2))])


def test_a_ranked_list_longer_than_the_window():
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=2))
    ranked = agent.decide(np.eye(2).repeat(2, axis=0), n=4)
    assert agent.pending == (3, 4)
    assert [agent.update(decision, 1.0) for decision in ranked] == ["late"] * 2 + ["learned"] * 2


def test_propensities_of_a_ranked_list():
    """Each place is drawn among what the places above it left."""
    epsilon, K, rounds = 0.4, 4, 1500
    agent = Case("LinUCB", {"epsilon": epsilon}).agent(seed=5)
    agent.learn([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0])
    actions = [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 0.9]]
    surplus, variance = np.zeros((3, K)), np.zeros((3, K))
    for _ in range(rounds):
        free = np.ones(K, dtype=bool)
        for place, decision in enumerate(agent.decide(actions, n=3)):
            best = free & (decision.scores == decision.scores[free].max())
            expected = best * (1 - epsilon) / best.sum() + free * epsilon / free.sum()
            assert decision.propensity == pytest.approx(expected[decision.index], rel=1e-12)
            surplus[place] += (np.arange(K) == decision.index) - expected
            variance[place] += expected * (1 - expected)
            free[decision.index] = False
    assert (np.abs(surplus) <= 4 * np.sqrt(variance)).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_propensities_over_seeds(epsilon):
    """Two of three tie at the top before any reward; seeds share the choice as they should."""
    policy = db.policy("SW-LinUCB", dim=2, window=5, epsilon=epsilon)
    actions = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]]
    counts = np.zeros(3)
    seeds = 900
    shares = np.array([0.5, 0.5, 0.0]) * (1 - epsilon) + epsilon / 3
    for seed in range(seeds):
        decision = db.Agent(policy, seed=seed).decide(actions)
        counts[decision.index] += 1
        assert decision.propensity == pytest.approx(shares[decision.index], rel=1e-12)
    deviation = np.sqrt(seeds * shares * (1 - shares))
    assert (np.abs(counts - seeds * shares) <= 4 * deviation).all()


# -- explanations --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_THE_CLOCK)
def test_explanations_are_of_the_time(name):
    case = Case(name, CALM)
    world = World(case, 25)
    agent = case.agent()
    seen = []
    for t, actions in enumerate(world.sets):
        decision = agent.decide(actions)
        seen.append((decision, agent.theta))
        agent.update(decision, world.reward(t, actions[decision.index]))
    for decision, theta in seen:
        for key in (decision, decision.id, np.int64(decision.id)):
            explained = agent.explain(key)
            assert same(explained.decision, decision)
            assert explained.theta.tobytes() == theta.tobytes()
    oracle = oracle_of(case)
    last = agent.explain(25)
    expected = 0.0 if name in ("greedy", "random") else oracle.radius(24, last.theta_hat)
    assert last.radius == pytest.approx(expected, rel=1e-12)


def test_an_explanation_as_a_table():
    agent = db.Agent(db.policy("LinUCB", dim=2))
    agent.learn([[1.0, 0.0]], [1.0])
    choice = agent.decide([[0.1, 0.0], [0.0, 1.0], [0.5, 0.0]])
    first, header, *lines = agent.explain(choice).table().splitlines()
    assert f"round {choice.round}" in first
    assert header.split() == ["action", "mean", "width", "score"]
    order = np.argsort(-choice.scores)
    assert [int(line.split()[0]) for line in lines] == order.tolist()
    for line, i in zip(lines, order, strict=True):
        shown = [float(word) for word in line.replace("<", "").split()[1:]]
        assert shown == pytest.approx(
            [choice.means[i], choice.widths[i], choice.scores[i]], abs=5e-5
        )
        assert line.endswith("<") == (i == choice.index)


def test_only_recent_decisions_can_be_explained():
    agent = db.Agent(db.policy("LinUCB", dim=1))
    agent.decide_many([[[1.0]]] * 1005)
    assert agent.explain(1005).decision.id == 1005
    assert agent.explain(6).decision.id == 6
    with pytest.raises(db.UnknownDecision, match=r"decision 5 "):
        agent.explain(5)


# -- threads -------------------------------------------------------------------------------------


@pytest.fixture
def nervous():
    """Threads that take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_together(work, count):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.usefixtures("nervous")
@pytest.mark.parametrize(("name", "extra"), [
    ("LinUCB", {}),
    ("SW-LinUCB", {"window": 5000}),
    ("D-LinUCB", {"discount": 0.99}),
    ("LogisticUCB", {}),
    ("D-GLUCB", {"discount": 0.99}),
])  # fmt: skip
def test_threads_lose_nothing(name, extra):
    """Decisions by some threads, rewards by others, lookers in between: all of it is there."""
    agent = db.Agent(db.policy(name, dim=2, **extra), seed=1)
    oracle = Reference(name, dim=2, **extra)
    workers, each = 4, 60
    played: list[list[Played]] = [[] for _ in range(workers)]
    made: list[list[int]] = [[] for _ in range(workers)]

    def work(number):
        rng = np.random.default_rng(number)
        kept = []
        for i in range(each):
            actions = rng.integers(-4, 5, size=(3, 2)) / 8.0
            if i % 6 == 5:
                decisions = agent.decide(actions, n=2)
            elif i % 6 == 4:
                decisions = agent.decide_many([actions])
            else:
                decisions = [agent.decide(actions)]
            made[number] += [decision.id for decision in decisions]
            kept += [(decision, actions[decision.index]) for decision in decisions]
            assert agent.theta_hat.shape == (2,)
            assert agent.explain(decisions[0]).decision is not None
            if i % 3 == 2 or i == each - 1:
                rng.shuffle(kept)
                for decision, action in kept:
                    reward = float(rng.integers(0, 2))
                    assert agent.update(decision, reward) == "learned"
                    played[number].append(Played(decision.id, action, reward))
                kept = []

    run_together(work, workers)
    ids = [s for part in made for s in part]
    assert len(ids) == len(set(ids)) == agent.clock == workers * (each + each // 6)
    assert sorted(ids) == list(range(1, agent.clock + 1))
    assert agent.pending == ()
    assert agent.late == 0
    everything = [row for part in played for row in part]
    actions = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    expected = oracle.score(agent.clock, everything, actions)
    decision = agent.decide(actions)
    np.testing.assert_allclose(agent.theta_hat, expected.theta_hat, atol=1e-8)
    np.testing.assert_allclose(decision.widths, expected.widths, rtol=1e-9)


@pytest.mark.usefixtures("nervous")
def test_a_reward_given_by_many_threads_counts_once():
    agent = db.Agent(db.policy("LinUCB", dim=1))
    told = []

    def work(_):
        for s in range(1, 101):
            try:
                told.append(agent.update(s, 1.0))
            except db.UnknownDecision:
                told.append("refused")

    agent.decide_many([[[1.0]]] * 100)
    run_together(work, 3)
    assert (told.count("learned"), told.count("refused")) == (100, 200)
    assert agent.theta_hat[0] == pytest.approx(100 / 101, rel=1e-12)


@pytest.mark.usefixtures("nervous")
def test_saving_while_others_work(tmp_path):
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=20))
    stop = threading.Event()
    loaded = []

    def work(number):
        if number == 0:
            try:
                for _ in range(15):
                    agent.save(tmp_path / "agent.npz")
                    loaded.append(db.Agent.load(tmp_path / "agent.npz"))
            finally:
                stop.set()
        while not stop.is_set():
            choice = agent.decide(np.eye(2))
            agent.update(choice, float(choice.id % 2))

    run_together(work, 3)
    assert len(loaded) == 15
    assert [copy.clock for copy in loaded] == sorted(copy.clock for copy in loaded)


# -- bad input -----------------------------------------------------------------------------------


def veteran(**extra):
    """Rounds 1-3 rewarded, 4 withdrawn, 5 waiting, 6 a tick."""
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=50, **extra), seed=2)
    for t in range(3):
        agent.update(agent.decide(np.eye(2)), float(t % 2))
    agent.withdraw(agent.decide(np.eye(2)))
    agent.decide(np.eye(2) / 2)
    agent.tick(1)
    return agent


nan, inf = float("nan"), float("inf")

BAD_CALLS = {
    # actions
    "one action, no table": (lambda a: a.decide([0.5, 0.5]), ["actions", "(2,)", "(K, 2)"]),
    "three features": (lambda a: a.decide(np.ones((4, 3))), ["actions", "(4, 3)", "(K, 2)"]),
    "a cube": (lambda a: a.decide(np.ones((1, 2, 2))), ["actions", "(1, 2, 2)"]),
    "a number": (lambda a: a.decide(0.5), ["actions", "()", "(K, 2)"]),
    "None": (lambda a: a.decide(None), ["actions"]),
    "a ragged list": (lambda a: a.decide([[0.5, 0.5], [0.5]]), ["actions"]),
    "words": (lambda a: a.decide([["up", "down"]]), ["actions", "up"]),
    "a word": (lambda a: a.decide("up"), ["actions", "up"]),
    "numbers as words": (lambda a: a.decide([["0.5", "0.5"]]), ["actions", "0.5"]),
    "complex numbers": (lambda a: a.decide([[0.5 + 0.1j, 0.0]]), ["actions"]),
    "a dictionary": (lambda a: a.decide({"a": [0.5, 0.5]}), ["actions"]),
    "no action": (lambda a: a.decide(np.empty((0, 2))), ["actions", "at least one"]),
    "an empty list": (lambda a: a.decide([]), ["actions"]),
    "NaN": (lambda a: a.decide([[0.5, 0.5], [nan, 0.0]]), ["actions", "finite", "nan", "row 1"]),
    "infinity": (lambda a: a.decide([[0.5, -inf]]), ["actions", "finite", "inf", "row 0"]),
    "None inside": (lambda a: a.decide([[0.5, None]]), ["actions"]),
    "too long": (lambda a: a.decide([[0, 0], [3, 4]]), ["actions", "L = 1", "row 1", "5"]),
    "far too long": (lambda a: a.decide([[0, 0], [1e200, 0]]), ["actions", "L = 1", "1e+200"]),
    "too long twice": (lambda a: a.decide([[2, 0], [1e200, 0]]), ["actions", "L = 1"]),
    "beyond numbers": (lambda a: a.decide([[10**400, 0]]), ["actions"]),
    # n
    "n of zero": (lambda a: a.decide(np.eye(2), n=0), ["n", "0", "from 1 to 2"]),
    "n above K": (lambda a: a.decide(np.eye(2), n=3), ["n", "3", "from 1 to 2"]),
    "n a float": (lambda a: a.decide(np.eye(2), n=2.0), ["n", "2.0"]),
    "n a bool": (lambda a: a.decide(np.eye(2), n=True), ["n", "True"]),
    "n a word": (lambda a: a.decide(np.eye(2), n="2"), ["n", "'2'"]),
    # batches of decisions
    "many, one bad": (lambda a: a.decide_many([np.eye(2), [[nan, 0]]]), ["actions", "nan"]),
    "many, one long": (lambda a: a.decide_many([np.eye(2), [[3, 4]]]), ["actions", "5"]),
    "many, one empty": (lambda a: a.decide_many([np.eye(2), []]), ["actions"]),
    "many of nothing": (lambda a: a.decide_many(None), ["action_sets", "None"]),
    # rewards
    "above the range": (lambda a: a.update(5, 1.5), ["reward", "1.5", "[0, 1]"]),
    "below the range": (lambda a: a.update(5, -1e-9), ["reward", "-1e-09", "[0, 1]"]),
    "reward NaN": (lambda a: a.update(5, nan), ["reward", "nan"]),
    "reward infinite": (lambda a: a.update(5, inf), ["reward", "inf"]),
    "reward None": (lambda a: a.update(5, None), ["reward", "None"]),
    "reward a word": (lambda a: a.update(5, "1"), ["reward", "'1'"]),
    "reward a list": (lambda a: a.update(5, [1.0]), ["reward", "[1.0]"]),
    "reward complex": (lambda a: a.update(5, 1j), ["reward", "1j"]),
    "reward complex of NumPy": (lambda a: a.update(5, np.complex128(1)), ["reward", "1+0j"]),
    "reward beyond numbers": (lambda a: a.update(5, 10**400), ["reward", "1000"]),
    # decisions
    "never issued": (lambda a: a.update(7, 1.0), ["decision 7", "never issued", "1 to 6"]),
    "decision zero": (lambda a: a.update(0, 1.0), ["decision 0", "never issued"]),
    "decision minus one": (lambda a: a.update(-1, 1.0), ["decision -1"]),
    "a huge id": (lambda a: a.update(10**30, 1.0), ["decision 1000"]),
    "rewarded": (lambda a: a.update(2, 1.0), ["decision 2", "not waiting"]),
    "withdrawn": (lambda a: a.update(4, 1.0), ["decision 4", "not waiting"]),
    "a tick": (lambda a: a.update(6, 1.0), ["decision 6", "not waiting"]),
    "id a bool": (lambda a: a.update(True, 1.0), ["decision", "True"]),
    "id a float": (lambda a: a.update(5.0, 1.0), ["decision", "5.0"]),
    "id a word": (lambda a: a.update("5", 1.0), ["decision", "'5'"]),
    "id None": (lambda a: a.update(None, 1.0), ["decision", "None"]),
    "id a list": (lambda a: a.update([5], 1.0), ["decision", "[5]"]),
    "withdraw unknown": (lambda a: a.withdraw(9), ["decision 9"]),
    "withdraw rewarded": (lambda a: a.withdraw(1), ["decision 1", "not waiting"]),
    "withdraw twice": (lambda a: a.withdraw(4), ["decision 4", "not waiting"]),
    "withdraw a bool": (lambda a: a.withdraw(True), ["decision", "True"]),
    "explain unknown": (lambda a: a.explain(9), ["decision 9"]),
    "explain a tick": (lambda a: a.explain(6), ["decision 6"]),
    "explain a bool": (lambda a: a.explain(True), ["decision", "True"]),
    "explain a float": (lambda a: a.explain(5.0), ["decision", "5.0"]),
    "explain a list": (lambda a: a.explain([5]), ["decision", "[5]"]),
    # batches of rewards
    "more rewards": (lambda a: a.update_many([5], [1.0, 0.0]), ["rewards", "2 for 1"]),
    "fewer rewards": (lambda a: a.update_many([5, 5], [1.0]), ["rewards", "1 for 2"]),
    "twice in a batch": (lambda a: a.update_many([5, 5], [1.0, 1.0]), ["decisions", "decision 5"]),
    "one bad of two": (lambda a: a.update_many([5, 2], [1.0, 1.0]), ["decision 2"]),
    "one reward bad": (lambda a: a.update_many([5, 2], [1.0, 7.0]), ["reward", "7.0"]),
    "rewards None": (lambda a: a.update_many([5], None), ["rewards", "None"]),
    "rewards a number": (lambda a: a.update_many([5], 1.0), ["rewards", "1.0"]),
    "decisions a number": (lambda a: a.update_many(5, [1.0]), ["decisions", "5"]),
    # time
    "back in time": (lambda a: a.tick(-1), ["rounds", "-1"]),
    "half a round": (lambda a: a.tick(0.5), ["rounds", "0.5"]),
    "rounds a bool": (lambda a: a.tick(True), ["rounds", "True"]),
    "rounds a word": (lambda a: a.tick("3"), ["rounds", "'3'"]),
    "past all counting": (lambda a: a.tick(10**30), ["rounds", "1000"]),
    "past the last clock": (lambda a: a.tick(2**63 - 1), ["rounds", str(2**63 - 1)]),
    # foreign data
    "learn a long row": (lambda a: a.learn([[3, 4]], [1]), ["actions", "L = 1", "5"]),
    "learn NaN": (lambda a: a.learn([[nan, 0]], [1]), ["actions", "nan"]),
    "learn a second bad row": (lambda a: a.learn([[0, 1], [3, 4]], [1, 1]), ["actions", "row 1"]),
    "learn a bad reward": (lambda a: a.learn(np.eye(2), [1, 2]), ["reward", "2"]),
    "learn few rewards": (lambda a: a.learn(np.eye(2), [1]), ["rewards", "2", "(1,)"]),
    "learn a table": (lambda a: a.learn(np.eye(2), np.eye(2)), ["rewards", "(2, 2)"]),
    "learn words": (lambda a: a.learn(np.eye(2), ["a", "b"]), ["rewards", "a"]),
    "learn ragged": (lambda a: a.learn(np.eye(2), [[1], [1, 0]]), ["rewards"]),
    "learn None": (lambda a: a.learn(np.eye(2), None), ["reward"]),
    "learn complex": (lambda a: a.learn(np.eye(2), [1j, 1]), ["rewards"]),
    "negative ages": (lambda a: a.learn(np.eye(2), [1, 1], ages=[0, -1]), ["ages", "-1"]),
    "half ages": (lambda a: a.learn(np.eye(2), [1, 1], ages=[0, 0.5]), ["ages", "0.5"]),
    "ages NaN": (lambda a: a.learn(np.eye(2), [1, 1], ages=[0, nan]), ["ages", "nan"]),
    "few ages": (lambda a: a.learn(np.eye(2), [1, 1], ages=[0]), ["ages", "2", "[0]"]),
    "ages words": (lambda a: a.learn(np.eye(2), [1, 1], ages=["a", "b"]), ["ages", "'a'"]),
    "huge ages": (lambda a: a.learn(np.eye(2), [1, 1], ages=[0, 10**30]), ["ages", "1000"]),
}


# A plain Python kernel warns of the overflow that a compiled one turns into infinity.
OVERFLOWING = {"far too long"}


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=pytest.mark.compiled if label in OVERFLOWING else ())
        for label in BAD_CALLS
    ],
)
def test_bad_calls_say_what_is_wrong_and_change_nothing(label):
    call, fragments = BAD_CALLS[label]
    agent = veteran()
    before = digest(agent)
    with pytest.raises(ValueError, match=r".") as caught:
        call(agent)
    assert digest(agent) == before
    for fragment in fragments:
        assert fragment in str(caught.value), str(caught.value)
    assert agent.update(5, 1.0) == "learned"


def test_decisions_that_do_not_wait_have_their_own_error():
    agent = veteran()
    for s in (0, 2, 4, 6, 7, True, 5.0, None):
        with pytest.raises(db.UnknownDecision, match=r"decision"):
            agent.update(s, 1.0)
    assert issubclass(db.UnknownDecision, ValueError)
    assert issubclass(db.BadSaveFile, ValueError)


@pytest.mark.parametrize("seed", [-1, 1.0, "0", None, True, 2**63])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match=r"seed must be .*got ") as caught:
        db.Agent(db.policy("LinUCB", dim=1), seed=seed)
    assert repr(seed) in str(caught.value)


def test_an_agent_needs_a_policy():
    with pytest.raises(ValueError, match=r"policy must .*'LinUCB'"):
        db.Agent("LinUCB")


@pytest.mark.parametrize(("arguments", "low", "high"), [
    ({"link": "logistic"}, 0, 1),
    ({"link": "binomial", "m": 5}, 0, 5),
    ({"link": "poisson", "m": 30}, 0, 30),
    ({"link": "identity", "m": 2.5}, 0, 2.5),
    ({"link": "logistic", "centre": 0.25}, 0.25, 1.25),
])  # fmt: skip
def test_the_ends_of_the_reward_range_belong_to_it(arguments, low, high):
    agent = db.Agent(db.policy("LogisticUCB", dim=2, **arguments))
    for reward in (low, high, (low + high) / 2, np.float32(high), np.int64(1)):
        assert agent.update(agent.decide(np.eye(2)), reward) == "learned"
    choice = agent.decide(np.eye(2))
    for reward in (np.nextafter(low, -1), np.nextafter(high, high + 1)):
        with pytest.raises(ValueError, match=rf"reward .*\[{low:g}, {high:g}\]"):
            agent.update(choice, reward)


@pytest.mark.parametrize("L", [1.0, 0.25, 37.0])
def test_how_long_is_too_long(L):
    refusing = db.Agent(db.policy("LogisticUCB", dim=2, L=L, S=0.1))
    for excess in (-1e-9, 0.0, 0.5e-9, 0.99e-9):
        refusing.decide([[0.6 * L * (1 + excess), 0.8 * L * (1 + excess)]])
    for excess in (1.01e-9, 1e-6, 1.0):
        with pytest.raises(ValueError, match=rf"actions must not be longer than L = {L:g}"):
            refusing.decide([[0.6 * L * (1 + excess), 0.8 * L * (1 + excess)]])
    assert refusing.clock == 4


@pytest.mark.parametrize("name", [name for name in db.policy_names() if name not in POOLS])
def test_longer_actions_can_be_rescaled(name):
    case = Case(name, {"too_long": "rescale", "intercept": True})
    long, fitting = case.agent(), case.agent()
    for t, actions in enumerate(World(case, 15).sets):
        actions[0] /= np.linalg.norm(actions[0])
        stretched = actions.copy()
        stretched[0] *= 10.0 ** (t + 1)
        one, other = long.decide(stretched), fitting.decide(actions)
        assert_alike(one, other)
        long.update(one, t % 2)
        fitting.update(other, t % 2)
    np.testing.assert_allclose(long.theta_hat, fitting.theta_hat, atol=1e-9)


@pytest.mark.compiled  # plain Python warns of the overflow that the kernel looks out for
def test_even_the_longest_numbers_can_be_rescaled():
    agent = Case("LinUCB", {"too_long": "rescale"}).agent()
    plain = Case("LinUCB").agent()
    expected = plain.decide([[1.0, 0.0], [0.6, 0.8]])
    assert agent.decide([[1e300, 0.0], [6e200, 8e200]]).scores == pytest.approx(expected.scores)


# -- files ---------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "agent"
    veteran(intercept=True, centre=0.25, link="identity").save(path)
    return path


def test_a_save_is_one_file_where_it_was_asked_for(saved):
    assert [entry.name for entry in saved.parent.iterdir()] == ["agent"]
    assert zipfile.is_zipfile(saved)
    veteran().save(str(saved))
    assert [entry.name for entry in saved.parent.iterdir()] == ["agent"]
    assert db.Agent.load(str(saved)).policy.centre == 0.0


def test_a_save_that_fails_leaves_nothing_behind(saved):
    before = saved.read_bytes()
    with pytest.raises(FileNotFoundError):
        veteran().save(saved.parent / "nowhere" / "agent")
    (saved.parent / "folder").mkdir()
    with pytest.raises(OSError, match=r"."):
        veteran().save(saved.parent / "folder")
    assert sorted(entry.name for entry in saved.parent.iterdir()) == ["agent", "folder"]
    assert saved.read_bytes() == before


def test_the_content_of_a_file_can_be_kept_elsewhere(saved):
    agent = db.Agent.load(saved)
    assert agent.to_bytes() == saved.read_bytes()
    again = db.Agent.from_bytes(agent.to_bytes())
    assert again.digest == agent.digest
    assert same(again.decide(np.eye(2) / 2), agent.decide(np.eye(2) / 2))
    assert again.digest == agent.digest
    again.tick(1)
    assert again.digest != agent.digest
    with pytest.raises(db.BadSaveFile, match=r"the content"):
        db.Agent.from_bytes(b"nothing")


def test_saving_what_was_loaded_gives_the_same_file(saved):
    before = saved.read_bytes()
    db.Agent.load(saved).save(saved)
    assert saved.read_bytes() == before


def test_a_decision_has_the_same_table_live_and_loaded(tmp_path):
    agent = veteran()
    live = agent.decide([[0.5, 0.0], [0.0, 0.5], [0.1, 0.2]])
    agent.save(tmp_path / "agent")
    loaded = db.Agent.load(tmp_path / "agent").explain(live.id).decision
    for decision in (live, loaded):
        assert decision.table.shape == (3, 3)
        assert decision.table.tolist() == [list(live.means), list(live.widths), list(live.scores)]
        assert not decision.table.flags.writeable


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        db.Agent.load(tmp_path / "nothing")


def test_truncated_files(saved):
    content = saved.read_bytes()
    cuts = {0, 1, 4, 30, 100, len(content) // 2, len(content) - 23, len(content) - 22}
    cuts |= set(range(0, len(content), 997)) | {len(content) - 1}
    for cut in sorted(cuts):
        saved.write_bytes(content[:cut])
        with pytest.raises(db.BadSaveFile, match=r"agent"):
            db.Agent.load(saved)


def changed_bytes(content):
    """Places all over the file, and every byte of the directory at its end."""
    directory = content.index(b"PK\x01\x02")
    rng = np.random.default_rng(0)
    inside = set(rng.integers(0, directory, size=250).tolist()) | set(range(200))
    return sorted(inside | set(range(directory, len(content))))


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_no_changed_byte_goes_unnoticed(saved, mask):
    content = saved.read_bytes()
    unnoticed = []
    for place in changed_bytes(content):
        altered = bytearray(content)
        altered[place] ^= mask
        saved.write_bytes(altered)
        try:
            db.Agent.load(saved)
            unnoticed.append((place, "loaded"))
        except db.BadSaveFile:
            pass
        except Exception as error:
            unnoticed.append((place, repr(error)))
    assert unnoticed == []


def test_bytes_around_a_save_are_noticed(saved):
    content = saved.read_bytes()
    for altered in (content + b"\0", b"\0" + content, content + content):
        saved.write_bytes(altered)
        with pytest.raises(db.BadSaveFile, match=r"agent"):
            db.Agent.load(saved)


def arrays_of(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def with_meta(path, change):
    arrays = arrays_of(path)
    meta = json.loads(arrays["json"].tobytes())
    change(meta)
    arrays["json"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    write_with_checksum(path, arrays)


def write_with_checksum(path, arrays):
    """What somebody would write who knows the format: only the content gives it away."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    archive = file.getvalue()[:-2] + (64).to_bytes(2, "little")
    path.write_bytes(archive + hashlib.sha256(archive).hexdigest().encode())


def test_an_archive_without_the_checksum_is_refused(saved):
    arrays = arrays_of(saved)
    with saved.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(db.BadSaveFile, match="checksum"):
        db.Agent.load(saved)


META_CHANGES = {
    "newer format": (lambda meta: meta.update(format=999), "format 999"),
    "no format": (lambda meta: meta.pop("format"), "format"),
    "empty": (lambda meta: meta.clear(), "agent"),
}


@pytest.mark.parametrize("label", META_CHANGES)
def test_altered_json(saved, label):
    change, fragment = META_CHANGES[label]
    with_meta(saved, change)
    with pytest.raises(db.BadSaveFile, match=fragment):
        db.Agent.load(saved)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"7", b'"a"', b"\xff\xfe", b"{}"])
def test_what_is_not_the_right_json(saved, text):
    arrays = arrays_of(saved)
    arrays["json"] = np.frombuffer(text, dtype=np.uint8)
    write_with_checksum(saved, arrays)
    with pytest.raises(db.BadSaveFile, match=r"agent"):
        db.Agent.load(saved)


def test_altered_arrays(saved):
    arrays = arrays_of(saved)
    for name in arrays:
        if name == "json" or not arrays[name].size:
            continue
        altered = {**arrays, name: arrays[name].copy()}
        altered[name].flat[0] += 1
        wrongs = [altered, {key: arrays[key] for key in arrays if key != name}]
        wrongs.append({**arrays, name: arrays[name].astype(np.float32)})
        wrongs.append({**arrays, name: arrays[name].reshape(-1, 1)})
        for wrong in wrongs:
            with saved.open("wb") as file:
                np.savez(file, **wrong)
            with pytest.raises(db.BadSaveFile, match=r"checksum"):
                db.Agent.load(saved)


class Trap:
    """Says so when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def other_files():
    npy, plain = io.BytesIO(), io.BytesIO()
    np.save(npy, np.eye(2))
    with zipfile.ZipFile(plain, "w") as file:
        file.writestr("readme.txt", "nothing of ours")
    trap = np.empty(1, dtype=object)
    trap[0] = Trap()
    pickled, pickled_json = io.BytesIO(), io.BytesIO()
    np.savez(pickled, json=np.frombuffer(b"{}", dtype=np.uint8), rows=trap)
    np.savez(pickled_json, json=trap)
    return {
        "empty": b"",
        "text": b"not a zip\n",
        "npy": npy.getvalue(),
        "zip": plain.getvalue(),
        "pickle": pickle.dumps(Trap()),
        "pickle inside": pickled.getvalue(),
        "pickle for json": pickled_json.getvalue(),
        "zip signature": b"PK\x03\x04" + bytes(100),
        "end of a zip": b"PK\x05\x06" + bytes(18),
    }


@pytest.mark.parametrize("label", other_files())
def test_other_files(saved, label):
    saved.write_bytes(other_files()[label])
    with pytest.raises(db.BadSaveFile, match=r"agent"):
        db.Agent.load(saved)
    assert not Trap.sprung
