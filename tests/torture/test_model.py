"""The service against a dict, in whatever order Hypothesis thinks of."""

import itertools
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from load import offered, size_of_test

from driftbandits import store
from driftbandits.service.state import State
from driftbandits.store import START, Head, checked
from servers import Clock, Served

pytestmark = pytest.mark.compiled

STEPS = size_of_test("STEPS", short=200)
STEPS_AT_ONCE = 50
WAIT_S = 100.0

CONFIGURATIONS = [
    {"name": "D-GLUCB", "dim": 2, "discount": 0.999, "epsilon": 0.3, "reward_wait_s": WAIT_S},
    {"name": "D-GLUCB", "dim": 2, "discount": 0.999, "epsilon": 0.3, "mode": "frozen"},
    {"name": "D-GLUCB", "dim": 2, "discount": 0.999, "epsilon": 0.3, "mode": "apprentice"},
    {"name": "LinUCB", "dim": 2, "default_reward": 1.0, "reward_wait_s": WAIT_S},
    {"name": "D-GLUCB", "dim": 2, "half_life_s": 3600.0},
    {
        **{"name": "D-GLUCB", "dim": 2, "discount": 0.999, "epsilon": 0.3},
        **{"control": 0.3, "shares": {"left": [0.2, 0.8]}, "budget": 0.1},
    },
]
SERVED = ("mode", "reward_wait_s", "default_reward", "control", "shares", "budget")

event_ids = st.integers(0, 30).map("e{}".format)
numbers = st.sampled_from([0, 0, 0, 1])
values = st.sampled_from([1.0, 1.0, 0.0])


class Model:
    """What the service promises, and nothing about how it decides."""

    def __init__(self):
        self.now = 0.0
        self.configuration = {}
        self.decisions = {}  # event_id: (number of the offer, the answer)
        self.waiting = {}  # event_id: (when, whether something can be learned)
        self.reported = {}  # event_id: value
        self.defaulted, self.withdrawn = set(), set()
        self.counts = Counter()

    def is_another(self, configuration):
        """Whether it is another model, which begins without what was learned, as it is asked to."""
        before, after = (
            {name: value for name, value in c.items() if name not in SERVED}
            for c in (self.configuration, configuration)
        )
        return before != after

    def configure(self, configuration):
        if self.is_another(configuration):
            self.waiting.clear()
        self.configuration = configuration

    def expire(self):
        wait = self.configuration.get("reward_wait_s", float("inf"))
        for event_id, (since, _) in list(self.waiting.items()):
            if self.now - since >= wait:
                del self.waiting[event_id]
                self.defaulted.add(event_id)
                self.counts["defaults"] += 1

    def decide(self, event_id, number):
        """The status, and the answer if it is known."""
        self.expire()
        if event_id in self.decisions:
            same = self.decisions[event_id][0] == number
            self.counts["duplicates" if same else "conflicts"] += 1
            return (200, self.decisions[event_id][1]) if same else (409, None)
        learns = self.configuration.get("mode") != "frozen"
        self.waiting[event_id] = (self.now, learns)
        self.counts["decisions"] += 1
        return 200, None

    def reward(self, event_id, value):
        self.expire()
        if event_id not in self.decisions:
            return 404, None
        if event_id in self.withdrawn:
            self.counts["conflicts"] += 1
            return 409, None
        if event_id in self.waiting or event_id not in self.reported:
            _, learns = self.waiting.get(event_id, (0.0, False))
            learns = learns and self.configuration.get("mode") != "frozen"
            late = self.waiting.pop(event_id, None) is None
            self.reported[event_id] = value
            self.counts["late" if late else "rewards"] += 1
            return 200, "late" if late else "learned" if learns else "recorded"
        same = self.reported[event_id] == value
        self.counts["duplicates" if same else "conflicts"] += 1
        return (200, "duplicate") if same else (409, None)

    def withdraw(self, event_id):
        self.expire()
        if event_id not in self.decisions:
            return 404, None
        if event_id in self.withdrawn:
            self.counts["duplicates"] += 1
            return 200, "duplicate"
        if event_id in self.reported or event_id in self.defaulted:
            self.counts["conflicts"] += 1
            return 409, None
        self.waiting.pop(event_id, None)
        self.withdrawn.add(event_id)
        self.counts["withdrawn"] += 1
        return 200, "withdrawn"


class Home:
    """A service that can be started again over the same store."""

    def __init__(self, url):
        self.url, self.clock, self.names = url, Clock(), itertools.count()
        self.steps = 0
        self.start()

    def start(self):
        self.service = Served(self.url, clock=self.clock, snapshot_every=7)
        self.client = self.service.client

    def stop(self):
        self.service.__exit__()


class Machine(RuleBasedStateMachine):
    """Each run has a policy of its own."""

    def __init__(self, home):
        super().__init__()
        self.home, self.model = home, Model()
        self.policy = f"p{next(home.names)}"
        self.since_restart = 0
        self.configure(CONFIGURATIONS[0])

    def send(self, method, path, body=None):
        self.home.steps += 1
        self.since_restart += 1
        url = f"/v1/policies/{self.policy}{path}"
        answer = self.home.client.request(method, url, json=body)
        return answer.status_code, answer.json()

    @rule(configuration=st.sampled_from(CONFIGURATIONS))
    def configure(self, configuration):
        fresh = self.model.is_another(configuration)
        status, told = self.send("PUT", "", {"seed": 5, **configuration, "fresh": fresh})
        assert status in (200, 201), told
        self.model.expire()
        self.model.configure(configuration)

    def check_decision(self, event_id, number, status, told):
        expected, known = self.model.decide(event_id, number)
        assert status == expected, told
        if known is not None:
            assert told == known
        elif status == 200:
            self.model.decisions[event_id] = (number, told)
            if self.model.configuration.get("mode") == "apprentice":
                assert told["arm"] == "left"

    def check_reward(self, event_id, value, status, told):
        expected, word = self.model.reward(event_id, value)
        assert status == expected, told
        assert word is None or told == {"status": word}

    @rule(event_id=event_ids, number=numbers)
    def decide(self, event_id, number):
        body = {"event_id": event_id, "arms": offered(number), "baseline": "left"}
        self.check_decision(event_id, number, *self.send("POST", "/decisions", body))

    @rule(event_id=event_ids, value=values)
    def reward(self, event_id, value):
        body = {"event_id": event_id, "value": value}
        self.check_reward(event_id, value, *self.send("POST", "/rewards", body))

    @rule(event_id=event_ids)
    def withdraw(self, event_id):
        status, told = self.send("POST", "/withdrawals", {"event_id": event_id})
        expected, word = self.model.withdraw(event_id)
        assert status == expected, told
        assert word is None or told == {"status": word}

    @rule(verb=st.sampled_from(["freeze", "thaw"]))
    def freeze(self, verb):
        mode = self.model.configuration.get("mode", "online")
        status, told = self.send("POST", f":{verb}")
        assert status == 200, told
        if (mode == "frozen") != (verb == "freeze"):
            mode = told["configuration"]["mode"]
            assert (mode == "frozen") == (verb == "freeze")
        self.model.expire()
        self.model.configure({**self.model.configuration, "mode": mode})

    @rule(asked=st.lists(st.tuples(event_ids, numbers), min_size=1, max_size=6))
    def decide_many(self, asked):
        bodies = [
            {"event_id": event_id, "arms": offered(number), "baseline": "left"}
            for event_id, number in asked
        ]
        status, told = self.send("POST", "/decisions:batch", {"decisions": bodies})
        assert status == 200, told
        for (event_id, number), result in zip(asked, told["results"], strict=True):
            self.check_decision(event_id, number, result["status"], result["decision"])

    @rule(asked=st.lists(st.tuples(event_ids, values), min_size=1, max_size=6))
    def reward_many(self, asked):
        bodies = [{"event_id": event_id, "value": value} for event_id, value in asked]
        status, told = self.send("POST", "/rewards:batch", {"rewards": bodies})
        assert status == 200, told
        for (event_id, value), result in zip(asked, told["results"], strict=True):
            self.check_reward(event_id, value, result["status"], result["reward"])

    @rule(seconds=st.sampled_from([1.0, 30.0, WAIT_S, 10 * WAIT_S]))
    def pass_time(self, seconds):
        self.home.clock.pass_seconds(seconds)
        self.model.now += seconds

    @rule()
    def look(self):
        self.check_reward(
            "nobody", 1.0, *self.send("POST", "/rewards", {"event_id": "nobody", "value": 1.0})
        )
        status, told = self.send("GET", "")
        assert status == 200, told
        counted = {name: count for name, count in told["counts"].items() if count}
        assert counted == dict(self.model.counts)
        assert told["pending"] == len(self.model.waiting)

    @precondition(lambda self: self.since_restart > 20)
    @rule(lose_snapshots=st.booleans())
    def restart(self, lose_snapshots):
        self.look()  # and let everything that is due be learned
        self.since_restart = 0
        _, before = self.send("GET", "/digest")
        self.home.stop()
        if lose_snapshots:
            with store.open(self.home.url) as log, log.write() as session:
                session.lock([self.policy])
                session.drop_snapshots(self.policy, before=10**9)
        self.home.start()
        _, after = self.send("GET", "/digest")
        assert after == before

    def teardown(self):
        """What memory had is what the log gives."""
        self.look()
        _, live = self.send("GET", "/digest")
        with store.open(self.home.url) as log, log.read() as session:
            state = State(self.policy)
            events = session.all_events(self.policy)
            state.replay(checked(events, after=Head(0, 0, START)))
        assert state.differences == 0
        assert state.digest == live["digest"]


def test_the_service_is_a_dict(store_url, record_property):
    home = Home(store_url)
    chosen = settings(
        settings.default,
        max_examples=max(1, STEPS // STEPS_AT_ONCE),
        stateful_step_count=STEPS_AT_ONCE,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    try:
        run_state_machine_as_test(lambda: Machine(home), settings=chosen)
    finally:
        home.stop()
    record_property("steps", home.steps)
    assert home.steps > STEPS // 2
