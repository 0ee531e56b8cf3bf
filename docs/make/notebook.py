"""The tutorial as a notebook: python docs/make/notebook.py

Words become cells of text, programs cells of code; what is printed below a program on the page is
left to the notebook itself. examples/tutorial.ipynb is written without outputs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
_PROGRAM = re.compile(
    r"^```python\n(.*?)^```$(?:\n+```output\n.*?^```$)?", re.DOTALL | re.MULTILINE
)
_SERVICE = """# the service of chapter 7, started here instead of in a terminal
import re
import subprocess
import sys
import tempfile
from pathlib import Path

Path("figures").mkdir(exist_ok=True)
store = f"sqlite:///{tempfile.mkdtemp()}/driftbandits.db"
command = [sys.executable, "-m", "driftbandits", "serve", "--no-auth", "--port", "0"]
service = subprocess.Popen([*command, "--store", store], stdout=subprocess.PIPE, text=True)
address = re.search(r"http://\\S+", service.stdout.readline())[0]
"""
_PICTURE = re.compile(r"^!\[[^\]]*\]\((figures/[^)]+)\)\n", re.MULTILINE)


def notebook(text: str) -> Any:
    """Make a notebook of a page."""
    made = nbformat.v4.new_notebook()
    made.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    # links lead to the pages, seen from examples/
    text = re.sub(r"\]\(([a-z-]+\.md[^)]*)\)", r"](../docs/\1)", text)
    pieces = _PROGRAM.split(_PICTURE.sub("", text))
    for place, piece in enumerate(pieces):
        if place % 2 == 0 and piece.strip():
            made.cells.append(nbformat.v4.new_markdown_cell(piece.strip()))
        elif place % 2 == 1:
            code = piece.rstrip().replace('"http://127.0.0.1:8080"', "address")
            if code.endswith('metadata={"Date": None})'):
                code = "%matplotlib inline\n" + code + "\nfigure"
            made.cells.append(nbformat.v4.new_code_cell(code))
    first = next(i for i, cell in enumerate(made.cells) if cell.cell_type == "code")
    made.cells.insert(first, nbformat.v4.new_code_cell(_SERVICE.rstrip()))
    made.cells.append(nbformat.v4.new_code_cell("client.close()\nservice.terminate()"))
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"
    return made


def main() -> None:
    nbformat.write(notebook(PAGE.read_text(encoding="utf-8")), NOTEBOOK)
    print(NOTEBOOK.relative_to(ROOT))


if __name__ == "__main__":
    main()
