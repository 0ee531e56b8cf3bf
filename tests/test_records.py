"""Kernels made from declarations: nothing out of place, nothing unread, nothing unknown."""

import re
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest

import driftbandits as db
from driftbandits.core import theory
from driftbandits.core.estimator.model import WINDOW, Model
from driftbandits.core.estimator.state import Scratch, State, named
from driftbandits.jit import (
    Share,
    compiled,
    floats_of,
    handle_of,
    inlined,
    ints_of,
    layout_of,
    one_of,
    reader_of,
)
from driftbandits.policies import UCB, Row
from driftbandits.policies.catalogue import ADAPTATIONS
from driftbandits.policies.scoring import Scoring

SOURCES = "\n".join(path.read_text() for path in sorted(Path(db.__file__).parent.rglob("*.py")))
RECORDS = {
    "model": Model,
    "scoring": Scoring,
    "r|confidence": theory.Confidence,
    "scratch": Scratch,
    "state": State,
}


class Few(NamedTuple):
    whole: int
    share: float
    given: int


read_few = reader_of(Few, first=2, given=["given"])


def test_numbers_are_read_by_their_names_and_kinds():
    few = read_few(np.array([9.0, 9.0, 4.0, 0.25, 7.0]), 5)
    assert few == Few(whole=4, share=0.25, given=5)
    assert isinstance(few.whole, int)


class Stores(NamedTuple):
    counters: np.ndarray
    vectors: np.ndarray


class First(NamedTuple):
    count: Annotated[np.ndarray, Share("counters")]
    pair: Annotated[np.ndarray, Share("vectors", 2)]
    one: Annotated[np.ndarray, Share("vectors")]


class Second(NamedTuple):
    counts: Annotated[np.ndarray, Share("counters", 3)]
    rest: Annotated[np.ndarray, Share("vectors", None)]
    first: First


FIRST = layout_of(First)
SECOND = layout_of(Second, after=FIRST.sizes, first=FIRST)
second_of = SECOND.of


@compiled
def what_is_second(handle):
    stores = Stores(ints_of(handle, 0, (10,)), floats_of(handle, 1, (6, 2)))
    second = second_of(stores)
    return second.counts[0], second.rest[0, 1], second.first.one[1], second.first.pair[1, 0]


def test_fields_stand_one_behind_the_other():
    stores = Stores(np.arange(10), np.arange(12.0).reshape(6, 2))
    assert FIRST.sizes == {"counters": 1, "vectors": 3}
    assert SECOND.sizes == {"counters": 4, "vectors": 3}
    assert what_is_second(handle_of(stores)) == (1, 7.0, 5.0, 2.0)
    second = SECOND.in_python(stores)
    np.testing.assert_array_equal(second.counts, [1, 2, 3])
    np.testing.assert_array_equal(second.first.one, [4.0, 5.0])
    second.first.one[0] = -1.0
    assert stores.vectors[2, 0] == -1.0, "a field is a view"


@inlined
def double(x):
    return 2.0 * x


@inlined
def negative(x):
    return -x


either = compiled(one_of("either", {3: double, 8: negative}))


def test_one_of_several_is_the_one_with_the_number():
    assert (either(3, 1.5), either(8, 1.5)) == (3.0, -1.5)


@pytest.mark.parametrize("label", RECORDS)
def test_no_number_and_no_array_is_carried_that_nobody_reads(label):
    for field in RECORDS[label]._fields:
        assert re.search(rf"\b({label})\.{field}\b", SOURCES), f"{field} is never read"


@pytest.mark.parametrize("name", ADAPTATIONS)
def test_every_number_of_an_adaptation_is_read(name):
    module = ADAPTATIONS[name]
    source = Path(module.__file__).read_text()
    numbers = getattr(module, "Numbers", None)
    for field in numbers._fields if numbers else ():
        assert re.search(rf"[\w)]\.{field}\b", source), f"{field} is never read"


def test_no_two_arrays_of_a_state_share_memory():
    state = named(db.policy("CD-GLUCB", dim=3).new_buffers(5))
    arrays = [state.theta_hat, state.theta, state.b, state.V, state.V2, state.anchors[:2]]
    arrays += [*state.scratch, state.moments[:2]]
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:i])


@pytest.mark.parametrize(
    "choices",
    [
        {"memory": 9},
        {"score": 77},
        {"radius": "wide"},
        {"adaptation": "astrology"},
    ],
)
def test_a_row_with_a_choice_that_is_unknown_is_refused(choices):
    label = next(iter(choices))
    with pytest.raises(ValueError, match=f"{label} of a row must be one of"):
        Row(**{"memory": WINDOW, "linear": False, "score": UCB, **choices})


def test_a_radius_that_is_unknown_is_refused():
    with pytest.raises(ValueError, match="radius must be one of deviation"):
        theory.confidence_of(theory.Problem(d=2, k=0.25, c=0.2), radius="wide")
