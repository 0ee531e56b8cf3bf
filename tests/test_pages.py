"""Every program on a page runs, and every public name has one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "make"))
import programs  # noqa: E402

PAGES = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if programs.programs(path.read_text(encoding="utf-8"))
]


@pytest.mark.compiled
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_programs_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = programs.run(page)
    text = page.read_text(encoding="utf-8")
    for block, printed in zip(programs.programs(text), told, strict=True):
        if block.output is not None:
            assert printed.strip()
            assert text[slice(*block.output)].strip(), "python docs/make/programs.py PAGE --write"
    for figure in (tmp_path / "figures").iterdir():
        assert f"](figures/{figure.name})" in text
        assert (ROOT / "docs" / "figures" / figure.name).exists()


@pytest.mark.parametrize("module", ["driftbandits", "driftbandits.client"])
def test_every_public_name_has_an_example(module: str) -> None:
    import importlib

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    code = "\n".join(block.code for block in programs.programs(text))
    for name in importlib.import_module(module).__all__:
        assert re.search(rf"^::: driftbandits\.\S*\b{name}$", text, re.MULTILINE), name
        assert re.search(rf"\b(db|dbc)\.{name}\b", code), name


def test_a_program_that_fails_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```python\nx = 1\n```\n\nWords.\n\n"
        "```python\nprint(x + 1)\n```\n\n```output\n```\n\n"
        "<!-- not run: there is no such module -->\n```python\nimport no_such_module\n```\n"
    )
    assert programs.run(page) == ["", "2\n"]
    written = programs.with_outputs(page.read_text(), ["", "2\n"])
    assert "```output\n2\n```" in written
    page.write_text("# Page\n\n```python\nassert False, 'wrong'\n```\n")
    with pytest.raises(AssertionError, match="wrong") as failed:
        programs.run(page)
    assert failed.traceback[-1].lineno == 3  # counted from 0: the line of the page
