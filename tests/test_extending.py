"""What a change costs: a reward model, a radius, an adaptation and a policy, added to a copy.

The copy is edited as CONTRIBUTING.md says, in no more places than it says, and then played.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

import driftbandits

pytestmark = [pytest.mark.slow, pytest.mark.compiled]

HERE = Path(__file__).parent
PACKAGE = Path(driftbandits.__file__).parent

NEW_MODULES = {
    "core/links/votes.py": HERE / "worked" / "votes.py",
    "policies/adaptations/page_hinkley.py": HERE / "worked" / "page_hinkley.py",
}
RADIUS = '''
@inlined
def _practical_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """sqrt(d log(1 + n)), which no theorem asks for."""
    return math.sqrt(r.d * math.log1p(n))


RADII'''
EDITS = {
    "core/links/__init__.py": [
        ("import identity, logistic, poisson", "import identity, logistic, poisson, votes"),
        ('    "poisson": poisson,\n', '    "poisson": poisson,\n    "votes": votes,\n'),
    ],
    "core/theory.py": [
        ("\nRADII", RADIUS),
        ("_local_radius,\n", '_local_radius,\n    "practical": _practical_radius,\n'),
    ],
    "policies/catalogue.py": [
        ("    online,\n    windows,\n", "    online,\n    page_hinkley,\n    windows,\n"),
        (": online,\n", ': online,\n    "page": page_hinkley,\n'),
        (
            '    "greedy": Row(',
            '    "PH-GLUCB": Row(SINCE_RESTART, False, UCB, "practical",'
            ' adaptation="page", false_alarm_rate=1e-4),\n    "greedy": Row(',
        ),
        ('    "greedy": "the mean', '    "PH-GLUCB": "worked example",\n    "greedy": "the mean'),
    ],
}  # fmt: skip

PLAY = """
import json, numpy as np, driftbandits as db
policy = db.policy("PH-GLUCB", dim=2, link="votes", m=50, S=2.0, bonus_scale=0.1)
agent, rng = db.Agent(policy, seed=0), np.random.default_rng(1)
theta, rows, radii = np.array([0.8, -0.5]), [], []
for t in range(400):
    actions = rng.uniform(-0.7, 0.7, size=(4, 2))
    choice = agent.decide(actions)
    radii.append(agent.explain(choice).radius)
    z = actions[choice.index] @ (theta if t < 200 else -theta)
    reward = float(policy.link.draw(rng, z))
    rows.append([*actions[choice.index], reward])
    agent.update(choice, reward)
print(json.dumps({
    "rows": rows, "radii": radii, "theta_hat": agent.theta_hat.tolist(),
    "detections": [list(found) for found in agent.detections],
}))
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What the copy has done."""
    site = tmp_path_factory.mktemp("site")
    copy = site / "driftbandits"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for place, source in NEW_MODULES.items():
        shutil.copy(source, copy / place)
    for place, edits in EDITS.items():
        text = (copy / place).read_text()
        for before, after in edits:
            assert text.count(before) == 1, (
                f"{before!r} stands {text.count(before)} times in {place}"
            )
            text = text.replace(before, after)
        (copy / place).write_text(text)
    places = {"PYTHONPATH": str(site), "DRIFTBANDITS_CACHE_DIR": str(site / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PLAY],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_change_is_found_and_the_estimate_is_that_of_what_came_after(played):
    rows = np.array(played["rows"])
    assert (rows[:, 2] < 0).any(), "votes may be against"
    found = [round_ for round_, *_ in played["detections"]]
    assert any(200 < round_ < 300 for round_ in found)
    since = found[-1]

    def score(theta):
        A, X = rows[since:, :2], rows[since:, 2]
        return A.T @ (X - np.sinh(A @ theta)) - theta

    np.testing.assert_allclose(played["theta_hat"], optimize.root(score, [0, 0]).x, atol=1e-7)


def test_the_radius_is_the_new_one(played):
    first = played["detections"][0][0]
    expected = [0.1 * np.sqrt(2 * np.log1p(t)) for t in range(1, first + 1)]
    np.testing.assert_allclose(played["radii"][:first], expected, rtol=1e-12)
