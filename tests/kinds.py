"""Kinds of policies, read off their rows: a new row is of the kinds that its choices make it.

A kind is a question about a name, so that also a row which joins the catalogue later is asked.
"""

from __future__ import annotations

from collections.abc import Callable

from driftbandits.core.estimator.model import DISCOUNT, WINDOW
from driftbandits.policies import ALIASES, ROWS, UCB, Row, takes
from driftbandits.policies.catalogue import ONE_PASS
from driftbandits.policies.scoring import (
    AUGMENTED,
    CONSTANT,
    GREEDY,
    PERTURBED,
    POSTERIOR,
    SCALED,
    WEIGHTED,
)

Kind = Callable[[str], bool]


def row_of(name: str) -> Row:
    return ROWS[ALIASES.get(name, name)]


def those(kind: Kind) -> list[str]:
    """The policies of a kind, without aliases."""
    return [name for name in ROWS if kind(name)]


def taken(name: str, arguments: dict) -> dict:
    """Of arguments for all policies, those that this one takes."""
    return {key: value for key, value in arguments.items() if takes(name, key)}


def no(kind: Kind) -> Kind:
    return lambda name: not kind(name)


def either(*kinds: Kind) -> Kind:
    return lambda name: any(kind(name) for kind in kinds)


def both(*kinds: Kind) -> Kind:
    return lambda name: all(kind(name) for kind in kinds)


# -- reward model and memory -----------------------------------------------------------------------


def linear(name: str) -> bool:
    return row_of(name).linear


def windowed(name: str) -> bool:
    """With a window that the caller gives, or that is tuned."""
    return row_of(name).memory == WINDOW and not draws_windows(name)


def discounted(name: str) -> bool:
    return row_of(name).memory == DISCOUNT


def remembers_as_told(name: str) -> bool:
    return row_of(name).memory is None


def forgets_by_schedule(name: str) -> bool:
    return row_of(name).periodic


def memory_of(name: str, *, window: int, discount: float) -> dict:
    return (
        {"window": window} if windowed(name) else {"discount": discount} if discounted(name) else {}
    )


# -- what adapts the memory ------------------------------------------------------------------------


def adapted(name: str) -> bool:
    return row_of(name).adaptation != "none"


def draws_windows(name: str) -> bool:
    return row_of(name).adaptation == "bandit over windows"


def believing(name: str) -> bool:
    """One belief over segments and drifts, whose prior follows the features that are offered."""
    return row_of(name).adaptation == "belief"


def looks_for_changes(name: str) -> bool:
    return row_of(name).false_alarm_rate > 0


def forgets_on_changes(name: str) -> bool:
    return row_of(name).adaptation == "change test"


def tests_arms(name: str) -> bool:
    return row_of(name).adaptation == "arm tests"


def learns_in_one_pass(name: str) -> bool:
    """No row is kept."""
    return row_of(name).adaptation in ONE_PASS


def judges_models(name: str) -> bool:
    return row_of(name).adaptation == "judged models"


# -- score and confidence --------------------------------------------------------------------------


def indifferent(name: str) -> bool:
    return row_of(name).score == CONSTANT


def greedy(name: str) -> bool:
    return row_of(name).score == GREEDY


def posterior(name: str) -> bool:
    return row_of(name).score == POSTERIOR


def perturbed(name: str) -> bool:
    return row_of(name).score == PERTURBED


def augmented(name: str) -> bool:
    """Draws from the posterior itself, whose spread is what it is."""
    return row_of(name).score == AUGMENTED


def scaled(name: str) -> bool:
    return row_of(name).score == SCALED


def weighted(name: str) -> bool:
    """Draws by exponential weights, whatever the means are."""
    return row_of(name).score == WEIGHTED


def local(name: str) -> bool:
    return row_of(name).radius == "local"


def self_concordant(name: str) -> bool:
    return row_of(name).radius == "self-concordant"


def for_fixed_arms(name: str) -> bool:
    """An index of counts."""
    return row_of(name).radius == "count"


def by_divergence(name: str) -> bool:
    """Widths by the divergence of chances."""
    return row_of(name).kl


def of_the_predictor(name: str) -> bool:
    """A bound on a . theta, not on the mean."""
    return row_of(name).radius == "predictor"


def one_matrix(name: str) -> bool:
    """W stands for W~ too."""
    return row_of(name).one_matrix


def for_drift(name: str) -> bool:
    return one_matrix(name) and not for_fixed_arms(name)


optimistic = either(believing, of_the_predictor)
samples_parameters = either(posterior, perturbed, augmented)
randomised = either(samples_parameters, scaled, weighted)
without_bonus = either(indifferent, greedy, weighted)
projected = no(
    either(linear, indifferent, optimistic, self_concordant, randomised, learns_in_one_pass)
)


def of_the_paper(name: str) -> bool:
    """One memory, an upper confidence bound and the deviation of the paper: the first six."""
    row = row_of(name)
    plain = row.score == UCB and row.radius == "deviation"
    return plain and not (row.one_matrix or row.periodic or adapted(name))


def later(name: str) -> bool:
    """One memory and another score or confidence."""
    return not (of_the_paper(name) or adapted(name) or without_bonus(name))


def one_of_each(kind: Kind) -> list[str]:
    """Of the policies of a kind, one for each way to score and to adapt, whatever the memory."""
    scores = {}
    for name in those(kind):
        row = row_of(name)
        choices = row.linear, row.score, row.radius, row.adaptation
        scores[choices, row.one_matrix, row.periodic, row.kl] = name
    return list(scores.values())
