"""Figures of README and docs: every marked place has a source, and every source its places."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import figures  # noqa: E402
import tables  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_marked_place_has_a_source_and_every_source_its_place() -> None:
    marked = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in PAGES
        for name in tables.places(path.read_text(encoding="utf-8"))
    }
    listed = [place for figure in figures.FIGURES for place in figure.places]
    assert len(listed) == len(set(listed))
    assert set(listed) == marked


def test_every_mark_is_well_formed() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        begun, ended = text.count("<!-- figures:"), text.count("<!-- end figures -->")
        assert begun == ended == len(list(tables.MARK.finditer(text))), path


def test_every_picture_of_the_pages_is_drawn_by_a_figure() -> None:
    drawn = {picture for figure in figures.FIGURES for picture in figure.pictures}
    kept = {f"docs/figures/{path.name}" for path in (ROOT / "docs" / "figures").iterdir()}
    assert drawn == kept
    shown = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    for picture in kept:
        assert f"figures/{Path(picture).name})" in shown, picture


@pytest.mark.parametrize("figure", figures.FIGURES, ids=lambda figure: figure.name)
def test_what_a_figure_names_exists(figure: figures.Figure) -> None:
    assert figure.places
    for source in figure.sources:
        assert (ROOT / source.removeprefix(":(exclude)")).exists(), source
    for command in figure.commands:
        for script in re.findall(r"\S+\.py\b", command):
            assert (ROOT / script).exists(), command
        for target in re.findall(r"^make (?:-s )?(\S+)", command):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_a_figure_is_measured_written_down_and_grows_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def change(text: str) -> None:
        (tmp_path / "code.py").write_text(text)
        git("add", "-A")
        git("commit", "-qm", text)

    git("init", "-q")
    page = tmp_path / "page.md"
    page.write_text("# P\n\n<!-- figures: n commit=none -->\nold\n<!-- end figures -->\n\nWords.\n")
    change("print(1)")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    figure = figures.Figure(
        name="n",
        commands=(f"{sys.executable} code.py",),
        sources=("code.py",),
        places={("page.md", "n"): lambda printed: [f"it printed {printed.strip()}"]},
    )
    figures.status([figure])
    assert "none is no commit before this one" in capsys.readouterr().out

    figures.make(figure)
    git("commit", "-qam", "measured")
    assert "it printed 1\n<!-- end" in page.read_text()
    assert page.read_text().endswith("\n\nWords.\n")
    figures.status([figure])
    assert "as new as the code" in capsys.readouterr().out

    change("print(2)")
    figures.status([figure])
    assert "older than the code: 1 commits" in capsys.readouterr().out
    figures.make(figure)
    assert "it printed 2\n" in page.read_text()

    (tmp_path / "code.py").write_text("print(3)")
    with pytest.raises(SystemExit, match="commit what n measures first"):
        figures.make(figure)
    change("raise SystemExit(3)")
    with pytest.raises(SystemExit, match="ended with 3"):
        figures.make(figure)
    assert "it printed 2\n" in page.read_text()


def test_a_place_that_is_absent_is_said() -> None:
    with pytest.raises(ValueError, match="found 0 times"):
        tables.with_table("# nothing", "speed", ["x"])
