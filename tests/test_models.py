"""dLinUCB: a pool of models that judge every reward, against a plain version that does it slowly."""

import math

import numpy as np
import pytest
from scipy import special

import driftbandits as db
from driftbandits.policies import models
from driftbandits.simulate import play

# -- a witness -----------------------------------------------------------------------------------


class PlainModel:
    """A ridge regression, what it has found bad, and the round it began in."""

    def __init__(self, d, lam, start):
        self.A, self.b = lam * np.eye(d), np.zeros(d)
        self.squares = 0.0
        self.flags = []
        self.start = start

    def width(self, a, plain):
        d, L = len(self.b), plain.L
        growth = 1 + L**2 * (self.squares / L**2) / (d * plain.lam)
        rho = math.sqrt(plain.lam) * plain.S
        rho += plain.sigma * math.sqrt(2 * math.log(1 / plain.delta1) + d * math.log(growth))
        return rho * math.sqrt(a @ np.linalg.inv(self.A) @ a)

    def mean(self, a):
        return a @ np.linalg.solve(self.A, self.b)

    @property
    def share(self):
        return float(np.mean(self.flags[-200:])) if self.flags else 0.0


class PlainModels:
    """The master and its models, from the definitions."""

    def __init__(self, d, *, delta1, delta2, bonus_scale, lam=1.0, S=1.0, L=1.0, centre=0.5):
        self.d, self.lam, self.S, self.L, self.centre = d, lam, S, L, centre
        self.sigma, self.delta1, self.delta2 = 0.5, delta1, delta2
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


STRICT = {"delta": 0.5, "bonus_scale": 0.1, "centre": 0.5}
"""A reward further than .34 from its mean is bad, if the width is 0."""

CROWDED = {"delta": 0.9, "false_alarm_rate": 0.3, "S": 0.01, "bonus_scale": 0.1, "centre": 0.5}
"""Anything further than .06 is bad, and a model may find .9 bad: all are doubtful, many remain."""


@pytest.mark.compiled
@pytest.mark.parametrize(("arguments", "d", "rounds", "delay", "clock"), [
    pytest.param(STRICT, 2, 3000, 0, "decisions", id="prompt"),
    pytest.param(STRICT, 2, 3000, 40, "decisions", id="late"),
    pytest.param(STRICT, 2, 2000, 3, "ticks", id="ticks"),
    pytest.param({**STRICT, "lam": 0.3, "false_alarm_rate": 0.01}, 5, 2000, 0, "decisions", id="d5"),
    pytest.param(CROWDED, 2, 1500, 0, "decisions", id="crowded"),
    pytest.param(CROWDED, 2, 1500, 20, "decisions", id="crowded-late"),
])  # fmt: skip
def test_a_run_is_the_plain_one(arguments, d, rounds, delay, clock):
    trace = graded(rounds, changes=(701, 1301), noise=0.05, d=d)
    agent = db.Agent(db.policy("dLinUCB", dim=d, **arguments), seed=1, clock=clock)
    own = dict(arguments)
    plain = PlainModels(
        d, delta1=own.pop("delta"), delta2=own.pop("false_alarm_rate", 0.1), **own
    )
    order = np.random.default_rng(1)
    waiting, compared, late = [], 0, 0
    for t in range(rounds):
        expected = plain.scores(trace.actions[t])
        choice = agent.decide(trace.actions[t])
        np.testing.assert_allclose(choice.scores, expected, rtol=1e-8, atol=1e-8)
        second, first = np.sort(expected)[-2:]
        if first - second > 1e-8:
            compared += 1
            assert choice.index == expected.argmax()
        waiting.append((choice, trace.actions[t, choice.index], trace.rewards[t, choice.index]))
        if clock == "ticks" and t % 7 == 0:
            agent.tick()
        while len(waiting) > delay:
            decision, a, x = waiting.pop(int(order.integers(len(waiting))))
            assert (agent.update(decision, x) == "late") == plain.is_late(decision.round)
            if plain.is_late(decision.round):
                late += 1
            else:
                plain.update(a, x, decision.round, agent.clock)
    assert compared > 0.99 * rounds
    assert agent.late == late
    assert len(plain.detections) >= 2
    assert len(agent.detections) == len(plain.detections)
    for found, (round_, share, threshold) in zip(agent.detections, plain.detections, strict=True):
        assert found.round == found.change == round_
        assert found.statistic == pytest.approx(share, rel=1e-12)
        assert found.threshold == pytest.approx(threshold, rel=1e-12)
        assert found.statistic >= found.threshold
    print(plain.most, plain.dropped, late, len(plain.detections))
