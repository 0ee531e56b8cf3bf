"""`simulate`: every policy plays the same traces, and everything that was recorded comes back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.environments import Environment
from driftbandits.experiments.kernels import Run
from driftbandits.experiments.player import (
    RECORDS,
    USUAL_RECORDS,
    Floats,
    Ints,
    Played,
    Player,
    Restarted,
    play_block,
)
from driftbandits.experiments.workers import blocks_of, local_workers, run_blocks
from driftbandits.policies import Detection, Policy

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_MOST = 10**9
_BLOCKS_PER_WORKER = 4
_BAND = (0.05, 0.95)
"""The quantiles over runs that a summary and a plot show."""


@dataclass(frozen=True, repr=False)
class Result:
    """The choices and regret of every policy in every run, by the policy's name."""

    regret: dict[str, Floats] = field(default_factory=dict)  # (runs, T) cumulative
    chosen: dict[str, Ints] = field(default_factory=dict)  # (runs, T)
    theta_hat: dict[str, Floats] = field(default_factory=dict)  # (runs, T, d)
    seconds: dict[str, Floats] = field(default_factory=dict)  # (runs,)
    work: dict[str, dict[str, Ints]] = field(default_factory=dict)  # name -> (runs,)
    detections: dict[str, list[tuple[Detection, ...]]] = field(default_factory=dict)  # by run

    def __repr__(self) -> str:
        finals = [f"{name} {regret[:, -1].mean():.4g}" for name, regret in self.regret.items()]
        return f"<Result: mean final regret {', '.join(finals) or 'not recorded'}>"

    def to_frame(self, *, summary: bool = False) -> pl.DataFrame:
        """A Polars frame with one row for each policy, run and round.

        Its columns are `policy`, `run` (from 0), `round` (from 1), `regret` (cumulative) and
        `chosen`, as far as they were recorded. With `summary` there is one row for each policy and
        round, with the `mean` of the regret over runs, its standard error `se` and the quantiles
        `q05` and `q95`.

        >>> import driftbandits as db
        >>> world = db.environment("abrupt2d", horizon=60)
        >>> result = db.simulate({"random": db.policy("random", dim=2)}, world, runs=2)
        >>> result
        <Result: mean final regret random 7.45>
        >>> result.to_frame().shape, result.to_frame(summary=True).columns
        ((120, 5), ['policy', 'round', 'mean', 'se', 'q05', 'q95'])
        """
        frames = checks.load("polars", "Frames need polars")
        if summary:
            parts = {label: _summary_columns(own) for label, own in self._known_regret().items()}
        else:
            both: dict[str, dict[str, Any]] = {"regret": self.regret, "chosen": self.chosen}
            recorded = {name: values for name, values in both.items() if values}
            if not recorded:
                raise ValueError("record must hold 'regret' or 'chosen' to make a frame")
            parts = {}
            for label, array in next(iter(recorded.values())).items():
                runs, T = array.shape
                parts[label] = {
                    "run": np.repeat(np.arange(runs), T),
                    "round": np.tile(np.arange(1, T + 1), runs),
                    **{name: values[label].ravel() for name, values in recorded.items()},
                }
        frame: pl.DataFrame = frames.concat(
            frames.DataFrame({"policy": [label] * len(part["round"]), **part})
            for label, part in parts.items()
        )
        return frame

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the mean regret of every policy over rounds, the most first in the legend.

        Bands reach from the 5 % to the 95 % quantile over runs. Without `axes` a new matplotlib
        figure is made; `result.plot().figure.savefig("regret.png")` saves it.
        """
        regret = self._known_regret()
        if axes is None:
            checks.load("matplotlib", "Plots need matplotlib")
            from matplotlib import pyplot

            axes = pyplot.subplots(layout="constrained")[1]
        # The order of the legend is that in which the curves end.
        for label in sorted(regret, key=lambda label: -float(regret[label][:, -1].mean())):
            rounds = np.arange(1, regret[label].shape[1] + 1)
            columns = _summary_columns(regret[label])
            (line,) = axes.plot(rounds, columns["mean"], label=label)
            band = columns["q05"], columns["q95"]
            axes.fill_between(rounds, *band, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.set(xlabel="round", ylabel="cumulative regret", xlim=(0, rounds[-1]), ylim=(0, None))
        axes.legend(loc="upper left", frameon=False)
        return axes

    def _known_regret(self) -> dict[str, Floats]:
        if not self.regret:
            raise ValueError("record must hold 'regret' to summarise or plot it")
        return self.regret


def _summary_columns(regret: Floats) -> dict[str, NDArray[Any]]:
    """The columns of a summary of regret (runs, T)."""
    runs, T = regret.shape
    spread = regret.std(axis=0, ddof=1) if runs > 1 else np.full(T, np.nan)
    low, high = np.quantile(regret, _BAND, axis=0)
    return {
        "round": np.arange(1, T + 1),
        "mean": regret.mean(axis=0),
        "se": spread / math.sqrt(runs),
        "q05": low,
        "q95": high,
    }


def simulate(
    policies: Mapping[str, Player],
    world: Environment,
    *,
    runs: int,
    seed: int = 0,
    workers: int = 1,
    record: Sequence[str] = USUAL_RECORDS,
) -> Result:
    """Let every policy play the same `runs` traces of a world.

    The outcome depends on seed and runs, not on the number of workers. Each worker reads the
    program again: a script that asks for more than one calls this under
    `if __name__ == "__main__":`.

    >>> import driftbandits as db
    >>> world = db.environment("abrupt2d", horizon=60)
    >>> result = db.simulate({"random": db.policy("random", dim=2)}, world, runs=2)
    >>> result.regret["random"].shape
    (2, 60)
    """
    _check_call(policies, world, runs, seed, workers, record)
    played: dict[tuple[str, int], Run] = {}

    def keep(block: list[tuple[tuple[str, int], Run]]) -> None:
        played.update(block)

    task = partial(play_block, dict(policies), world, seed, record, _whole)
    blocks = blocks_of(range(runs), size=math.ceil(runs / (workers * _BLOCKS_PER_WORKER)))
    with local_workers(workers) as executor:
        run_blocks(task, blocks, keep, executor=executor)
    result = Result()
    for label in policies:
        own = [played.pop((label, replicate)) for replicate in range(runs)]
        for what in ("regret", "chosen", "theta_hat"):
            if what in record:
                getattr(result, what)[label] = np.stack([getattr(run, what) for run in own])
        if "detections" in record:
            result.detections[label] = [run.detections for run in own]
        result.seconds[label] = np.array([run.seconds for run in own])
        result.work[label] = {
            counter: np.array([run.work[counter] for run in own]) for counter in own[0].work
        }
    return result


def _whole(played: Played) -> tuple[tuple[str, int], Run]:
    return (played.label, played.replicate), played.run


def _check_call(
    policies: Mapping[str, Player],
    world: Any,
    runs: int,
    seed: int,
    workers: int,
    record: Sequence[str],
) -> None:
    if not isinstance(policies, Mapping) or not policies:
        raise ValueError(f"policies must be a dict of at least one policy; got {policies!r}")
    for label, player in policies.items():
        if not isinstance(player, (Policy, Restarted)) and not callable(player):
            raise ValueError(
                f"policies[{label!r}] must come from driftbandits.policy(...) or be a factory "
                f"make(seed); got {player!r}"
            )
    if not isinstance(world, Environment):
        raise ValueError(f"world must have draw(rng) -> Trace; got {checks.brief(world)}")
    checks.integer("runs", runs, least=1, most=_MOST)
    checks.integer("seed", seed, least=0)
    checks.integer("workers", workers, least=1, most=_MOST)
    unknown = [what for what in checks.listed("record", record) if what not in RECORDS]
    if unknown:
        raise ValueError(f"record may hold {', '.join(RECORDS)}; got {unknown[0]!r}")
