"""Long work is cut into portions that are committed one by one; nobody waits for all of it."""

import threading
from dataclasses import dataclass

import pytest
from calls import NEWS, arms, configure, counts, decide, ok, problem, reward

from driftbandits.service import engine, transactions
from driftbandits.service.commands import LearnDefaults, Many, Reward
from driftbandits.service.transactions import Command
from servers import wait_until


@pytest.fixture
def short_portions(monkeypatch):
    """Every portion is one item."""
    monkeypatch.setattr(transactions, "PORTION_S", 0.0)


def transactions_of(service):
    return service.service.engine.metrics.batches


def count_of(histogram):
    return histogram.buckets()[-1][1]


def test_due_defaults_are_learned_in_portions(both, short_portions):
    """Each is committed: a transaction never holds the lock for all of them."""
    configure(both.client, reward_wait_s=10)
    for i in range(30):
        ok(decide(both.client, f"e{i}", i))
    before = count_of(transactions_of(both))
    both.clock.pass_seconds(11)
    wait_until(lambda: counts(both.client)["defaults"] == 30)
    assert count_of(transactions_of(both)) - before >= 15  # two at a time


def test_progress_outlives_whoever_makes_it(both, short_portions, monkeypatch):
    """What was learned before a portion fails stays learned."""
    failures = iter([False] * 5 + [True] * 3)
    learn = LearnDefaults.run

    def run(self, work):
        if next(failures, False):
            raise RuntimeError("the lease ended")
        return learn(self, work)

    monkeypatch.setattr(LearnDefaults, "run", run)
    configure(both.client, reward_wait_s=10)
    for i in range(20):
        ok(decide(both.client, f"e{i}", i))
    both.clock.pass_seconds(11)
    wait_until(lambda: counts(both.client)["defaults"] == 20)


def test_a_reward_after_its_time_is_late_even_before_its_portion(service, short_portions):
    """The order of portions changes nothing for who reports too late."""
    configure(service.client, reward_wait_s=10)
    for i in range(50):
        ok(decide(service.client, f"e{i}", i))
    service.clock.pass_seconds(11)
    assert ok(reward(service.client, "e49", 1))["status"] == "late"
    wait_until(lambda: counts(service.client)["defaults"] == 50)
    assert counts(service.client)["late"] == 1


def test_a_batch_is_done_in_portions_and_in_order(both, short_portions):
    """Others come between; its own items keep their order and their results."""
    body = {"decisions": [{"event_id": f"b{i}", "arms": arms(i)} for i in range(40)]}
    before = count_of(transactions_of(both))
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(both.client.post(f"{NEWS}/decisions:batch", json=body))
    )
    asking.start()
    with both.connect(None) as other:
        for i in range(5):
            ok(decide(other, f"between{i}", i))
    asking.join(60.0)
    results = ok(answers[0])["results"]
    assert [result["decision"]["event_id"] for result in results] == [f"b{i}" for i in range(40)]
    rounds = [result["decision"]["round"] for result in results]
    assert rounds == sorted(rounds)
    assert count_of(transactions_of(both)) - before >= 40


@dataclass
class Hold(Command):
    """Keeps the writer busy until it is let go."""

    until: threading.Event

    def run(self, work):
        self.until.wait(120.0)


def test_a_timer_watches_who_waits(served, monkeypatch):
    """A turn that takes long does not keep others waiting longer than was promised."""
    monkeypatch.setattr(engine, "LONGEST_WAIT_S", 0.3)
    until = threading.Event()
    loop_of = served.service.engine
    loop_of._loop.call_soon_threadsafe(loop_of.do, Hold("", until))
    wait_until(lambda: loop_of._at_work)
    refused = decide(served.client, "e1")
    assert not until.is_set()
    until.set()
    assert problem(refused, 503)["code"] == "overloaded"
    assert refused.headers["retry-after"] == "1"
    monkeypatch.undo()
    ok(decide(served.client, "e1"))


def test_a_log_is_replayed_before_the_lock_is_taken(both, monkeypatch):
    """A process that has lost its folds replays them while others may write."""
    for i in range(5):
        ok(decide(both.client, f"e{i}", i))
    held = []
    store = both.service.engine.store
    write, load = store.write, transactions.load
    monkeypatch.setattr(store, "write", lambda **how: held.append("lock") or write(**how))
    monkeypatch.setattr(transactions, "load", lambda *a: held.append("load") or load(*a))
    both.service.engine.states.clear()
    ok(decide(both.client, "e5"))
    assert held[:2] == ["load", "lock"]
    assert held.count("load") == 1


def test_many_gives_back_what_is_left(short_portions):
    class Done(Command):
        def run(self, work):
            return self.policy

    class Work:
        is_long = True

        def state(self, policy):
            return policy

    many = Many("", [Done(str(i)) for i in range(3)])
    first = many.run(Work())
    second = first.command.run(Work())
    assert second.command.run(Work()) == ["0", "1", "2"]
    assert many.run(Work()) is not first  # it can be tried again from where it began


@pytest.mark.parametrize("somebody_waits", [True, False])
def test_a_portion_is_short_where_somebody_quick_waits(both, monkeypatch, somebody_waits):
    monkeypatch.setattr(transactions, "PORTION_S", 3600.0)
    monkeypatch.setattr(transactions, "SHORT_PORTION_S", 0.0)
    work, answered, done = both.service.engine, [], threading.Event()

    def give(name):
        answered.append(name)
        if len(answered) == 1 + somebody_waits:
            done.set()

    def begin():
        batch = [Reward("news", f"e{i}", 1.0, key="") for i in range(20)]
        work._last_lane = 0  # then it is the batch's turn
        work.do(Many("news", batch)).add_done_callback(lambda _: give("batch"))
        if somebody_waits:
            quick = work.do(Reward("news", "e", 1.0, key=""))
            quick.add_done_callback(lambda _: give("quick"))

    before = count_of(transactions_of(both))
    work._in_loop(begin)
    assert done.wait(60.0)
    assert answered == (["quick", "batch"] if somebody_waits else ["batch"])
    wait_until(lambda: count_of(transactions_of(both)) - before >= 1)
    assert count_of(transactions_of(both)) - before == (3 if somebody_waits else 1)
