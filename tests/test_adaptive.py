"""Policies that adapt their memory: what is detected, what is forgotten, what is drawn."""

import math

import numpy as np
import pytest
from scipy import optimize, special

import driftbandits as db
import kinds
from driftbandits.core.estimator.state import BEGUN, HEAD, SPAN, TAIL, named
from driftbandits.experiments import Restarted, play
from driftbandits.policies.adaptations import change_test, windows

# -- a witness: the evidence from the definition, over the same borders ---------------------------


def evidence(A, y, w, lam, phi):
    """E(c, H) of rows with linearised responses y and slopes w."""
    H = (A.T * w) @ A
    c = A.T @ y
    gain = c @ np.linalg.solve(H + lam * np.eye(len(c)), c) / (2 * phi)
    return gain - np.linalg.slogdet(np.eye(len(c)) + H / lam)[1] / 2


def laplace_evidence(A, X):
    """Of clicks under a logistic model with lam = 1, about their own peak."""

    def slope(theta):
        return theta + A.T @ (special.expit(A @ theta) - X)

    def curvature(theta):
        w = special.expit(A @ theta) * special.expit(-A @ theta)
        return np.eye(A.shape[1]) + (A.T * w) @ A

    peak = optimize.root(slope, np.zeros(A.shape[1]), jac=curvature, tol=1e-12).x
    gain = X @ (A @ peak) - np.logaddexp(0.0, A @ peak).sum() - peak @ peak / 2
    return gain - np.linalg.slogdet(curvature(peak))[1] / 2


def flip(rounds, *, seed=0, after=None):
    """A trace in the plane whose parameter turns round after some rounds."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-0.7, 0.7, size=(rounds, 4, 2))
    theta = np.tile([1.5, 0.0], (rounds, 1))
    if after is not None:
        theta[after:] = [-1.5, 0.0]
    means = 1 / (1 + np.exp(-np.einsum("tkd,td->tk", actions, theta)))
    rewards = (rng.random(means.shape) < means).astype(float)
    changes = () if after is None else (after + 1,)
    return db.Trace(actions=actions, rewards=rewards, means=means, theta=theta, changes=changes)


def state_of(agent):
    return agent._learner.model.buffers


def blocks_of(agent):
    return change_test.LAYOUT.in_python(state_of(agent))


def borders(agent):
    """The first round of every block, oldest first."""
    blocks = blocks_of(agent)
    return blocks.firsts[: blocks.number[0]].tolist()


def drive(agent, trace, start=0, stop=None):
    for t in range(start, trace.horizon if stop is None else stop):
        decision = agent.decide(trace.actions[t])
        agent.update(decision, trace.rewards[t, decision.index])


@pytest.mark.parametrize("name", kinds.those(kinds.forgets_on_changes))
def test_a_detection_is_the_strongest_evidence(name):
    """At the round of a detection, the statistic is that of the definition, and the largest."""
    trace = flip(400, after=200)
    policy = db.policy(name, dim=2, bonus_scale=0.1, false_alarm_rate=1e-3, centre=0.0)
    agent = db.Agent(policy)
    A, X = [], []
    while not agent.detections:
        t = agent.clock
        decision = agent.decide(trace.actions[t])
        A.append(trace.actions[t, decision.index])
        X.append(trace.rewards[t, decision.index])
        tried = borders(agent)
        agent.update(decision, X[-1])
    found = agent.detections[0]
    assert found.threshold == pytest.approx(math.log(1e3))
    assert found.statistic > found.threshold
    assert found.round == agent.clock
    assert 150 < found.change <= 230
    assert found.change in [*tried, found.round]
    A, X = np.array(A), np.array(X)
    if kinds.linear(name):  # no expansion: the statistic is exact
        w, y, phi = np.ones(len(X)), X, 0.25
        k = found.change - 1
        parts = [evidence(A[p], y[p], w[p], 1.0, phi) for p in (slice(k), slice(k, None))]
        assert found.statistic == pytest.approx(sum(parts) - evidence(A, y, w, 1.0, phi), rel=1e-9)
    else:
        k = found.change - 1
        parts = [laplace_evidence(A[p], X[p]) for p in (slice(k), slice(k, None))]
        assert found.statistic == pytest.approx(sum(parts) - laplace_evidence(A, X), abs=1e-4)


@pytest.mark.parametrize("name", kinds.those(kinds.forgets_on_changes))
def test_what_is_left_is_what_a_new_agent_would_know(name):
    trace = flip(500, after=250, seed=1)
    agent = db.Agent(db.policy(name, dim=2, bonus_scale=0.1, false_alarm_rate=1e-3))
    drive(agent, trace)
    found = agent.detections[-1]
    chosen = [agent.explain(t).decision.index for t in range(1, 501)]
    rounds = np.arange(found.change - 1, 500)
    fresh = db.Agent(db.policy("LinUCB" if kinds.linear(name) else "LogisticUCB", dim=2))
    fresh.learn(
        trace.actions[rounds, np.array(chosen)[rounds]],
        trace.rewards[rounds, np.array(chosen)[rounds]],
    )
    np.testing.assert_allclose(agent.theta_hat, fresh.theta_hat, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(agent.theta, fresh.theta, rtol=1e-7, atol=1e-8)
    actions = trace.actions[0]
    widths = agent.decide(actions).widths
    np.testing.assert_allclose(widths, 0.1 * fresh.decide(actions).widths, rtol=1e-9)


def test_the_blocks_are_a_partition_of_the_rows():
    agent = db.Agent(db.policy("CD-GLUCB", dim=2, false_alarm_rate=1e-4))
    trace = flip(300)
    for t in range(300):
        drive(agent, trace, t, t + 1)
        blocks = blocks_of(agent)
        count = blocks.number[0]
        sizes = blocks.sizes[:count]
        assert sizes.sum() == t + 1
        assert borders(agent) == (1 + np.concatenate([[0], np.cumsum(sizes)[:-1]])).tolist()
        levels = blocks.levels[:count]
        assert (sizes == 2**levels).all()
        assert (np.bincount(levels) <= change_test.BLOCKS_OF_A_SIZE).all()
        assert count <= change_test.BLOCKS_OF_A_SIZE * (1 + math.log2(t + 1))
        np.testing.assert_allclose(blocks.all_c, blocks.c[:count].sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(blocks.all_H, blocks.H[:count].sum(axis=0), atol=1e-9)


def test_rewards_of_before_the_change_are_late():
    trace = flip(500, after=250, seed=1)
    agent = db.Agent(db.policy("CD-GLUCB", dim=2, bonus_scale=0.1, false_alarm_rate=1e-3))
    drive(agent, trace, 0, 100)
    waiting = agent.decide(trace.actions[100])
    assert waiting.id in agent.pending
    drive(agent, trace, 101)
    (found,) = agent.detections
    assert found.change > waiting.round
    assert agent.pending == ()
    estimate = agent.theta_hat
    assert agent.update(waiting, 1.0) == "late"
    assert agent.late == 1
    np.testing.assert_array_equal(agent.theta_hat, estimate)


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_late_rows_belong_to_the_blocks_of_their_time(order):
    trace = flip(60)
    agent = db.Agent(db.policy("CD-LinUCB", dim=2, false_alarm_rate=1e-9))
    prompt = db.Agent(db.policy("CD-LinUCB", dim=2, false_alarm_rate=1e-9))
    decisions = agent.decide_many(trace.actions)
    prompt.decide_many(trace.actions)
    for decision in decisions:
        prompt.update(decision.id, float(decision.id % 2))
    # every third comes first, the others fill the gaps
    first, rest = decisions[::3], [d for d in decisions if d.round % 3 != 1]
    for decision in [*first, *(rest if order == "forward" else rest[::-1])]:
        agent.update(decision, float(decision.id % 2))
    one, other = state_of(agent), state_of(prompt)
    rows = one.rows[:, one.counters[HEAD] : one.counters[TAIL]]
    assert (np.diff(rows[3]) > 0).all()
    blocks, others = blocks_of(agent), blocks_of(prompt)
    ends = np.cumsum(blocks.sizes[: blocks.number[0]])
    assert ends[-1] == 60
    for block, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        # firsts are what the blocks were opened with: none of their rows is older
        assert rows[3, start] >= blocks.firsts[block]
        np.testing.assert_allclose(
            blocks.c[block], rows[:2, start:end] @ rows[2, start:end], atol=1e-12
        )
    np.testing.assert_allclose(blocks.all_c, others.all_c, atol=1e-12)
    np.testing.assert_allclose(blocks.all_H, others.all_H, atol=1e-12)
    np.testing.assert_allclose(named(one).b, named(other).b, atol=1e-12)
    np.testing.assert_allclose(named(one).V, named(other).V, atol=1e-12)


@pytest.mark.parametrize("arguments", [{"link": "poisson", "m": 20}, {"link": "binomial", "m": 5}])
def test_other_links_detect_too(arguments):
    rng = np.random.default_rng(0)
    agent = db.Agent(db.policy("CD-GLUCB", dim=2, bonus_scale=0.1, **arguments))
    for t in range(400):
        actions = rng.uniform(-0.7, 0.7, size=(4, 2))
        decision = agent.decide(actions)
        z = (1.0 if t < 200 else -1.0) * actions[[decision.index], 0]
        agent.update(decision, float(agent.policy.link.draw(rng, z)[0]))
    assert len(agent.detections) == 1
    assert 180 <= agent.detections[0].change <= 260


def test_detections_survive_a_save_and_are_bounded():
    agent = db.Agent(db.policy("CD-LinUCB", dim=1, false_alarm_rate=0.9))
    for t in range(6000):
        agent.update(agent.decide([[1.0]]), float(t // 4 % 2))
    assert len(agent.detections) == 1000
    assert agent.detections[-1].round > 5900
    loaded = db.Agent.from_bytes(agent.to_bytes())
    assert loaded.detections == agent.detections
    assert loaded.digest == agent.digest


# -- what it is worth ----------------------------------------------------------------------------


@pytest.mark.compiled
def test_the_paper_s_problem():
    """Regret, delay and missed changes of ten runs; forty are in docs/decisions/07."""
    players = {
        "detected": db.policy("CD-GLUCB", dim=2, bonus_scale=0.1),
        "window": db.policy("SW-GLUCB", dim=2, horizon=6000, changes=3, bonus_scale=0.1),
        "told": Restarted(db.policy("LogisticUCB", dim=2, bonus_scale=0.1)),
    }
    record = ("regret", "detections")
    result = db.simulate(players, db.environment("abrupt2d"), runs=10, seed=1, record=record)
    regret = {name: result.regret[name][:, -1].mean() for name in players}
    assert regret["told"] < regret["detected"] < 0.75 * regret["window"]
    off = []
    for found in result.detections["detected"]:
        for change in (1001, 2001, 3001):
            hits = [d for d in found if change <= d.round < change + 1000]
            assert hits
            off.append(abs(hits[0].change - change))
    assert np.median(off) < 25
    assert result.detections["window"] == [()] * 10


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(("options", "arguments"), [
    pytest.param({"norm": 5.0}, {"dim": 2, "S": 5.0}, id="steep"),
    pytest.param({"dim": 3, "base_rate": 0.03}, {"dim": 3, "S": 5.0}, id="rare"),
    pytest.param({"link": "poisson", "m": 30.0}, {"dim": 2, "link": "poisson", "m": 30.0},
                 id="counts"),
])  # fmt: skip
def test_skewed_rewards_are_no_change(options, arguments):
    """Without the confirmation there were 1.6, 2.5 and .3 restarts in 10,000 rounds."""
    world = db.environment("abrupt", horizon=5000, changes=0, **options)
    policy = db.policy("CD-GLUCB", bonus_scale=0.1, **arguments)
    result = db.simulate({"it": policy}, world, runs=4, seed=5, record=("detections",))
    assert sum(map(len, result.detections["it"])) <= 1


@pytest.mark.slow
@pytest.mark.compiled
def test_false_alarms_are_rare():
    """The promise, at least 1/rate rounds apart in the mean, is kept with room to spare."""
    world = db.environment("abrupt", horizon=4000, changes=0)
    rate = 1e-3
    policy = db.policy("CD-GLUCB", dim=2, bonus_scale=0.1, false_alarm_rate=rate)
    result = db.simulate({"it": policy}, world, runs=10, seed=3, record=("detections",))
    assert sum(map(len, result.detections["it"])) <= rate * 40_000


def test_a_restarted_player_counts_its_own_rounds():
    trace = flip(600, after=300)
    told = db.Trace(actions=trace.actions, rewards=trace.rewards, changes=(101,))
    policy = db.policy("CD-LinUCB", dim=2, bonus_scale=0.1, false_alarm_rate=1e-2)
    later = play(Restarted(policy), told, 0, ("detections",))
    assert later.detections
    for found in later.detections:
        assert 101 <= found.change <= found.round <= 600
    assert any(290 <= found.change <= 340 for found in later.detections)


def test_python_players_report_detections_too():
    trace = flip(500, after=250, seed=1)
    policy = db.policy("CD-GLUCB", dim=2, bonus_scale=0.1, false_alarm_rate=1e-3)
    compiled = play(policy, trace, 3, ("detections",))
    python = play(lambda seed: db.Agent(policy, seed=seed), trace, 3, ("detections",))
    assert compiled.detections == python.detections != ()


# -- a bandit over windows -----------------------------------------------------------------------


def test_the_numbers_of_the_bandit_over_windows():
    numbers = windows.numbers_for(db.policy("BOB-GLUCB", dim=2, horizon=6000))
    assert numbers.block == math.floor(2 ** (2 / 3) * math.sqrt(6000)) == 122
    assert numbers.windows == math.ceil(math.log(122)) + 1 == 6
    mixing = math.sqrt(6 * math.log(6) / ((math.e - 1) * math.ceil(6000 / 122)))
    assert numbers.mixing == pytest.approx(mixing)
    assert windows.numbers_for(db.policy("BOB-GLUCB", dim=2, horizon=1)).block == 1


def test_blocks_are_drawn_and_credited_as_exp3_does():
    """Against a plain Exp3 that is told which window was played and what the block earned."""
    policy = db.policy("BOB-GLUCB", dim=2, horizon=400, link="binomial", m=3.0)
    H, count, mixing, *_ = windows.numbers_for(policy)
    weights, spans = np.ones(count), set()
    agent = db.Agent(policy, seed=7)
    trace = flip(20 * H)
    rng = np.random.default_rng(0)
    for _ in range(20):
        earned = 0.0
        p = (1 - mixing) * weights / weights.sum() + mixing / count
        for t in range(H):
            decision = agent.decide(trace.actions[agent.clock])
            counters = state_of(agent).counters
            own = windows.LAYOUT.in_python(state_of(agent))
            drawn = own.drawn[0]
            assert own.probability[0] == pytest.approx(p[drawn])
            assert counters[SPAN] == math.floor(H ** (drawn / (count - 1)) + 1e-9)
            if t == 0:
                assert counters[BEGUN] == decision.round - 1
                assert counters[HEAD] == counters[TAIL]
                assert not agent.theta_hat.any()
            reward = float(rng.integers(0, 4))
            earned += reward / 3.0
            agent.update(decision, reward)
        spans.add(drawn)
        weights[drawn] *= math.exp(mixing / count * (earned / H) / p[drawn])
    assert len(spans) > 2


def test_a_block_is_a_sliding_window_policy():
    policy = db.policy("BOB-GLUCB", dim=2, horizon=400)
    agent = db.Agent(policy, seed=7)
    block = windows.numbers_for(policy).block
    trace = flip(3 * block)
    drive(agent, trace, 0, 2 * block)
    agent_starts = agent.clock
    drive(agent, trace, agent_starts, agent_starts + 1)
    window = int(agent._learner.model.buffers.counters[SPAN])
    base = db.Agent(db.policy("SW-GLUCB", dim=2, window=window, horizon=400), seed=7)
    rounds = range(agent_starts, 3 * block)
    for i, t in enumerate(rounds):
        if i > 0:
            drive(agent, trace, t, t + 1)
        made = agent.explain(t + 1)
        own = base.decide(trace.actions[t])
        np.testing.assert_allclose(made.decision.scores, own.scores, rtol=1e-7)
        assert made.radius == pytest.approx(base.explain(own).radius, rel=1e-12)
        base.update(own, trace.rewards[t, made.decision.index])
        if own.index != made.decision.index:
            pytest.fail("the same scores, another choice")


# -- what is accepted ----------------------------------------------------------------------------
