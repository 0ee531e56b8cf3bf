"""What large models compute does not depend on how many threads a BLAS has."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.compiled

PROGRAM = """
import hashlib, sys
import numpy as np
import driftbandits as db

seen = hashlib.sha256()
for name, given in {
    "auto": {}, "LinUCB": {}, "D-LinUCB": {"discount": 0.99}, "D-GLUCB": {"discount": 0.99}
}.items():
    rng = np.random.default_rng(0)
    agent = db.Agent(db.policy(name, dim=100, **given))
    for t in range(40):
        actions = rng.normal(size=(10, 100))
        actions /= np.linalg.norm(actions, axis=1, keepdims=True)
        choice = agent.decide(actions)
        seen.update(choice.scores.tobytes())
        agent.update(choice, float(rng.random() < 0.5))
    seen.update(agent.theta_hat.tobytes())
print(seen.hexdigest())
"""


def digest(threads: int) -> str:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.check_output(command, env=environment, text=True).strip()


def test_results_do_not_depend_on_the_number_of_threads():
    one = digest(1)
    assert len(one) == 64
    assert digest(2) == one
