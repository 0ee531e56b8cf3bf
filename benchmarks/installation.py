"""What a new user waits for: `python benchmarks/installation.py dist/*.whl`.

Each wheel is installed into an empty environment whose files nobody may write to. Another user,
with an empty home, no compiler and no way into the network, then makes a first decision of each
kind and starts a service. What the wheel depends on is fetched before, by pip, from where pip
takes it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

NOBODY, PORT = 65534, 8793
DECIDE = "choice = agent.decide(np.eye(2)); agent.update(choice, 1.0)"
FIRST = {
    "auto": ["agent = db.Agent(db.policy('auto', dim=2), seed=0)", DECIDE],
    "D-GLUCB": ["agent = db.Agent(db.policy('D-GLUCB', dim=2, discount=0.99), seed=0)", DECIDE],
    "auto, from tables": [
        "features = db.Features(context={'age': 'number'}, arm={'kind': 'category'})",
        "agent = db.Agent(db.policy('auto', features=features), seed=0)",
        "arms = {'a': {'kind': 'x'}, 'b': {'kind': 'y'}}",
        "agent.update(agent.decide(context={'age': 30}, arms=arms), 1.0)",
    ],
    "auto, separate arms": [
        "agent = db.Agent(db.policy('auto', dim=2, arms='separate'), seed=0)",
        "agent.update(agent.decide(np.ones(2), arms=['a', 'b']), 1.0)",
    ],
    "simulate, auto": [
        "class World:",
        "    def draw(self, rng):",
        "        return db.Trace(actions=rng.uniform(-1, 1, (100, 4, 2)) / 2,",
        "                        rewards=np.ones((100, 4)))",
        "db.simulate({'auto': db.policy('auto', dim=2)}, World(), runs=2, seed=0, workers=1)",
    ],
}
REPORT = """
import json, resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, "numba" in sys.modules]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--slowest", type=float, help="fail above these seconds")
    parser.add_argument(
        "--python", default=sys.executable, help="whose environments; others may have to run it"
    )
    parser.add_argument("--no-service", action="store_true")
    given = parser.parse_args()
    slow = False
    for wheel in given.wheels:
        print(wheel.name)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            place = Path(folder)
            seconds = measure(
                wheel.resolve(), place, given.python, with_service=not given.no_service
            )
        slow |= given.slowest is not None and max(seconds) > given.slowest
    sys.exit(slow)


def measure(wheel: Path, folder: Path, base: str, *, with_service: bool) -> list[float]:
    """Seconds of each first decision, printed as they come."""
    bare = installed(wheel, folder / "bare", base, extra="")
    size = sum(file.stat().st_size for file in site_of(bare).rglob("*") if file.is_file())
    print(f"  installed, with what it needs: {size / 1e6:.0f} MB")
    print(f"  {'first use':<24}{'seconds':>9}{'processor':>11}  numba")
    seconds = []
    for label, lines in FIRST.items():
        program = "\n".join(["import numpy as np", "import driftbandits as db", *lines, REPORT])
        before = time.perf_counter()
        said = as_stranger([str(bare), "-I", "-c", program], folder)
        seconds.append(time.perf_counter() - before)
        processor, numba = json.loads(said.splitlines()[-1])
        print(f"  {label:<24}{seconds[-1]:>9.2f}{processor:>11.2f}  {'yes' if numba else 'no'}")
    if with_service:
        python = installed(wheel, folder / "service", base, extra="[service]")
        print(f"  {'service ready':<24}{until_ready(python, folder):>9.2f}")
    return seconds


def installed(wheel: Path, place: Path, base: str, *, extra: str) -> Path:
    """The Python of a new environment in which nothing can be written."""
    subprocess.run([base, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--only-binary", ":all:", f"{wheel}{extra}"], check=True)
    for path in [place, *place.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222 | 0o555 * path.is_dir() | 0o444)
    return python


def site_of(python: Path) -> Path:
    return next((python.parents[1] / "lib").glob("python*")) / "site-packages"


def stranger(folder: Path) -> dict[str, object]:
    """How a process is started as somebody who has nothing: settings of `subprocess`."""
    home = Path(tempfile.mkdtemp(dir=folder))
    settings: dict[str, object] = {
        "cwd": home,
        # no compiler on the path, and a proxy that nobody listens at
        "env": {"HOME": str(home), "PATH": "", "http_proxy": "http://127.0.0.1:9"},
    }
    if os.getuid() == 0:
        shutil.chown(home, NOBODY)
        settings |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return settings


def as_stranger(command: Sequence[str], folder: Path) -> str:
    return subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, **stranger(folder)
    ).stdout


def until_ready(python: Path, folder: Path) -> float:
    """Seconds until a service on an empty store says that it is ready."""
    before = time.perf_counter()
    options = ["--store", "sqlite:///first.db", "--port", str(PORT), "--no-auth"]
    command = [str(python), "-I", "-m", "driftbandits", "serve", *options]
    service = subprocess.Popen(command, **stranger(folder))
    try:
        while time.perf_counter() - before < 300:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=1):
                    return time.perf_counter() - before
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the service was not ready within five minutes")
    finally:
        service.terminate()
        service.wait(timeout=30)


if __name__ == "__main__":
    main()
