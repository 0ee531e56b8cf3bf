"""docs/client.md: every piece that can be run here runs against a real service."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from driftbandits.client import Client
from servers import Served

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "client.md").read_text()
TYPESCRIPT = ROOT / "clients" / "typescript"
NEEDED = {
    "bash": "curl",
    "python": sys.executable,
    "typescript": "node",
    "java": "java",
    "go": "go",
}
PRESENT = [language for language, program in NEEDED.items() if shutil.which(program)]


def pieces() -> dict[str, str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return dict(found)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('calls')}/log.db", with_keys=True) as served:
        yield served


def command(language: str, code: str, folder: Path) -> list[str]:
    name = {"bash": "calls.sh", "python": "calls.py", "java": "Calls.java", "go": "calls.go"}.get(
        language
    )
    if name is not None:
        (folder / name).write_text(code)
    if language == "bash":
        return ["bash", "-eu", name or ""]
    if language == "python":
        return [sys.executable, name or ""]
    if language == "java":
        return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", name or ""]
    if language == "go":
        return ["go", "run", name or ""]
    return compiled_typescript(code, folder)


def compiled_typescript(code: str, folder: Path) -> list[str]:
    """With the client as a package among others."""
    package = folder / "node_modules" / "driftbandits-client"
    package.mkdir(parents=True)
    shutil.copy(TYPESCRIPT / "package.json", package)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "calls.ts").write_text(code)
    tsc = TYPESCRIPT / "node_modules" / ".bin" / "tsc"
    options = ["--strict", "--target", "ES2022", "--module", "NodeNext", "--lib", "ES2022,DOM"]
    for compiled in (
        [tsc, "--project", TYPESCRIPT, "--outDir", package / "dist"],
        [tsc, *options, folder / "calls.ts"],
    ):
        done = subprocess.run(compiled, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    return ["node", str(folder / "calls.js")]


@pytest.mark.parametrize("language", PRESENT)
def test_the_calls_of(language, service, tmp_path):
    code = pieces()[language].replace("http://127.0.0.1:8080", service.address)
    assert service.address in code
    done = subprocess.run(
        command(language, code, tmp_path),
        cwd=tmp_path,
        env={
            **os.environ,
            "DRIFTBANDITS_KEY": service.key or "",
            "GOCACHE": str(tmp_path / "cache"),
            "GOTOOLCHAIN": "local",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    policy = "news-curl" if language == "bash" else f"news-{language}"
    with Client(service.address, service.key) as client:
        why = client.explanation(policy, "visit-1")
        assert why.outcome is not None
        assert (len(why.arms), why.outcome.value) == (2, 1.0)


def test_all_languages_make_the_same_calls():
    for language, code in pieces().items():
        for said in ("visit-1", "0.6, 0.1", "0.1, 0.7", "auto", "click"):
            assert said in code, (language, said)
    assert list(pieces()) == ["python", "bash", "typescript", "java", "go"]
