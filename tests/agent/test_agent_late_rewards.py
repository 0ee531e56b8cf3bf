"""Rewards that come late, in any order, against an oracle."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from agent_checks import CALM, STEADY
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import driftbandits as db
from policy_checks import Case, World
from reference import Played, Reference

coordinates = st.integers(-4, 4).map(lambda n: n / 6)
action_sets = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=4)
levels = st.sampled_from([0.0, 0.25, 1.0])
row = st.tuples(st.tuples(coordinates, coordinates), levels, st.integers(0, 40))
foreign_rows = st.lists(row, min_size=1, max_size=3)


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

    @rule(ahead=st.integers(1, 5))
    def reward_what_was_never_issued(self, ahead):
        for s in (self.clock + ahead, -ahead, 0):
            with pytest.raises(db.UnknownDecision, match=rf"decision {s} "):
                self.agent.update(s, 1.0)

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

    @rule(rows=foreign_rows, with_ages=st.booleans())
    def learn(self, rows, with_ages):
        actions, rewards, ages = zip(*rows, strict=True)
        self.agent.learn(actions, rewards, ages=ages if with_ages else None)
        for action, level, age in rows:
            self.clock += not with_ages
            if with_ages and age >= self.span:
                self.late += 1
            else:
                s = self.clock - age if with_ages else self.clock
                self.played.append(Played(s, np.array(action), level))
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
    "D-GLUCB projected": {"discount": 0.8, "S": 0.4, "lam": 0.2},
    "LogisticUCB": {"S": 0.6, "lam": 0.3},
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
@pytest.mark.parametrize(
    ("gamma", "extra"), [(0.5, {}), (0.996, {"m": 4.0, "L": 2.0, "lam": 0.1, "link": "binomial"})]
)
def test_what_truncation_leaves_out_is_certified(name, gamma, extra):
    """The rows that are called late could have moved theta-hat by next to nothing."""
    policy = db.policy(name, dim=2, discount=gamma, intercept=True, **extra)
    n = policy.forgets_after
    longest = np.sqrt(extra.get("L", 1.0) ** 2 + 1)
    scale = extra.get("m", 1.0) * longest / ((1 - gamma) * extra.get("lam", 1.0))
    assert scale * gamma**n <= 1e-8
    assert scale * gamma ** (n // 2) > 1e-8  # and it does not keep rows for nothing


@pytest.mark.parametrize("name", STEADY)
def test_the_order_of_arrival_does_not_matter(name):
    """The same rewards in another order, all before the next decision, give the same estimate."""
    case = Case(name, CALM)
    world = World(case, 12, seed=3)
    forth, back = case.agent(), case.agent()
    made = forth.decide_many(world.sets[:11])
    back.decide_many(world.sets[:11])
    rewards = [world.reward(d.id, world.sets[d.id - 1][d.index]) for d in made]
    for d, reward in zip(made, rewards, strict=True):
        forth.update(d, reward)
    for d, reward in zip(reversed(made), reversed(rewards), strict=True):
        back.update(d.id, reward)
    np.testing.assert_allclose(forth.theta_hat, back.theta_hat, rtol=1e-9, atol=1e-9)
    one, other = forth.decide(world.sets[11]), back.decide(world.sets[11])
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-9)
