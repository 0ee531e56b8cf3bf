"""What the README says can be pasted, and does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.compiled
def test_the_ten_lines_follow_a_taste_that_turned_around(capsys):
    program = PROGRAMS[0]
    assert len(program.strip().splitlines()) <= 12
    names: dict[str, object] = {"__name__": "pasted"}
    exec(compile(program, "README.md", "exec"), names)
    agent, taste = names["agent"], names["taste"]
    assert np.dot(agent.theta_hat[:2], taste) < 0.0  # the third is the constant
    assert "round 4000" in capsys.readouterr().out


@pytest.mark.compiled
def test_the_lines_for_tables_play_a_shop(capsys):
    program = PROGRAMS[1]
    assert len(program.strip().splitlines()) <= 12
    names: dict[str, object] = {"__name__": "pasted"}
    exec(compile(program.replace('"shop"', '"shop", horizon=600'), "README.md", "exec"), names)
    agent, shop = names["agent"], names["shop"]
    assert agent.issued == 600
    made = np.array([agent.explain(i + 1).decision.index for i in range(600)])
    assert shop.regret(made)[300:].mean() < 0.8 * (shop.best - shop.means.mean(axis=1))[300:].mean()
    said = capsys.readouterr().out
    assert "what each feature adds" in said
    assert "category x country" in said


def test_every_program_compiles():
    assert len(PROGRAMS) >= 2
    for program in PROGRAMS:
        compile(program, "README.md", "exec")


def test_the_files_it_names_exist():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (Path(__file__).parent.parent / target).exists(), target


def test_the_policies_it_names_exist():
    import driftbandits as db

    table = README[README.index("## Which policy") : README.index("## Licence")]
    named = set(re.findall(r"`([A-Za-z0-9]+(?:-[A-Za-z0-9]+)*)`", table))
    assert set(db.policy_names()) <= named
