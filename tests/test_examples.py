"""Every program of examples/ runs in a short form, and the notebook is the tutorial and runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "make"))
import notebook  # noqa: E402

SHORT = {
    "language_models.py": ["--requests", "600", "--out", "shares.svg"],
    "news.py": ["--readers", "1000"],
    "pricing.py": ["--visits", "800"],
    "ratings.py": ["--viewers", "600"],
    "shop.py": ["--visits", "800"],
}
SAYS = {
    "language_models.py": "router",
    "news.py": "newest",
    "pricing.py": "revenue a visit",
    "ratings.py": "in stars",
    "shop.py": "strongest effects",
}

pytestmark = pytest.mark.compiled


def test_every_example_is_listed() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *SHORT[name]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == ({"shares.svg"} if "--out" in SHORT[name] else set())


def test_the_notebook_is_the_tutorial() -> None:
    kept = notebook.NOTEBOOK.read_text(encoding="utf-8")
    made = nbformat.writes(notebook.notebook(notebook.PAGE.read_text(encoding="utf-8")))
    assert kept.strip() == made.strip(), "python docs/make/notebook.py writes it again"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that run notebooks
def test_the_notebook_runs(tmp_path: Path) -> None:
    cells = nbformat.read(notebook.NOTEBOOK, as_version=4)
    NotebookClient(cells, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(
        output.get("text", "")
        for cell in cells.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert "95 % interval" in printed
    assert "300 decisions, 300 rewards" in printed
    pictures = [
        output
        for cell in cells.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 1
