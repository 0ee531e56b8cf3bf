"""What `import driftbandits` shows, and when it loads what is behind it."""

import subprocess
import sys

import driftbandits as db
from driftbandits import experiments


def test_every_public_name_can_be_had_and_no_other_is_shown():
    assert dir(db) == sorted([*db.__all__, "__version__"])
    assert all(getattr(db, name) is not None for name in dir(db))
    assert db.simulate is experiments.simulate  # whatever was imported before


def test_a_name_is_loaded_when_it_is_used():
    program = (
        "import sys, driftbandits as db\n"
        "dir(db)\n"
        "print([name for name in sys.modules if name.startswith('driftbandits')])\n"
        "db.Trace\n"
        "print('driftbandits.environments' in sys.modules, 'driftbandits.agent' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['driftbandits']", "True False"]
