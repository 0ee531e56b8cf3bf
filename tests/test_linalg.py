"""The dense kernels against numpy and scipy."""

import numpy as np
import pytest
from scipy import optimize

from driftbandits.core import linalg
from driftbandits.jit import LANES, compiled, row_product

SIZES = (1, 2, 3, 5, 8, 13, 30, 100)
every_size = pytest.mark.parametrize("d", SIZES)


def positive_definite(d, *, seed=0, condition=1e3):
    """A symmetric matrix with eigenvalues spread evenly, in logarithms, over the condition."""
    rng = np.random.default_rng([seed, d])
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    eigenvalues = np.geomspace(1.0, condition, d)
    matrix = (basis * eigenvalues) @ basis.T
    return (matrix + matrix.T) / 2, rng


# What kernels write to is NaN before, so that reading it shows.


def room(d):
    return np.full((d, d), np.nan)


def factored(A):
    C = room(len(A))
    assert linalg.cholesky(A, C)
    return C


def minimise_in_ball(A, c, S, guess=0.0):
    d = len(c)
    kept_A, kept_c, x = A.copy(), c.copy(), np.full(d, np.nan)
    scratch = room(d), room(d), np.full(d, np.nan)
    sound = linalg.minimise_in_ball(A, c, S, guess, 0.0, x, *scratch)
    np.testing.assert_array_equal(A, kept_A)
    np.testing.assert_array_equal(c, kept_c)
    return sound, x


@every_size
def test_the_factor_is_that_of_numpy_with_its_diagonal_inverted(d):
    A, _ = positive_definite(d)
    C = np.tril(factored(A))
    np.fill_diagonal(C, 1.0 / np.diag(C))
    np.testing.assert_allclose(C, np.linalg.cholesky(A), rtol=1e-9, atol=1e-11)


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
    assert not linalg.cholesky(np.array(A), room(len(A)))


@every_size
def test_solves_and_inverses_are_those_of_numpy(d):
    A, rng = positive_definite(d)
    lower = np.linalg.cholesky(A)
    C = factored(A)
    x = rng.normal(size=d)
    for kernel, matrix in ((linalg.forward_solve, lower), (linalg.backward_solve, lower.T)):
        solved = x.copy()
        kernel(C, solved)
        np.testing.assert_allclose(solved, np.linalg.solve(matrix, x), rtol=1e-9, atol=1e-11)
    product = x.copy()
    linalg.multiply_by_factor(C, product)
    np.testing.assert_allclose(product, lower @ x, rtol=1e-9, atol=1e-11)
    out = room(d)
    trace = linalg.invert_factor(C, out)
    np.testing.assert_allclose(np.tril(out), np.linalg.inv(lower), rtol=1e-8, atol=1e-12)
    assert trace == pytest.approx(np.trace(np.linalg.inv(A)), rel=1e-9)
    linalg.inverse(C, out)
    np.testing.assert_allclose(out, np.linalg.inv(A), rtol=1e-8, atol=1e-12)


@every_size
def test_products_are_those_of_numpy(d):
    A, rng = positive_definite(d)
    B, _ = positive_definite(d, seed=1)
    x, y = rng.normal(size=d), rng.normal(size=d)
    out, vector = room(d), np.full(d, np.nan)
    assert linalg.dot(x, y) == pytest.approx(x @ y, rel=1e-12, abs=1e-13)
    assert linalg.norm(x) == pytest.approx(np.linalg.norm(x), rel=1e-14)
    assert linalg.distance(x, y) == pytest.approx(np.linalg.norm(x - y), rel=1e-14)
    linalg.multiply(A, x, vector)
    np.testing.assert_allclose(vector, A @ x, rtol=1e-12, atol=1e-10)
    linalg.copy(y, vector)
    np.testing.assert_array_equal(vector, y)
    linalg.add_scaled(vector, -0.3, x)
    np.testing.assert_allclose(vector, y - 0.3 * x, rtol=1e-14, atol=1e-15)
    linalg.sandwich(A, B, room(d), out)
    np.testing.assert_allclose(out, A @ B @ A, rtol=1e-10, atol=1e-6)
    linalg.copy_matrix(A, out)
    linalg.add_outer(out, -0.3, x)
    np.testing.assert_allclose(out, A - 0.3 * np.outer(x, x), rtol=1e-12, atol=1e-12)
    linalg.set_to_identity(out, 2.5)
    np.testing.assert_array_equal(out, 2.5 * np.eye(d))


@compiled
def product_of_rows(x, i, y, j):
    return row_product(x, i, y, j)


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_a_product_of_rows_of_lanes(blocks):
    rng = np.random.default_rng(blocks)
    x, y = rng.normal(size=(3, blocks * LANES)), rng.normal(size=(2, blocks * LANES))
    found = [[product_of_rows(x, i, y, j) for j in range(2)] for i in range(3)]
    np.testing.assert_allclose(found, x @ y.T, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_minimiser_over_a_ball_is_that_of_a_general_solver(d):
    A, rng = positive_definite(d, condition=50.0)
    c = 20.0 * rng.normal(size=d)
    for S in (0.05, 0.5):
        _, x = minimise_in_ball(A, c, S)
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


def test_a_quadratic_that_is_not_convex_is_reported():
    sound, x = minimise_in_ball(np.diag([1.0, -2.0]), np.array([0.3, 0.4]), 1.0)
    assert not sound
    assert np.isfinite(x).all()


large_sizes = pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 17, 30, 99, 100])


def test_a_large_matrix_that_is_not_positive_has_no_factor():
    A, _ = positive_definite(20)
    A[7] = A[:, 7] = 0.0
    assert not linalg.cholesky_large(A, room(20))


@large_sizes
def test_large_matrices_are_handled_as_by_numpy(d):
    A, rng = positive_definite(d)
    C, inverse, x = room(d), room(d), rng.normal(size=d)
    assert linalg.cholesky_large(np.tril(A), C)
    np.testing.assert_allclose(np.tril(C), np.tril(factored(A)), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(C, C.T)
    solved = x.copy()
    linalg.forward_solve_large(C, solved)
    linalg.backward_solve_large(C, solved)
    np.testing.assert_allclose(solved, np.linalg.solve(A, x), rtol=1e-9, atol=1e-11)
    back = solved.copy()
    linalg.multiply_by_factor_large(C, back)
    np.testing.assert_allclose(back, np.linalg.cholesky(A) @ solved, rtol=1e-9, atol=1e-10)
    trace = linalg.inverse_large(C, inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-9, atol=1e-11)
    assert trace == pytest.approx(np.trace(inverse))
    X, out, row = rng.normal(size=(7, d)), np.full((7, d), np.nan), np.full(d, np.nan)
    linalg.multiply_rows(X, A, out)
    np.testing.assert_allclose(out, X @ A, rtol=1e-9, atol=1e-10)
    linalg.multiply_large(A, X[0], row)
    np.testing.assert_allclose(row, out[0], rtol=1e-12, atol=1e-10)
