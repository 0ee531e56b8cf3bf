"""Every program of examples/ runs in a short form, and the notebook is the tutorial and runs."""

from __future__ import annotations

import re
import runpy
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest
import uvicorn
from nbclient import NotebookClient

from servers import wait_until

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "make"))
import notebook  # noqa: E402

SHORT = {
    "language_models.py": ["--requests", "600"],
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
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {*SHORT, "mounted.py"}


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *SHORT[name]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_notebook_is_the_tutorial() -> None:
    kept = notebook.NOTEBOOK.read_text(encoding="utf-8")
    made = nbformat.writes(notebook.notebook(notebook.PAGE.read_text(encoding="utf-8")))
    assert kept.strip() == made.strip(), "python docs/make/notebook.py writes it again"


@pytest.mark.slow  # test_pages runs the same program
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


def test_the_service_is_mounted_in_another_application(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Its paths, pages and document are below the place where it was put; an example uses it."""
    monkeypatch.setenv("DRIFTBANDITS_STORE", f"sqlite:///{tmp_path}/log.db")
    mounted = runpy.run_path(str(ROOT / "examples" / "mounted.py"))
    engine = mounted["bandits"].state.service.engine
    server = uvicorn.Server(uvicorn.Config(mounted["api"], lifespan="on", log_config=None))
    listener = socket.create_server(("127.0.0.1", 0))
    serving = threading.Thread(target=server.run, args=([listener],))
    serving.start()
    try:
        wait_until(lambda: engine.ready, most_s=300.0)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        check_mounted(address)
        runpy.run_path(str(ROOT / "examples" / "language_models.py"))["main"](
            100, f"{address}/bandits"
        )
        assert "  router " in capsys.readouterr().out
    finally:
        server.should_exit = True
        serving.join(60.0)


def check_mounted(address: str) -> None:
    with httpx.Client(base_url=address, timeout=300.0) as client:
        made = client.put("/bandits/v1/policies/news", json={"name": "greedy", "dim": 1})
        assert made.status_code == 201, made.text
        asked = {"event_id": "e1", "arms": [{"id": "a", "x": [0.5]}]}
        decided = client.post("/bandits/v1/policies/news/decisions", json=asked)
        assert decided.json()["arm"] == "a"
        assert client.get("/bandits/openapi.json").json()["servers"] == [{"url": "/bandits"}]
        page = client.get("/bandits/docs").text
        for name in re.findall(r'(?:src|href)="([^"]+)"', page):
            assert client.get(f"/bandits/{name}").status_code == 200, name
        assert client.get("/bandits/none").json()["error"]["code"] == "not_found"
        assert client.get("/").json()["page"] == "/bandits/"
