"""The dense kernels against numpy and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from driftbandits import linalg

SIZES = (1, 2, 3, 5, 8, 13, 30, 100)
every_size = pytest.mark.parametrize("d", SIZES)


def positive_definite(d, *, seed=0, condition=1e3):
    """A symmetric matrix with eigenvalues spread evenly, in logarithms, over the condition."""
    rng = np.random.default_rng([seed, d])
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    eigenvalues = np.geomspace(1.0, condition, d)
    matrix = (basis * eigenvalues) @ basis.T
    return (matrix + matrix.T) / 2, rng


def factor_of(A):
    C = np.full_like(A, np.nan)  # only the lower triangle may be read
    assert linalg.cholesky(A, C)
    return C


@every_size
def test_the_factor_is_that_of_numpy(d):
    A, _ = positive_definite(d)
    np.testing.assert_allclose(np.tril(factor_of(A)), np.linalg.cholesky(A), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "A",
    [
        [[-1.0]],
        [[0.0]],
        [[float("nan")]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, 1.0], [1.0, 1.0]],
        [[4.0, 0.0, 0.0], [0.0, 1.0, 3.0], [0.0, 3.0, 1.0]],
    ],
)
def test_a_matrix_that_is_not_positive_definite_has_no_factor(A):
    A = np.array(A)
    assert not linalg.cholesky(A, np.empty_like(A))


@given(d=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_a_negative_eigenvalue_anywhere_is_seen(d, seed):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    eigenvalues = rng.uniform(0.5, 2.0, d)
    eigenvalues[rng.integers(d)] = -0.1
    A = (basis * eigenvalues) @ basis.T
    assert not linalg.cholesky((A + A.T) / 2, np.empty((d, d)))


@every_size
def test_solves_and_inverses_are_those_of_numpy(d):
    A, rng = positive_definite(d)
    lower = np.linalg.cholesky(A)
    C = factor_of(A)
    x = rng.normal(size=d)
    for kernel, matrix in (
        (linalg.forward_solve, lower),
        (linalg.backward_solve, lower.T),
        (linalg.solve, A),
    ):
        y = x.copy()
        kernel(C, y)
        np.testing.assert_allclose(y, np.linalg.solve(matrix, x), rtol=1e-9, atol=1e-11)
    out = np.empty_like(A)
    linalg.inverse(C, out)
    np.testing.assert_allclose(out, np.linalg.inv(A), rtol=1e-8, atol=1e-12)


@every_size
def test_products_are_those_of_numpy(d):
    A, rng = positive_definite(d)
    B, _ = positive_definite(d, seed=1)
    x, y = rng.normal(size=d), rng.normal(size=d)
    assert linalg.dot(x, y) == pytest.approx(x @ y, rel=1e-12, abs=1e-13)
    assert linalg.norm(x) == pytest.approx(np.linalg.norm(x), rel=1e-14)
    assert linalg.quadratic_form(A, x) == pytest.approx(x @ A @ x, rel=1e-12)
    out = np.empty(d)
    linalg.multiply(A, x, out)
    np.testing.assert_allclose(out, A @ x, rtol=1e-12, atol=1e-10)
    product = np.empty_like(A)
    linalg.sandwich(A, B, product)
    np.testing.assert_allclose(product, A @ B @ A, rtol=1e-10, atol=1e-6)
    grown = A.copy()
    linalg.add_outer(grown, -0.3, x)
    np.testing.assert_allclose(grown, A - 0.3 * np.outer(x, x), rtol=1e-12, atol=1e-12)


def test_a_quadratic_form_is_never_negative():
    A = np.array([[1.0, -1.0], [-1.0, 1.0 - 1e-12]])
    assert linalg.quadratic_form(A, np.array([1.0, 1.0])) == 0.0


def multiplier_by_bisection(A, c, S):
    """Root in nu of ||(A + nu I)^-1 c|| = S, in the eigenbasis of A, by a bracketing solver."""
    eigenvalues, basis = np.linalg.eigh(A)
    turned = basis.T @ c

    def excess(nu):
        return np.linalg.norm(turned / (eigenvalues + nu)) - S

    if excess(0.0) <= 0.0:
        return 0.0, basis @ (turned / eigenvalues)
    nu = optimize.brentq(excess, 0.0, np.linalg.norm(c) / S, xtol=1e-300, rtol=1e-15, maxiter=500)
    return nu, basis @ (turned / (eigenvalues + nu))


@given(
    d=st.integers(1, 20),
    seed=st.integers(0, 10**6),
    condition=st.sampled_from([1.0, 1e3, 1e8]),
    S=st.sampled_from([1e-6, 0.1, 1.0, 50.0]),
    strength=st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_the_minimiser_over_a_ball_solves_the_secular_equation(d, seed, condition, S, strength):
    A, rng = positive_definite(d, seed=seed, condition=condition)
    c = strength * rng.normal(size=d)
    nu, expected = multiplier_by_bisection(A, c, S)
    x = np.full(d, np.nan)
    got = linalg.minimise_in_ball(A, c, S, x)
    assert got == pytest.approx(nu, rel=1e-8, abs=1e-10 * condition)
    np.testing.assert_allclose(x, expected, rtol=0.0, atol=1e-8 * S)
    assert np.linalg.norm(x) <= S * (1 + 1e-14)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_minimiser_over_a_ball_is_that_of_a_general_solver(d):
    A, rng = positive_definite(d, condition=50.0)
    c = 20.0 * rng.normal(size=d)
    for S in (0.05, 0.5):
        x = np.empty(d)
        linalg.minimise_in_ball(A, c, S, x)
        assert np.linalg.norm(x) == pytest.approx(S, rel=1e-13)
        general = optimize.minimize(
            lambda y: y @ A @ y / 2 - c @ y,
            np.zeros(d),
            jac=lambda y: A @ y - c,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda y, S=S: S**2 - y @ y,
                "jac": lambda y: -2 * y,
            },
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert x @ A @ x / 2 - c @ x <= general.fun + 1e-10 * abs(general.fun)
        np.testing.assert_allclose(x, general.x, atol=1e-5 * S)


def test_a_free_minimiser_inside_the_ball_is_left_there():
    A, c, x = np.diag([1.0, 4.0]), np.array([0.3, 0.4]), np.empty(2)
    assert linalg.minimise_in_ball(A, c, 1.0, x) == 0.0
    np.testing.assert_allclose(x, [0.3, 0.1], rtol=1e-15)


@pytest.mark.compiled
def test_a_hundred_dimensions_on_the_sphere():
    A, rng = positive_definite(100, condition=1e6)
    c = 1e3 * rng.normal(size=100)
    nu, expected = multiplier_by_bisection(A, c, 1.0)
    x = np.empty(100)
    assert linalg.minimise_in_ball(A, c, 1.0, x) == pytest.approx(nu, rel=1e-9)
    np.testing.assert_allclose(x, expected, atol=1e-10)
