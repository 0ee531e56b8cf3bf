"""Polya-Gamma numbers against their definition, and the posterior that sweeps draw from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

import driftbandits as db
from driftbandits.jit import compiled
from driftbandits.policies import augmentation

pytestmark = pytest.mark.compiled

COUNT = 20_000


@compiled
def fill(out, m, z, key):
    for s in range(out.shape[0]):
        out[s] = augmentation.polya_gamma(m, z, key, s + 1)


def drawn(z: float, *, m: int = 1, key: int = 7) -> np.ndarray:
    out = np.empty(COUNT)
    fill(out, m, z, key)
    return out


def by_gammas(z: float, rng: np.random.Generator, *, m: int = 1, terms: int = 400) -> np.ndarray:
    """The definition: a sum of gamma numbers, the rest of which is put at its mean."""
    k = np.arange(1, terms + 1) - 0.5
    gammas = rng.gamma(m, size=(COUNT, terms))
    weights = 1 / (k**2 + (z / (2 * np.pi)) ** 2)
    rest = mean_of(z, m) - m * weights.sum() / (2 * np.pi**2)
    return gammas @ weights / (2 * np.pi**2) + rest


def mean_of(z: float, m: int = 1) -> float:
    return m / 4 if z == 0 else m * math.tanh(z / 2) / (2 * z)


def variance_of(z: float, m: int = 1) -> float:
    if z == 0:
        return m / 24
    return m * (math.sinh(z) - z) / (4 * z**3 * math.cosh(z / 2) ** 2)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("z", [0.0, 0.3, -1.5, 3.0, 3.2, 8.0, -40.0])
def test_moments_are_those_of_the_law(z, m):
    numbers = drawn(z, m=m)
    mean, variance = mean_of(z, m), variance_of(z, m)
    assert (numbers > 0).all()
    assert numbers.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / COUNT))
    squares = (numbers - mean) ** 2
    assert squares.mean() == pytest.approx(variance, abs=4 * squares.std() / math.sqrt(COUNT))


@pytest.mark.parametrize("z", [0.0, 1.0, 3.0, -4.0, 12.0])
def test_the_law_is_that_of_a_sum_of_gammas(z):
    plain = by_gammas(z, np.random.default_rng(3))
    assert stats.ks_2samp(drawn(z), plain).pvalue > 1e-3


def test_very_large_arguments_give_numbers():
    for z in (700.0, 1e4, 1e300):
        numbers = drawn(z)
        assert np.isfinite(numbers).all()
        assert (numbers > 0).all()


def test_other_keys_and_rounds_give_other_numbers():
    numbers = np.concatenate([drawn(0.5), drawn(0.5, key=8)])
    assert len(np.unique(numbers)) == len(numbers)
    assert abs(np.corrcoef(numbers[: COUNT - 1], numbers[1:COUNT])[0, 1]) < 4 / math.sqrt(COUNT)


def votes_for_the_first(rewards: list[float], link: str, m: float, *, seeds: int) -> float:
    """How often (1,) is preferred to (0,): how likely theta > 0 is, of one feature."""
    share = 0.0
    for seed in range(seeds):
        agent = db.Agent(db.policy("PG-TS", dim=1, link=link, m=m), seed=seed)
        for reward in rewards:
            agent.update(agent.decide([[1.0]]), reward)
        decision = agent.decide([[1.0], [0.0]])
        share += decision.propensity if decision.index == 0 else 1 - decision.propensity
    return share / seeds


@pytest.mark.parametrize(
    ("rewards", "link", "m"), [([1.0, 0.0, 1.0], "logistic", 1.0), ([3.0, 2.0], "binomial", 4.0)]
)
def test_few_rewards_give_the_posterior_by_its_definition(rewards, link, m):
    seeds = 400
    theta = np.linspace(-15, 15, 30_001)
    logs = sum(x * theta - m * np.logaddexp(0, theta) for x in rewards) - theta**2 / 2
    expected = special.softmax(logs)[theta > 0].sum()
    found = votes_for_the_first(rewards, link, m, seeds=seeds)
    assert found == pytest.approx(expected, abs=4 * math.sqrt(0.25 / (8 * seeds)))
