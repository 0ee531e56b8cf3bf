"""Check that this tree is the release of its tag, and say what to upload: `make release`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def problems() -> list[str]:
    """What keeps this tree from being released."""
    wanted, found = version(), []
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\] - (\S+)", changelog, re.MULTILINE)
    if newest is None or newest[1] != wanted:
        found.append(f"CHANGELOG.md begins with another version than {wanted}")
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2]):
        found.append(f"CHANGELOG.md has no date for {wanted}: {newest[2]}")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    if f"\nversion: {wanted}\n" not in cited:
        found.append(f"CITATION.cff names another version than {wanted}")
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    if f'set version = "{wanted}"' not in recipe:
        found.append(f"packaging/conda/meta.yaml names another version than {wanted}")
    if git("status", "--porcelain"):
        found.append("there are changes that are not committed")
    if f"v{wanted}" not in git("tag", "--points-at", "HEAD").split():
        found.append(f"the commit has no tag v{wanted}: git tag v{wanted}")
    return found


def git(*command: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *command], check=True, capture_output=True, text=True
    )
    return done.stdout


def main() -> None:
    if sys.argv[1:] == ["check"]:
        found = problems()
        print("\n".join(found) or f"version {version()} is ready to be built")
        sys.exit(bool(found))
    files = sorted((ROOT / "dist").iterdir())
    print("To publish, run once, with the wheels of the other platforms beside these:")
    print("  python -m pip install twine && twine upload", *(f"dist/{file.name}" for file in files))


if __name__ == "__main__":
    main()
