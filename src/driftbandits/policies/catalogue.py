"""The catalogue: every policy of the field as a row of data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from driftbandits.estimator.model import (
    DISCOUNT,
    EVERYTHING,
    MEMORIES,
    POOL,
    SINCE_RESTART,
    WINDOW,
)
from driftbandits.policies.adaptations import ADAPTATIONS, arm_tests
from driftbandits.policies.scoring import (
    AUGMENTED,
    CONSTANT,
    GREEDY,
    OPTIMISTIC,
    PERTURBED,
    POSTERIOR,
    SCALED,
    SCORES,
    UCB,
    WEIGHTED,
)
from driftbandits.theory import RADII


@dataclass(frozen=True)
class Row:
    """A policy of the field: a memory, a reward model and a way to make a score."""

    memory: int | None  # None: what the caller gives
    linear: bool  # always the identity; otherwise the link that the caller gives
    score: int
    citation: str
    radius: str = "deviation"  # see theory/radii.py
    one_matrix: bool = False  # W alone, without W~ and without a term for the bias; for drift
    periodic: bool = False  # the window is emptied when it is full, instead of sliding
    votes: int = 0  # see sampling.py
    adaptation: str = "none"  # what changes the memory as it goes, see policies/adaptations
    test: str = ""  # of single arms, see policies/adaptations/arm_tests.py
    kl: bool = False  # widths by the divergence of chances, instead of a norm
    false_alarm_rate: float = 0.0  # unless the caller gives one; 0: no change is looked for

    def __post_init__(self) -> None:
        for label, code, known in (
            ("memory", self.memory, (*MEMORIES, None)),
            ("score", self.score, SCORES),
            ("radius", self.radius, tuple(RADII)),
            ("adaptation", self.adaptation, tuple(ADAPTATIONS)),
            ("test", self.test, arm_tests.TESTS),
        ):
            if code not in known:
                raise ValueError(f"{label} of a row must be one of {known}; got {code!r}")

    @property
    def projected(self) -> bool:
        """Whether theta-hat is projected: not where the theory does without, or samples."""
        deterministic = self.score in (UCB, GREEDY)
        without = self.radius == "self-concordant" or self.adaptation == "online Newton"
        return not self.linear and deterministic and not without


_PAPER = "Russac, Cappe, Garivier (2020), Algorithms for Non-Stationary Generalized Linear Bandits"
_WEIGHTED = "Russac, Vernade, Cappe (2019), Weighted Linear Bandits for Non-Stationary Environments"
_GLM_SAMPLING = (
    "Kveton, Zaheer, Szepesvari, Li, Ghavamzadeh, Boutilier (2020), Randomized Exploration in "
    "Generalized Linear Bandits"
)
_LINEAR_SAMPLING = (
    "Kim, Tewari (2020), Randomized Exploration for Non-Stationary Stochastic Linear Bandits"
)
_DRIFT = (
    "Wang, Zhao, Zhou (2023), Revisiting Weighted Strategy for Non-stationary Parametric Bandits"
)
_FORGETTING = (
    "Russac, Faury, Cappe, Garivier (2021), Self-Concordant Analysis of Generalized Linear Bandits "
    "with Forgetting"
)
_RESTART = "Zhao, Zhang, Jiang, Zhou (2020), A Simple Approach for Non-stationary Linear Bandits"
_FIXED_ARMS = (
    "Garivier, Moulines (2011), On Upper-Confidence Bound Policies for Switching Bandit Problems"
)
_CHANGE_TEST = "forgets what is before a detected change, docs/decisions/0007"

_VOTES = 64
_REFITTED_VOTES = 8  # each costs a fit, or a pass over all rows

ROWS: Mapping[str, Row] = {
    "SW-GLUCB": Row(WINDOW, False, UCB, f"{_PAPER}, Algorithm 1"),
    "D-GLUCB": Row(DISCOUNT, False, UCB, f"{_PAPER}, Algorithm 2"),
    "LogisticUCB": Row(
        EVERYTHING,
        False,
        UCB,
        "Filippi, Cappe, Garivier, Szepesvari (2010), Parametric Bandits: The Generalized Linear "
        "Case; penalised as in " + _PAPER,
    ),
    "LinUCB": Row(
        EVERYTHING,
        True,
        UCB,
        "Abbasi-Yadkori, Pal, Szepesvari (2011), Improved Algorithms for Linear Stochastic Bandits",
    ),
    "SW-LinUCB": Row(
        WINDOW,
        True,
        UCB,
        "Cheung, Simchi-Levi, Zhu (2019), Learning to Optimize under Non-Stationarity",
    ),
    "D-LinUCB": Row(DISCOUNT, True, UCB, _WEIGHTED),
    "GLB-WeightUCB": Row(DISCOUNT, False, UCB, _DRIFT, one_matrix=True),
    "LB-WeightUCB": Row(DISCOUNT, True, UCB, _DRIFT, one_matrix=True),
    "SCB-WeightUCB": Row(DISCOUNT, False, UCB, _DRIFT, "local", one_matrix=True),
    "SC-SW-GLUCB": Row(WINDOW, False, UCB, _FORGETTING, "self-concordant"),
    "SC-D-GLUCB": Row(DISCOUNT, False, UCB, _FORGETTING, "self-concordant"),
    "UCB-GLM": Row(
        EVERYTHING,
        False,
        OPTIMISTIC,
        "Li, Lu, Zhou (2017), Provably Optimal Algorithms for Generalized Linear Contextual "
        "Bandits; penalised, instead of a start at random",
        "predictor",
    ),
    "LogUCB": Row(
        EVERYTHING,
        False,
        UCB,
        "Faury, Abeille, Calauzenes, Fercoq (2020), Improved Optimistic Algorithms for Logistic "
        "Bandits: Logistic-UCB-1, whose projection is by the local curvature",
        "local",
    ),
    "GLOC": Row(
        EVERYTHING,
        False,
        UCB,
        "Jun, Bhargava, Nowak, Willett (2017), Scalable Generalized Linear Bandits: Online "
        "Computation and Hashing; one pass, and memory that does not grow",
        adaptation="online Newton",
    ),
    "UCB1": Row(
        EVERYTHING,
        True,
        UCB,
        "Auer, Cesa-Bianchi, Fischer (2002), Finite-time Analysis of the Multiarmed Bandit "
        "Problem; for fixed arms, one-hot actions",
        "count",
    ),
    "SW-UCB": Row(WINDOW, True, UCB, f"{_FIXED_ARMS}; for fixed arms, one-hot actions", "count"),
    "D-UCB": Row(
        DISCOUNT,
        True,
        UCB,
        f"{_FIXED_ARMS}; for fixed arms, one-hot actions",
        "count",
        one_matrix=True,
    ),
    "klUCB": Row(
        EVERYTHING,
        True,
        UCB,
        "Garivier, Cappe (2011), The KL-UCB Algorithm for Bounded Stochastic Bandits and Beyond; "
        "for fixed arms, one-hot actions",
        "count",
        kl=True,
    ),
    "CUSUM-UCB": Row(
        EVERYTHING,
        True,
        UCB,
        "Liu, Lee, Shroff (2018), A Change-Detection based Framework for Piecewise-stationary "
        "Multi-Armed Bandit Problem; for fixed arms, one-hot actions",
        "count",
        adaptation="arm tests",
        test="sums",
    ),
    "M-UCB": Row(
        EVERYTHING,
        True,
        UCB,
        "Cao, Wen, Kveton, Xie (2019), Nearly Optimal Adaptive Procedure with Change Detection for "
        "Piecewise-Stationary Bandit; for fixed arms, one-hot actions",
        "count",
        adaptation="arm tests",
        test="halves",
    ),
    "GLR-klUCB": Row(
        EVERYTHING,
        True,
        UCB,
        "Besson, Kaufmann, Maillard, Seznec (2022), Efficient Change-Point Detection for Tackling "
        "Piecewise-Stationary Bandits; for fixed arms, one-hot actions",
        "count",
        adaptation="arm tests",
        test="likelihood ratio",
        kl=True,
    ),
    "REXP3": Row(
        WINDOW,
        True,
        WEIGHTED,
        "Besbes, Gur, Zeevi (2014), Stochastic Multi-Armed-Bandit Problem with Non-stationary "
        "Rewards; for fixed arms, one-hot actions",
        "count",
        periodic=True,
        adaptation="exponential weights",
    ),
    "Restart-GLUCB": Row(
        WINDOW, False, UCB, f"{_RESTART}; restarts the estimate of {_PAPER}", periodic=True
    ),
    "GLM-TSL": Row(EVERYTHING, False, POSTERIOR, _GLM_SAMPLING, votes=_VOTES),
    "SW-GLM-TSL": Row(
        WINDOW, False, POSTERIOR, f"{_GLM_SAMPLING}; in a window, a heuristic", votes=_VOTES
    ),
    "D-GLM-TSL": Row(
        DISCOUNT, False, POSTERIOR, f"{_GLM_SAMPLING}; discounted, a heuristic", votes=_VOTES
    ),
    "PG-TS": Row(
        EVERYTHING,
        False,
        AUGMENTED,
        "Dumitrascu, Feng, Engelhardt (2018), PG-TS: Improved Thompson Sampling for Logistic "
        "Contextual Bandits; sweeps begin at a draw from Laplace's approximation",
        "posterior",
        votes=_REFITTED_VOTES,
    ),
    "GLM-FPL": Row(EVERYTHING, False, PERTURBED, _GLM_SAMPLING, votes=_REFITTED_VOTES),
    "SW-GLM-FPL": Row(
        WINDOW,
        False,
        PERTURBED,
        f"{_GLM_SAMPLING}; in a window, a heuristic",
        votes=_REFITTED_VOTES,
    ),
    "D-GLM-FPL": Row(
        DISCOUNT,
        False,
        PERTURBED,
        f"{_GLM_SAMPLING}; discounted, a heuristic",
        votes=_REFITTED_VOTES,
    ),
    "D-RandLinUCB": Row(DISCOUNT, True, SCALED, _LINEAR_SAMPLING),
    "D-LinTS": Row(DISCOUNT, True, PERTURBED, _LINEAR_SAMPLING, votes=_VOTES),
    "CD-GLUCB": Row(
        SINCE_RESTART,
        False,
        UCB,
        f"{_CHANGE_TEST}; base of Filippi et al. (2010)",
        adaptation="change test",
        false_alarm_rate=5e-4,
    ),
    "CD-LinUCB": Row(
        SINCE_RESTART,
        True,
        UCB,
        f"{_CHANGE_TEST}; base of Abbasi-Yadkori et al. (2011)",
        adaptation="change test",
        false_alarm_rate=5e-4,
    ),
    "dLinUCB": Row(
        EVERYTHING,
        True,
        UCB,
        "Wu, Iyer, Wang (2018), Learning Contextual Bandits in a Non-stationary Environment",
        adaptation="judged models",
        false_alarm_rate=0.1,
    ),
    "BOB-GLUCB": Row(
        WINDOW,
        False,
        UCB,
        "Cheung, Simchi-Levi, Zhu (2019), Learning to Optimize under Non-Stationarity: "
        f"bandit over bandit; base of {_PAPER}, Algorithm 1",
        adaptation="bandit over windows",
    ),
    "mixture": Row(
        POOL,
        False,
        OPTIMISTIC,
        "a mixture of discounts, docs/decisions/0008; after McCormick, Raftery, Madigan, Burd "
        "(2012), Dynamic Logistic Regression and Dynamic Model Averaging",
        adaptation="pool of memories",
    ),
    "auto": Row(
        POOL,
        False,
        OPTIMISTIC,
        "a belief over segments and drifts, docs/auto.md; after Adams, MacKay (2007), Bayesian "
        "Online Changepoint Detection, and Hartikainen, Sarkka (2010), Kalman Filtering and "
        "Smoothing Solutions to Temporal Gaussian Process Regression Models",
        adaptation="belief",
        false_alarm_rate=3e-4,
    ),
    "pool": Row(
        POOL,
        False,
        OPTIMISTIC,
        "the mixture, which forgets what is before a detected change, docs/decisions/0008; what "
        "`auto` was in 0.1",
        adaptation="pool of memories",
        false_alarm_rate=3e-4,
    ),
    "greedy": Row(None, False, GREEDY, "the mean alone, without a bonus"),
    "random": Row(EVERYTHING, True, CONSTANT, "uniform over the actions"),
}
ALIASES: Mapping[str, str] = {"GLM-UCB": "LogisticUCB"}
RECORDED_AS: Mapping[str, tuple[str, str | None]] = {
    "auto": ("auto", "0.2"),
    "pool": ("auto", None),
}
"""The name and the release by which records know a row, where that is not its name alone."""


def policy_names() -> tuple[str, ...]:
    """Every name that `policy` takes, aliases last."""
    return (*ROWS, *ALIASES)
