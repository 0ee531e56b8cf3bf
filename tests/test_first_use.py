"""First use: importing compiles nothing, one process compiles for all, and the code is kept.

Each test starts new processes, since a process that has compiled tells nothing. They report which
of our kernels the compiler really ran on, by the compiler's own events: those that Python calls,
and the modules of all.
"""

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import driftbandits
from driftbandits.jit.native import source_hash
from driftbandits.policies import PLAIN, kernels_of

pytestmark = pytest.mark.compiled

PACKAGE = Path(driftbandits.__file__).parent
NOTICE = "compiling its kernels"

REPORT = """
import json, sys
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import driftbandits as db
    {body}
from driftbandits.jit.cache import cache_directory
from driftbandits.jit.compiler import Entry
starts = [e.data for _, e in recorder.buffer if e.is_start]
kernels = [(start["dispatcher"], start["dispatcher"].py_func, start["args"]) for start in starts]
print(json.dumps({{
    "compiled": [f"{{f.__module__}} {{f.__qualname__}} {{types}}" for kernel, f, types in kernels
                 if isinstance(kernel, Entry)],
    "modules": sorted({{f.__module__ for _, f, _ in kernels}}),
    "outcome": {outcome},
    "directory": str(cache_directory()),
}}))
"""
DECIDE = REPORT.format(
    body="""
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=50), seed=3)
    choice = agent.decide([[1.0, 0.0], [0.0, 0.5], [-0.6, 0.6]])
    decide = agent._learner.model.choose""",
    outcome="""[choice.index, choice.scores.tolist(), sum(decide.stats.cache_hits.values()),
                sum(decide.stats.cache_misses.values())]""",
)
# A kernel of one file that is made of kernels of another, and is compiled in a moment.
RADIUS = REPORT.format(
    body="""
    from driftbandits.core.theory import radius
    policy = db.policy("LinUCB", dim=2)""",
    outcome="radius(policy.confidence, 6.0)",
)


def start(code, *launcher, **environment):
    return subprocess.Popen(
        [sys.executable, *launcher, "-c", code],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Its report and what it wrote to stderr."""
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    return json.loads(out), err


def is_decide(kernel):
    return kernel.startswith("driftbandits.policies.engines plain.decide ")


def test_importing_compiles_nothing(tmp_path):
    code = REPORT.format(body="db.Agent, db.Policy, db.Trace, db.simulate", outcome="None")
    report, err = finish(start(code, DRIFTBANDITS_CACHE_DIR=tmp_path))
    assert report["compiled"] == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert err == ""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """A folder in which processes that started together have found nothing, and their reports."""
    folder = tmp_path_factory.mktemp("together")
    processes = [start(DECIDE, DRIFTBANDITS_CACHE_DIR=folder) for _ in range(3)]
    return folder, *zip(*map(finish, processes), strict=True)


def test_processes_that_start_together_compile_once_and_the_next_not_at_all(together):
    folder, reports, errors = together
    times_compiled = Counter(kernel for report in reports for kernel in report["compiled"])
    assert any(is_decide(kernel) for kernel in times_compiled)
    assert set(times_compiled.values()) == {1}, "a kernel was compiled by several processes"
    choices = [report["outcome"][:2] for report in reports]
    assert choices == [choices[0]] * 3
    compiler = next(report for report in reports if any(map(is_decide, report["compiled"])))
    assert sum(err.count(NOTICE) for err in errors) == 1, "once for processes that start together"
    assert "driftbandits.core.estimator.solve" in compiler["modules"]
    others = [f"adaptations.{name}" for name in ("change_test", "windows", "dlinucb")]
    for other in [*others, "auto"]:
        assert f"driftbandits.policies.{other}" not in compiler["modules"], "of another family"

    later, err = finish(start(DECIDE, DRIFTBANDITS_CACHE_DIR=folder))
    _, _, hits, misses = later["outcome"]
    assert (later["compiled"], hits > 0, misses, err) == ([], True, 0, "")
    assert later["outcome"][:2] == choices[0]


def test_a_kernel_does_not_wait_for_another(tmp_path):
    cache = kernels_of(PLAIN).decide._cache
    folder = tmp_path / source_hash()
    folder.mkdir()
    with (folder / f"{cache._impl.filename_base}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        report, _ = finish(start(RADIUS, DRIFTBANDITS_CACHE_DIR=tmp_path))
    assert report["compiled"] != []


def test_a_service_lets_others_compile(together):
    folder, _, _ = together  # where one of three kernels is known
    code = REPORT.format(
        body="""
    from driftbandits.service.kernels import make_ready
    make_ready(["plain"])
    make_ready(["plain"])
    _, *used = db.policies.kernels_of("plain")""",
        outcome="[[sum(k.stats.cache_hits.values()), len(k.signatures)] for k in used]",
    )
    report, err = finish(start(code, DRIFTBANDITS_CACHE_DIR=folder))
    assert (report["compiled"], report["outcome"]) == ([], [[1, 1]] * 3)
    assert not err or "compiling its kernels" in err  # which is said again after a minute


def test_another_numba_makes_the_same_kernels(tmp_path):
    pretend = "import numba; numba.version_info = numba.version_info._replace(short=(0, 1))\n"
    ours, _ = finish(start(RADIUS, DRIFTBANDITS_CACHE_DIR=tmp_path / "known"))
    settings = {"DRIFTBANDITS_CACHE_DIR": tmp_path / "other"}
    for _ in range(2):
        others, _ = finish(start(pretend + RADIUS, **settings))
        assert others["outcome"] == ours["outcome"]
    assert others["compiled"] == []


def copy_of_package(folder):
    shutil.copytree(
        PACKAGE, folder / "driftbandits", ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    return folder


def test_an_edit_in_another_file_is_not_served_stale(tmp_path):
    place = copy_of_package(tmp_path / "site")
    settings = {"PYTHONPATH": place, "DRIFTBANDITS_CACHE_DIR": tmp_path / "cache"}
    before, _ = finish(start(RADIUS, **settings))
    again, _ = finish(start(RADIUS, **settings))
    assert before["compiled"] != []
    assert (again["compiled"], again["outcome"]) == ([], before["outcome"])

    radii = place / "driftbandits" / "core" / "theory.py"
    source = radii.read_text()
    line = next(line for line in source.splitlines() if "return sigma * math.sqrt(" in line)
    radii.write_text(source.replace(line, line.replace("return", "return 2.0 *")))
    edited, _ = finish(start(RADIUS, **settings))
    assert edited["outcome"] != before["outcome"]

    radii.write_text(source)
    restored, _ = finish(start(RADIUS, **settings))
    assert (restored["compiled"], restored["outcome"]) == ([], before["outcome"])


# The superuser may write anywhere, whatever the modes say, until this right is given up.
LAUNCHER = """
import ctypes, os, sys
if sys.platform == "linux":
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def read_only(tmp_path):
    """A folder with the package and a home, in which nothing can be written."""
    root = tmp_path / "read-only"
    copy_of_package(root / "site")
    (root / "home").mkdir()
    paths = [root, *root.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    yield root
    for path in paths:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def test_nothing_is_written_where_the_package_lies(read_only, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    settings = {
        "PYTHONPATH": read_only / "site",
        "HOME": read_only / "home",
        "XDG_CACHE_HOME": "",
        "DRIFTBANDITS_CACHE_DIR": "",
        "NUMBA_CACHE_DIR": "",
        "TMPDIR": temporary,
    }
    attempt = f"open({str(read_only / 'site' / 'probe')!r}, 'w')"
    probe = start(attempt, "-c", LAUNCHER, **settings)
    assert "Permission denied" in probe.communicate()[1], "the folder must be read-only"

    first, _ = finish(start(RADIUS, "-c", LAUNCHER, **settings))
    assert first["compiled"] != []
    assert Path(first["directory"]).is_relative_to(temporary)
    second, _ = finish(start(RADIUS, "-c", LAUNCHER, **settings))
    assert second["compiled"] == []
    assert second["outcome"] == first["outcome"]
