"""The TypeScript client: its types are those of the service, and it works against a real one."""

import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from servers import Served

FOLDER = Path(__file__).parents[1] / "clients" / "typescript"
TSC = FOLDER / "node_modules" / ".bin" / "tsc"


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(*options: str) -> None:
    assert TSC.exists(), "the compiler is missing; run: make typescript"
    done = subprocess.run([TSC, *options], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_types_are_those_of_the_openapi_document():
    made = generator()
    assert made.TARGET.read_text() == made.current(), "run: make typescript"


def test_every_shape_of_a_schema_has_a_type():
    type_of = generator()._type
    for schema, wanted in (
        ({"type": "integer"}, "number"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/a/Arm"}]}},
            "(string | Arm)[]",
        ),
        ({"type": "object"}, "Record<string, unknown>"),
        (
            {"type": "object", "additionalProperties": {"type": "number"}},
            "Record<string, number>",
        ),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"type": "string", "enum": ["a"]}, '"a" | (string & {})'),
        ({}, "unknown"),
    ):
        assert type_of(schema) == wanted


def test_a_type_checker_notices_wrong_calls():
    compiled("--project", "test", "--noEmit")


def test_it_works_against_a_service(tmp_path):
    dist = FOLDER / "dist"
    compiled("--project", ".")
    with Served(f"sqlite:///{tmp_path}/log.db", with_keys=True) as service:
        done = subprocess.run(
            ["node", "--test", "test/"],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "DRIFTBANDITS_URL": service.address,
                "DRIFTBANDITS_KEY": service.key or "",
            },
        )
    assert dist.is_dir()
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"# pass 6\n# fail 0", done.stdout), done.stdout


def test_the_lock_names_no_host_and_the_client_needs_nothing():
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    assert "://" not in json.dumps(lock)
    package = json.loads((FOLDER / "package.json").read_text())
    assert "dependencies" not in package
    assert set(package["devDependencies"]) == {"typescript"}


def test_its_version_is_the_package_s():
    text = (FOLDER.parents[1] / "pyproject.toml").read_text()
    found = re.search(r'^version = "(.+)"', text, re.M)
    assert found is not None
    assert json.loads((FOLDER / "package.json").read_text())["version"] == found[1]
