"""Print a digest of what policies of every family do; numpy and numba are all it needs."""

import hashlib

import numpy as np

import driftbandits as db

PLAYED = {
    "SW-GLUCB": {"window": 40},
    "D-GLUCB": {"discount": 0.97},
    "D-LinUCB": {"discount": 0.97},
    "auto": {},
    "CD-GLUCB": {},
    "GLM-FPL": {"bonus_scale": 0.1},
    "SCB-WeightUCB": {"discount": 0.97},
    "dLinUCB": {"delta": 0.3},
    "BOB-GLUCB": {"horizon": 200},
}


def digest(name: str, arguments: dict) -> str:
    agent, rng = db.Agent(db.policy(name, dim=2, **arguments), seed=3), np.random.default_rng(0)
    seen = hashlib.sha256()
    for t in range(200):
        actions = rng.uniform(-0.7, 0.7, size=(4, 2))
        choice = agent.decide(actions)
        seen.update(choice.scores.tobytes())
        z = 3.0 * actions[choice.index, 0] * (1 if t < 100 else -1)
        agent.update(choice, float(rng.random() < 1.0 / (1.0 + np.exp(-z))))
    seen.update(agent.digest.encode())
    return seen.hexdigest()


if __name__ == "__main__":
    for name, arguments in PLAYED.items():
        print(name, digest(name, arguments))
