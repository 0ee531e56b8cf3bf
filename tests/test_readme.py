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


def test_it_is_one_screen():
    assert len(README.splitlines()) <= 50
    assert len(PROGRAMS) == 1
    assert len(re.findall(r"^- \[", README, re.MULTILINE)) == 5


def test_the_files_it_names_exist():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (Path(__file__).parent.parent / target).exists(), target
