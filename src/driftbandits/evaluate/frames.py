"""Logs made of tables: a CSV or Parquet file, a frame, or lists of dicts.

Propensities that a log lacks can be estimated. A multinomial logistic model gives the probability
of each offered arm given the context; it is fitted five times, each time without a fifth of the
rows, whose propensities it then gives. This assumes that the logging policy looked at nothing but
the columns of the context, and that it did not change along the log.

Notation
--------
X  (n, p)  the contexts as numbers, standardised, and a constant
W  (p, K)  the coefficients of the arms
P  (n, K)  softmax of X W over the arms that were offered
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.environments import TableRows
from driftbandits.evaluate.log import (
    ESTIMATED,
    KNOWN,
    UNKNOWN,
    Log,
    LoggedDecision,
    log_of,
    nanoseconds,
)
from driftbandits.features import (
    Encoding,
    Features,
    Offered,
    arm_id,
    is_outcome,
    offers_of,
    records_of,
)

Floats = NDArray[np.float64]

ESTIMATE = "estimate"
_FOLDS = 5
_PENALTY = 1.0
_STEPS = 200
_TOLERANCE = 1e-6
_MANY_ARMS = 30
_LEAST_PROPENSITY = 0.01
"""Smaller estimates are raised to this, or to a tenth of 1/K."""


def log_from_tables(
    *,
    context: Any,
    arms: Any,
    chosen: Any,
    rewards: Any,
    propensities: Any = None,
    features: Features | None = None,
    keep: Iterable[str] = (),
    at: Any = None,
    event_ids: Any = None,
) -> Log:
    """Make a log of decisions, oldest first, from tables.

    context       a frame of pandas, polars or Arrow, or a list of dicts: a row a decision
    arms          what was offered: the same for all, or a list with an offer for each decision
    chosen        the id of the arm that was chosen
    rewards       its reward, NaN or None where it is unknown
    propensities  the probabilities of the choices; "estimate" to estimate them from the choices;
                  None: unknown, so that the log can only be replayed
    features      what makes vectors of the columns; guessed unless given, fitted if they are not
    keep          columns that the guess takes although they are named like an outcome
    at            when each decision was made, in nanoseconds since 1970
    event_ids     a name of each decision
    """
    rows = records_of(context, "context")
    count = len(rows)
    offers = offers_of(arms, count, ())
    places = []
    for number, (arm, offer) in enumerate(
        zip(_listed("chosen", chosen, count), offers, strict=True)
    ):
        ids = [id for id, _ in offer]
        if arm_id(arm) not in ids:
            raise ValueError(
                f"chosen must be an arm that was offered; row {number + 1} has {arm!r}, and "
                f"{checks.brief(ids)} were offered"
            )
        places.append(ids.index(arm_id(arm)))
    if propensities is None:
        source, known = UNKNOWN, np.array([1.0 / len(offer) for offer in offers])
    elif isinstance(propensities, str) and propensities == ESTIMATE:
        source, known = ESTIMATED, estimated_propensities(rows, offers, places)
    else:
        given = _listed("propensities", propensities, count)
        source, known = KNOWN, checks.array("propensities", given, ndim=1)
    times = range(count) if at is None else _listed("at", at, count)
    names = map(str, range(count)) if event_ids is None else _listed("event_ids", event_ids, count)
    arm_ids = [tuple(str(arm) for arm, _ in offer) for offer in offers]
    vectors = [np.empty((0, 0))] * count  # made of the tables, when all of them are known
    tables = [
        (row, [columns or {} for _, columns in offer])
        for row, offer in zip(rows, offers, strict=True)
    ]
    numbers = places, known.tolist(), _listed("rewards", rewards, count)
    columns = zip(names, times, arm_ids, vectors, *numbers, tables, strict=True)
    lines = list(map(LoggedDecision._make, columns))
    return replace(log_of(lines, features, keep=keep), propensities=source)


def log_from_frame(
    table: Any,
    *,
    context: Sequence[str],
    arm: str,
    reward: str,
    propensity: str | float | None = None,
    offered: str | None = None,
    time: str | None = None,
    event_id: str | None = None,
    features: Features | None = None,
) -> Log:
    """Make a log of a table: one row a decision.

    table       a CSV or Parquet file, a frame of pandas, polars or Arrow, or a list of dicts
    context     the columns that were known when the decision was made
    arm         the column with the arm that was chosen
    reward      the column with its reward, empty where it is unknown
    propensity  the column with the probability of the choice, or one number for all rows;
                "estimate": estimated from the choices; None: unknown, so that the log can only be
                replayed
    offered     the column with the ids that were offered, lists or texts such as "a|b|c"; every
                arm of the table unless given
    time        the column with the time of the decision: a date and time, or seconds since 1970;
                the rows are in order unless given
    event_id    the column with a name of each decision
    features    what makes vectors of the columns; guessed unless given
    """
    rows = table if isinstance(table, TableRows) else TableRows(table)
    chosen = rows.ids("arm", arm)
    context = checks.listed("context", context)
    for label, name in (("arm", arm), ("reward", reward), ("propensity", propensity)):
        if name in context:
            raise ValueError(
                f"context must be what was known before the decision; got {name!r}, which is the "
                f"column of {label}. Leave it out of context"
            )
    contexts = rows.records("context", context)
    if outcomes := [name for name in context if is_outcome(name)]:
        warnings.warn(
            f"context has {', '.join(outcomes)}, named like an outcome or a propensity: leave out "
            "what was not known before the decision",
            UserWarning,
            stacklevel=2,
        )
    everything = sorted(set(chosen))
    offers: Any = everything
    if offered is not None:
        offers = [_ids(value) for value in rows.column("offered", offered)]
    elif len(everything) > max(_MANY_ARMS, len(rows) // 2):
        raise ValueError(
            f"arm: column {arm!r} has {len(everything)} different arms in {len(rows)} rows: is it "
            "the arm?"
        )
    elif len(everything) < 2:
        raise ValueError(
            f"arm: column {arm!r} must have at least two different arms; every row has "
            f"{everything[0]!r}. Give offered, the column that lists what could be chosen"
        )
    times, names = None, None
    if time is not None:
        times = [nanoseconds(f"time: column {time!r}", v) for v in rows.column("time", time)]
    if event_id is not None:
        names = list(map(str, rows.column("event_id", event_id)))
    return log_from_tables(
        context=contexts,
        arms=offers,
        chosen=chosen,
        rewards=rows.numbers("reward", reward, complete=False),
        propensities=_propensities(rows, propensity),
        features=features,
        keep=context,
        at=times,
        event_ids=names,
    )


def _ids(value: Any) -> list[str]:
    if isinstance(value, str):
        value = value.split("|")
    if not isinstance(value, Iterable):
        raise ValueError(f"offered must be a column of lists or texts such as a|b|c; got {value!r}")
    return [str(id).strip() for id in value]


def _propensities(rows: TableRows, given: str | float | None) -> Any:
    if given is None or (given == ESTIMATE and ESTIMATE not in rows.names):
        return given
    if isinstance(given, str):
        values = rows.numbers("propensity", given)
    else:
        values = np.full(len(rows), checks.number("propensity", given))
    bad = np.flatnonzero(~((values > 0.0) & (values <= 1.0)))
    if bad.size:
        raise ValueError(
            f"propensity must be above 0 and at most 1; row {bad[0] + 1} has {values[bad[0]]:g}. "
            'Give "estimate" to estimate the propensities from the choices'
        )
    return values


def _listed(label: str, given: Any, count: int) -> Sequence[Any]:
    if isinstance(given, (str, bytes)) or not hasattr(given, "__len__") or len(given) != count:
        raise ValueError(
            f"{label} must be {count} values, one a decision; got {checks.brief(given)}"
        )
    return list(given)


# -- propensities ----------------------------------------------------------------------------------


def estimated_propensities(
    contexts: Sequence[Mapping[str, Any]], offers: Sequence[Offered], places: Sequence[int]
) -> Floats:
    """Estimate the probability of every choice (n,) by a model that has not seen it."""
    n = len(contexts)
    checks.integer("the rows of the log", n, least=10 * _FOLDS)
    ids = list(dict.fromkeys(id for offer in offers for id, _ in offer))
    numbers = {id: k for k, id in enumerate(ids)}
    offered = np.zeros((n, len(ids)), dtype=bool)
    for t, offer in enumerate(offers):
        offered[t, [numbers[id] for id, _ in offer]] = True
    chosen = np.array([numbers[offers[t][place][0]] for t, place in enumerate(places)])
    X = _standardised(contexts)
    found = np.empty(n)
    fold = np.arange(n) % _FOLDS
    for k in range(_FOLDS):
        seen, left = fold != k, fold == k
        W = _fit(X[seen], offered[seen], chosen[seen])
        P = _probabilities(X[left], offered[left], W)
        found[left] = P[np.arange(len(P)), chosen[left]]
    least = min(_LEAST_PROPENSITY, 0.1 / len(ids))
    return np.maximum(found, least)


def _standardised(contexts: Sequence[Mapping[str, Any]]) -> Floats:
    n = len(contexts)
    constant = np.ones((n, 1))
    if not contexts[0]:
        return constant
    columns = Features.guess(contexts, [{"id": "any"}]).context
    encoding = Encoding(Features(context=columns, extra="ignore").fit(contexts))
    rows = [encoding.encode(row, [("any", {})]).dense(len(encoding)) for row in contexts]
    X = np.concatenate(rows)
    X = X[:, X.std(axis=0) > 0.0]
    return np.hstack([(X - X.mean(axis=0)) / X.std(axis=0), constant])


def _probabilities(X: Floats, offered: NDArray[np.bool_], W: Floats) -> Floats:
    z = np.where(offered, X @ W, -np.inf)
    odds = np.exp(z - z.max(axis=1, keepdims=True))
    P: Floats = odds / odds.sum(axis=1, keepdims=True)
    return P


def _fit(X: Floats, offered: NDArray[np.bool_], chosen: NDArray[np.int64]) -> Floats:
    """Fit W by steps with a fixed bound on the curvature, each of which raises the likelihood.

    Boehning (1992), Multinomial logistic regression algorithm.
    """
    K = offered.shape[1]
    Y = np.eye(K)[chosen]
    step = np.linalg.inv(0.5 * X.T @ X + _PENALTY * np.eye(X.shape[1]))
    W = np.zeros((X.shape[1], K))
    for _ in range(_STEPS):
        change = step @ (X.T @ (Y - _probabilities(X, offered, W)) - _PENALTY * W)
        W += change
        if np.abs(change).max() < _TOLERANCE:
            break
    return W
