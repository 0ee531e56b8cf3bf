"""dLinUCB: models that judge every reward, against a plain version that does the same slowly."""

import math

import numpy as np
import pytest
from scipy import special

import driftbandits as db
from driftbandits.policies.adaptations import dlinucb

# -- a witness -----------------------------------------------------------------------------------


class PlainModel:
    """A ridge regression, what it has found bad, and the round it began in."""

    def __init__(self, d, lam, start):
        self.A, self.b = lam * np.eye(d), np.zeros(d)
        self.squares = 0.0
        self.flags = []
        self.start = start

    def radius(self, plain):
        d = len(self.b)
        growth = 1 + self.squares / (d * plain.lam)
        spread = math.sqrt(2 * math.log(1 / plain.delta1) + d * math.log(growth))
        return math.sqrt(plain.lam) * plain.S + plain.sigma * spread

    def width(self, a, plain):
        return self.radius(plain) * math.sqrt(a @ np.linalg.inv(self.A) @ a)

    def mean(self, a):
        return a @ np.linalg.solve(self.A, self.b)

    @property
    def share(self):
        return float(np.mean(self.flags[-200:])) if self.flags else 0.0


class PlainModels:
    """The master and its models, from the definitions."""

    def __init__(self, d, *, delta, bonus_scale, centre, false_alarm_rate=0.1, lam=1.0, S=1.0):
        self.d, self.lam, self.S, self.centre = d, lam, S, centre
        self.sigma, self.delta1, self.delta2 = 0.5, delta, false_alarm_rate
        self.bonus_scale = bonus_scale
        self.models = [PlainModel(d, lam, 0)]
        self.detections = []
        self.most = self.dropped = 0

    def margin(self, model):
        n = min(len(model.flags), 200)
        return math.sqrt(math.log(1 / self.delta2) / (2 * n)) if n else math.inf

    def bound(self, model):
        return model.share - self.margin(model)

    @property
    def playing(self):
        return min(self.models, key=self.bound)

    def scores(self, actions):
        model = self.playing
        return np.array([
            self.centre + model.mean(a) + self.bonus_scale * model.width(a, self) for a in actions
        ])  # fmt: skip

    def is_late(self, s):
        return s < self.models[0].start

    def update(self, a, reward, s, clock):
        playing = self.playing
        epsilon = math.sqrt(2) * self.sigma * special.erfinv(1 - self.delta1)
        for model in self.models:
            if s < model.start:
                continue
            x = reward - self.centre
            bad = abs(x - model.mean(a)) > model.width(a, self) + epsilon
            model.flags.append(bad)
            if not bad:
                model.A += np.outer(a, a)
                model.b += x * a
                model.squares += a @ a
        share, margin = playing.share, self.margin(playing)
        sound = any(self.bound(model) < self.delta1 / 5 for model in self.models)
        self.models = [model for model in self.models if self.bound(model) < self.delta1]
        if not sound:
            if len(self.models) == 8:
                self.models.remove(max(self.models, key=self.bound))
                self.dropped += 1
            self.models.append(PlainModel(self.d, self.lam, clock))
        if playing not in self.models:
            self.detections.append((clock, share, margin + self.delta1))
        elif not sound:
            self.detections.append((clock, share, margin + self.delta1 / 5))
        self.most = max(self.most, len(self.models))


def ball(rng, *shape):
    points = rng.standard_normal(shape)
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    return points * rng.random((*shape[:-1], 1)) ** (1 / shape[-1]) * (1 - 1e-12)


def graded(rounds, *, changes=(), noise=0.1, seed=0, d=2, arms=4):
    """Rewards 1/2 + a.theta/2 with a little noise; theta turns round at every change."""
    rng = np.random.default_rng(seed)
    actions = ball(rng, rounds, arms, d)
    sign = (-1.0) ** np.searchsorted(changes, np.arange(1, rounds + 1), side="right")
    theta = np.zeros((rounds, d))
    theta[:, 0] = 0.5 * (1 - 2 * noise) * sign
    means = 0.5 + np.einsum("tkd,td->tk", actions, theta)
    rewards = means + noise * rng.uniform(-1, 1, means.shape)
    return db.Trace(
        actions=actions, rewards=rewards, means=means, theta=theta, changes=tuple(changes)
    )


def starts(agent):
    """The first round of every model."""
    models = dlinucb.LAYOUT.in_python(agent._learner.model.buffers)
    return models.starts[: models.number[0]].tolist()


STRICT = {"delta": 0.5, "bonus_scale": 0.1, "centre": 0.5}
"""A reward further than .34 from its mean is bad, if the width is 0."""

CROWDED = {"delta": 0.9, "S": 0.01, "lam": 20.0, "bonus_scale": 0.1, "centre": 0.5}
"""Anything further than .06 is bad, and a model may find .9 bad: many are doubtful, and remain."""


@pytest.mark.compiled
@pytest.mark.parametrize(("arguments", "d", "rounds", "delay", "clock"), [
    pytest.param(STRICT, 2, 3000, 40, "decisions", id="late"),
    pytest.param(STRICT, 2, 2000, 3, "ticks", id="ticks"),
    pytest.param({**STRICT, "delta": 0.8, "lam": 0.3, "S": 0.5}, 5, 2000, 0, "decisions", id="d5"),
    pytest.param(CROWDED, 2, 700, 20, "decisions", id="crowded-late"),
])  # fmt: skip
def test_a_run_is_the_plain_one(arguments, d, rounds, delay, clock):
    noise = 0.3 if arguments is CROWDED else 0.05
    trace = graded(rounds, changes=(301, 601), noise=noise, d=d, arms=20)
    agent = db.Agent(db.policy("dLinUCB", dim=d, **arguments), seed=1, clock=clock)
    plain = PlainModels(d, **arguments)
    order = np.random.default_rng(1)
    waiting, compared, late = [], 0, 0
    for t in range(rounds):
        expected = plain.scores(trace.actions[t])
        choice = agent.decide(trace.actions[t])
        np.testing.assert_allclose(choice.scores, expected, rtol=1e-8, atol=1e-8)
        radius = plain.bonus_scale * plain.playing.radius(plain)
        assert agent.explain(choice).radius == pytest.approx(radius, rel=1e-9)
        second, first = np.sort(expected)[-2:]
        if first - second > 1e-8:
            compared += 1
            assert choice.index == expected.argmax()
        waiting.append((choice, trace.actions[t, choice.index], trace.rewards[t, choice.index]))
        if clock == "ticks" and t % 7 == 0:
            agent.tick()
        while len(waiting) > delay:  # one of those that wait, in any order
            decision, a, x = waiting.pop(int(order.integers(len(waiting))))
            is_late = plain.is_late(decision.round)
            assert agent.update(decision, x) == ("late" if is_late else "learned")
            late += is_late
            if not is_late:
                plain.update(a, x, decision.round, agent.clock)
                assert starts(agent) == [model.start for model in plain.models]
    assert compared > 0.99 * rounds
    assert agent.late == late
    if (arguments, delay) == (STRICT, 40):
        assert late > 0
    assert len(plain.detections) >= 1
    if arguments is CROWDED:
        assert plain.most == dlinucb.MOST_MODELS
        assert plain.dropped > 10
    told = [(found.round, found.change) for found in agent.detections]
    assert told == [(clock_then, clock_then) for clock_then, _, _ in plain.detections]
    for found, (_, share, threshold) in zip(agent.detections, plain.detections, strict=True):
        assert found.statistic == pytest.approx(share, rel=1e-12)
        assert found.threshold == pytest.approx(threshold, rel=1e-12)
        assert found.statistic >= found.threshold


def test_the_numbers_of_the_source():
    numbers = dlinucb.numbers_for(db.policy("dLinUCB", dim=2, m=3.0))
    assert numbers.most_bad == 0.01
    assert numbers.surprise == pytest.approx(math.sqrt(2) * 1.5 * special.erfinv(0.99))
    assert numbers.half_log == pytest.approx(math.log(10) / 2)
    assert dlinucb.TAU == 200


# -- what it is worth ----------------------------------------------------------------------------


@pytest.mark.compiled
def test_clicks_are_never_bad_unless_delta_is_large():
    """With the numbers of the source this is LinUCB, whose rows are counted by their length."""
    world = db.environment("abrupt2d", horizon=3000)
    players = {
        "as published": db.policy("dLinUCB", dim=2, centre=0.5),
        "strict": db.policy("dLinUCB", dim=2, centre=0.5, delta=0.4),
    }
    result = db.simulate(players, world, runs=3, seed=2, record=("regret", "detections"))
    assert result.detections["as published"] == [()] * 3
    assert all(len(found) > 2 for found in result.detections["strict"])
    regret = {name: result.regret[name][:, -1].mean() for name in players}
    assert regret["strict"] < regret["as published"]


# -- time ----------------------------------------------------------------------------------------


def test_time_alone_changes_nothing():
    agent = db.Agent(db.policy("dLinUCB", dim=2, **STRICT))
    trace = graded(30)
    for t in range(30):
        choice = agent.decide(trace.actions[t])
        agent.update(choice, trace.rewards[t, choice.index])
    before = agent.preview(trace.actions[0], seed=0)
    agent.tick(10**12)
    assert agent.preview(trace.actions[0], seed=0).scores.tobytes() == before.scores.tobytes()
