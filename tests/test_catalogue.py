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
    "SW-GLUCB": {"windowed", "of_the_paper"},
    "D-GLUCB": {"discounted", "of_the_paper"},
    "LogisticUCB": {"of_the_paper"},
    "LinUCB": {"linear", "of_the_paper"},
    "SW-LinUCB": {"linear", "windowed", "of_the_paper"},
    "D-LinUCB": {"linear", "discounted", "of_the_paper"},
    "GLB-WeightUCB": {"discounted", "for_drift"},
    "LB-WeightUCB": {"linear", "discounted", "for_drift"},
    "SCB-WeightUCB": {"discounted", "for_drift", "local"},
    "SC-SW-GLUCB": {"windowed", "self_concordant"},
    "SC-D-GLUCB": {"discounted", "self_concordant"},
    "UCB-GLM": {"of_the_predictor"},
    "LogUCB": {"local"},
    "UCB1": {"linear", "for_fixed_arms"},
    "SW-UCB": {"linear", "windowed", "for_fixed_arms"},
    "D-UCB": {"linear", "discounted", "for_fixed_arms"},
    "klUCB": {"linear", "for_fixed_arms", "by_divergence"},
    "CUSUM-UCB": {"linear", "for_fixed_arms", "tests_arms"},
    "M-UCB": {"linear", "for_fixed_arms", "tests_arms"},
    "GLR-klUCB": {"linear", "for_fixed_arms", "by_divergence", "tests_arms"},
    "GLOC": {"learns_in_one_pass"},
    "GLB-OMD": {"learns_in_one_pass"},
    "DOMD-GLB": {"discounted", "learns_in_one_pass"},
    "REXP3": {"linear", "windowed", "for_fixed_arms", "forgets_by_schedule", "weighted"},
    "Restart-GLUCB": {"windowed", "forgets_by_schedule"},
    "GLM-TSL": {"posterior"},
    "SW-GLM-TSL": {"windowed", "posterior"},
    "D-GLM-TSL": {"discounted", "posterior"},
    "PG-TS": {"augmented"},
    "GLM-FPL": {"perturbed"},
    "SW-GLM-FPL": {"windowed", "perturbed"},
    "D-GLM-FPL": {"discounted", "perturbed"},
    "D-RandLinUCB": {"linear", "discounted", "scaled"},
    "D-LinTS": {"linear", "discounted", "perturbed"},
    "CD-GLUCB": {"looks_for_changes", "forgets_on_changes"},
    "CD-LinUCB": {"linear", "looks_for_changes", "forgets_on_changes"},
    "dLinUCB": {"linear", "looks_for_changes", "judges_models"},
    "BOB-GLUCB": {"draws_windows"},
    "auto": {"believing", "looks_for_changes"},
    "greedy": {"remembers_as_told", "greedy"},
    "random": {"linear", "indifferent"},
}
"""What programs and save files count on. A new row need not be here."""
CHOICES = sorted(set().union(*PUBLISHED.values()))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_row_keeps_its_choices(name):
    made = {choice for choice in CHOICES if getattr(kinds, choice)(name)}
    assert made == PUBLISHED[name]


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
