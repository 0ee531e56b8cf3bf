"""Logs of frames: the vectors are those of fitted features."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import driftbandits as db
from driftbandits.evaluate import evaluate, log_from_tables
from driftbandits.features import Encoding, offered

SHOP = db.environment("shop", horizon=200, lifetime=1e9).draw(np.random.default_rng(0))
OFFERS = list(SHOP.offers[0])
IDS = [row["id"] for row in OFFERS]
CHOSEN = np.random.default_rng(1).integers(len(IDS), size=200)
GIVEN = {
    "arms": OFFERS,
    "chosen": [IDS[i] for i in CHOSEN],
    "rewards": [None if t == 3 else SHOP.rewards[t, CHOSEN[t]] for t in range(200)],
    "propensities": [1.0 / len(IDS)] * 200,
}
FEATURES = db.Features(
    context={"country": "category", "age": "number"},
    arm={"category": "category"},
    cross=[("category", "country")],
    extra="ignore",
)


@pytest.mark.parametrize("frame", [list, pd.DataFrame, pl.DataFrame])
def test_a_frame_becomes_a_log_of_vectors(frame):
    log = log_from_tables(context=frame(SHOP.contexts), features=FEATURES, **GIVEN)
    fitted = FEATURES.fit(SHOP.contexts, OFFERS)
    assert log.dim == fitted.dim
    encoding = Encoding(fitted)
    for t in (0, 199):
        rows = encoding.encode(SHOP.contexts[t], offered(OFFERS, ())).dense(fitted.dim)
        np.testing.assert_array_equal(log.arms[t], rows)
    assert log.chosen.tolist() == CHOSEN.tolist()
    assert math.isnan(log.reward[3])


@pytest.mark.parametrize("arm", [{}, {"id": "category"}])
@pytest.mark.parametrize("cross", [("arm", "country"), ("arm", "*")])
def test_features_may_cross_the_arm_with_its_context(arm, cross):
    features = db.Features(context={"country": "category"}, arm=arm, cross=[cross], extra="ignore")
    log = log_from_tables(context=SHOP.contexts, features=features, **GIVEN)
    levels = len({row["country"] for row in SHOP.contexts}) + 2  # missing, and any other
    assert log.dim == levels + (len(IDS) + 2) * (1 + levels)


def test_policies_are_judged_on_it():
    log = log_from_tables(context=SHOP.contexts, **GIVEN)  # features are guessed
    found = evaluate(log, db.policy("random", dim=log.dim), windows=2)
    known = [reward for reward in GIVEN["rewards"] if reward is not None]
    assert found.overall["logged"].value == pytest.approx(np.mean(known))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chosen": ["x"] * 200}, ["chosen", "row 0", "'x'"]),
        ({"chosen": IDS}, ["chosen", "200 values"]),
        ({"rewards": 3}, ["rewards", "3"]),
        ({"propensities": [2.0] * 200}, ["propensity"]),
        ({"arms": [OFFERS]}, ["arms", "1 for 200"]),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        log_from_tables(context=SHOP.contexts, features=FEATURES, **{**GIVEN, **change})
    for word in words:
        assert word in str(caught.value)
