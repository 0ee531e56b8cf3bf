"""Kernels of a wheel: the same bits without numba, and never from a file that is not the right one.

One family is built, from what numba has compiled for this processor.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import driftbandits as db

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "driftbandits"

PLAY = """
import json, sys
import numpy as np
import driftbandits as db
from driftbandits.jit import made_by

class World:
    def draw(self, rng):
        return db.Trace(actions=rng.uniform(-0.7, 0.7, (40, 3, 2)), rewards=np.ones((40, 3)))

def play():
    policy = db.policy("D-GLUCB", dim=2, discount=0.97)
    agent, rng = db.Agent(policy, seed=3), np.random.default_rng(0)
    for t in range(60):
        choice = agent.decide(rng.uniform(-0.7, 0.7, size=(4, 2)))
        agent.update(choice, float(t % 3 == 0))
    agent.tick(2)
    many = db.simulate({"it": policy}, World(), runs=2, seed=1, workers=1)
    return [agent.digest, choice.scores.tolist(), many.theta_hat["it"][:, -1].tolist()]
"""
REPORT = """
level = made_by().partition(" for ")[2] or None
print(json.dumps([level, "numba" in sys.modules, play()]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The kernels of one family as a wheel would have them."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, str(ROOT / "packaging" / "kernels.py"), str(folder)]
    run([*command, "--families", "plain", "--as-here"])
    return folder


@pytest.fixture
def site(built, tmp_path):
    """A copy of the package that has these kernels."""
    package = tmp_path / "site" / "driftbandits"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "built"))
    shutil.copytree(built, package / "jit" / "built")
    return tmp_path / "site"


def run(command: list[str], **environment: str) -> str:
    settings = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def played(site: Path, **environment: str):
    program = PLAY + REPORT
    return json.loads(run([sys.executable, "-c", program], PYTHONPATH=str(site), **environment))


def kernels_in(site: Path) -> Path:
    return site / "driftbandits" / "jit" / "built"


def best_of(site: Path) -> Path:
    files = json.loads((kernels_in(site) / "manifest.json").read_text())["files"]
    return kernels_in(site) / next(iter(files))


def level_of(site: Path) -> str | None:
    program = "from driftbandits.jit import made_by; print(made_by())"
    made = run([sys.executable, "-c", program], PYTHONPATH=str(site)).strip()
    return made.partition(" for ")[2] or None


def test_the_same_bits_without_numba_as_from_numba(site):
    level, imported, outcome = played(site)
    assert level is not None
    assert not imported
    assert played(site, DRIFTBANDITS_COMPILE="1") == [None, True, outcome]


def test_every_level_gives_the_same_bits(site):
    best = played(site)
    best_of(site).unlink()
    second = played(site)
    assert second[0] not in {None, best[0]}
    assert second[2] == best[2]


def test_a_damaged_file_is_not_loaded(site):
    best, path = level_of(site), best_of(site)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert level_of(site) not in {None, best}, "the next level is whole"


@pytest.mark.parametrize("manifest", ["", "[]", '{"files": 3}', '{"files": {"absent.so": ""}}'])
def test_without_a_manifest_numba_compiles(site, manifest):
    (kernels_in(site) / "manifest.json").write_text(manifest)
    assert level_of(site) is None


def test_a_file_from_other_sources_is_not_used(site):
    source = site / "driftbandits" / "core" / "linalg.py"
    source.write_text(source.read_text() + "\n# edited\n")
    assert level_of(site) is None


def test_code_for_another_processor_is_refused_under_a_forged_key(site, tmp_path):
    """The file has the name and the checksum of the best level, and would run here by its key."""
    sys.path.insert(0, str(ROOT / "packaging"))
    try:
        import kernels
    finally:
        sys.path.pop(0)
    best, path = level_of(site), best_of(site)
    source = tmp_path / "forged.c"
    module = path.name.partition(".")[0]
    foreign = kernels.Level(str(best), "0 /* instructions that this processor lacks */")
    source.write_text(kernels.module_source(module, foreign, [], "x"))
    kernels.link(path, [source])
    manifest = kernels_in(site) / "manifest.json"
    known = json.loads(manifest.read_text())
    known["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(known))
    assert level_of(site) not in {None, best}


def test_without_kernels_and_numba_the_cure_is_named(site):
    shutil.rmtree(kernels_in(site))
    code = (
        "import importlib.util as u, sys; real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'numba' else real(name, *rest)\n"
        "import driftbandits as db\n"
        "try:\n    db.Agent\nexcept ImportError as error:\n    print(error)\n"
    )
    said = run([sys.executable, "-c", code], PYTHONPATH=str(site))
    assert "pip install 'driftbandits[compile]'" in said


def test_a_kernel_refuses_arguments_of_another_kind(site):
    code = (
        "import numpy as np\nfrom driftbandits.policies import kernels_of\n"
        "update = kernels_of('plain').update\nhandle = np.zeros((1, 4), dtype=np.int64)\n"
        "for wrong in (1, 2), (np.zeros((1, 4)), np.ones((1, 2)), 0, 1.0, 1),\\\n"
        "        (handle, np.ones(2), 0, 1.0, 1), (handle, np.ones((2, 4))[:, ::2], 0, 1.0, 1),\\\n"
        "        (handle, np.ones((1, 2)), 0.5, 1.0, 1), (handle, np.ones((1, 2)), 0, 'x', 1):\n"
        "    try:\n        update(*wrong)\n    except TypeError:\n        print('refused')\n"
    )
    assert run([sys.executable, "-c", code], PYTHONPATH=str(site)).split() == ["refused"] * 6


def test_a_wheel_with_kernels_needs_numpy_alone(built, tmp_path):
    sys.path.insert(0, str(ROOT / "packaging"))
    try:
        import wheels
    finally:
        sys.path.pop(0)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    run([*build, str(tmp_path), str(ROOT)])
    (pure,) = tmp_path.glob("*.whl")
    (tmp_path / "made").mkdir()
    wheel = wheels.with_kernels(pure, built, tmp_path / "made")
    assert "-cp311-abi3-" in wheel.name
    site = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    run([*pip, "--target", str(site), str(wheel)])
    with zipfile.ZipFile(wheel) as files:
        (name,) = [path for path in files.namelist() if path.endswith("METADATA")]
        needs = [
            line
            for line in files.read(name).decode().splitlines()
            if line.startswith("Requires-Dist: numba")
        ]
    assert needs
    assert all("extra ==" in line for line in needs)
    # numpy is borrowed alone, so that nothing else can be imported
    for package in ("numpy", "numpy.libs"):
        borrowed = Path(np.__file__).parent.parent / package
        if borrowed.exists():
            (site / package).symlink_to(borrowed)
    program = f"import sys; sys.path.append({str(site)!r})\n" + PLAY + REPORT
    level, imported, _ = json.loads(run([sys.executable, "-I", "-S", "-c", program]))
    assert level is not None
    assert not imported
    assert db.__version__ in wheel.name
