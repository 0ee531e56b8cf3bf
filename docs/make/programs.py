"""Run the programs of a page: python docs/make/programs.py docs/tutorial.md [--write]

The blocks that begin with ```python share one namespace and run from top to bottom, in a folder of
their own. A block ```output below one holds what it printed; --write puts it there, and what the
page draws into docs/figures. `<!-- not run: why -->` above a block leaves it out. A page that
speaks to http://127.0.0.1:8080 speaks to a service that is started for it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "http://127.0.0.1:8080"
_BLOCK = re.compile(
    r"(?P<not_run><!-- not run: [^\n]+ -->\n+)?^```python\n(?P<code>.*?)^```$"
    r"(?P<between>\n+```output\n)?(?(between)(?P<output>.*?)^```$)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Program:
    """A block: its code, the line of the page that it begins in, and where its output stands."""

    code: str
    line: int
    output: tuple[int, int] | None


def programs(text: str) -> list[Program]:
    """Return the blocks of a page that are run."""
    return [
        Program(
            found["code"],
            text.count("\n", 0, found.start("code")) + 1,
            None if found["between"] is None else found.span("output"),
        )
        for found in _BLOCK.finditer(text)
        if not found["not_run"]
    ]


def run(page: Path) -> list[str]:
    """Run a page in the present folder, and return what each block printed."""
    told: list[str] = []
    names: dict[str, object] = {"__name__": "__main__"}
    blocks = programs(page.read_text(encoding="utf-8"))
    calls = any(ADDRESS in block.code for block in blocks)
    Path("figures").mkdir(exist_ok=True)
    same_names = mpl.rc_context({"svg.hashsalt": page.stem})  # so that a picture is the same again
    with same_names, served() if calls else contextlib.nullcontext(ADDRESS) as address:
        for block in blocks:
            lines = "\n" * (block.line - 1) + block.code.replace(ADDRESS, address)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(lines, str(page), "exec"), names)
            told.append(printed.getvalue())
        for value in names.values():  # a program may leave that to its end
            if calls and type(value).__name__ == "Client":
                value.close()
    return told


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Give the address of a service without keys that lives as long as the block."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/driftbandits.db"
        command = [sys.executable, "-m", "driftbandits", "serve", "--no-auth", "--port", "0"]
        process = subprocess.Popen([*command, "--store", store], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            _wait_until_ready(found[0], process)
            yield found[0]
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _wait_until_ready(address: str, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        with contextlib.suppress(urllib.error.URLError):
            if urllib.request.urlopen(f"{address}/readyz").status == 200:
                return
    raise RuntimeError("the service has ended before it was ready")


def with_outputs(text: str, told: list[str]) -> str:
    """Return the page with what its blocks printed."""
    for block, printed in reversed(list(zip(programs(text), told, strict=True))):
        if block.output is not None:
            begin, end = block.output
            lines = [line.rstrip() for line in printed.rstrip().split("\n")]
            text = text[:begin] + "\n".join(lines) + "\n" + text[end:]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help="outputs and figures into docs/")
    given = parser.parse_args()
    for page in given.pages:
        path = page.resolve()
        with tempfile.TemporaryDirectory() as folder:
            before = Path.cwd()
            os.chdir(folder)
            try:
                told = run(path)
                if given.write:
                    page_text = path.read_text(encoding="utf-8")
                    path.write_text(with_outputs(page_text, told), encoding="utf-8")
                    for figure in Path("figures").iterdir():
                        shutil.copy(figure, ROOT / "docs" / "figures" / figure.name)
                else:
                    print("".join(told))
            finally:
                os.chdir(before)


if __name__ == "__main__":
    main()
