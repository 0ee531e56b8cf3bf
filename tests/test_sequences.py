"""Intervals that may be looked at at any time, against their definitions and by simulation."""

import importlib.util
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from driftbandits.core.sequences import (
    FEWEST,
    Comparison,
    Design,
    asymptotic_boundary,
    boundary,
    log_wealth,
)


def benchmark():
    path = Path(__file__).parents[1] / "benchmarks" / "lift.py"
    spec = importlib.util.spec_from_file_location("lift_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def filled(design, rewards, sides, **more):
    found = Comparison(design)
    for value, side in zip(rewards, sides, strict=True):
        found.add(float(value), is_control=bool(side), **more)
    return found


def test_an_increment_never_gains_on_average():
    """Fan's inequality, of which everything here is made: for x > -1 and l in [0, 1)."""
    x = np.concatenate([np.linspace(-1.0, 3.0, 4001), np.geomspace(3.0, 1e6, 1000)])
    for share in np.linspace(0.0, 0.99, 34):
        psi = -math.log1p(-share) - share
        assert (share * x - psi * x**2 <= np.log1p(np.maximum(share * x, -0.999999)) + 1e-12).all()


def test_the_mixture_is_one_of_probabilities():
    assert float(log_wealth(0.0, 0.0)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("v", [0.0, 0.3, 7.0, 1e3, 1e7])
@pytest.mark.parametrize("scale", [0.5, 20.0])
def test_the_boundary_is_where_the_wealth_is_one_over_the_risk(v, scale):
    found = boundary(v * scale**2, scale=scale, risk=0.025)
    assert float(log_wealth(found / scale, v)) == pytest.approx(math.log(40.0), abs=1e-6)


def test_the_asymptotic_boundary_is_the_paper_s():
    """Theorem 2.2: the half-width of the mean, with variance v / n."""
    n, v, risk = 700.0, 33.0, 0.05
    rho2 = (-2 * math.log(risk) + math.log(1 - 2 * math.log(risk))) / 2000.0
    half = math.sqrt(v / n) * math.sqrt(
        2 * (n * rho2 + 1) / (n**2 * rho2) * math.log(math.sqrt(n * rho2 + 1) / risk)
    )
    assert asymptotic_boundary(n, v, risk=risk) / n == pytest.approx(half, rel=1e-12)


def test_sums_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    rewards, sides = rng.random(400), rng.random(400) < 0.3
    found = filled(Design(0.3, 0.0, 1.0), rewards, sides)
    a, b, v = [], [], []
    for i, (reward, side) in enumerate(zip(rewards, sides, strict=True)):
        earlier = rewards[:i][~sides[:i]], rewards[:i][sides[:i]]
        guess_a, guess_b = ((0.25 + past.sum()) / (1 + past.size) for past in earlier)
        a.append(guess_a + (0 if side else (reward - guess_a) / 0.7))
        b.append(guess_b + ((reward - guess_b) / 0.3 if side else 0))
        v.append((a[-1] - b[-1] - (guess_a - guess_b)) ** 2)
    told = found.difference()
    assert told.value == pytest.approx(np.mean(a) - np.mean(b), rel=1e-10)
    half = boundary(sum(v), scale=1 / 0.3, risk=0.025) / 400
    assert (told.low, told.high) == pytest.approx((told.value - half, told.value + half))
    assert found.mean(of_control=True).value == pytest.approx(np.mean(b))
    assert found.mean(of_control=False).value == pytest.approx(np.mean(a))
    assert found.relative().value == pytest.approx(np.mean(a) / np.mean(b) - 1)


def test_parts_can_be_put_together():
    rng = np.random.default_rng(3)
    rewards, sides = rng.random(90), rng.random(90) < 0.5
    design, guesses = Design(0.5, 0.0, 1.0), (0.4, 0.6)
    for group in (None, 7):
        more = {"guesses": guesses, "group": group}
        whole = filled(design, rewards, sides, **more)
        joined = filled(design, rewards[:30], sides[:30], **more)
        joined.join(filled(design, rewards[30:], sides[30:], **more))
        assert joined.rounds == whole.rounds
        assert joined.sums == pytest.approx(whole.sums)
        assert joined.intrinsic_time(1, 1) == pytest.approx(whole.intrinsic_time(1, 1))
        told = msgspec.msgpack.decode(msgspec.msgpack.encode(whole), type=Comparison)
        assert told == whole
        assert told.difference() == whole.difference()


def test_nothing_is_said_before_there_is_something_to_say():
    found = Comparison(Design(0.1, 0.0, 1.0))
    assert found.difference() is None
    assert found.mean(of_control=True) is None
    found.add(1.0, is_control=False)
    assert found.difference() is None
    found.add(1.0, is_control=True)
    assert found.difference() == (pytest.approx(found.difference().value), -1.0, 1.0)
    unbounded = Design(0.5, -math.inf, math.inf)
    few = filled(unbounded, [1000.0] * 2 * (FEWEST - 1), [0, 1] * (FEWEST - 1))
    assert few.difference() == (0.0, None, None)
    assert few.relative() is None
    few.add(1001.0, is_control=True)
    few.add(1000.0, is_control=False)
    assert few.difference().low is not None


def test_rewards_beyond_their_range_count_as_its_end():
    found = filled(Design(0.5, 1.0, 5.0), [9.0, -3.0], [True, False])
    assert (found.rewards, found.totals) == ([1, 1], [1.0, 5.0])


def test_units_do_not_lie():
    """Whoever does the same many times tells as much as once."""
    rng = np.random.default_rng(4)
    design = Design(0.5, 0.0, 1.0)
    alone, grouped = Comparison(design), Comparison(design)
    for person in range(800):
        side, value = bool(rng.random() < 0.5), float(rng.random() < 0.3)
        for _ in range(8):
            alone.add(value, is_control=side)
            grouped.add(value, is_control=side, group=person)
    assert not grouped.is_bounded
    narrow, wide = alone.difference(), grouped.difference()
    # 8 rewards of one person: the standard error is sqrt(8) times as large
    ratio = grouped.intrinsic_time(1, 1) / alone.intrinsic_time(1, 1)
    assert 6 < ratio < 15
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


@pytest.mark.parametrize("place", range(8))
def test_the_truth_is_covered_at_all_times(place):
    """A short form of benchmarks/lift.py, whose 1,000 policies are in docs/comparing.md."""
    lift = benchmark()
    world = lift.WORLDS[place]
    found = lift.coverage(world, 40, 6000 if world.by_person else 2000)
    assert found.difference >= 0.95
    assert found.relative >= 0.95
    assert found.usual < 0.9  # what may be looked at once may not be watched


@pytest.mark.parametrize("groups", [1, 200])
def test_a_few_lists_among_single_rounds_do_not_hide_the_interval(groups):
    rng, found = np.random.default_rng(0), Comparison(Design(share=0.2, low=0.0, high=1.0))
    for i in range(3000):
        is_control = bool(rng.random() < 0.2)
        group = i % groups if i % 500 == 0 or groups > 1 else None
        found.add(float(rng.random() < 0.3), is_control=is_control, group=group)
    interval = found.difference()
    assert interval.low is not None
    assert interval.low < 0.0 < interval.high
    alone = Comparison(Design(share=0.2, low=0.0, high=1.0))
    for i in range(600):
        alone.add(1.0, is_control=bool(i % 2), group=i % 3)
    assert alone.difference().low is None, "three persons tell nothing"
