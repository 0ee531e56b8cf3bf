"""Each check lets through what is allowed, as its own type, and names what it refuses."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandits import checks

NOT_NUMBERS = [True, np.True_, "2", None, [2], math.nan, math.inf, -math.inf, 10**400, 2j]


def refused(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("value", [2, np.int8(2), np.uint64(2)])
def test_an_integer_comes_back_as_an_int(value):
    assert type(checks.integer("n", value, least=2, most=2)) is int


@pytest.mark.parametrize("value", [*NOT_NUMBERS[:-2], 2j, 2.0, np.float64(2)])
def test_what_is_no_integer_is_refused(value):
    with refused(f"n must be an integer of at least 1; got {value!r}"):
        checks.integer("n", value, least=1)


def test_an_integer_out_of_range_is_refused():
    with refused("n must be an integer of at least 3; got 2"):
        checks.integer("n", 2, least=3)
    for value in (0, 4):
        with refused(f"n must be an integer from 1 to 3; got {value}"):
            checks.integer("n", value, least=1, most=3)


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.float32(2), np.float16(2)])
def test_a_number_comes_back_as_a_float(value):
    given = checks.number("x", value)
    assert type(given) is float
    assert given == 2.0


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_no_finite_number_is_refused(value):
    with refused(f"x must be a finite number; got {value!r}"):
        checks.number("x", value)
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
        ({"at_least": 0, "at_most": 0.5}, -1, 0.5, "of at least 0 and at most 0.5"),
    ],
)
def test_bounds_of_a_number(bounds, outside, inside, words):
    assert checks.number("x", inside, **bounds) == inside
    with refused(f"x must be a finite number {words}; got {outside!r}"):
        checks.number("x", outside, **bounds)


def test_a_flag_is_no_number():
    assert checks.flag("on", np.True_) is True
    assert checks.flag("on", False) is False
    for value in (0, 1, "true", None):
        with refused(f"on must be true or false; got {value!r}"):
            checks.flag("on", value)


def test_a_choice_is_one_of_its_names_in_their_order():
    assert checks.choice("link", "b", iter(["b", "a"])) == "b"
    for value in ("c", "", None, ["a"], np.array(["a", "b"])):
        with refused(f"link must be one of b, a; got {value!r}"):
            checks.choice("link", value, ["b", "a"])
    with refused("link must be one of none; got 'a'"):
        checks.choice("link", "a", [])


def test_the_nearest_name_is_suggested_where_one_is_near():
    assert checks.perhaps("windw", iter(["discount", "window"])) == ", perhaps window"
    assert checks.perhaps("mars", ["discount", "window"]) == ""


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


@pytest.mark.parametrize("value", ["text", ["1", "2"], [[1], [1, 2]], {"a": 1}, [1j], None])
def test_what_is_no_array_of_numbers_is_refused(value):
    with pytest.raises(ValueError, match=r"^x must be an array of numbers: .*; got "):
        checks.floats("x", value)


def test_a_long_list_is_not_repeated_whole():
    with pytest.raises(ValueError, match=r"got \['a', 'a', .* \.\.\.$") as caught:
        checks.floats("x", ["a"] * 10_000)
    assert len(str(caught.value)) < 400


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


@given(st.one_of(st.integers(), st.floats()), st.floats(-10, 10))
def test_bounds_mean_what_the_operators_mean(value, bound):
    def lets_through(**bounds):
        try:
            checks.number("x", value, **bounds)
        except ValueError:
            return False
        return True

    finite = abs(value) <= np.finfo(float).max
    assert lets_through(above=bound) == (finite and value > bound)
    assert lets_through(at_least=bound) == (finite and value >= bound)
    assert lets_through(below=bound) == (finite and value < bound)
    assert lets_through(at_most=bound) == (finite and value <= bound)
