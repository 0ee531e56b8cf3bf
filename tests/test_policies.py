"""Every policy, in many configurations, through the checks and against the definitions."""

import inspect
import math
import tracemalloc

import numba
import numpy as np
import pytest

import driftbandits as db
import kinds
import policy_checks
from driftbandits import policies
from kinds import both, no, those
from policy_checks import CHECKS, Case, World, assert_follows, digest, play

SIX = those(kinds.of_the_paper)
SIX_GLM = those(both(kinds.of_the_paper, no(kinds.linear)))
LATER = those(kinds.later)
TOLD = those(kinds.remembers_as_told)

MIXED = {
    **{"dim": 3, "lam": 0.5, "L": 2.0, "S": 1.5, "intercept": True, "centre": 0.25},
    **{"epsilon": 0.3, "bonus_scale": 0.5},
}
"""What is most different from plain."""
# For policies that have a link and project.
GLM_CONFIGURATIONS = {
    "projected": {"S": 0.2, "lam": 0.1},
    "radial": {"S": 0.2, "lam": 0.1, "projection": "radial"},
    "poisson": {"link": "poisson", "m": 8.0, "intercept": True},
}
TOLD_CONFIGURATIONS = {"window": {"window": 12}, "discount": {"discount": 0.8, "S": 0.3}}

PLAIN = [Case(name) for name in db.policy_names()]
# The rows share most of what they do: each is checked as it is, and one of a kind otherwise.
CASES = [
    *PLAIN,
    *(Case(name, MIXED, "mixed") for name in kinds.one_of_each(policy_checks.everywhere)),
    *(Case(name, {"dim": 1}, "d1") for name in ("D-GLUCB", "LinUCB", "GLM-FPL", "auto")),
    *(
        Case(name, arguments, label)
        for name in ("SW-GLUCB", "D-GLUCB", "LogisticUCB", "CD-GLUCB", "BOB-GLUCB")
        for label, arguments in GLM_CONFIGURATIONS.items()
    ),
    *(
        Case(name, GLM_CONFIGURATIONS["poisson"], "poisson")
        for name in (*those(kinds.believing), *kinds.one_of_each(kinds.samples_parameters))
        if not kinds.linear(name)
    ),
    *(Case(name, policy_checks.STRICT, "strict") for name in those(kinds.judges_models)),
    *(
        Case(name, arguments, label)
        for name in TOLD
        for label, arguments in TOLD_CONFIGURATIONS.items()
    ),
]

# Without compilation one configuration of each policy has to do.
MARKED = [
    pytest.param(case, marks=() if case.label == "plain" else pytest.mark.compiled, id=str(case))
    for case in CASES
]


@pytest.mark.parametrize("case", MARKED)
def test_what_every_policy_must_do(case, tmp_path):
    for check in CHECKS:
        check(case, tmp_path)


@pytest.mark.parametrize("case", PLAIN, ids=str)
@pytest.mark.compiled
def test_every_parameter_reaches_the_model(case):
    policy_checks.assert_every_parameter_reaches_the_model(case)


def test_the_alias_is_the_policy():
    assert db.policy("GLM-UCB", dim=2) == db.policy("LogisticUCB", dim=2)


# -- against the definitions ---------------------------------------------------------------------


MEMORIES = {"window": 25, "discount": 0.93}


@pytest.mark.parametrize("name", SIX)
def test_the_paper(name):
    rounds = 150 if numba.config.DISABLE_JIT == 0 else 60
    counts = assert_follows(
        name, {"dim": 2, "bonus_scale": 0.1, **kinds.memory_of(name, **MEMORIES)}, rounds=rounds
    )
    assert counts["compared"] > rounds / 2


@pytest.mark.compiled
@pytest.mark.parametrize("arguments", [
    pytest.param({"dim": 2, "S": 0.3, "lam": 0.2}, id="d2"),
    pytest.param({"dim": 3, "S": 0.5, "lam": 0.1, "L": 2.0, "intercept": True}, id="d4"),
    pytest.param({"dim": 2, "S": 0.3, "lam": 0.2, "projection": "radial"}, id="radial"),
])  # fmt: skip
@pytest.mark.parametrize("name", SIX_GLM)
def test_the_projection_of_the_paper(name, arguments):
    given = {"bonus_scale": 0.05, **kinds.memory_of(name, **MEMORIES), **arguments}
    counts = assert_follows(name, given, rounds=80, seed=3)
    assert counts["projected"] >= 20


VARIANTS = {
    "intercept": {"dim": 2, "intercept": True},
    "centre": {"dim": 1, "centre": 0.25, "intercept": True},
    "d3": {"dim": 3, "lam": 0.3, "L": 2.0, "S": 2.0, "delta": 0.2},
    "horizon": {"dim": 2, "horizon": 30, "window": 10, "discount": 0.7},
    "m": {"dim": 2, "m": 4.0, "link": "binomial"},
}
LINKS = {
    "poisson": {"dim": 2, "link": "poisson", "m": 6.0, "intercept": True, "lam": 0.5},
    "identity": {"dim": 2, "link": "identity", "m": 1.0, "S": 0.3},
    "unprojected": {"dim": 2, "S": 0.2, "projection": "none"},
}


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *((name, VARIANTS[variant]) for name in SIX for variant in VARIANTS),
        *((name, LINKS[variant]) for name in [*SIX_GLM, *TOLD] for variant in LINKS),
    ],
    ids=str,
)
def test_variants(name, variant):
    memory = kinds.memory_of(name, **MEMORIES)
    given = kinds.taken(name, {"bonus_scale": 0.05, **memory, **variant})
    assert_follows(name, given, rounds=50, seed=2)


LATER_SETTINGS = {
    "plain": {},
    "projected": {"S": 0.3, "lam": 0.2},
    "scaled": {"dim": 3, "intercept": True, "L": 2.0, "horizon": 40, "delta": 0.1},
    "poisson": {"link": "poisson", "m": 4.0, "S": 0.5},
}


@pytest.mark.parametrize("setting", [
    pytest.param(label, marks=() if label == "projected" else pytest.mark.compiled)
    for label in LATER_SETTINGS
])  # fmt: skip
@pytest.mark.parametrize("name", LATER)
def test_the_later_policies(name, setting):
    """Estimate, projection in the norm of the row, radius and norm of the bonus."""
    memory = kinds.memory_of(name, window=15, discount=0.9)
    arguments = {"dim": 2, "bonus_scale": 0.05, **memory, **LATER_SETTINGS[setting]}
    counts = assert_follows(name, arguments, rounds=40)
    if kinds.projected(name) and setting == "projected":
        assert counts["projected"] >= 20


@pytest.mark.parametrize("memory", [{}, {"window": 10}, {"discount": 0.8}], ids=str)
def test_greedy_is_the_mean(memory):
    assert_follows("greedy", {"dim": 2, "S": 0.5, **memory}, rounds=40)


# -- memory and compiled code --------------------------------------------------------------------


FORGETFUL = [
    (Case("SW-GLUCB", {"window": 50}), "late"),
    (Case("SW-LinUCB", {"window": 50, "intercept": True}), "some"),
    (Case("Restart-GLUCB", {"window": 50}), "some"),
    (Case("D-GLUCB", {"discount": 0.7, "intercept": True}), "late"),
    (Case("D-LinUCB", {"discount": 0.7}), "always"),
    (Case("LinUCB"), "always"),  # which forgets nothing, but keeps only sums
]


@pytest.mark.compiled
@pytest.mark.parametrize(("case", "rewarded"), FORGETFUL, ids=str)
def test_memory_is_bounded(case, rewarded):
    """Neither what is saved nor what is held in memory grows with the number of rounds."""
    actions = np.eye(2)
    saved, held = [], []
    tracemalloc.start()
    try:
        agent = case.agent()
        for t in range(1, 4501):
            decision = agent.decide(actions)
            if rewarded == "always" or (rewarded == "some" and t % 3):
                agent.update(decision, t % 2)
            elif rewarded == "late" and t > 30:
                agent.update(decision.id - 30, t % 2)
            if t % 1500 == 0:  # by the first, all decisions that can be explained are there
                assert len(agent.pending) <= (agent.policy.forgets_after or 0)
                saved.append(len(digest(agent)))
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # Buffers may double once more, but a single number kept for each round would be 24,000 bytes.
    assert saved[2] - saved[0] < 12_000
    assert held[2] - held[0] < 12_000


@pytest.mark.compiled
def test_one_compiled_signature():
    """Whatever is played, and however the actions are stored, nothing compiles twice."""
    for case in CASES:
        agent = case.agent()
        play(agent, World(case, 2))
        agent.tick(1)
    actions = np.eye(2) / 2
    frozen = actions.copy()
    frozen.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + actions.tobytes(), dtype=np.uint8)[1:].view(np.float64)
    forms = [
        actions,
        frozen,
        np.asfortranarray(actions),
        actions.tolist(),
        np.eye(2, dtype=int),
        actions.astype(">f8"),
        np.broadcast_to(actions[0], (3, 2)),
        unaligned.reshape(2, 2),
    ]
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.9), seed=np.int32(3))
    for form in forms:
        decision = agent.decide(form)
        agent.update(np.int32(decision.id), np.float32(1.0))
        agent.learn(form, np.ones(len(form)))
        agent.learn(form, [1] * len(form), ages=[3] * len(form))
    for family in policies.FAMILIES:
        _, *kernels = policies.kernels_of(family)
        for kernel in kernels:
            assert len(kernel.signatures) == 1, kernel.__qualname__


# -- what is accepted ----------------------------------------------------------------------------


def test_an_explicit_memory_beats_the_rule():
    assert db.policy("SW-GLUCB", dim=2, window=7, horizon=6000, changes=3).window == 7
    assert db.policy("D-GLUCB", dim=2, discount=0.5, horizon=6000, changes=3).discount == 0.5
    # even where the rule would refuse
    assert db.policy("SW-LinUCB", dim=1, window=7, horizon=1, changes=5).window == 7
    assert db.policy("D-LinUCB", dim=1, discount=0.5, horizon=1, changes=5).discount == 0.5


@pytest.mark.parametrize(("d", "intercept"), [(2, False), (4, True)])
def test_the_rules_of_the_corollaries(d, intercept):
    T, changes = 6000, 3
    dim = {"dim": d, "intercept": intercept, "horizon": T}
    d += intercept
    known, unknown = (changes / (d * T)) ** (2 / 3), (1 / (d * T)) ** (2 / 3)
    for name in ("SW-GLUCB", "SW-LinUCB"):
        assert db.policy(name, **dim, changes=changes).window == math.ceil(1 / known)
        assert db.policy(name, **dim).window == math.ceil(1 / unknown)
        assert db.policy(name, **dim, changes=0).window == T
    for name in ("D-GLUCB", "D-LinUCB"):
        assert db.policy(name, **dim, changes=changes).discount == pytest.approx(1 - known)
        assert db.policy(name, **dim).discount == pytest.approx(1 - unknown)
        assert db.policy(name, **dim, changes=0).discount == pytest.approx(1 - 1 / T)


def test_the_rules_of_the_later_sources():
    T, changes, path, d = 6000, 3, 2.5, 2
    k, c = 0.25, math.exp(-1) / (1 + math.exp(-1)) ** 2
    given = {"dim": d, "horizon": T, "changes": changes}
    for name, slope, lam in [
        ("LB-WeightUCB", 1.0, d),
        ("GLB-WeightUCB", k * c, d / c),
        ("SCB-WeightUCB", k, d * math.log(T)),
    ]:
        for P, known in [(path, {"path_length": path}), (2 * changes, {})]:
            made = db.policy(name, **given, **known)
            assert made.discount == pytest.approx(1 - math.sqrt(slope * P / (d * T)))
            assert made.lam == pytest.approx(lam)
        still = db.policy(name, **given, path_length=0.0)
        assert still.discount == pytest.approx(1 - 1 / T)
        unknown = db.policy(name, dim=d, horizon=T)
        assert unknown.discount == pytest.approx(1 - math.sqrt(slope / (d * T)))
        assert db.policy(name, **given, lam=1.0).lam == 1.0
    rate = (math.sqrt(c) * changes / (d * T)) ** (2 / 3)
    assert db.policy("SC-D-GLUCB", **given).discount == pytest.approx(1 - rate)
    assert db.policy("SC-SW-GLUCB", **given).window == math.ceil(1 / rate)
    assert db.policy("SC-SW-GLUCB", **given).lam == pytest.approx(d * math.log(T))
    assert db.policy("SC-SW-GLUCB", dim=d, window=9).lam == 1.0
    period = db.policy("Restart-GLUCB", **given, path_length=path).window
    assert period == math.floor((d * T / path) ** (2 / 3))
    assert db.policy("Restart-GLUCB", **given, path_length=0.0).window == T
    assert db.policy("Restart-GLUCB", **given).window == 158


def test_a_restart_forgets_and_makes_late():
    agent = db.Agent(db.policy("Restart-GLUCB", dim=2, window=5), seed=0)
    fresh = db.Agent(db.policy("Restart-GLUCB", dim=2, window=5), seed=0)
    actions = np.eye(2)
    for t in range(1, 6):
        decision = agent.decide(actions)
        if t != 3:
            assert agent.update(decision, 1.0) == "learned"
        assert agent.theta_hat.any() == (t != 5)  # the sixth round will know nothing
    sixth = agent.decide(actions)
    assert not agent.theta_hat.any()
    assert agent.update(3, 1.0) == "late"
    assert agent.late == 1
    assert agent.pending == (6,)
    np.testing.assert_array_equal(sixth.scores, fresh.decide(actions).scores)


@pytest.mark.parametrize(
    "name", those(both(kinds.linear, no(kinds.adapted), no(kinds.indifferent)))
)
def test_linear_policies_are_never_projected(name):
    for projection in ("exact", "radial", "none"):
        agent = Case(name).agent(S=0.01, projection=projection, link="poisson")
        assert agent.policy.link.name == "identity"
        for _ in range(10):
            agent.update(agent.decide([[1.0, 0.0]]), 1.0)
        assert np.linalg.norm(agent.theta_hat) > 0.5
        assert agent.theta.tobytes() == agent.theta_hat.tobytes()


def test_a_policy_can_be_written_down_and_made_again():
    for case in PLAIN:
        made = case.policy(horizon=50, epsilon=0.1, intercept=True)
        assert db.policy(**made.arguments) == made


BAD_ARGUMENTS = [  # numbers beyond their limits, and what concerns several
    ("SW-GLUCB", {"window": 0}, ["window", "0", "at least 1"]),
    ("SW-LinUCB", {"window": None, "changes": 3}, ["window=", "horizon="]),
    ("D-GLUCB", {"discount": None}, ["discount=", "horizon="]),
    ("SW-GLUCB", {"window": None, "horizon": 100, "changes": 200}, ["changes", "200"]),
    ("LinUCB", {"lam": 10**400}, ["lam", "1000"]),
    ("LB-WeightUCB", {"discount": None}, ["discount=", "horizon=", "path_length="]),
    (
        "LB-WeightUCB",
        {"discount": None, "horizon": 9, "path_length": 18.0},
        ["path_length", "18", "nothing to remember"],
    ),
    ("Restart-GLUCB", {"window": None}, ["window=", "horizon=", "path_length="]),
    ("BOB-GLUCB", {"horizon": None}, ["BOB-GLUCB needs horizon="]),
    ("SC-D-GLUCB", {"horizon": 1}, ["horizon", "at least 2", "1"]),
    ("LinUCB", {"delta": 1.0}, ["delta", "1.0"]),
    ("LinUCB", {"bonus_scale": -0.1}, ["bonus_scale", "-0.1"]),
    ("LinUCB", {"m": -1.0}, ["m", "-1.0"]),
    ("LogisticUCB", {"link": "poisson"}, ["m", "poisson", "must be given"]),
    ("LogisticUCB", {"link": "binomial", "m": 2.5}, ["m", "2.5", "integer"]),
    ("LogisticUCB", {"S": 50.0, "L": 20.0}, ["L", "S", "1000"]),
    ("greedy", {"window": 5, "discount": 0.5}, ["window", "discount", "5", "0.5"]),
    ("auto", {"features": {"context": {"x": "number"}}}, ["dim", "beside features", "2"]),
    ("sw-glucb", {}, ["name", "'sw-glucb'"]),
    (["LinUCB"], {}, ["name", "['LinUCB']"]),
]


@pytest.mark.parametrize(
    ("name", "arguments", "fragments"),
    [pytest.param(*row, id=f"{row[0]}-{str(row[1])[:60]}") for row in BAD_ARGUMENTS],
)
def test_bad_arguments(name, arguments, fragments):
    memory = policy_checks.memory_of(name) if name in db.policy_names() else {}
    with pytest.raises(ValueError, match=r".") as caught:
        db.policy(name, **{"dim": 2, **memory, **arguments})
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize("argument", policies.ARGUMENTS)
def test_every_argument_is_checked(argument):
    name = next(name for name in db.policy_names() if policies.takes(name, argument))
    given = {"dim": 2, **policy_checks.memory_of(name)}
    for nonsense in (object(), float("nan"), [[]]):
        with pytest.raises(ValueError, match=rf"\b{argument}\b"):
            db.policy(name, **{**given, argument: nonsense})


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("discout", "perhaps discount: instead of horizon"),
        ("gamma", "perhaps discount: instead of horizon"),
        ("seed", "Agent(policy, seed=...)"),
        ("xyzzy", "features, dim, arms"),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_one(wrong, meant):
    with pytest.raises(TypeError, match=f"policy has no argument {wrong}") as caught:
        db.policy("D-GLUCB", dim=2, **{wrong: 0.9})
    assert meant in str(caught.value)


def test_the_table_of_arguments_is_the_signature_and_the_help():
    signature = inspect.signature(db.policy)
    assert list(signature.parameters) == ["name", *policies.ARGUMENTS]
    for name, argument in policies.ARGUMENTS.items():
        assert signature.parameters[name].default == argument.default
        assert " ".join(argument.says.split()[:3]) in db.policy.__doc__
    product, theory_s = db.policy.__doc__.split("What the theory asks for")
    assert "\nfeatures " in product
    assert "\nlam " in theory_s
