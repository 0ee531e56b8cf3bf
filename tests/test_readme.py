"""What the README says can be pasted, and does what it says."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.compiled
def test_the_ten_lines_follow_a_taste_that_turned_around(capsys):
    program = PROGRAMS[0]
    assert sum(bool(line) for line in program.splitlines()) <= 12
    names: dict[str, object] = {"__name__": "pasted"}
    exec(compile(program, "README.md", "exec"), names)
    agent, offers = names["agent"], names["offers"]
    young, old = (agent.preview(context={"age": age}, arms=offers, seed=1).arm for age in (20, 75))
    assert (young, old) == ("o2", "o1")
    assert 1500 < agent.detections[0].round < 2000
    assert "round 3000" in capsys.readouterr().out


def test_it_is_a_screen_and_a_half():
    assert len(README.splitlines()) <= 70
    assert len(PROGRAMS) == 1


def test_the_files_it_names_exist():
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (Path(__file__).parent.parent / target).exists(), target
