"""docs/decisions: every file says where it stands, and what overturned it says so too."""

import re
from pathlib import Path

import pytest

FILES = {path.name[:4]: path for path in Path(__file__).parents[1].glob("docs/decisions/*.md")}
CONVERSE = {"replaced by": "replaces", "amended by": "amends"}


def status_of(number: str) -> dict[str, list[str]]:
    """What is said of a decision, and the numbers of the decisions that it is said with."""
    title, status, *_ = FILES[number].read_text().split("\n\n")
    assert title.startswith(f"# {number}: ")
    clauses = status.removeprefix("Status: ").split("; ")
    return {clause.rstrip("0123456789, "): re.findall(r"\d{4}", clause) for clause in clauses}


@pytest.mark.parametrize("number", FILES)
def test_a_decision_says_where_it_stands(number):
    status = status_of(number)
    assert ("accepted" in status) != ("replaced by" in status)
    assert status.keys() <= {"accepted", *CONVERSE, *CONVERSE.values()}
    for said, converse in [*CONVERSE.items(), *((b, a) for a, b in CONVERSE.items())]:
        for other in status.get(said, []):
            assert number in status_of(other)[converse]


def test_numbers_are_given_once():
    assert len(FILES) == len(list(FILES["0000"].parent.iterdir()))
