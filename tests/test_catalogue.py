"""The catalogue: published rows keep their choices, and a new row is all that a policy takes."""

import pytest

import driftbandits as db
import kinds
import policy_checks
from driftbandits.core.estimator.model import DISCOUNT, EVERYTHING, SINCE_RESTART, WINDOW
from driftbandits.policies import ROWS, SOURCES, UCB, Row
from driftbandits.policies.scoring import GREEDY, PERTURBED, POSTERIOR, SCALED
from policy_checks import CHECKS, Case, assert_follows

PUBLISHED = {
    "augmented": "PG-TS",
    "believing": "auto",
    "by_divergence": "klUCB GLR-klUCB",
    "discounted": "D-GLUCB D-LinUCB GLB-WeightUCB LB-WeightUCB SCB-WeightUCB SC-D-GLUCB D-UCB "
    "DOMD-GLB D-GLM-TSL D-GLM-FPL D-RandLinUCB D-LinTS",
    "draws_windows": "BOB-GLUCB",
    "for_drift": "GLB-WeightUCB LB-WeightUCB SCB-WeightUCB",
    "for_fixed_arms": "UCB1 SW-UCB D-UCB klUCB CUSUM-UCB M-UCB GLR-klUCB REXP3",
    "forgets_by_schedule": "REXP3 Restart-GLUCB",
    "forgets_on_changes": "CD-GLUCB CD-LinUCB",
    "greedy": "greedy",
    "indifferent": "random",
    "judges_models": "dLinUCB",
    "learns_in_one_pass": "GLOC GLB-OMD DOMD-GLB",
    "linear": "LinUCB SW-LinUCB D-LinUCB LB-WeightUCB UCB1 SW-UCB D-UCB klUCB CUSUM-UCB M-UCB "
    "GLR-klUCB REXP3 D-RandLinUCB D-LinTS CD-LinUCB dLinUCB random",
    "local": "SCB-WeightUCB LogUCB",
    "looks_for_changes": "CD-GLUCB CD-LinUCB dLinUCB auto",
    "of_the_paper": "SW-GLUCB D-GLUCB LogisticUCB LinUCB SW-LinUCB D-LinUCB",
    "of_the_predictor": "UCB-GLM",
    "perturbed": "GLM-FPL SW-GLM-FPL D-GLM-FPL D-LinTS",
    "posterior": "GLM-TSL SW-GLM-TSL D-GLM-TSL",
    "remembers_as_told": "greedy",
    "scaled": "D-RandLinUCB",
    "self_concordant": "SC-SW-GLUCB SC-D-GLUCB",
    "tests_arms": "CUSUM-UCB M-UCB GLR-klUCB",
    "weighted": "REXP3",
    "windowed": "SW-GLUCB SW-LinUCB SC-SW-GLUCB SW-UCB REXP3 Restart-GLUCB SW-GLM-TSL SW-GLM-FPL",
}
"""What programs and save files count on. A new row need not be here."""
NAMES = {name for names in PUBLISHED.values() for name in names.split()}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_published_rows_keep_their_choices(kind):
    assert {name for name in NAMES if getattr(kinds, kind)(name)} == set(PUBLISHED[kind].split())


def test_names_are_those_of_rows_and_aliases_and_each_row_has_a_source():
    assert db.policy_names() == (*ROWS, "GLM-UCB")
    assert SOURCES.keys() == ROWS.keys()


NEW_ROWS = {
    "SW-LinTS": Row(WINDOW, True, PERTURBED, votes=8),
    "LB-Window": Row(WINDOW, True, UCB, one_matrix=True),
    "LinTSL": Row(EVERYTHING, True, POSTERIOR, votes=8),
    "SW-RandGLUCB": Row(WINDOW, False, SCALED),
    "SC-GLUCB": Row(EVERYTHING, False, UCB, "self-concordant"),
    "D-greedy": Row(DISCOUNT, False, GREEDY),
    "CD-SCB": Row(
        SINCE_RESTART, False, UCB, "local", adaptation="change test",
        false_alarm_rate=0.01,
    ),
}  # fmt: skip


@pytest.fixture
def new_row(request, monkeypatch):
    """A name that is in the catalogue for as long as the test runs."""
    monkeypatch.setitem(ROWS, request.param, NEW_ROWS[request.param])
    return request.param


@pytest.mark.compiled
@pytest.mark.parametrize("new_row", NEW_ROWS, indirect=True)
def test_a_new_row_does_what_every_policy_must_do(new_row, tmp_path):
    case = Case(new_row)
    for check in CHECKS:
        check(case, tmp_path)
    policy_checks.assert_every_parameter_reaches_the_model(case)


@pytest.mark.compiled
@pytest.mark.parametrize("new_row", [n for n in NEW_ROWS if not n.startswith("CD-")], indirect=True)
def test_a_new_row_follows_the_definitions(new_row):
    memory = kinds.memory_of(new_row, window=15, discount=0.9)
    assert_follows(new_row, {"dim": 2, "bonus_scale": 0.05, **memory}, rounds=40)
