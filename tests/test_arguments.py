"""Whatever is given for an argument of a public function, it is refused by the argument's name.

`test_policies` asks it of the arguments of a policy, `test_environments` of the options of worlds.
"""

from contextlib import suppress

import numpy as np
import pytest

import driftbandits as db
from driftbandits.environments import as_gymnasium
from driftbandits.evaluate import Log, evaluate, log_from_frame, log_from_tables, policy_for

POLICY = db.policy("LinUCB", dim=2)
WORLD = db.environment("abrupt2d", horizon=20)
FEATURES = db.Features(context={"x": "number"}, cross=[("arm", "*")])
ROWS = [{"x": float(t), "arm": "ab"[t % 2], "r": t % 2, "p": 0.5} for t in range(4)]
ARMS = [{"id": "a"}, {"id": "b"}]
LOG_OF = {
    **{"event_id": ["a", "b"], "at": [1, 2], "arms": [[[1.0, 0.0], [0.5, 0.0]], [[0.2, 0.0]]]},
    **{"chosen": [1, 0], "propensity": [0.5, 1.0], "reward": [1.0, 0.0]},
    **{"arm_ids": [["a", "b"], ["c"]], "propensities": "known"},
}
TRACE_OF = {
    **{"actions": np.zeros((3, 2, 4)), "rewards": np.zeros((3, 2)), "means": np.zeros((3, 2))},
    **{"available": np.ones((3, 2), bool), "theta": np.zeros((3, 4)), "changes": (2,)},
    **{"partial": True, "contexts": [{}] * 3, "offers": [ARMS] * 3},
}
FRAME = {"context": ["x"], "arm": "arm", "reward": "r", "propensity": "p", "features": FEATURES}
TABLES = {"chosen": list("abab"), "rewards": [1, 0] * 2, "propensities": [0.5] * 4}


def agent(**given):
    return db.Agent(**{"policy": POLICY, **given})


def of_tables():
    return db.Agent(db.policy("auto", features=FEATURES))


CALLS = {
    "Agent": (agent, {"policy": POLICY, "seed": 0, "clock": "ticks"}),
    "decide": (agent().decide, {"actions": np.eye(2), "n": 1, "played": [0]}),
    "decide_many": (agent().decide_many, {"action_sets": [np.eye(2)]}),
    "preview": (agent().preview, {"actions": np.eye(2), "seed": 0, "n": 1}),
    "learn": (agent().learn, {"actions": np.eye(2), "rewards": [1, 0], "ages": [0, 1]}),
    "tick": (agent().tick, {"rounds": 1}),
    "explain": (agent().explain, {"decision": 1}),
    "withdraw": (agent().withdraw, {"decision": 1}),
    "with_policy": (agent().with_policy, {"policy": POLICY, "seed": 1}),
    "with_features": (of_tables().with_features, {"features": FEATURES}),
    "from_bytes": (db.Agent.from_bytes, {"content": b""}),
    "decide on tables": (of_tables().decide, {"context": ROWS[0], "arms": ["a", "b"]}),
    "many on tables": (of_tables().decide_many, {"context": ROWS, "arms": ["a", "b"]}),
    "learn tables": (of_tables().learn, {"context": [{"x": 1}], "arms": ["a"], "rewards": [1]}),
    "Features": (
        db.Features,
        {"context": {"x": "number"}, "arm": {"y": "number"}, "cross": [], "extra": "ignore"}
        | {"limit": 512, "levels": 10},
    ),
    "guess": (db.Features.guess, {"frame": ROWS, "arm": ["arm"], "leave_out": ["p"]}),
    "fit": (FEATURES.fit, {"frame": ROWS, "arm": ARMS}),
    "Trace": (db.Trace, TRACE_OF),
    "simulate": (
        db.simulate,
        {"policies": {"a": POLICY}, "world": WORLD, "runs": 1, "seed": 0, "workers": 1}
        | {"record": ("chosen",)},
    ),
    "as_gymnasium": (as_gymnasium, {"environment": WORLD, "seed": 0}),
    "table": (
        lambda **given: db.environment("table", **given),
        {"frame": ROWS, "context": ["x"], "label": "arm", "arms": "shared", "shuffle": True},
    ),
    "shop": (lambda **given: db.environment("shop", **given), {"horizon": 10, "lifetime": 60}),
    "Log": (Log, LOG_OF),
    "evaluate": (
        evaluate,
        {"log": Log(**LOG_OF), "target": POLICY, "windows": 1, "level": 0.9, "seed": 0},
    ),
    "policy_for": (policy_for, {"log": Log(**LOG_OF), "name": "LinUCB"}),
    "log_from_frame": (lambda **given: log_from_frame(ROWS, **given), FRAME),
    "log_from_tables": (log_from_tables, {"context": ROWS, "arms": ARMS, **TABLES}),
}
NONSENSE = [object(), float("nan"), "nonsense!", [object()], -7, {1: 2}, 10**400]


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_refused_by_the_name_of_its_argument(name):
    call, good = CALLS[name]
    for argument in good:
        with pytest.raises(ValueError, match=rf"\b{argument}\b"):
            call(**{**good, argument: NONSENSE[0]})
        for nonsense in NONSENSE[1:]:
            with suppress(ValueError):  # some of it may be right, and no other error is
                call(**{**good, argument: nonsense})
