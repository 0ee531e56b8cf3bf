"""Reward models against scipy, 200-digit arithmetic and brute force."""

import decimal
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from driftbandits.core import links
from driftbandits.core.links import link

MODELS = {
    "logistic": link("logistic"),
    "binomial": link("binomial", m=5),
    "identity": link("identity", m=2.0),
    "poisson": link("poisson", m=40),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)

WIDE = np.concatenate([np.linspace(-40.0, 40.0, 4001), [-700.0, -200.0, -1e-300, 1e-300, 200.0]])
PRECISE = decimal.Context(prec=200)


def assert_within_ulps(got, want, ulps):
    got, want = np.asarray(got), np.asarray(want)
    distance = np.abs(got - want) / np.spacing(np.maximum(np.abs(want), np.finfo(float).tiny))
    worst = int(np.argmax(distance))
    assert distance.flat[worst] <= ulps, f"{got.flat[worst]!r} for {want.flat[worst]!r}"


def precise_sigmoid(z):
    """sigma(z) and 1 - sigma(z) in 200 digits."""
    e = PRECISE.exp(-abs(decimal.Decimal(z)))
    large = PRECISE.divide(1, PRECISE.add(1, e))
    small = PRECISE.multiply(e, large)
    return (large, small) if z >= 0 else (small, large)


def sigmoid_polynomials(highest):
    """Whole coefficients of sigma^(n) as a polynomial in p = sigma: dP/dz = P'(p) (p - p^2)."""
    rows = [[0, 1]]
    for _ in range(highest):
        last = rows[-1]
        following = [0] * (len(last) + 1)
        for power in range(1, len(last)):
            following[power] += power * last[power]
            following[power + 1] -= power * last[power]
        rows.append(following)
    return rows


POLYNOMIALS = sigmoid_polynomials(links.HIGHEST_DERIVATIVE)


def precise_derivative(n, z):
    p, _ = precise_sigmoid(z)
    total = decimal.Decimal(0)
    for coefficient in reversed(POLYNOMIALS[n]):
        total = PRECISE.add(PRECISE.multiply(total, p), coefficient)
    return total


def all_derivatives(model, z, order=links.HIGHEST_DERIVATIVE):
    values = np.full(order + 2, np.nan)
    links.derivatives(model.code, model.m, z, order, values)
    assert np.isnan(values[-1])
    return values[:-1]


@pytest.mark.parametrize("name", ["logistic", "binomial"])
def test_the_logistic_models_agree_with_scipy_to_a_few_ulp(name):
    model = MODELS[name]
    assert_within_ulps(model.mean(WIDE), model.m * special.expit(WIDE), 4)
    # the slope through logarithms that keep their digits where 1 - expit has none
    slope = model.m * np.exp(special.log_expit(WIDE) + special.log_expit(-WIDE))
    np.testing.assert_allclose(model.slope(WIDE), slope, rtol=2e-13, atol=0.0)
    assert_within_ulps(model.log_partition(WIDE), -model.m * special.log_expit(-WIDE), 4)


def test_the_other_models_are_their_formulas():
    z = np.linspace(-700.0, 700.0, 1401)
    poisson, identity = MODELS["poisson"], MODELS["identity"]
    for function in (poisson.mean, poisson.slope, poisson.log_partition):
        assert_within_ulps(function(z), np.exp(z), 2)
    np.testing.assert_array_equal(identity.mean(z), z)
    np.testing.assert_array_equal(identity.slope(z), np.ones_like(z))
    np.testing.assert_array_equal(identity.log_partition(z), z**2 / 2)


@every_model
@given(z=st.floats(-30.0, 30.0))
def test_the_mean_is_the_slope_of_the_log_partition_and_has_the_slope(model, z):
    """A mean-value check: b(y) - b(z) lies between (y - z) mu at either end, and so for mu."""
    h = 2.0**-10
    lower, upper = z - h, z + h
    gained = float(model.log_partition(upper)) - float(model.log_partition(lower))
    rounding = 4e-16 * (1.0 + abs(float(model.log_partition(z))))
    low, high = float(model.mean(lower)), float(model.mean(upper))
    assert 2 * h * low - rounding <= gained <= 2 * h * high + rounding
    slopes = model.slope(np.linspace(lower, upper, 9))
    rounding = 4e-16 * (1.0 + abs(high))
    # mu'' <= mu', so nine points see the extreme slopes up to a relative 2^-11
    assert 2 * h * slopes.min() * (1 - 2**-10) - rounding <= high - low
    assert high - low <= 2 * h * slopes.max() * (1 + 2**-10) + rounding


@given(z=st.floats(-300.0, 300.0))
def test_logistic_derivatives_of_every_order_agree_with_two_hundred_digits(z):
    got = {name: all_derivatives(MODELS[name], z) for name in ("logistic", "binomial")}
    p, rest = precise_sigmoid(z)
    for n in range(links.HIGHEST_DERIVATIVE + 1):
        want = float(precise_derivative(n, z))
        # Away from 0 nothing cancels and every digit counts; near 0 the terms of the polynomial
        # are as large as n! p (1-p).
        condition = float(p * rest) * math.factorial(n) if abs(z) < 40.0 and n > 1 else abs(want)
        for name, values in got.items():
            m = MODELS[name].m
            assert abs(values[n] - m * want) <= 4e-15 * m * condition + 1e-320


@pytest.mark.parametrize("m", [1.0, 5.0])
def test_the_quick_derivatives_of_large_models_agree_with_scipy(m):
    z = np.linspace(-30.0, 30.0, 4000)
    got, scratch = np.empty((3, z.size)), np.empty((3, z.size))
    code = link("binomial", m=m).code
    links.quick_derivatives(code, m, z, z.size, 2, scratch, got)
    slope = m * special.expit(z) * special.expit(-z)
    bend = slope * (special.expit(-z) - special.expit(z))
    for mine, exact in zip(got, (m * special.expit(z), slope, bend), strict=True):
        # absolute, as large sums are
        np.testing.assert_allclose(mine, exact, rtol=0, atol=1e-15 * m)


@given(z=st.floats(-300.0, 300.0))
def test_the_derivatives_of_the_other_models(z):
    flat = all_derivatives(MODELS["identity"], z)
    np.testing.assert_array_equal(flat, [z, 1.0] + [0.0] * (links.HIGHEST_DERIVATIVE - 1))
    assert_within_ulps(all_derivatives(MODELS["poisson"], z), np.full(flat.size, np.exp(z)), 2)


@every_model
def test_no_derivative_exceeds_its_bound_and_the_bound_is_not_slack(model):
    largest = 6.0
    grid = np.linspace(-20.0, largest, 2601)
    values = np.abs([all_derivatives(model, z) for z in grid])
    for n in range(1, links.HIGHEST_DERIVATIVE + 1):
        bound = links.derivative_bound(model.code, model.m, n, largest)
        assert values[:, n].max() <= bound
        assert bound <= 1.01 * values[:, n].max()


@every_model
@given(L=st.floats(0.01, 4.0), S=st.floats(0.01, 4.0))
def test_k_and_c_are_the_extreme_slopes_on_a_grid(model, L, S):
    """Every z = a.theta with ||a|| <= L, ||theta|| <= S lies in [-LS, LS]."""
    slopes = model.slope(np.linspace(-L * S, L * S, 2001))
    assert model.k_mu(L=L, S=S) == pytest.approx(slopes.max(), rel=1e-12)
    assert model.c_mu(L=L, S=S) == pytest.approx(slopes.min(), rel=1e-12)


def test_the_smallest_slope_keeps_its_digits_where_p_times_one_minus_p_is_zero():
    p = float(special.expit(50.0))
    assert p * (1.0 - p) == 0.0
    high, low = precise_sigmoid(50.0)
    assert_within_ulps(MODELS["logistic"].c_mu(L=10.0, S=5.0), float(high * low), 4)


@pytest.mark.parametrize("name", ["logistic", "binomial", "poisson"])
def test_a_smallest_slope_of_zero_is_refused(name):
    with pytest.raises(ValueError, match=re.escape("L * S = 800 is too large")):
        MODELS[name].c_mu(L=800.0, S=1.0)
    assert MODELS[name].c_mu(L=400.0, S=1.0) > 0.0


@pytest.mark.parametrize(
    ("name", "z", "variance"),
    [
        ("logistic", -1.3, lambda mu: mu * (1 - mu)),
        ("logistic", 4.0, lambda mu: mu * (1 - mu)),
        ("binomial", 0.7, lambda mu: mu * (1 - mu / 5)),
        ("identity", 0.4, lambda mu: mu * (2 - mu)),
        ("poisson", 1.1, lambda mu: mu),
    ],
)
def test_draws_have_the_mean_the_variance_and_the_values_of_the_model(name, z, variance):
    model, count = MODELS[name], 200_000
    draws = model.draw(np.random.default_rng(7), np.full((count // 2, 2), z))
    assert draws.shape == (count // 2, 2)
    low, high = model.reward_range()
    assert low <= draws.min()
    assert draws.max() <= high
    allowed = [0.0, model.m] if name == "identity" else np.arange(model.m + 1)
    assert np.isin(draws, allowed).all()
    expected = variance(float(model.mean(z)))
    standard_error = math.sqrt(expected / count)
    assert abs(draws.mean() - float(model.mean(z))) <= 5 * standard_error
    spread = (draws - draws.mean()) ** 2
    assert abs(spread.mean() - expected) <= 5 * spread.std() / math.sqrt(count)


def test_counts_above_the_largest_are_recorded_as_the_largest():
    draws = link("poisson", m=3).draw(np.random.default_rng(2), np.full(2000, math.log(3.0)))
    assert draws.max() == 3.0
    # P(count >= 3) for mean 3, from the first three terms of the series
    share = 1.0 - math.exp(-3.0) * (1.0 + 3.0 + 4.5)
    assert abs((draws == 3.0).mean() - share) <= 5 * math.sqrt(share * (1 - share) / 2000)


@pytest.mark.parametrize("z", [[-0.1], [0.5, 2.1]])
def test_the_identity_refuses_a_mean_outside_the_rewards(z):
    with pytest.raises(ValueError, match=re.escape("z must lie in [0, 2]")):
        MODELS["identity"].draw(np.random.default_rng(0), z)


@pytest.mark.parametrize(
    ("name", "m", "message"),
    [
        ("logistic", 2, "m must be 1 for the logistic model"),
        ("binomial", 2.5, "m must be an integer for the binomial model"),
        ("poisson", None, "m must be given for the poisson model"),
        ("identity", -1.0, "m must be a finite number greater than 0; got -1.0"),
        ("identity", math.inf, "m must be a finite number greater than 0; got inf"),
        ("identity", True, "m must be a finite number greater than 0; got True"),
        ("probit", 1, "link must be one of binomial, identity, logistic, poisson; got 'probit'"),
        ("logistc", 1, "got 'logistc', perhaps logistic"),
    ],
)
def test_a_bad_model_is_refused_by_name(name, m, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        link(name, m=m)
