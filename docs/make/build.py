"""Build the site: python docs/make/build.py [--out build/site]

Pages are gathered from docs/, parts that are made of the code are put in, and links that lead out
of docs/ are led back to a page of the site or become plain words. Everything that a page loads is
in the site, so that it can be read from a disk without a network: open build/site/index.html.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from navigation import ROOT_PAGES, SECTIONS, navigation
from parts import with_parts

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```[ ]*$)", re.DOTALL | re.MULTILINE)
_FROM_DISK = """
// A page on a disk may start no worker from a file, only from a text.
if (location.protocol === "file:") {
  const Plain = window.Worker;
  window.Worker = function (url, options) {
    const source = new Blob([SOURCE], { type: "text/javascript" });
    return new Plain(URL.createObjectURL(source), options);
  };
}
"""

SETTINGS = """
[project]
site_name = "driftbandits"
site_description = "Contextual bandits for a world that changes"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
extra_css = ["site.css"]
nav = {nav}

[project.extra]
generator = false

[project.validation]
invalid_links = true
invalid_link_anchors = true

[project.plugins.search]
[project.plugins.offline]

[project.plugins.mkdocstrings.handlers.python]
paths = [{source}]

[project.plugins.mkdocstrings.handlers.python.options]
show_source = false
show_root_heading = true
show_root_full_path = false
heading_level = 2
members_order = "source"
docstring_section_style = "list"
separate_signature = true
show_signature_annotations = true
signature_crossrefs = false
show_bases = false
show_if_no_docstring = false
extensions = [{extension}]

[project.theme]
font = false
language = "en"
features = [
  "content.code.copy",
  "navigation.footer",
  "navigation.top",
  "search.highlight",
  "toc.follow",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light"

[project.markdown_extensions]
admonition = {{}}
attr_list = {{}}
md_in_html = {{}}
tables = {{}}
toc.permalink = true
pymdownx.highlight = {{}}
pymdownx.superfences = {{}}
pymdownx.details = {{}}
"""


def with_links(text: str, *, file: Path, page: str) -> str:
    """Return the text of a file with links as they are from a page of the site."""

    def lead(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        path, mark, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return match[0]
        found = (file.parent / path).resolve()
        if not found.exists():
            raise SystemExit(f"{file.relative_to(ROOT)}: {target} does not exist")
        if found == DOCS / "decisions":
            place = "decisions.md"
        elif found.is_relative_to(DOCS):
            place = found.relative_to(DOCS).as_posix()
        elif found.name in ROOT_PAGES and found.parent == ROOT:
            place = ROOT_PAGES[found.name]
        else:  # a file of the repository that is no page
            name = found.relative_to(ROOT).as_posix()
            return words if name in words else f"{words} (`{name}`)"
        return f"{picture}[{words}]({os.path.relpath(place, Path(page).parent)}{mark}{anchor})"

    pieces = _FENCE.split(text)
    return "".join(piece if piece.startswith("```") else _LINK.sub(lead, piece) for piece in pieces)


def gather(pages: Path) -> list[str]:
    """Write every page and picture into the folder, and return the pages."""
    files = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    files |= {page: ROOT / name for name, page in ROOT_PAGES.items()}
    for page, file in files.items():
        target = pages / page
        target.parent.mkdir(parents=True, exist_ok=True)
        text = with_parts(file.read_text(encoding="utf-8"), page=page)
        text = text.replace(" ± ", "\u00a0±\u00a0")  # a cell is not broken there
        target.write_text(with_links(text, file=file, page=page), encoding="utf-8")
    shutil.copytree(DOCS / "figures", pages / "figures")
    shutil.copy(Path(__file__).with_name("site.css"), pages / "site.css")
    return list(files)


def leave_nothing_elsewhere(site: Path) -> None:
    """Let the search take what it needs from the site itself, so that it works from a disk."""
    (worker,) = (site / "assets/javascripts/workers").glob("search.*.js")
    source = f"const SOURCE = {json.dumps(worker.read_text(encoding='utf-8'))};{_FROM_DISK}"
    worker.with_name("from-disk.js").write_text(source, encoding="utf-8")
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        if page.name == "404.html":
            page.unlink()
            continue
        text, count = re.subn(
            r'src="https://unpkg\.com/iframe-worker/shim[^"]*"',
            f'src="{up}assets/javascripts/workers/from-disk.js"',
            page.read_text(encoding="utf-8"),
        )
        if count != 1:
            raise SystemExit(f"{page}: the script for pages on a disk was found {count} times")
        page.write_text(text, encoding="utf-8")


def build(out: Path) -> None:
    """Build the site; a broken link or reference ends the program."""
    work = out.with_name(f"{out.name}-work").resolve()
    for folder in (work, out):
        shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True)
    pages = gather(work / "pages")
    settings = SETTINGS.format(
        nav=_toml(navigation(pages)),
        source=json.dumps(str(ROOT / "src")),
        extension=json.dumps(str(Path(__file__).with_name("docstrings.py"))),
    )
    (work / "zensical.toml").write_text(settings, encoding="utf-8")
    command = [Path(sys.executable).with_name("zensical"), "build", "--strict"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        raise SystemExit(f"{said.strip()}\nthe site was not built")
    leave_nothing_elsewhere(work / "site")
    shutil.move(work / "site", out)
    shutil.rmtree(work)


def count_words() -> None:
    """Print how many pages and words each group has; generated references do not count."""
    groups = {title: [DOCS / page for page in pages] for title, pages in SECTIONS.items()}
    del groups["Reference"]
    groups["all"] = [page for pages in groups.values() for page in pages]
    groups["decisions"] = list((DOCS / "decisions").glob("*.md"))
    for title, pages in groups.items():
        words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
        print(f"{title:10} {len(pages):3} pages {words:7,} words")


def _toml(value: object) -> str:
    """Return lists, texts and tables with one key as one line of TOML."""
    if isinstance(value, dict):
        ((key, inner),) = value.items()
        return f"{{ {json.dumps(key)} = {_toml(inner)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out
    build(out)
    count_words()
    print(out / "index.html")


if __name__ == "__main__":
    main()
