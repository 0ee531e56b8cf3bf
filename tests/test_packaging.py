"""The pins, the wheel and the version are what a user will meet."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PIN_FILES = sorted((ROOT / "requirements").glob("*.txt"))


def pins(path: Path) -> list[str]:
    """The entries of a pin file, each with its hashes on one line."""
    return path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def test_every_line_of_the_pins_is_one_hashed_version_and_names_no_host():
    pin = re.compile(r"[a-z0-9-]+==\S+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*")
    assert PIN_FILES
    for path in PIN_FILES:
        assert "://" not in path.read_text(encoding="utf-8")
        assert [line for line in pins(path) if not pin.fullmatch(line)] == []


def test_pins_satisfy_every_declared_dependency():
    pinned: dict[str, str] = {}
    for line in pins(ROOT / "requirements" / "dev.txt"):
        name, version = line.split()[0].split("==")
        assert name not in pinned, f"{name} has two pins: checks would depend on the Python used"
        pinned[name] = version
    declared = [
        *PROJECT["dependencies"],
        *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
        *PYPROJECT["dependency-groups"]["dev"],
        *PYPROJECT["build-system"]["requires"],
    ]
    for requirement in map(Requirement, declared):
        if requirement.name == PROJECT["name"]:
            continue
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{requirement.name} is not pinned: run `make lock`"
        assert requirement.specifier.contains(pinned[name]), f"{requirement} but {pinned[name]}"


def test_the_extra_all_is_every_other_extra():
    extras = PROJECT["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.name == PROJECT["name"]
    assert everything.extras == extras.keys() - {"all"}


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = re.search(r"^version: (\S+)$", citation, re.MULTILINE)
    newest = re.search(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert cited is not None
    assert newest is not None
    assert (cited[1], newest[1]) == (PROJECT["version"], PROJECT["version"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the source archive and the wheel that was built from that archive."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_wheel_holds_the_package_its_types_and_its_licence(built):
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        names = set(wheel.namelist())
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    own = {file.relative_to(ROOT / "src") for file in files if "__pycache__" not in file.parts}
    assert {file.as_posix() for file in own} <= names  # templates too, not code alone
    experiments = (ROOT / "experiments").glob("*.toml")
    assert {f"driftbandits/published/{file.name}" for file in experiments} <= names
    assert "driftbandits/py.typed" in names
    assert any(re.fullmatch(r".*\.dist-info/licenses/LICENSE", name) for name in names)


def test_wheel_metadata(built):
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        (path,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata: Message = Parser().parsestr(wheel.read(path).decode("utf-8"))
    assert metadata["Name"] == "driftbandits"
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    required = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    assert {needed.name for needed in required if needed.marker is None} == {"numpy", "numba"}


def test_source_archive_can_be_tested(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.split("/", 1)[-1] for name in files.getnames()}
    assert {"Makefile", "pyproject.toml", "requirements/dev.txt", "tests/conftest.py"} <= names


def test_installed_wheel_imports_and_knows_its_version(built, tmp_path):
    run(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv"))
    python = tmp_path / "venv" / "bin" / "python"
    purelib = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    site_packages = Path(purelib.strip())
    # numpy and numba are borrowed from this environment. A .pth file puts it behind the new
    # environment on the path and does not follow the link to the sources that it contains.
    (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    wheel = str(wheel_in(built))
    run(
        *(sys.executable, "-m", "pip", "--python", str(python)),
        *("install", "--quiet", "--no-deps", "--no-index", wheel),
    )
    program = "import driftbandits as db; print(db.__file__); print(db.__version__)"
    file, version = run(str(python), "-I", "-W", "error", "-c", program).splitlines()
    assert Path(file).is_relative_to(site_packages)
    assert version == PROJECT["version"]
