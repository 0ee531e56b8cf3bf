"""Models of separate arms are the block-diagonal model of all of them."""

import numpy as np
import pytest

import driftbandits as db
import kinds

ARMS = ["red", "green", 7, "blue"]
DIM = 2
SEPARABLE = [
    name
    for name in kinds.those(lambda name: True)
    if kinds.row_of(name).adaptation == "none" and kinds.row_of(name).score < kinds.SCALED
]
MEMORY = {"window": 60, "discount": 0.95}


def arguments(name: str) -> dict:
    memory = kinds.memory_of(name, **MEMORY)
    shared = {"S": 8.0, "lam": 1.0, "bonus_scale": 0.05, "exact": True}
    return {**kinds.taken(name, shared), **memory}


class Pair:
    """An agent of separate arms, and one whose actions have a block of features for each arm."""

    def __init__(
        self, name: str, *, clock: str = "decisions", intercept: bool = True, **more
    ) -> None:
        given = kinds.taken(name, {**arguments(name), **more})
        self.separate = db.Agent(
            db.policy(name, dim=DIM, arms="separate", intercept=intercept, **given),
            seed=5,
            clock=clock,
        )
        self.size = DIM + intercept
        L = np.sqrt(given.pop("L", 1.0) ** 2 + intercept)
        self.block = db.Agent(
            db.policy(name, dim=self.size * len(ARMS), **kinds.taken(name, {"L": L}), **given),
            seed=5,
            clock=clock,
        )

    def blocks(self, rows: np.ndarray, arms: list) -> np.ndarray:
        wide = np.zeros((len(arms), len(ARMS), self.size))
        for i, (row, arm) in enumerate(zip(rows, arms, strict=True)):
            wide[i, ARMS.index(arm)] = [*row, 1.0][: self.size]
        return wide.reshape(len(arms), -1)

    def decide(self, context: np.ndarray, arms: list, **more):
        rows = np.broadcast_to(context, (len(arms), DIM))
        one = self.separate.decide(context, arms=arms, **more)
        other = self.block.decide(self.blocks(rows, arms), **more)
        several = zip(one, other, strict=True) if isinstance(one, list) else [(one, other)]
        for mine, theirs in several:
            assert (mine.id, mine.index, mine.round) == (theirs.id, theirs.index, theirs.round)
            assert mine.arm == arms[mine.index]
            assert mine.propensity == pytest.approx(theirs.propensity, abs=1e-8)
            np.testing.assert_allclose(mine.table, theirs.table, rtol=0, atol=1e-8)
        return one

    def update(self, decision, reward: float) -> None:
        assert self.separate.update(decision, reward) == self.block.update(decision.id, reward)

    def tick(self, rounds: int) -> None:
        self.separate.tick(rounds)
        self.block.tick(rounds)

    def compare_estimates(self) -> None:
        wide = self.block.theta_hat.reshape(len(ARMS), self.size)
        narrow = self.separate.theta_hat
        for arm, own in narrow.items():
            np.testing.assert_allclose(own, wide[ARMS.index(arm)], rtol=0, atol=1e-8)
            np.testing.assert_array_equal(own, self.separate.theta[arm])  # nothing is projected
        np.testing.assert_array_equal(self.block.theta_hat, self.block.theta)

    def compare_looks(self) -> None:
        for name in ("clock", "pending", "late", "issued"):
            assert getattr(self.separate, name) == getattr(self.block, name)
        assert self.separate.radius == pytest.approx(self.block.radius, rel=1e-9)
        sizes = self.separate.effective_sample_size, self.block.effective_sample_size
        np.testing.assert_allclose(*np.array(sizes, dtype=float), rtol=1e-9)  # None is NaN
        for mine, theirs in zip(self.separate.detections, self.block.detections, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-6)


def play(pair: Pair, rounds: int, *, shared_context: bool = True, seed: int = 0) -> None:
    """Arms come and go, rewards come late or never, time passes, the world changes, others play."""
    rng = np.random.default_rng(seed)
    low, high = pair.separate.policy.reward_range()
    truth = rng.standard_normal((len(ARMS), DIM + 1))
    waiting: list = []
    for t in range(rounds):
        if t == rounds // 2:
            truth = -3 * truth
        offered = list(ARMS)
        if t > 0:
            offered = [ARMS[i] for i in rng.permutation(len(ARMS))[: rng.integers(1, 5)]]
        rows = rng.uniform(-0.7, 0.7, (1 if shared_context else len(offered), DIM))
        if t % 10 == 3 and len(offered) > 1:
            made = pair.decide(rows[0] if shared_context else rows, offered, n=2)
        else:
            played = 0 if t % 10 == 6 else None
            made = [pair.decide(rows[0] if shared_context else rows, offered, played=played)]
        if t % 5 == 0:
            pair.compare_estimates()
        for choice in made:
            row = rows[0] if shared_context else rows[choice.index]
            level = truth[ARMS.index(choice.arm)] @ [*row, 1.0]
            reward = high if rng.random() < 1 / (1 + np.exp(-level)) else low
            delay = int(rng.choice([0, 0, 0, 2, 30]))
            waiting.append((t + delay, choice, reward))
        if rng.random() < 0.1:
            pair.tick(3)
        for _, choice, reward in [entry for entry in waiting if entry[0] <= t]:
            if rng.random() < 0.05:
                for agent in (pair.separate, pair.block):
                    agent.withdraw(choice.id)
            else:
                pair.update(choice, reward)
        waiting = [entry for entry in waiting if entry[0] > t]
        if t % 7 == 0:
            pair.compare_estimates()
        if t % 50 == 0:
            pair.compare_looks()
    pair.compare_looks()


@pytest.mark.parametrize("name", SEPARABLE)
def test_separate_arms_are_a_block_diagonal_model(name):
    play(Pair(name), 400)


@pytest.mark.parametrize("name", ["D-LinUCB", "SW-GLUCB"])
@pytest.mark.parametrize(
    "more",
    [{"epsilon": 0.3, "centre": 0.25}, {"intercept": False, "too_long": "rescale", "L": 0.5}],
    ids=str,
)
def test_each_arm_may_have_a_row_of_its_own(name, more):
    play(Pair(name, **more), 150, shared_context=False, seed=1)


def test_data_from_elsewhere_is_learned_arm_by_arm():
    for name in ("D-GLUCB", "SW-LinUCB"):
        pair = Pair(name)
        rng = np.random.default_rng(3)
        rows = rng.uniform(-0.5, 0.5, (40, DIM))
        arms = [ARMS[i] for i in [*range(4), *rng.integers(0, 4, 36)]]
        rewards = rng.integers(0, 2, 40).astype(float)
        wide = pair.blocks(rows, arms)
        pair.separate.learn(rows[:30], rewards[:30], arms=arms[:30])
        pair.block.learn(wide[:30], rewards[:30])
        ages = rng.integers(0, 90, 10)
        pair.separate.learn(rows[30:], rewards[30:], ages=ages, arms=arms[30:])
        pair.block.learn(wide[30:], rewards[30:], ages=ages)
        pair.compare_looks()
        pair.compare_estimates()
        pair.decide(rows[0], ARMS)


def test_with_a_clock_of_ticks_the_estimates_are_those_of_the_blocks():
    """Radii count the rows of each arm, so the widths are not."""
    for name in ("D-GLUCB", "SW-LinUCB"):
        pair = Pair(name, clock="ticks", bonus_scale=1e-12)
        rng = np.random.default_rng(4)
        for t in range(120):
            choice = pair.decide(rng.uniform(-0.7, 0.7, DIM), ARMS)
            pair.update(choice, float(rng.random() < 0.5))
            if t % 4 == 0:
                pair.tick(1)
            pair.compare_estimates()
        assert pair.separate.clock == 30
        assert pair.separate.issued == 120


def test_an_arm_that_appears_later_is_a_block_that_was_there():
    """The radius is that of the arms known so far; the estimates need not know."""
    pair = Pair("D-GLUCB")
    rng = np.random.default_rng(5)
    for t in range(90):
        arms = ARMS[: 2 + t // 30]
        row = rng.uniform(-0.7, 0.7, DIM)
        choice = pair.separate.decide(row, arms=arms)
        other = pair.block.decide(pair.blocks([row] * len(arms), arms), played=choice.index)
        np.testing.assert_allclose(choice.means, other.means, atol=1e-8)
        np.testing.assert_allclose(
            choice.widths / pair.separate.explain(choice).radius,
            other.widths / pair.block.explain(other).radius,
            atol=1e-8,
        )
        pair.update(choice, float(rng.random() < 0.5))
        pair.compare_estimates()
    assert pair.separate.arms == tuple(ARMS)
    assert pair.separate.radius == pytest.approx(pair.block.radius)


@pytest.mark.parametrize("name", ["SW-LinUCB", "D-GLUCB"])
def test_models_that_are_large_by_themselves_are_blocks_too(name):
    """In the ways of large models; generalized ones are exact to a share of their widths."""
    dim, arms = 20, ["a", "b", "c"]
    memory = kinds.taken(name, {"S": 5.0}) | kinds.memory_of(name, window=100, discount=0.98)
    separate = db.Agent(db.policy(name, dim=dim, arms="separate", intercept=False, **memory))
    block = db.Agent(db.policy(name, dim=dim * len(arms), **memory))
    close = 2.01e-4 if name == "D-GLUCB" else 1e-7  # a ten-thousandth of its width each
    rng = np.random.default_rng(6)
    for t in range(300):
        offered = arms if t == 0 else [arms[i] for i in rng.permutation(3)[: rng.integers(1, 4)]]
        x = rng.standard_normal(dim) / 6
        x /= max(1.0, np.linalg.norm(x))
        wide = np.zeros((len(offered), len(arms), dim))
        wide[np.arange(len(offered)), [arms.index(arm) for arm in offered]] = x
        one = separate.decide(x, arms=offered)
        other = block.decide(wide.reshape(len(offered), -1), played=one.index)
        off = np.abs(one.table - other.table) / other.widths
        assert off.max() < close
        if t % 40 == 0:
            for agent in (separate, block):
                agent.tick(25)
        reward = float(rng.random() < 0.5 + 0.4 * np.sign(x[0]) * (1 if one.arm == "a" else -1))
        for agent, decision in ((separate, one), (block, other)):
            agent.update(decision, reward)
