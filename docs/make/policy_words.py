"""Every policy in words and formulas, put together from what its row says."""

from __future__ import annotations

from collections.abc import Iterator

from driftbandits.core.estimator.model import BELIEF, DISCOUNT, EVERYTHING, SINCE_RESTART, WINDOW
from driftbandits.policies import ALIASES, ROWS, SOURCES
from driftbandits.policies.catalogue import Row
from driftbandits.policies.scoring import (
    AUGMENTED,
    CONSTANT,
    GREEDY,
    OPTIMISTIC,
    PERTURBED,
    POSTERIOR,
    SCALED,
    UCB,
    WEIGHTED,
)

_WEIGHTS = {
    WINDOW: "w_s = 1 for the last `window` rounds, 0 before",
    DISCOUNT: "w_s = `discount`^(t-1-s)",
    EVERYTHING: "w_s = 1",
    SINCE_RESTART: "w_s = 1 since the last detected change, 0 before",
    BELIEF: "by the probability that what was true in round s is true now",
    None: "w_s by `window` or `discount`, or 1",
}
_SCORES = {
    UCB: "mu(a·theta) + ρ_t ‖a‖",
    GREEDY: "mu(a·theta), no bonus",
    CONSTANT: "none: every action is as likely",
    OPTIMISTIC: "mu(a·theta + c · standard deviation of a·theta)",
    SCALED: "a·theta + z ‖a‖, z drawn once a round",
    POSTERIOR: "mu(a·theta~), theta~ drawn from a normal law about the estimate",
    PERTURBED: "mu(a·theta~), theta~ fitted to rewards with noise added",
    AUGMENTED: "mu(a·theta~), theta~ drawn from the posterior itself, by Polya-Gamma augmentation",
    WEIGHTED: "the mean; arms are drawn by exponential weights instead",
}
_RADII = {
    "deviation": "a deviation bound, of the order √(d log t)",
    "local": "a bound in the norm of the local curvature",
    "self-concordant": "a self-concordant bound, without the factor 1/c_mu",
    "predictor": "a bound of the linear predictor a·theta",
    "mirror": "a bound in the norm of the curvature, of the order √(d log t) without 1/c_mu",
    "count": "by how often the arm was played: √(log n / N)",
}
_ADAPTATIONS = {
    "change test": "A test of the recent rewards against the older ones; what is before a detected "
    "change is forgotten.",
    "bandit over windows": "A second bandit draws a window for each block of rounds.",
    "judged models": "Several models live at once; those that predict badly are discarded.",
    "arm tests": "Each arm has a test of its own rewards, and is forgotten when it fires.",
    "online Newton": "An online learner predicts every reward before it sees it; the estimate is a "
    "regression on these predictions. No row is kept, so the state does not grow.",
    "mirror descent": "Each reward moves the estimate by one step, in the norm of the curvature "
    "seen so far. No row is kept, so the state does not grow.",
    "exponential weights": "Weights of the arms grow with what they earned over their chance.",
    "belief": "A Bayesian belief over segments and drifts; see [what auto believes](auto.md).",
}
_GOOD_FOR = {
    "auto": "the first thing to try: nothing is known of how the world changes, or of its units",
    "greedy": "a yardstick: what exploration is worth",
    "random": "a yardstick, and collecting logs that can judge any policy",
    "LogisticUCB": "a world that is known to stay as it is",
    "GLOC": "a world that stays as it is, where memory must not grow; its bonus is wide",
    "GLB-OMD": "a world that stays as it is, where memory must not grow",
    "DOMD-GLB": "jumps and drifts whose pace is about known, where memory must be small; give "
    "`lam` the dimension and scale the bonus down",
    "PG-TS": "studies of up to a few thousand rounds, with yes or no rewards or ratings: the "
    "posterior without an approximation, at a pass over all rows for every sample",
    "LinUCB": "the same, cheap, where rewards are nearly linear in the features",
    "SW-GLUCB": "jumps about as often as `changes` in `horizon` says",
    "D-GLUCB": "jumps and drifts whose pace is about known",
    "SW-LinUCB": "jumps of known pace, at the least cost; give `intercept=True`",
    "D-LinUCB": "jumps and drifts of known pace, at little cost; give `intercept=True`",
    "BOB-GLUCB": "studies: a guarantee without knowing the number of changes, paid dearly",
}


def _good_for(name: str, row: Row) -> str:
    if name in _GOOD_FOR:
        return _GOOD_FOR[name]
    if row.radius == "count":
        change = row.memory != EVERYTHING or row.adaptation != "none"
        return f"fixed arms without features{' that change' if change else ''}"
    if row.score in (SCALED, POSTERIOR, PERTURBED):
        return "real propensities from every decision, so that its log can judge other policies"
    if row.periodic:
        return "a simple yardstick for what forgetting gradually is worth"
    if row.one_matrix:
        return "gradual drift whose path length is about known"
    if row.adaptation == "change test":
        return "rare, clear jumps; it says when they were"
    if row.adaptation == "judged models":
        return "rare jumps in a linear world"
    if row.radius == "self-concordant":
        return "steep reward curves, in theory; in practice scale its bonus down"
    return "a world that stays as it is, and studies"


def described() -> Iterator[str]:
    """Write a section for each row of the catalogue."""
    other_names = {name: alias for alias, name in ALIASES.items()}
    for name, row in ROWS.items():
        alias = f" (also `{other_names[name]}`)" if name in other_names else ""
        yield from (f"### {name}", "", f"Good for {_good_for(name, row)}.{alias}", "")
        if row.adaptation != "none":
            yield from (_ADAPTATIONS.get(row.adaptation, f"Adapts by {row.adaptation}."), "")
        yield f"- reward model: {'linear' if row.linear else 'generalized linear, any link'}"
        memory = "emptied whenever it is full" if row.periodic else _WEIGHTS[row.memory]
        if row.score != CONSTANT:
            yield f"- memory: {memory}"
        yield f"- score: {_SCORES[row.score]}"
        if row.score == UCB:
            width = "by the divergence of chances (kl)" if row.kl else _RADII.get(row.radius, "")
            yield f"- radius ρ_t: {width or row.radius}"
        yield from (f"- source: {SOURCES[name].replace('docs/', '')}", "")
