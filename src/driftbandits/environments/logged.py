"""A world that replays a log: what was offered, and the rewards that are known."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.environments.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Logged:
    """The same trace in every run, or its rounds in random order.

    With full feedback (a reward for every arm) any policy can be played on it. With partial
    feedback the trace has NaN for what nobody observed, as `Trace` explains: a policy that
    chooses such an arm learns nothing in that round, and there is no regret.

    shuffle  draws the order of the rounds anew in each run. It wipes out every change over time,
             so the change points of the trace are dropped.
    """

    trace: Trace
    shuffle: bool = False

    def draw(self, rng: np.random.Generator) -> Trace:
        checks.generator("rng", rng)
        if not self.shuffle:
            return self.trace
        order = rng.permutation(self.trace.horizon)

        def shuffled(values: Any) -> Any:
            return None if values is None else values[order]

        return Trace(
            actions=self.trace.actions[order],
            rewards=self.trace.rewards[order],
            means=shuffled(self.trace.means),
            available=shuffled(self.trace.available),
            theta=shuffled(self.trace.theta),
            partial=self.trace.partial,
        )

    @property
    def dim(self) -> int:
        return self.trace.dim

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        return float(np.abs(self.trace.actions).max())


def logged(
    *,
    path: str | Path | None = None,
    actions: ArrayLike | None = None,
    rewards: ArrayLike | None = None,
    chosen: ArrayLike | None = None,
    arms: int | None = None,
    means: ArrayLike | None = None,
    available: ArrayLike | None = None,
    changes: tuple[int, ...] | None = None,
    shuffle: bool = False,
) -> Logged:
    """A world from arrays, or from the table in the file `path`.

    actions  (T, K, d), or (T, d): one context a round, for which every arm has its own parameter.
             Arm k's action then is the context in the k-th of K blocks, zeros elsewhere
    rewards  (T, K): of every arm, NaN where unknown; or (T,): of the arm that was `chosen`
    chosen   (T,) the arm that was chosen in each round, when rewards is (T,)
    arms     K, when neither actions nor rewards tells
    path     a CSV file with a line for each arm offered: the columns `round` and `reward` (empty
             where unknown), every other column a feature; arms of a round on consecutive lines

    >>> world = logged(actions=[[1.0], [1.0]], rewards=[1, 0], chosen=[0, 1], arms=2)
    >>> world.trace.actions[0].tolist(), world.trace.rewards.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[1.0, nan], [nan, 0.0]])
    """
    checks.flag("shuffle", shuffle)
    if path is not None:
        given = {"actions": actions, "rewards": rewards, "chosen": chosen, "arms": arms}
        given |= {"means": means, "available": available}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise ValueError(f"path must not be given together with {', '.join(extra)}")
        return Logged(trace=_read(path, changes=changes), shuffle=shuffle)
    if actions is None or rewards is None:
        raise ValueError("actions and rewards must be given, or the path of a file with both")
    offered = checks.array("actions", actions, ndim=2 if _is_matrix(actions) else 3)
    if offered.ndim == 3:
        arms = _number_of_arms(arms, offered.shape[1])
    elif _is_matrix(rewards):
        arms = _number_of_arms(arms, np.shape(rewards)[1])
    elif arms is None:
        raise ValueError("arms must be given when actions is (T, d) and rewards is (T,)")
    else:
        arms = checks.integer("arms", arms, least=1)
    known = _spread(rewards, chosen, rounds=len(offered), arms=arms)
    trace = Trace(
        actions=offered if offered.ndim == 3 else _for_each_arm(offered, arms),
        rewards=known,
        means=means,  # type: ignore[arg-type]  # Trace makes arrays of them
        available=available,  # type: ignore[arg-type]
        changes=changes,
        partial=bool(np.isnan(known).any()),
    )
    return Logged(trace=trace, shuffle=shuffle)


def _is_matrix(value: ArrayLike) -> bool:
    try:
        return np.ndim(value) == 2
    except ValueError:  # rows of different lengths: the check of the values will say so
        return False


def _number_of_arms(given: int | None, found: int) -> int:
    if given is not None and given != found:
        raise ValueError(f"arms must be {found}, as in the arrays; got {given!r}")
    return found


def _for_each_arm(contexts: NDArray[np.float64], arms: int) -> NDArray[np.float64]:
    rounds, dim = contexts.shape
    actions = np.zeros((rounds, arms, arms, dim))
    actions[:, np.arange(arms), np.arange(arms)] = contexts[:, None, :]
    return actions.reshape(rounds, arms, arms * dim)


def _spread(
    rewards: ArrayLike, chosen: ArrayLike | None, *, rounds: int, arms: int
) -> NDArray[np.float64]:
    """Rewards as (T, K), with NaN for what was not observed."""
    if _is_matrix(rewards):
        if chosen is not None:
            raise ValueError("chosen must be left out when rewards is (T, K)")
        return checks.array("rewards", rewards, ndim=2, missing=True)
    observed = checks.array("rewards", rewards, ndim=1, missing=True)
    if chosen is None:
        raise ValueError("chosen must be given when rewards is (T,): the arm of each reward")
    picked = np.asarray(chosen)
    if observed.shape != (rounds,) or picked.shape != (rounds,) or picked.dtype.kind not in "iu":
        raise ValueError(
            f"rewards and chosen must have one value for each of the {rounds} rounds, chosen whole "
            f"numbers; got shapes {observed.shape} and {picked.shape}, type {picked.dtype}"
        )
    if picked.min() < 0 or picked.max() >= arms:
        raise ValueError(
            f"chosen must lie in 0..{arms - 1}; got values from {picked.min()} to {picked.max()}"
        )
    known = np.full((rounds, arms), np.nan)
    known[np.arange(rounds), picked] = observed
    return known


def _read(path: str | Path, *, changes: tuple[int, ...] | None) -> Trace:
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if any(cell.strip() for cell in line)]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"path must be a readable CSV file; got {str(path)!r}: {error}") from None
    columns = [cell.strip() for cell in lines[0]] if lines else []
    if {"round", "reward"} - set(columns) or len(columns) < 3 or len(lines) < 2:
        raise ValueError(
            f"path must be a CSV file with the columns round, reward and at least one feature, "
            f"and at least one line below them; {str(path)!r} has {', '.join(columns) or 'none'}"
        )
    round_column, reward_column = columns.index("round"), columns.index("reward")
    numbers = _numbers(path, lines[1:], columns, reward_column)
    labels = numbers[:, round_column]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1])
    if len(np.unique(labels)) != len(starts):
        raise ValueError(
            f"path must be a file that keeps the lines of a round together; {str(path)!r} does not"
        )
    sizes = np.diff(np.append(starts, len(labels)))
    row = np.repeat(np.arange(len(starts)), sizes)
    arm = np.arange(len(labels)) - np.repeat(starts, sizes)
    features = np.delete(numbers, [round_column, reward_column], axis=1)
    shape = (len(starts), int(sizes.max()))
    actions = np.zeros((*shape, features.shape[1]))
    actions[row, arm] = features
    rewards = np.zeros(shape)
    rewards[row, arm] = numbers[:, reward_column]
    available = np.arange(shape[1]) < sizes[:, None]
    return Trace(
        actions=actions,
        rewards=rewards,
        available=None if available.all() else available,
        changes=changes,
        partial=bool(np.isnan(rewards).any()),
    )


def _numbers(
    path: str | Path, lines: list[list[str]], columns: list[str], reward_column: int
) -> NDArray[np.float64]:
    numbers = np.empty((len(lines), len(columns)))
    for i, line in enumerate(lines):
        cells = [cell.strip() for cell in line]
        if len(cells) == len(columns) and not cells[reward_column]:
            cells[reward_column] = "nan"
        try:
            numbers[i] = [float(cell) for cell in cells]
        except ValueError as error:
            raise ValueError(
                f"path must be a file of {len(columns)} numbers a line; "
                f"line {i + 2} of {str(path)!r}: {error}"
            ) from None
    if not np.isfinite(np.delete(numbers, reward_column, axis=1)).all():
        raise ValueError(f"path must be a file of finite rounds and features; {str(path)!r} is not")
    return numbers
