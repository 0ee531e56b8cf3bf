"""What every policy must do, whatever its row: one list of small checks.

A check takes a `Case` and a folder for its files, and fails with an `AssertionError`. A new policy
enters `driftbandits.policy_names()` and is checked; a new function whose name begins with `check_`
is run over every policy and configuration of `test_policies`.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import driftbandits as db
import kinds
from driftbandits.core.links import Link
from driftbandits.policies import takes
from kinds import both, either, no
from reference import Played, Reference


def memory_of(name: str) -> dict:
    """A memory short enough to be felt within a check."""
    if kinds.looks_for_changes(name):
        return {"false_alarm_rate": 0.5}
    if kinds.draws_windows(name):
        return {"horizon": 300}  # blocks of 27 rounds in the plane
    return kinds.memory_of(name, window=12, discount=0.8)


@dataclass(frozen=True)
class Case:
    """A policy and how it is set up."""

    name: str
    arguments: dict = field(default_factory=dict)
    label: str = "plain"

    @property
    def given(self) -> dict:
        return {"dim": 2, **memory_of(self.name), **kinds.taken(self.name, self.arguments)}

    def policy(self, **changes) -> db.Policy:
        return db.policy(self.name, **{**self.given, **changes})

    def agent(self, seed: int = 3, **changes) -> db.Agent:
        return db.Agent(self.policy(**changes), seed=seed)

    @property
    def reward_range(self) -> tuple[float, float]:
        linear = kinds.linear(self.name) or self.given.get("link") == "identity"
        shift = 0.0 if linear else self.given.get("centre", 0.0)
        return shift, self.given.get("m", 1.0) + shift

    @property
    def forgets(self) -> bool:
        return bool(self.given.keys() & {"window", "discount"})

    def __str__(self) -> str:
        return f"{self.name}-{self.label}"


class World:
    """Action sets of changing size, and rewards that prefer one direction, then another."""

    def __init__(self, case: Case, rounds: int, seed: int = 0, largest: int = 6) -> None:
        rng = np.random.default_rng(seed)
        dim, L = case.given["dim"], case.given.get("L", 1.0)
        self.sets = []
        for _ in range(rounds):
            points = rng.standard_normal((int(rng.integers(1, largest + 1)), dim))
            lengths = L * rng.random(len(points)) ** (1 / dim)
            self.sets.append(
                points * (lengths / np.linalg.norm(points, axis=1)).reshape(-1, 1) * (1 - 1e-12)
            )
        self.levels = rng.random(rounds)
        self.low, self.high = case.reward_range
        self.whole = case.given.get("link") in ("binomial", "poisson")

    def reward(self, t: int, action: np.ndarray) -> float:
        """Of playing `action` in the t-th set (from 0)."""
        wanted = action[0] if t < len(self.sets) / 2 else -action[-1]
        share = 1 / (1 + np.exp(-4 * wanted))
        if self.whole:
            return self.low + float(np.rint((self.high - self.low) * share * self.levels[t]))
        return self.high if self.levels[t] < share else self.low


def play(agent: db.Agent, world: World, start: int = 0, stop: int | None = None) -> list:
    """Decide and learn at once, round by round."""
    decisions = []
    for t in range(start, len(world.sets) if stop is None else stop):
        decisions.append(agent.decide(world.sets[t]))
        agent.update(decisions[-1], world.reward(t, world.sets[t][decisions[-1].index]))
    return decisions


def same(one: db.Decision, other: db.Decision) -> bool:
    """The same decision, bit for bit."""
    plain = ("id", "index", "round", "propensity")
    arrays = ("scores", "means", "widths")
    return all(getattr(one, name) == getattr(other, name) for name in plain) and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in arrays
    )


def all_same(some: list, others: list) -> bool:
    return len(some) == len(others) and all(map(same, some, others))


def digest(agent: db.Agent) -> bytes:
    """The whole state of an agent, as the bytes it would be saved in."""
    return agent.to_bytes()


def saved_copy(agent: db.Agent, folder: Path) -> db.Agent:
    agent.save(folder / "copy.npz")
    return db.Agent.load(folder / "copy.npz")


def look(agent: db.Agent) -> None:
    """Read everything that can be read."""
    _ = agent.theta_hat, agent.theta, agent.certificate, agent.clock, agent.late, agent.work
    _ = agent.detections
    for s in agent.pending:
        agent.explain(s).table()


# -- the checks ----------------------------------------------------------------------------------


def check_decide_is_pure(case: Case, folder: Path) -> None:
    world = World(case, 30)
    agent = case.agent()
    play(agent, world, 0, 20)
    one, other = saved_copy(agent, folder), saved_copy(agent, folder)
    assert same(one.decide(world.sets[20]), other.decide(world.sets[20]))
    assert one.theta_hat.tobytes() == other.theta_hat.tobytes()
    assert same(agent.decide(world.sets[20]), one.explain(21).decision)


def check_looking_changes_nothing(case: Case, folder: Path) -> None:
    """Not even what would be saved: two replicas are compared by their digests."""
    world = World(case, 20)
    watched, alone = case.agent(), case.agent()

    def look_twice() -> None:
        before = digest(watched)
        look(watched)
        assert digest(watched) == before

    look_twice()
    for t, actions in enumerate(world.sets):
        seen, unseen = watched.decide(actions), alone.decide(actions)
        assert same(seen, unseen)
        look_twice()
        if t % 3:
            reward = world.reward(t, actions[seen.index])
            watched.update(seen, reward)
            alone.update(unseen, reward)
            look_twice()
        if t % 10 == 9:
            watched.tick(2)
            look_twice()
            alone.tick(2)
    assert watched.theta_hat.tobytes() == alone.theta_hat.tobytes()
    assert watched.theta.tobytes() == alone.theta.tobytes()
    # What was read is all that may differ between the two, and reading evens that out.
    assert digest(watched) == digest(alone)


def check_what_is_shown_is_owned(case: Case, folder: Path) -> None:
    """Reading twice gives the same bits, whatever was written to freed memory in between."""
    agent = case.agent()
    play(agent, World(case, 8))

    def shown() -> list:
        return [agent.theta_hat.tobytes(), agent.theta.tobytes(), agent.certificate]

    first = shown()
    for _ in range(5):
        _ = [np.full(size, np.pi) for size in range(1, 600)]
        assert shown() == first


def overwrite(array: np.ndarray) -> None:
    """Spoil an array that was handed out; one that refuses to be written is safe too."""
    if array.flags.writeable:
        array[...] = 77.0


def check_nothing_is_aliased(case: Case, folder: Path) -> None:
    """Neither what is given nor what is handed out."""
    world = World(case, 30)
    spoiled, clean = case.agent(), case.agent()
    for t, actions in enumerate(world.sets):
        given = actions.copy()
        one, other = spoiled.decide(given), clean.decide(actions)
        assert same(one, other)
        given[...] = np.nan
        explained = spoiled.explain(one)
        for shown in (spoiled, explained):
            overwrite(shown.theta)
            overwrite(shown.theta_hat)
        for array in (one.scores, one.means, one.widths, explained.decision.scores):
            overwrite(array)
        assert same(spoiled.explain(other.id).decision, other)
        assert spoiled.explain(other.id).theta.tobytes() == clean.explain(other).theta.tobytes()
        reward = world.reward(t, actions[other.index])
        assert spoiled.update(other.id, reward) == clean.update(other, reward) == "learned"
        overwrite(spoiled.theta_hat)
        overwrite(spoiled.theta)
        assert spoiled.theta.tobytes() == clean.theta.tobytes()
        assert spoiled.theta_hat.tobytes() == clean.theta_hat.tobytes()
    assert digest(spoiled) == digest(clean)
    ranked = spoiled.decide(np.eye(case.given["dim"]).repeat(2, axis=0), n=2)
    second = copy.deepcopy(ranked[1])
    overwrite(ranked[0].scores)
    assert same(ranked[1], second)


def check_works_before_any_reward(case: Case, folder: Path) -> None:
    agent = case.agent()
    assert agent.clock == 0
    assert agent.pending == ()
    assert not agent.theta_hat.any()
    assert not agent.theta.any()
    assert agent.theta.shape == (agent.policy.model_dim,)
    for t, actions in enumerate(World(case, 20).sets, start=1):
        decision = agent.decide(actions)
        assert decision.id == decision.round == agent.clock == t
        assert 0 <= decision.index < len(actions)
        assert np.isfinite(decision.scores).all()
        assert np.ptp(decision.means) == 0.0  # nothing is known: every action has the same mean
        lengths = np.linalg.norm(case_rows(case, actions), axis=1)
        if kinds.believing(case.name):
            assert (decision.widths > 0.0).all() or agent.policy.link.linear  # in no unit so far
        elif kinds.optimistic(case.name):
            # the shortest action has the score from which z can be told best
            link, optimistic = agent.policy.link, decision.scores - agent.policy.centre
            per_length = (argument_of_mean(link, optimistic) / lengths)[lengths.argmin()]
            assert optimistic == pytest.approx(link.mean(lengths * per_length), rel=1e-9)
        elif kinds.by_divergence(case.name):  # a chance is at most 1, however long the action
            assert (np.diff(decision.widths[lengths.argsort()]) >= -1e-12).all()
        else:
            widths = decision.widths
            assert widths == pytest.approx(lengths * (widths / lengths).max(), rel=1e-9)
        assert not agent.theta_hat.any()


def argument_of_mean(link: Link, means: np.ndarray) -> np.ndarray:
    """z where mu(z) is given: a belief is optimistic about a . theta, not about the mean."""
    if link.name == "identity":
        return means
    return np.log(means) if link.name == "poisson" else np.log(means / (link.m - means))


def case_rows(case: Case, actions: np.ndarray) -> np.ndarray:
    """The actions as the model sees them."""
    ones = np.ones((len(actions), 1))
    return np.hstack([actions, ones]) if case.given.get("intercept") else actions


def check_permuting_the_arms_permutes_the_choice(case: Case, folder: Path) -> None:
    world = World(case, 30, seed=1)
    agent = case.agent()
    play(agent, world, 0, 24)
    rng = np.random.default_rng(0)
    for t in range(24, 30):
        actions = np.vstack([world.sets[t], world.sets[t - 1], world.sets[t - 2]])
        order = rng.permutation(len(actions))
        plain = saved_copy(agent, folder).decide(actions)
        permuted = saved_copy(agent, folder).decide(actions[order])
        assert permuted.means.tobytes() == plain.means[order].tobytes()
        assert permuted.widths.tobytes() == plain.widths[order].tobytes()
        alone_at_the_top = (plain.scores == plain.scores.max()).sum() == 1
        if alone_at_the_top and not agent.policy.scoring.epsilon:
            assert order[permuted.index] == plain.index
            assert plain.propensity == permuted.propensity
            if not kinds.randomised(case.name):
                assert plain.index == plain.scores.argmax()
                assert plain.propensity == 1.0
        agent.tick(1)


def check_action_sets_may_change(case: Case, folder: Path) -> None:
    """Any size and any way to write a table of numbers, in every round."""
    dim = case.given["dim"]
    rng = np.random.default_rng(2)
    agents = [case.agent() for _ in range(5)]
    for t, size in enumerate([1, 7, 2, 40, 1, 3, 3, 150, 5, 1]):
        # Multiples of 1/32 are the same numbers in single precision.
        actions = rng.integers(-4, 5, size=(size, dim)) / 32.0
        forms = [
            actions,
            actions.tolist(),
            np.asfortranarray(actions),
            actions.astype(np.float32),
            np.repeat(actions, 2, axis=0)[::2],
        ]
        decisions = [agent.decide(form) for agent, form in zip(agents, forms, strict=True)]
        assert decisions[0].scores.shape == (size,)
        assert all(same(decisions[0], decision) for decision in decisions[1:])
        for agent in agents:
            agent.update(t + 1, case.reward_range[t % 2])


def check_scores_add_up(case: Case, folder: Path) -> None:
    for decision in play(case.agent(), World(case, 30)):
        assert (decision.scores == decision.means + decision.widths).all()
        assert (decision.widths >= 0).all()
        assert 0 < decision.propensity <= 1


def check_save_and_load_go_on(case: Case, folder: Path) -> None:
    """Interrupted at any point, with rewards pending and one late, nothing tells the difference."""
    world = World(case, 45, seed=4)
    whole, halved = case.agent(), case.agent()
    waiting: list = []
    for t, actions in enumerate(world.sets):
        one, other = whole.decide(actions), halved.decide(actions)
        assert same(one, other)
        waiting.append((t, one.id, world.reward(t, actions[one.index])))
        if t % 4 == 3:  # three at once, newest first, the fourth much later or never
            for _, s, reward in reversed(waiting[-3:]):
                assert whole.update(s, reward) == halved.update(s, reward)
            del waiting[-3:]
        if t in (0, 7, 22, 23, 40):
            halved = saved_copy(halved, folder)
            assert halved.theta_hat.tobytes() == whole.theta_hat.tobytes()  # of the last decision
    for _, s, reward in waiting:
        assert whole.update(s, reward) == halved.update(s, reward)
    assert whole.late == halved.late
    assert whole.detections == halved.detections
    assert whole.pending == halved.pending
    assert whole.theta_hat.tobytes() == halved.theta_hat.tobytes()
    assert whole.theta.tobytes() == halved.theta.tobytes()
    assert whole.certificate == halved.certificate
    for s in range(1, 46):
        one, other = whole.explain(s), halved.explain(s)
        assert same(one.decision, other.decision)
        assert one.theta.tobytes() == other.theta.tobytes()
        assert one.radius == other.radius
    assert whole.policy == halved.policy
    halved = saved_copy(halved, folder)
    whole.tick(1)
    halved.tick(1)
    assert whole.theta_hat.tobytes() == halved.theta_hat.tobytes()
    assert digest(whole) == digest(halved)


def check_the_estimate_survives_a_save(case: Case, folder: Path) -> None:
    """theta_hat is what the last decision used, also for who loads the file in between."""
    world = World(case, 20, seed=8)
    agent = case.agent()
    play(agent, world, 0, 19)
    agent.decide(world.sets[19])
    loaded = saved_copy(agent, folder)
    assert loaded.theta_hat.tobytes() == agent.theta_hat.tobytes()
    agent.tick(1)
    loaded.tick(1)
    assert loaded.theta_hat.tobytes() == agent.theta_hat.tobytes()


def check_randomness_is_a_function_of_seed_and_round(case: Case, folder: Path) -> None:
    """Equal arms always tie, whatever the agent has learned: only seed and round can matter."""
    world = World(case, 60, seed=7)
    equal = np.tile(world.sets[0][:1], (5, 1))
    ties, again, other = case.agent(seed=4), case.agent(seed=4), case.agent(seed=5)
    choices: dict[str, list] = {"ties": [], "again": [], "other": []}
    for t in range(60):
        if t % 3 == 0:  # a different past, the same round
            again.tick(1)
            ties.decide(equal)
            other.decide(equal)
            continue
        choices["ties"].append(ties.decide(equal).index)
        decision = again.decide(equal)
        again.update(decision, case.reward_range[t % 2])
        choices["again"].append(decision.index)
        choices["other"].append(other.decide(equal).index)
    assert choices["ties"] == choices["again"]
    assert choices["ties"] != choices["other"]
    assert set(choices["ties"]) == set(range(5))


def check_propensities_are_frequencies(case: Case, folder: Path) -> None:
    """Over many rounds, every action is chosen as often as its propensity says."""
    agent = case.agent(seed=9)
    play(agent, World(case, 15))
    dim = case.given["dim"]
    actions = np.vstack([np.eye(dim), np.eye(dim), np.full((1, dim), 0.1)])
    K, epsilon = len(actions), agent.policy.scoring.epsilon
    if kinds.randomised(case.name):
        assert_weights_are_fair(agent, actions, every_action_possible=epsilon > 0)
        return
    surplus, variance = np.zeros(K), np.zeros(K)
    for _ in range(PROPENSITY_ROUNDS):
        decision = agent.decide(actions)
        best = decision.scores == decision.scores.max()
        expected = best * (1 - epsilon) / best.sum() + epsilon / K
        assert decision.propensity == pytest.approx(expected[decision.index], rel=1e-12)
        surplus += (np.arange(K) == decision.index) - expected
        variance += expected * (1 - expected)
    certain = variance == 0
    assert not surplus[certain].any()
    assert (np.abs(surplus[~certain]) <= 4 * np.sqrt(variance[~certain])).all()


def assert_weights_are_fair(agent: db.Agent, actions, *, every_action_possible: bool) -> None:
    """The weight 1/propensity of an action, 0 where it is not chosen, is 1 on average.

    Where an action may be impossible in some rounds, its weight is less.
    """
    weights = np.zeros((PROPENSITY_ROUNDS, len(actions)))
    for t in range(PROPENSITY_ROUNDS):
        decision = agent.decide(actions)
        weights[t, decision.index] = 1 / decision.propensity
    surplus = (weights - 1).sum(axis=0)
    spread = np.sqrt(((weights - 1) ** 2).sum(axis=0))
    assert (surplus <= 4 * spread).all()
    if every_action_possible:
        assert (surplus >= -4 * spread).all()
    assert weights.max() > 1


PROPENSITY_ROUNDS = 600


def check_a_batch_equals_its_single_calls(case: Case, folder: Path) -> None:
    world = World(case, 30, seed=10)
    batch, single = case.agent(), case.agent()
    for start in range(0, 30, 5):
        sets = world.sets[start : start + 5]
        many = batch.decide_many(sets)
        ones = [single.decide(actions) for actions in sets]
        assert all_same(many, ones)
        rewards = [
            world.reward(start + i, sets[i][decision.index]) for i, decision in enumerate(many)
        ]
        order = [3, 0, 4, 1]
        told = batch.update_many([many[i] for i in order], np.array(rewards)[order])
        assert told == [single.update(ones[i].id, rewards[i]) for i in order]
    assert batch.pending == single.pending
    assert batch.theta.tobytes() == single.theta.tobytes()
    assert digest(batch) == digest(single)
    assert batch.decide_many([]) == []
    assert batch.update_many([], []) == []
    assert digest(batch) == digest(single)


def check_invalid_input_changes_nothing(case: Case, folder: Path) -> None:
    world = World(case, 16)
    agent = case.agent()
    play(agent, world, 0, 14)
    waiting = agent.decide(world.sets[14])
    good = world.sets[15]
    bad = np.vstack([good, np.full((1, case.given["dim"]), np.nan)])
    low, high = case.reward_range
    calls: list[Callable] = [
        lambda: agent.decide(bad),
        lambda: agent.decide(good[:, :0]),
        lambda: agent.decide(good[:0]),
        lambda: agent.decide(good, n=len(good) + 1),
        lambda: agent.decide_many([good, bad]),
        lambda: agent.update(waiting, high + 1e-6),
        lambda: agent.update(waiting, low - 1e-6),
        lambda: agent.update(waiting, float("nan")),
        lambda: agent.update(waiting.id + 1, low),
        lambda: agent.update(14, low),
        lambda: agent.update_many([waiting.id, waiting.id], [low, low]),
        lambda: agent.update_many([waiting.id, 14], [low, low]),
        lambda: agent.update_many([waiting.id], [low, low]),
        lambda: agent.withdraw(waiting.id + 1),
        lambda: agent.tick(-1),
        lambda: agent.learn(bad, [low] * len(bad)),
        lambda: agent.learn(good, [high + 1.0] * len(good)),
        lambda: agent.learn(good, [low] * len(good), ages=[-1] * len(good)),
        lambda: agent.explain(waiting.id + 1),
    ]
    before = digest(agent)
    for number, call in enumerate(calls):
        with pytest.raises(ValueError, match=r"."):
            call()
        assert digest(agent) == before, f"call {number} left a trace"
    agent.update(waiting, high)
    assert digest(agent) != before


def check_a_save_holds_no_pickle(case: Case, folder: Path) -> None:
    agent = case.agent()
    play(agent, World(case, 5))
    agent.save(folder / "agent.npz")
    with np.load(folder / "agent.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert all(array.dtype.kind in "iuf" for array in arrays.values())
    meta = json.loads(arrays["json"].tobytes())
    assert {"format", "policy", "seed"} <= meta.keys()
    assert meta["seed"] == agent.seed


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]

# -- against the definitions ---------------------------------------------------------------------


def assert_follows(name: str, arguments: dict, *, rounds: int, seed: int = 0) -> dict:
    """Agent and reference side by side on the same actions and rewards."""
    oracle = Reference(name, **arguments)
    agent = db.Agent(db.policy(name, **arguments), seed=1)
    world = World(Case(name, arguments), rounds, seed=seed)
    played: list[Played] = []
    counts = {"projected": 0, "compared": 0}
    for t, actions in enumerate(world.sets):
        expected = oracle.score(t, played, actions)
        decision = agent.decide(actions)
        np.testing.assert_allclose(agent.theta_hat, expected.theta_hat, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(agent.theta, expected.theta, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(decision.means, expected.means, rtol=1e-7, atol=1e-7)
        # the spread of a sample has J in it, which is as exact as theta-hat
        rtol = 1e-7 if kinds.samples_parameters(name) and not kinds.linear(name) else 1e-9
        np.testing.assert_allclose(decision.widths, expected.widths, rtol=rtol, atol=1e-9)
        counts["projected"] += expected.theta is not expected.theta_hat
        ranked = np.sort(expected.scores)
        if decision.propensity == 1 and len(actions) > 1 and ranked[-1] - ranked[-2] > 1e-8:
            counts["compared"] += 1
            assert decision.index == expected.scores.argmax()
        reward = world.reward(t, actions[decision.index])
        played.append(Played(t + 1, actions[decision.index], reward))
        agent.update(decision, reward)
    return counts


# -- every parameter reaches the model -----------------------------------------------------------

STRICT = {"delta": 0.5, "S": 0.5, "lam": 5.0}
"""With which models that are judged find many rewards bad, and are given up within 60 rounds."""


def everywhere(name: str) -> bool:
    return True


nowhere, has_link = no(everywhere), no(kinds.linear)
bounded, informed, with_bonus = no(kinds.believing), no(kinds.indifferent), no(kinds.without_bonus)
tuned = either(kinds.windowed, kinds.discounted)
counts_on_the_horizon = either(
    kinds.tests_arms,
    both(
        no(kinds.for_fixed_arms),
        either(kinds.windowed, kinds.self_concordant, kinds.local, kinds.draws_windows),
    ),
)
confident = both(bounded, no(either(kinds.for_fixed_arms, kinds.augmented)))


# Where a changed argument must be felt (`base` is what it is changed from); elsewhere it must not.
REACH: dict[str, list[tuple[dict, dict, kinds.Kind]]] = {
    "dim": [({}, {"dim": 3}, everywhere)],
    "link": [
        ({}, {"link": "binomial", "m": 1.0}, nowhere),
        ({}, {"link": "identity"}, has_link),
        ({"m": 3.0, "link": "poisson"}, {"link": "binomial"}, has_link),
    ],
    "window": [({"window": 12}, {"window": 6}, either(kinds.windowed, kinds.remembers_as_told))],
    "discount": [
        ({"discount": 0.8}, {"discount": 0.7}, either(kinds.discounted, kinds.remembers_as_told))
    ],
    "horizon": [
        ({}, {"horizon": 5000}, counts_on_the_horizon),
        (
            {"window": None, "discount": None, "horizon": 900},
            {"horizon": 20},
            either(tuned, counts_on_the_horizon),
        ),
    ],
    "changes": [
        ({"horizon": 5000}, {"changes": 90}, kinds.tests_arms),
        (
            {"window": None, "discount": None, "horizon": 900},
            {"changes": 90},
            either(tuned, kinds.tests_arms),
        ),
    ],
    "path_length": [
        ({"horizon": 5000}, {"path_length": 90.0}, nowhere),
        (
            {"window": None, "discount": None, "horizon": 900},
            {"path_length": 90.0},
            either(
                both(either(kinds.for_drift, kinds.learns_in_one_pass), kinds.discounted),
                kinds.forgets_by_schedule,
            ),
        ),
    ],
    "lam": [({}, {"lam": 3.0}, informed)],
    "S": [({}, {"S": 0.3}, both(informed, confident))],
    "L": [({}, {"L": 2.0}, bounded)],
    "m": [({"link": "binomial", "m": 2.0}, {"m": 4.0}, everywhere)],
    "delta": [({}, {"delta": 0.2}, both(with_bonus, confident))],
    "bonus_scale": [({}, {"bonus_scale": 0.25}, with_bonus)],
    "intercept": [({"intercept": False}, {"intercept": True}, informed)],
    "projection": [
        ({"S": 0.05}, {"projection": "radial"}, kinds.projected),
        ({"S": 0.05}, {"projection": "none"}, kinds.projected),
    ],
    "centre": [({}, {"centre": 0.25}, informed)],
    "epsilon": [({}, {"epsilon": 0.6}, informed)],
    "too_long": [({}, {"too_long": "rescale"}, bounded)],
    "exact": [({}, {"exact": True}, nowhere)],
    "false_alarm_rate": [
        (
            {"false_alarm_rate": 0.99},
            {"false_alarm_rate": 1e-6},
            both(kinds.looks_for_changes, no(kinds.judges_models)),
        ),
        ({"false_alarm_rate": 0.99, **STRICT}, {"false_alarm_rate": 1e-6}, kinds.looks_for_changes),
    ],
    "arms": [({}, {"arms": "separate"}, everywhere)],  # which asks for ids, or is refused
    "reward": [({}, {"reward": "cost:0..4"}, everywhere)],
    "outside": [({"reward": "click"}, {"outside": "refuse"}, everywhere)],
    "features": [({}, {"features": {"context": {"x": "number"}}}, everywhere)],  # asks for tables
}


def behaviour(name: str, arguments: dict) -> list[float]:
    """Everything that shows from outside on a fixed sequence of actions and rewards."""
    given = {"dim": 2, **memory_of(name), **arguments}
    try:
        agent = db.Agent(db.policy(name, **given), seed=2)
    except ValueError:
        return []
    agent.warns = False
    rng = np.random.default_rng(12)
    shown: list[float] = []
    for t in range(20):
        actions = rng.uniform(-0.7, 0.7, size=(4, 2))
        try:
            decision = agent.decide(actions)
        except ValueError:
            return [-1.0]
        shown += [decision.index, decision.propensity, *decision.means, *decision.widths]
        # 1 is a reward of every model, centred or not; then the world changes
        agent.update(decision, 1.0 if t < 10 else agent.policy.reward_range()[0])
    waiting = agent.decide(np.array([[0.5, 0.5]])).id
    probes: list[Callable] = [
        lambda: agent.decide([[1.5, 0.0]]),
        lambda: agent.update(waiting, 3.0),
        lambda: agent.update(waiting, 2.0),
    ]
    for probe in probes:
        try:
            probe()
            shown.append(1.0)
        except ValueError:
            shown.append(0.0)
    return shown


def assert_every_parameter_reaches_the_model(case: Case) -> None:
    parameters = [name for name in inspect.signature(db.policy).parameters if name != "name"]
    assert sorted(parameters) == sorted(REACH), "say where the new argument must be felt"
    for name, probes in REACH.items():
        for base, change, where in probes:
            before = behaviour(case.name, base)
            after = behaviour(case.name, {**base, **change})
            felt = len(before) != len(after) or not np.allclose(
                before, after, rtol=1e-12, atol=1e-12
            )
            given = {**base, **change}
            if all(takes(case.name, key) for key in given if given[key] is not None):
                assert felt == where(case.name), f"{name}: {base} -> {change}"
            else:
                assert after == [], f"{name} must be refused: {base} -> {change}"
