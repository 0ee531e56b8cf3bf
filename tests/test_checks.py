"""Each check lets through what is allowed, as its own type, and names what it refuses."""

import math
import re

import numpy as np
import pytest

from driftbandits import checks

NOT_NUMBERS = [True, np.True_, "2", None, [2], math.nan, math.inf, -math.inf, 10**400, 2j]


def refused(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


def test_integers():
    for value in (2, np.int8(2), np.uint64(2)):
        assert type(checks.integer("n", value, least=2, most=2)) is int
    for value in [*NOT_NUMBERS[:-2], 2j, 2.0, np.float64(2), 0]:
        with refused(f"n must be an integer of at least 1; got {value!r}"):
            checks.integer("n", value, least=1)
    for value in (0, 4):
        with refused(f"n must be an integer from 1 to 3; got {value}"):
            checks.integer("n", value, least=1, most=3)


def test_numbers():
    for value in (2, 2.0, np.int8(2), np.float32(2)):
        given = checks.number("x", value)
        assert (type(given), given) == (float, 2.0)
    for value in NOT_NUMBERS:
        with refused(f"x must be a finite number greater than 0; got {value!r}"):
            checks.number("x", value, above=0)


@pytest.mark.parametrize(
    ("bounds", "outside", "inside", "words"),
    [
        ({"above": 0}, 0, 5e-324, "greater than 0"),
        ({"at_least": 0}, -5e-324, 0, "of at least 0"),
        ({"below": 1}, 1, 0.5, "less than 1"),
        ({"at_most": 1}, 1.5, 1, "at most 1"),
        ({"above": 0, "below": 1}, 1.0, 0.5, "greater than 0 and less than 1"),
    ],
)
def test_bounds_of_a_number(bounds, outside, inside, words):
    assert checks.number("x", inside, **bounds) == inside
    with refused(f"x must be a finite number {words}; got {outside!r}"):
        checks.number("x", outside, **bounds)


def test_flags_and_choices():
    assert checks.flag("on", np.True_) is True
    for value in (0, 1, "true", None):
        with refused(f"on must be true or false; got {value!r}"):
            checks.flag("on", value)
    assert checks.choice("link", "b", iter(["b", "a"])) == "b"
    for value in ("c", None, ["a"], np.array(["a", "b"])):
        with refused(f"link must be one of b, a; got {value!r}"):
            checks.choice("link", value, ["b", "a"])
    with refused("link must be one of discount, window; got 'windw', perhaps window"):
        checks.choice("link", "windw", ["discount", "window"])
    with refused("link must be one of none; got 'a'"):
        checks.choice("link", "a", [])


def test_an_array_for_kernels_is_held_and_another_one_copied():
    held = np.ones((2, 3))
    assert checks.floats("x", held) is held
    read_only = np.ones(3)
    read_only.flags.writeable = False
    for other in ([1, 2], held.T, held[:, ::2], np.ones(3, np.float32), read_only, [True, False]):
        made = checks.floats("x", other)
        assert made.dtype == np.float64
        assert made.flags.carray
        np.testing.assert_array_equal(made, other)
    for value in ("text", ["1", "2"], [[1], [1, 2]], {"a": 1}, [1j], None, ["a"] * 10_000):
        with pytest.raises(ValueError, match=r"^x must be an array of numbers: .*; got ") as caught:
            checks.floats("x", value)
        assert len(str(caught.value)) < 400  # a long list is not repeated whole


def test_an_array_has_its_dimension_and_is_finite():
    assert checks.array("x", [[1, 2]], ndim=2).shape == (1, 2)
    for value, shape in (([1], "(1,)"), (np.empty((0, 2)), "(0, 2)")):
        with refused(f"x must be a 2-dimensional array that is not empty; got shape {shape}"):
            checks.array("x", value, ndim=2)
    with refused("x must be finite; got NaN or inf"):
        checks.array("x", [math.nan], ndim=1)
    assert math.isnan(checks.array("x", [math.nan], ndim=1, missing=True)[0])
    with refused("x must be finite; got infinities"):
        checks.array("x", [math.inf], ndim=1, missing=True)


def test_randomness_comes_from_a_generator():
    rng = np.random.default_rng(0)
    assert checks.generator("rng", rng) is rng
    with pytest.raises(ValueError, match=r"^rng must be a numpy.random.Generator.*; got int$"):
        checks.generator("rng", 0)
