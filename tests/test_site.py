"""The site: built strictly, and every page of it in a real browser without a network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browsing import FILES, complaints_of

ROOT = Path(__file__).parents[1]
WIDTHS = {"desk": (1400, 1000, "light"), "phone": (390, 844, "dark")}
BUILD = [sys.executable, str(ROOT / "docs" / "make" / "build.py"), "--out"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run([*BUILD, str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(params=list(WIDTHS))
def context(request, browser):
    width, height, scheme = WIDTHS[request.param]
    made = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
    )
    yield made
    made.close()


def test_every_page_opens_without_a_complaint(site, context):
    page = context.new_page()
    heard = complaints_of(page, FILES)
    files = sorted(site.rglob("*.html"))
    assert len(files) > 40
    for file in files:
        page.goto(file.as_uri())
        name = file.relative_to(site).as_posix()
        assert page.locator("h1").count() >= 1, name
        beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert beyond <= 0, f"{name} scrolls sideways by {beyond}"
        broken = page.evaluate(
            "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        )
        assert broken == [], name
        assert heard == [], name


def test_the_search_finds_a_page_and_leads_there(site, context):
    page = context.new_page()
    heard = complaints_of(page, FILES)
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    box = page.get_by_role("combobox").or_(page.locator("input[type=text], input[type=search]"))
    box.first.fill("propensities")
    found = page.get_by_role("link", name="propensit").or_(
        page.locator("a[href*='.html']", has_text="propensit")
    )
    expect(found.first).to_be_visible()
    found.first.click()
    page.wait_for_url("**/*.html*")
    expect(page.locator("h1").first).to_be_visible()
    assert "index.html" not in page.url
    assert heard == []


def test_what_leads_nowhere_ends_the_build(tmp_path):
    for name in ("docs", "src", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pyc*"))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    said = {
        "<!-- made of the code: nothing -->": "there is no part 'nothing'",
        "[nowhere](no-such-page.md)": "no-such-page.md does not exist",
        "[nowhere](auto.md#no-such-part)": "anchor does not exist",
        "::: driftbandits.no_such_name": "no_such_name",
    }
    command = [sys.executable, str(tmp_path / "docs/make/build.py"), "--out", str(tmp_path / "s")]
    for line, complaint in said.items():
        new_page = f"# A page that nobody listed\n\n{line}\n"
        (tmp_path / "docs" / "new-page.md").write_text(new_page)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 0, line
        assert complaint in done.stderr, line


def test_every_listed_page_is_there():
    sys.path.insert(0, str(ROOT / "docs" / "make"))
    import navigation

    listed = [page for section in navigation.SECTIONS.values() for page in section]
    assert len(listed) == len(set(listed))
    there = {path.name for path in (ROOT / "docs").glob("*.md")} | set(
        navigation.ROOT_PAGES.values()
    )
    assert set(listed) <= there
    assert set(navigation.TITLES) <= set(listed)
