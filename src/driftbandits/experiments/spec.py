"""The contents of an experiment file, and the experiment it makes.

    [experiment]                 # also: description, coverage
    name = "abrupt2d"            # the folder of its results
    title = "The paper's simulated world"
    section = "regret"           # of the report: regret, share, worlds or growth
    runs = 500
    seed = 0
    every = 10                   # rounds from one point of a curve to the next
    theta_every = 1000           # optional: from one kept estimate to the next

    [environment]                # `driftbandits.environment(name, ...)`
    name = "abrupt2d"

    [defaults]                   # arguments that every policy gets unless it has its own
    lam = 1.0

    [[policies]]                 # `driftbandits.policy(name, ...)`
    label = "D-GLUCB"            # what the policy is called in the results; its name unless given
    name = "D-GLUCB"
    restart = "changes"          # optional: forget everything at the true changes
    knows = ["link", "m"]        # optional: all that it is told of the world and [defaults]

    [axes]                       # optional: values to try for some arguments of a policy
    bonus_scale = [0.0, 0.1, 1.0]

    [[grid]]                     # optional: a policy for every combination of some axes. All grids
    name = "LogisticUCB"         # make an experiment of their own, name-grid, on the same draws,
    over = ["bonus_scale"]       # of which only the end of each run is kept

    [[sweep]]                    # optional: one experiment for each, called name-variant
    name = "1500"
    runs = 100                         # instead of the file's own number
    environment = { horizon = 1500 }   # merged into [environment]; with a name, instead of it
    defaults = { S = 5.0 }             # merged into [defaults]
    axes = { bonus_scale = [0.0] }     # merged into [axes]

A policy's `dim`, `horizon` and `changes` come from the world where they are left out; `changes` is
the number of jumps of a run, and unknown (the paper's second rule) where the world drifts or does
not tell. `features = "guess"` stands for the features that the world's first tables suggest.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct, structs

from driftbandits import checks
from driftbandits.checks import SpecError
from driftbandits.environments import Environment, Trace, environment, environment_names
from driftbandits.experiments.player import (
    Player,
    Restarted,
    draw_trace,
)
from driftbandits.features import Features
from driftbandits.policies import Policy, policy, policy_names, takes

ONLY_THE_END = 10**9
"""More rounds than any run has: a curve with this step is its last point."""
SECTIONS = ("regret", "share", "worlds", "growth")
POLICY_ARGUMENTS = tuple(key for key in inspect.signature(policy).parameters if key != "name")
GUESSED_FROM = 500
"""Rounds that guessed features are guessed from."""
REPRODUCED = (
    *("abrupt2d", "abrupt2d-auto", "abrupt2d-small-bonus", "abrupt2d-intercept"),
    *("abrupt2d-restart", "abrupt2d-successors"),
    *("paired-fair", "paired-fair-small-bonus", "paired-pima", "paired-pima-small-bonus"),
    *("counts-randhie", "growth-horizon", "growth-changes"),
)
"""The published experiments that `driftbandits reproduce` runs, in this order."""


Table = dict[str, Any]

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]*\Z")]
"""A name that is fit for a folder."""
FromZero = Annotated[int, Meta(ge=0)]
FromOne = Annotated[int, Meta(ge=1)]
Numbers = Annotated[list[int | float], Meta(min_length=1)]
Tables = Annotated[list[Table], Meta(min_length=1)]


class Heading(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[experiment]: what it is called, how long it is and what is kept."""

    name: Name
    title: str | None = None
    description: str = ""
    section: str = "regret"
    runs: FromOne
    seed: FromZero = 0
    every: FromOne = 10
    theta_every: FromZero = 0
    coverage: bool = False


class Variant(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[[sweep]]: in what one of several experiments differs from the file."""

    name: Name
    title: str | None = None
    runs: FromOne | None = None
    environment: Table = {}
    defaults: Table = {}
    axes: Table = {}


class Line(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """[[policies]] without the arguments of the policy."""

    label: str | None = None
    name: str
    restart: str | None = None
    knows: list[str] | None = None


class Spec(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole file."""

    experiment: Heading
    environment: Table
    defaults: Table = {}
    policies: Tables
    axes: Table = {}
    grid: Tables | None = None
    sweep: Annotated[list[Variant], Meta(min_length=1)] | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One world, some policies, and how much of their runs to keep."""

    name: str
    title: str
    description: str
    section: str
    runs: int
    seed: int
    every: int
    theta_every: int
    coverage: bool
    world: Environment
    environment: Mapping[str, Any]  # the options the world was made of
    players: Mapping[str, Player]
    sweep: str | None = None  # the name of the file that this is a variant of
    sweep_title: str | None = None
    variant: str | None = None
    position: int = 1  # of the variant in its file
    is_grid: bool = False

    @cached_property
    def spec(self) -> Table:
        """Everything that was decided, as plain data; `hash` is of what the results depend on."""
        deciding = {
            **{key: getattr(self, key) for key in ("seed", "every", "theta_every", "coverage")},
            "environment": _without_paths(self.environment),
            "world": world_facts(self.world, self.seed),
            "policies": [player_facts(label, player) for label, player in self.players.items()],
        }
        text = json.dumps(deciding, sort_keys=True)
        about = ("name", "title", "description", "section", "runs")
        place = ("sweep", "sweep_title", "variant", "position", "is_grid")
        return {
            **{key: getattr(self, key) for key in (*about, *place)},
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
    """Read the experiments of a TOML file: one, or one for each variant and each grid.

    `runs` stands in for the file's own numbers; `options` are added to the world's.
    """
    try:
        contents = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a TOML file: {error}") from None
    if runs is not None:
        checks.integer("runs", runs, least=1)
    if options and isinstance(contents.get("environment"), dict):
        contents["environment"].update(options)
    try:
        made = experiments_of(contents)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    return made if runs is None else [replace(experiment, runs=runs) for experiment in made]


def experiments_of(contents: Mapping[str, Any]) -> list[Experiment]:
    """Make the experiments that the contents of a file describe."""
    spec: Spec = _read(Spec, contents)
    _choice("experiment.section", spec.experiment.section, SECTIONS)
    if not spec.sweep:
        return _experiments(spec)
    _distinct("sweep", "name", [variant.name for variant in spec.sweep])
    heading = spec.experiment
    title = heading.title or heading.name
    return [
        replace(
            experiment,
            sweep=heading.name,
            sweep_title=title,
            variant=variant.name,
            position=number,
        )
        for number, variant in enumerate(spec.sweep, 1)
        for experiment in _experiments(_merged(spec, variant))
    ]


def _merged(spec: Spec, variant: Variant) -> Spec:
    heading = spec.experiment
    shared = {} if "name" in variant.environment else spec.environment
    return structs.replace(
        spec,
        experiment=structs.replace(
            heading,
            name=f"{heading.name}-{variant.name}",
            title=variant.title or f"{heading.title or heading.name}: {variant.name}",
            runs=heading.runs if variant.runs is None else variant.runs,
        ),
        environment={**shared, **variant.environment},
        defaults={**spec.defaults, **variant.defaults},
        axes={**spec.axes, **variant.axes},
    )


def _experiments(spec: Spec) -> list[Experiment]:
    """The experiment, and the one of its grids where it has any."""
    heading = spec.experiment
    world, trace = _world(spec.environment, heading.seed)
    if heading.coverage and (trace.means is None or trace.theta is None):
        raise SpecError(
            "experiment.coverage: must be false in a world whose means nobody knows; got true"
        )
    experiment = Experiment(
        **{**structs.asdict(heading), "title": heading.title or heading.name},
        world=world,
        environment=spec.environment,
        players=_players("policies", spec.policies, spec.defaults, trace),
    )
    points = _points(spec)
    if not points:
        return [experiment]
    grid = replace(
        experiment,
        name=f"{heading.name}-grid",
        every=ONLY_THE_END,
        theta_every=0,
        coverage=False,
        players=_players("grid", points, spec.defaults, trace),
        is_grid=True,
    )
    return [experiment, grid]


def _points(spec: Spec) -> list[Table]:
    """One policy for every combination of the values of the axes that a grid is `over`."""
    _keys("axes", spec.axes, POLICY_ARGUMENTS)
    axes = {key: _read(Numbers, given, f"axes.{key}") for key, given in spec.axes.items()}
    points = []
    for number, grid in enumerate(spec.grid or (), 1):
        over = _names(f"grid[{number}].over", grid.get("over"), axes)
        own = {key: value for key, value in grid.items() if key != "over"}
        label = str(own.get("label", own.get("name", "")))
        for values in product(*(axes[key] for key in over)):
            point = dict(zip(over, values, strict=True))
            words = [label, *(f"{key}={value:g}" for key, value in point.items())]
            points.append({**own, **point, "label": ", ".join(words)})
    return points


def _world(options: Table, seed: int) -> tuple[Environment, Trace]:
    _choice("environment.name", options.get("name"), environment_names())
    try:
        world = environment(**options)
        return world, draw_trace(world, seed, 0)
    except (TypeError, ValueError, OSError) as error:
        raise _located("environment", error, options) from None


def _located(path: str, error: Exception, arguments: Iterable[str]) -> SpecError:
    """The message of a check, which mostly starts with the name of an argument, with its path."""
    message = str(error)
    names_one = message.split(" ", 1)[0] in {*arguments, "horizon"}
    return SpecError(f"{path}.{message}" if names_one else f"{path}: {message}")


def _players(section: str, lines: list[Table], defaults: Table, trace: Trace) -> dict[str, Player]:
    _keys("defaults", defaults, POLICY_ARGUMENTS)
    facts = {"horizon": trace.horizon, "changes": number_of_changes(trace), **defaults}
    made = [
        _player(f"{section}[{number}]", line, facts, trace) for number, line in enumerate(lines, 1)
    ]
    _distinct(section, "label", [label for label, _ in made])
    return dict(made)


def _player(path: str, line: Table, facts: Table, trace: Trace) -> tuple[str, Player]:
    """The label and the player of a line."""
    said, arguments = _read_line(path, line, POLICY_ARGUMENTS)
    label = said.name if said.label is None else said.label
    knows = list(facts) if said.knows is None else said.knows
    known = _names(f"{path}.knows", knows, POLICY_ARGUMENTS)
    told = {
        key: value
        for key, value in facts.items()
        if key in known and (said.name not in policy_names() or takes(said.name, key))
    }
    wanted = {**told, **arguments}
    try:
        if "features" in wanted:
            wanted["features"] = _features(wanted["features"], trace)
        else:
            wanted.setdefault("dim", trace.dim)
        made = policy(said.name, **wanted)
        player: Player = made if said.restart is None else Restarted(made)
    except (TypeError, ValueError) as error:
        raise _located(path, error, ("name", *POLICY_ARGUMENTS)) from None
    if said.restart is not None and (said.restart != "changes" or trace.changes is None):
        allowed = '"changes"' if trace.changes is not None else "left out: no one knows the changes"
        raise SpecError(f"{path}.restart: must be {allowed}; got {said.restart!r}")
    return label, player


def _features(given: Any, trace: Trace) -> Any:
    if trace.contexts is None or trace.offers is None:
        raise ValueError("features need a world of tables, as shop is")
    if given != "guess":
        return given
    offers = {row["id"]: row for offer in trace.offers[:GUESSED_FROM] for row in offer}
    return Features.guess(trace.contexts[:GUESSED_FROM], list(offers.values()))


def player_facts(label: str, player: Player) -> Table:
    """A player as a spec writes it down."""
    restart = "changes" if isinstance(player, Restarted) else None
    played = player.policy if isinstance(player, Restarted) else player
    assert isinstance(played, Policy)
    return {"label": label, **played.arguments, "restart": restart}


def number_of_changes(trace: Trace) -> int | None:
    """The paper's Gamma for a trace; None where theta drifts or nobody knows."""
    if trace.changes == () and trace.theta is not None and np.ptp(trace.theta, axis=0).any():
        return None
    return None if trace.changes is None else len(trace.changes)


def world_facts(world: Environment, seed: int) -> Table:
    """Describe a world for readers of the results, who do not make it again.

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


# -- what is refused -------------------------------------------------------------------------------

_FIELDS: dict[str, tuple[str, ...]] = {
    "": Spec.__struct_fields__,
    "experiment": Heading.__struct_fields__,
    "sweep": Variant.__struct_fields__,
}
"""The keys of a table by the last key of its path."""

_WORDS = {"object": "table", "array": "list", "str": "string", "int": "integer"}
"""The names that TOML has for the types of msgspec."""

_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def _read(kind: Any, given: Any, path: str = "") -> Any:
    """Read what was given as a kind of value, or refuse what does not fit."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), given, path) from None


def _refusal(message: str, given: Any, path: str) -> SpecError:
    """Name the place that msgspec writes as in `Expected `int` >= 1 - at `$.sweep[0].runs``."""
    fault, _, where = message.partition(" - at `$")
    last = ""
    for step in _STEP.finditer(where):
        if step["key"]:
            last = step["key"]
            path += f".{last}" if path else last
            given = given[last]
        else:
            path += f"[{int(step['index']) + 1}]"
            given = given[int(step["index"])]
    if field := _UNKNOWN.fullmatch(fault):
        return _unknown_key(f"{path}.{field[1]}".lstrip("."), field[1], _FIELDS[last])
    if field := _MISSING.fullmatch(fault):
        return SpecError(f"{path}.{field[1]}".lstrip(".") + ": is missing")
    allowed = fault.partition(", got ")[0].removeprefix("Expected ")
    for theirs, ours in _WORDS.items():
        allowed = allowed.replace(f"`{theirs}", f"`{ours}")
    return SpecError(f"{path}: must be {allowed}; got {given!r}")


def _read_line(path: str, line: Table, arguments: Iterable[str]) -> tuple[Line, Table]:
    """Read a line of [[policies]]: what it says of itself, and the arguments of its policy."""
    own = Line.__struct_fields__
    _keys(path, line, (*own, *arguments))
    said = _read(Line, {key: value for key, value in line.items() if key in own}, path)
    return said, {key: value for key, value in line.items() if key not in own}


def _keys(path: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Refuse a table with a key that is not allowed."""
    names = tuple(allowed)
    for key in table:
        if key not in names:
            raise _unknown_key(f"{path}.{key}", key, names)


def _choice(path: str, given: Any, allowed: Iterable[str]) -> None:
    """Refuse anything but one of the names that are allowed."""
    try:
        checks.choice(f"{path}:", given, allowed)
    except ValueError as error:
        raise SpecError(str(error)) from None


def _names(path: str, given: Any, allowed: Iterable[str]) -> list[str]:
    """Return a list of allowed names, or refuse it."""
    known = tuple(allowed)
    if not isinstance(given, list) or any(entry not in known for entry in given):
        raise SpecError(f"{path}: must be a list out of {', '.join(known)}; got {given!r}")
    return given


def _distinct(path: str, key: str, values: list[str]) -> None:
    """Refuse a list of tables of which two have the same value."""
    for number, value in enumerate(values, 1):
        if value in values[: number - 1]:
            raise SpecError(f"{path}[{number}].{key}: must differ from the others; got {value!r}")


def _unknown_key(path: str, key: str, allowed: Iterable[str]) -> SpecError:
    known = tuple(allowed)
    return SpecError(
        f"{path}: unknown key{checks.perhaps(key, known)}; allowed: {', '.join(known)}"
    )
