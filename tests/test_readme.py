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
    agent, shop = names["agent"], names["shop"]
    (change,) = shop.changes
    assert any(change < found.round < change + 500 for found in agent.detections)
    visit, offer, *_, table = capsys.readouterr().out.split("\n", 3)
    assert "round 4000" in table
    for printed, line in ((visit, "shop.contexts[0]"), (offer, "shop.offers[0][0]")):
        (comment,) = re.findall(rf"{re.escape(line)}\)  # (.*), \.\.\.", program)
        assert printed.startswith(comment)


def test_it_is_a_screen_and_a_half():
    assert len(README.splitlines()) <= 70
    assert len(PROGRAMS) == 1


def test_the_files_it_names_exist():
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (Path(__file__).parent.parent / target).exists(), target
