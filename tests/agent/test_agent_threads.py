"""An agent in the hands of several threads."""

import sys
import threading

import numpy as np
import pytest

import driftbandits as db
from reference import Played, Reference


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
def test_threads_lose_nothing():
    """Decisions by some threads, rewards by others, lookers in between: all of it is there."""
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.99), seed=1)
    oracle = Reference("D-GLUCB", dim=2, discount=0.99)
    workers, each = 4, 60
    played: list[list[Played]] = [[] for _ in range(workers)]
    made: list[list[int]] = [[] for _ in range(workers)]

    def work(number):
        rng = np.random.default_rng(number)
        kept = []
        for i in range(each):
            actions = rng.integers(-4, 5, size=(3, 2)) / 8.0
            decisions = agent.decide(actions, n=2 if i % 6 == 5 else 1)
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
    assert agent.clock == workers * (each + each // 6)
    assert sorted(s for part in made for s in part) == list(range(1, agent.clock + 1))
    assert (agent.pending, agent.late) == ((), 0)
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
