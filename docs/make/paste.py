"""Measure the figures of a page again: python docs/make/paste.py PAGE [NAME ...]

A page says which command prints what stands in a place of it:

    <!-- figures: speed $ python benchmarks/speed.py -->
    what the command printed
    <!-- end figures -->

The command runs in bash at the top of the repository, with the programs of this Python first.
What it prints on stdout is pasted; a place that holds a block of text keeps its fence.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = re.compile(
    r"^(?P<mark><!-- figures: (?P<name>[^\n$]+?)(?: \$ (?P<command>[^\n]+))? -->\n)"
    r"(?P<lines>.*?)^(?P<end><!-- end figures -->)$",
    re.DOTALL | re.MULTILINE,
)


def printed(command: str) -> str:
    """Return what a command prints on stdout; a failure ends the program."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{command} ended with {done.returncode}")
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").split("\n")) + "\n"


def paste(page: Path, names: list[str]) -> None:
    """Run the commands of these places, or of all, and write each result when it is there."""
    found = {place["name"]: place["command"] for place in PLACE.finditer(page.read_text("utf-8"))}
    for name in names or found:
        if not found.get(name):
            raise SystemExit(f"{page} has no place {name!r} with a command; it has {list(found)}")
        print(f"==> {name}: {found[name]}", flush=True)
        text = printed(found[name])

        def put(place: re.Match[str], name: str = name, text: str = text) -> str:
            if place["name"] != name:
                return place[0]
            fenced = place["lines"].startswith("```")
            lines = f"```text\n{text}```\n" if fenced else text
            return f"{place['mark']}{lines}{place['end']}"

        # Read again: the command may have taken an hour, and somebody may have edited the page.
        page.write_text(PLACE.sub(put, page.read_text("utf-8")), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="places; all of them unless given")
    given = parser.parse_args()
    paste(given.page, given.names)


if __name__ == "__main__":
    main()
