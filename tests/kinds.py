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


def of_row(choice: Callable[[Row], bool]) -> Kind:
    return lambda name: choice(row_of(name))


# -- reward model and memory -----------------------------------------------------------------------

linear = of_row(lambda row: row.linear)
draws_windows = of_row(lambda row: row.adaptation == "bandit over windows")
windowed = both(of_row(lambda row: row.memory == WINDOW), no(draws_windows))
"""With a window that the caller gives, or that is tuned."""
discounted = of_row(lambda row: row.memory == DISCOUNT)
remembers_as_told = of_row(lambda row: row.memory is None)
forgets_by_schedule = of_row(lambda row: row.periodic)


def memory_of(name: str, *, window: int, discount: float) -> dict:
    return (
        {"window": window} if windowed(name) else {"discount": discount} if discounted(name) else {}
    )


# -- what adapts the memory ------------------------------------------------------------------------

adapted = of_row(lambda row: row.adaptation != "none")
believing = of_row(lambda row: row.adaptation == "belief")
looks_for_changes = of_row(lambda row: row.false_alarm_rate > 0)
forgets_on_changes = of_row(lambda row: row.adaptation == "change test")
tests_arms = of_row(lambda row: row.adaptation == "arm tests")
judges_models = of_row(lambda row: row.adaptation == "judged models")
learns_in_one_pass = of_row(lambda row: row.adaptation in ONE_PASS)
"""No row is kept."""

# -- score and confidence --------------------------------------------------------------------------

indifferent = of_row(lambda row: row.score == CONSTANT)
greedy = of_row(lambda row: row.score == GREEDY)
posterior = of_row(lambda row: row.score == POSTERIOR)
perturbed = of_row(lambda row: row.score == PERTURBED)
augmented = of_row(lambda row: row.score == AUGMENTED)
"""Draws from the posterior itself, whose spread is what it is."""
scaled = of_row(lambda row: row.score == SCALED)
weighted = of_row(lambda row: row.score == WEIGHTED)
"""Draws by exponential weights, whatever the means are."""
local = of_row(lambda row: row.radius == "local")
self_concordant = of_row(lambda row: row.radius == "self-concordant")
for_fixed_arms = of_row(lambda row: row.radius == "count")
"""An index of counts."""
by_divergence = of_row(lambda row: row.kl)
"""Widths by the divergence of probabilities."""
of_the_predictor = of_row(lambda row: row.radius == "predictor")
"""A bound on a . theta, not on the mean."""
one_matrix = of_row(lambda row: row.one_matrix)
"""W stands for W~ too."""
for_drift = both(one_matrix, no(for_fixed_arms))
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
