"""docs/make/paste.py: what a command prints comes to stand in its place of a page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "make"))
import paste  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGE = """# P

<!-- figures: one $ echo 'it  '; echo says >&2; echo printed | sed s/p/P/ -->
old
<!-- end figures -->

<!-- figures: two $ echo text -->
```text
old
```
<!-- end figures -->

<!-- figures: three $ false | cat -->
old
<!-- end figures -->

Words.
"""


def test_a_place_holds_what_its_command_printed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    paste.paste(page, ["one"])
    assert page.read_text() == PAGE.replace("old", "it\nPrinted", 1)
    with pytest.raises(SystemExit, match="ended with 1"):
        paste.paste(page, [])
    assert page.read_text() == PAGE.replace("old", "it\nPrinted", 1).replace("old", "text", 1)
    with pytest.raises(SystemExit, match="no place 'four' with a command"):
        paste.paste(page, ["four"])


def test_every_mark_is_well_formed_and_its_programs_exist():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found = list(paste.PLACE.finditer(text))
        marks = text.count("<!-- figures:"), text.count("<!-- end figures -->")
        assert marks == (len(found), len(found)), page
        for place in found:
            for script in re.findall(r"\S+\.py\b", place["command"] or ""):
                assert (ROOT / script).exists(), script


def test_every_picture_is_shown():
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (ROOT / "docs" / "figures").iterdir():
        assert f"figures/{picture.name})" in shown, picture
