"""What an experiment file may say, and the experiment it makes.

    [experiment]                 # also: description, theta_every, coverage
    name = "abrupt2d"            # the folder of its results
    title = "The paper's simulated world"
    runs = 500
    seed = 0
    every = 10                   # rounds from one point of a curve to the next

    [environment]                # `driftbandits.environment(name, ...)`
    name = "abrupt2d"

    [defaults]                   # arguments that every policy gets unless it has its own
    lam = 1.0

    [[policies]]                 # `driftbandits.policy(name, ...)`, or a player that sees all
                                 # rewards: "informed majority", "informed logistic"
    label = "D-GLUCB"            # what the policy is called in the results; its name unless given
    name = "D-GLUCB"
    restart = "changes"          # optional: forget everything at the true changes, or at [rounds]
    knows = ["link", "m"]        # optional: all that it is told of the world and [defaults]

    [axes]                       # optional: values to try for some arguments of a policy
    bonus_scale = [0.0, 0.1, 1.0]

    [[grid]]                     # optional: a policy for every combination of some axes. All grids
    name = "LogisticUCB"         # make an experiment of their own, name-hindsight, on the same
    over = ["bonus_scale"]       # draws, of which only the end of each run is kept

    [[sweep]]                    # optional: one experiment for each, called name-variant
    name = "1500"
    runs = 100                         # instead of the file's own number
    environment = { horizon = 1500 }   # merged into [environment]; with a name, instead of it
    defaults = { S = 5.0 }             # merged into [defaults]
    axes = { bonus_scale = [0.0] }     # merged into [axes]

A policy's `dim`, `horizon` and `changes` come from the world where they are left out; `changes` is
the number of jumps of a run, and unknown (the paper's second rule) where the world drifts or does
not tell. A refused key is named by its path; policies and variants are counted from 1.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from driftbandits import checks
from driftbandits.environments import Environment, Trace, environment, environment_names
from driftbandits.errors import SpecError
from driftbandits.experiments import grid, schema
from driftbandits.experiments.players import POLICY_ARGUMENTS, facts_of, located, player_of
from driftbandits.experiments.schema import Spec, Table, Variant
from driftbandits.simulation import Player, draw_trace

ONLY_THE_END = 10**9
"""More rounds than any run has: a curve with this step is its last point."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One world, some policies, and how much of their runs to keep."""

    name: str
    title: str
    description: str
    runs: int
    seed: int
    every: int
    theta_every: int
    coverage: bool
    world: Environment
    environment: Mapping[str, Any]  # the options the world was made of
    players: Mapping[str, Player]
    sweep: str | None  # the experiment that this is a variant of
    variant: str | None
    position: int  # of the variant in its file, from 1
    hindsight: bool = False
    """Are the players the points of a grid, to be tuned in hindsight?"""

    @property
    def spec(self) -> Table:
        """Everything that was decided, as plain data; `hash` is of what the results depend on."""
        deciding = {
            "seed": self.seed,
            "every": self.every,
            "theta_every": self.theta_every,
            "coverage": self.coverage,
            "environment": _without_paths(self.environment),
            "world": world_facts(self.world, self.seed),
            "policies": [facts_of(label, player) for label, player in self.players.items()],
        }
        text = json.dumps(deciding, sort_keys=True)
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "sweep": self.sweep,
            "variant": self.variant,
            "position": self.position,
            "hindsight": self.hindsight,
            "runs": self.runs,
            "hash": hashlib.sha256(text.encode()).hexdigest(),
            **deciding,
        }


def published() -> dict[str, Path]:
    """The experiment files that come with the package, by name."""
    inside = Path(str(resources.files("driftbandits"))) / "published"
    # A source tree, and what is installed from it in place, keeps them beside `src`.
    folder = inside if inside.is_dir() else Path(__file__).resolve().parents[3] / "experiments"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_experiments(
    path: str | Path, *, runs: int | None = None, options: Mapping[str, Any] | None = None
) -> list[Experiment]:
    """The experiments of a TOML file: one, or one for each variant of its sweep, and their grids.

    `runs` stands in for the file's own numbers; `options` are added to the world's.
    """
    try:
        contents = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a TOML file: {error}") from None
    if runs is not None and isinstance(contents.get("experiment"), dict):
        contents["experiment"]["runs"] = runs
    if options and isinstance(contents.get("environment"), dict):
        contents["environment"].update(options)
    try:
        made = experiments_of(contents)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    return made if runs is None else [replace(experiment, runs=runs) for experiment in made]


def experiments_of(contents: Mapping[str, Any]) -> list[Experiment]:
    """The same from the contents of a file."""
    spec: Spec = schema.read(Spec, contents)
    if not spec.sweep:
        return _experiments(spec)
    schema.distinct("sweep", "name", [variant.name for variant in spec.sweep])
    return [
        experiment
        for number, variant in enumerate(spec.sweep, 1)
        for experiment in _experiments(
            _merged(spec, variant),
            of=spec.experiment.name,
            variant=variant.name,
            position=number,
        )
    ]


def _merged(spec: Spec, variant: Variant) -> Spec:
    heading = spec.experiment
    shared = {} if "name" in variant.environment else spec.environment
    return structs.replace(
        spec,
        experiment=structs.replace(
            heading,
            name=f"{heading.name}-{variant.name}",
            title=heading.title if variant.title is None else variant.title,
            runs=heading.runs if variant.runs is None else variant.runs,
        ),
        environment={**shared, **variant.environment},
        defaults={**spec.defaults, **variant.defaults},
        axes={**spec.axes, **variant.axes},
    )


def _experiments(
    spec: Spec, *, of: str | None = None, variant: str | None = None, position: int = 1
) -> list[Experiment]:
    """The experiment, and the one of its grids where it has any."""
    heading = spec.experiment
    world, trace = _world(spec.environment, heading.seed)
    if heading.coverage and (trace.means is None or trace.theta is None):
        raise SpecError(
            "experiment.coverage: must be false in a world whose means nobody knows; got true"
        )
    experiment = Experiment(
        name=heading.name,
        title=heading.name if heading.title is None else heading.title,
        description=heading.description,
        runs=heading.runs,
        seed=heading.seed,
        every=heading.every,
        theta_every=heading.theta_every,
        coverage=heading.coverage,
        world=world,
        environment=spec.environment,
        players=_players("policies", spec.policies, spec.defaults, trace),
        sweep=of,
        variant=variant,
        position=position,
    )
    points = grid.policies_of(spec, POLICY_ARGUMENTS)
    if not points:
        return [experiment]
    hindsight = replace(
        experiment,
        name=f"{heading.name}-hindsight",
        every=ONLY_THE_END,
        theta_every=ONLY_THE_END,
        coverage=False,
        players=_players("grid", points, spec.defaults, trace),
        hindsight=True,
    )
    return [experiment, hindsight]


def _world(options: Table, seed: int) -> tuple[Environment, Trace]:
    name = options.get("name")
    if name not in environment_names():
        known = environment_names()
        raise SpecError(
            f"environment.name: must be one of {', '.join(known)}; got {name!r}"
            f"{checks.perhaps(str(name), known)}"
        )
    try:
        world = environment(**options)
        return world, draw_trace(world, seed, 0)
    except (TypeError, ValueError) as error:
        raise SpecError(located("environment", error, options)) from None


def _players(section: str, lines: list[Table], defaults: Table, trace: Trace) -> dict[str, Player]:
    schema.keys("defaults.", defaults, POLICY_ARGUMENTS)
    facts = {"horizon": trace.horizon, "changes": number_of_changes(trace), **defaults}
    made = [
        player_of(f"{section}[{number}]", line, facts, trace)
        for number, line in enumerate(lines, 1)
    ]
    schema.distinct(section, "label", [label for label, _ in made])
    return dict(made)


def number_of_changes(trace: Trace) -> int | None:
    """The paper's Gamma for a trace; None where theta drifts or nobody knows."""
    if trace.changes == () and trace.theta is not None and np.ptp(trace.theta, axis=0).any():
        return None
    return None if trace.changes is None else len(trace.changes)


def world_facts(world: Environment, seed: int) -> Table:
    """What a reader of the results has to know of a world without making it again.

    `changes` are the rounds of the jumps and `parameters` theta from each of them on, where these
    are the same in every run; `changes_a_run` is how many there are.
    """
    trace, other = draw_trace(world, seed, 0), draw_trace(world, seed, 1)
    fixed = trace.changes is not None and trace.changes == other.changes
    parameters = None
    if fixed and trace.theta is not None and other.theta is not None:
        starts = [0, *(t - 1 for t in trace.changes or ())]
        steps = np.repeat(trace.theta[starts], np.diff([*starts, trace.horizon]), axis=0)
        if np.array_equal(steps, trace.theta) and np.array_equal(steps, other.theta):
            parameters = trace.theta[starts].tolist()
    return {
        "horizon": trace.horizon,
        "dim": trace.dim,
        "arms": trace.arms,
        "changes": list(trace.changes or ()) if fixed else None,
        "changes_a_run": number_of_changes(trace),
        "parameters": parameters,
        "means_known": trace.means is not None,
    }


def _without_paths(options: Mapping[str, Any]) -> Table:
    """Files count by what is in them, wherever they lie."""
    plain = {key: value for key, value in options.items() if key != "path"}
    if options.get("path") is not None:
        plain["sha256"] = hashlib.sha256(Path(options["path"]).read_bytes()).hexdigest()
    return plain
