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

    [[policies]]                 # `driftbandits.policy(name, ...)`
    label = "D-GLUCB"            # what the policy is called in the results; its name unless given
    name = "D-GLUCB"
    restart = "changes"          # optional: forget everything at the true changes, or at [rounds]

    [[sweep]]                    # optional: one experiment for each, called name-variant
    name = "1500"
    environment = { horizon = 1500 }   # merged into [environment]; with a name, instead of it
    defaults = { S = 5.0 }             # merged into [defaults]

A policy's `dim`, `horizon` and `changes` come from the world where they are left out; `changes` is
the number of jumps of a run, and unknown (the paper's second rule) where the world drifts or does
not tell. A refused key is named by its path; policies and variants are counted from 1.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from driftbandits.environments import Environment, Trace, environment, environment_names
from driftbandits.policies import Policy, policy
from driftbandits.simulate import Restarted, draw_trace

Table = dict[str, Any]

DEFAULT_EVERY = 10
DEFAULT_THETA_EVERY = 1000

_SECTIONS = ("experiment", "environment", "defaults", "policies", "sweep")
_EXPERIMENT_KEYS = (
    *("name", "title", "description", "runs", "seed"),
    *("every", "theta_every", "coverage"),
)
_VARIANT_KEYS = ("name", "title", "environment", "defaults")
_POLICY_ARGUMENTS = tuple(key for key in inspect.signature(policy).parameters if key != "name")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")


class SpecError(ValueError):
    """A spec that cannot be run; the message names the key."""


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
    players: Mapping[str, Policy | Restarted]
    sweep: str | None  # the experiment that this is a variant of
    variant: str | None

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
            "policies": [_policy_facts(label, player) for label, player in self.players.items()],
        }
        text = json.dumps(deciding, sort_keys=True)
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "sweep": self.sweep,
            "variant": self.variant,
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
    """The experiments of a TOML file: one, or one for each variant of its sweep.

    `runs` stands in for the file's own number; `options` are added to the world's.
    """
    try:
        spec = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a TOML file: {error}") from None
    if runs is not None and isinstance(spec.get("experiment"), dict):
        spec["experiment"]["runs"] = runs
    if options and isinstance(spec.get("environment"), dict):
        spec["environment"].update(options)
    return experiments_of(spec)


def experiments_of(spec: Mapping[str, Any]) -> list[Experiment]:
    """The same from the contents of a file."""
    _check_keys("", spec, _SECTIONS)
    if "sweep" not in spec:
        return [_experiment(spec)]
    variants = _tables(spec, "sweep")
    names = []
    for number, variant in enumerate(variants, 1):
        path = f"sweep[{number}]"
        _check_keys(f"{path}.", variant, _VARIANT_KEYS)
        names.append(_name(f"{path}.name", variant.get("name")))
    _check_distinct("sweep", "name", names)
    return [
        _experiment(_merged(spec, variant, f"sweep[{number}]"), of=spec, variant=variant["name"])
        for number, variant in enumerate(variants, 1)
    ]


def _merged(spec: Mapping[str, Any], variant: Table, path: str) -> Table:
    own = _table(variant, "environment", path=f"{path}.", default={})
    shared = {} if "name" in own else _table(spec, "environment")
    defaults = _table(spec, "defaults", default={})
    heading = dict(_table(spec, "experiment"))
    heading["name"] = f"{_name('experiment.name', heading.get('name'))}-{variant['name']}"
    if "title" in variant:
        heading["title"] = variant["title"]
    return {
        **spec,
        "experiment": heading,
        "environment": {**shared, **own},
        "defaults": {**defaults, **_table(variant, "defaults", path=f"{path}.", default={})},
    }


def _experiment(
    spec: Mapping[str, Any], *, of: Mapping[str, Any] | None = None, variant: str | None = None
) -> Experiment:
    heading = _table(spec, "experiment")
    _check_keys("experiment.", heading, _EXPERIMENT_KEYS)
    name = _name("experiment.name", heading.get("name"))
    seed = _integer("experiment.seed", heading.get("seed", 0), least=0)
    options = _table(spec, "environment")
    world, trace = _world(options, seed)
    coverage = heading.get("coverage", False)
    if not isinstance(coverage, bool):
        raise SpecError(f"experiment.coverage: must be true or false; got {coverage!r}")
    if coverage and (trace.means is None or trace.theta is None):
        raise SpecError(
            "experiment.coverage: must be false in a world whose means nobody knows; got true"
        )
    return Experiment(
        name=name,
        title=_text("experiment.title", heading.get("title", name)),
        description=_text("experiment.description", heading.get("description", "")),
        runs=_integer("experiment.runs", heading.get("runs"), least=1),
        seed=seed,
        every=_integer("experiment.every", heading.get("every", DEFAULT_EVERY), least=1),
        theta_every=_integer(
            "experiment.theta_every", heading.get("theta_every", DEFAULT_THETA_EVERY), least=1
        ),
        coverage=coverage,
        world=world,
        environment=options,
        players=_players(spec, trace),
        sweep=None if of is None else of["experiment"]["name"],
        variant=variant,
    )


def _world(options: Table, seed: int) -> tuple[Environment, Trace]:
    name = options.get("name")
    if name not in environment_names():
        raise SpecError(
            f"environment.name: must be one of {', '.join(environment_names())}; got {name!r}"
        )
    try:
        world = environment(**options)
        return world, draw_trace(world, seed, 0)
    except (TypeError, ValueError) as error:
        raise SpecError(_located("environment", error, options)) from None


def _players(spec: Mapping[str, Any], trace: Trace) -> dict[str, Policy | Restarted]:
    defaults = _table(spec, "defaults", default={})
    _check_keys("defaults.", defaults, _POLICY_ARGUMENTS)
    from_world = {"dim": trace.dim, "horizon": trace.horizon, "changes": number_of_changes(trace)}
    players: dict[str, Policy | Restarted] = {}
    labels = []
    for number, table in enumerate(_tables(spec, "policies"), 1):
        path = f"policies[{number}]"
        _check_keys(f"{path}.", table, ("label", "name", "restart", *_POLICY_ARGUMENTS))
        own = {key: value for key, value in table.items() if key not in ("label", "restart")}
        if "name" not in own:
            raise SpecError(f"{path}.name: must be given, as the name of a policy")
        try:
            made = policy(**{**from_world, **defaults, **own})
        except (TypeError, ValueError) as error:
            raise SpecError(_located(path, error, ("name", *_POLICY_ARGUMENTS))) from None
        label = _text(f"{path}.label", table.get("label", table["name"]))
        labels.append(label)
        players[label] = made
        if "restart" in table:
            players[label] = _restarted(f"{path}.restart", made, table["restart"], trace)
    _check_distinct("policies", "label", labels)
    return players


def _restarted(path: str, made: Policy, when: Any, trace: Trace) -> Restarted:
    rounds = isinstance(when, list) and all(type(t) is int and t > 1 for t in when)
    if when != "changes" and not rounds:
        raise SpecError(f'{path}: must be "changes" or a list of rounds above 1; got {when!r}')
    if when == "changes" and trace.changes is None:
        raise SpecError(f"{path}: must be a list of rounds in a world that tells no changes")
    return Restarted(made, None if when == "changes" else tuple(sorted(when)))


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


def _policy_facts(label: str, player: Policy | Restarted) -> Table:
    restart: Any = None
    if isinstance(player, Restarted):
        restart = "changes" if player.rounds is None else list(player.rounds)
        player = player.policy
    return {"label": label, **player.arguments, "restart": restart}


def _without_paths(options: Mapping[str, Any]) -> Table:
    """Files count by what is in them, wherever they lie."""
    plain = {key: value for key, value in options.items() if key != "path"}
    if options.get("path") is not None:
        plain["sha256"] = hashlib.sha256(Path(options["path"]).read_bytes()).hexdigest()
    return plain


def _located(path: str, error: Exception, keys: Iterable[str]) -> str:
    """The message of a check below, which mostly starts with an argument's name, with its path."""
    message = str(error)
    first = message.split(" ", 1)[0]
    return f"{path}.{message}" if first in {*keys, "horizon"} else f"{path}: {message}"


def _check_keys(path: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
    names = tuple(allowed)
    for key in table:
        if key not in names:
            raise SpecError(f"{path}{key}: unknown key; allowed: {', '.join(names)}")


def _check_distinct(path: str, key: str, values: list[str]) -> None:
    for number, value in enumerate(values, 1):
        if value in values[: number - 1]:
            raise SpecError(f"{path}[{number}].{key}: must differ from the others; got {value!r}")


def _table(
    tables: Mapping[str, Any], key: str, *, path: str = "", default: Table | None = None
) -> Table:
    value = tables.get(key, default)
    if not isinstance(value, dict):
        got = "nothing" if value is None else repr(value)
        raise SpecError(f"{path}{key}: must be a table; got {got}")
    return value


def _tables(spec: Mapping[str, Any], key: str) -> list[Table]:
    value = spec.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(x, dict) for x in value):
        got = "nothing" if value is None else repr(value)
        raise SpecError(f"{key}: must be at least one [[{key}]] table; got {got}")
    return value


def _name(path: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SpecError(
            f"{path}: must be a name of letters, digits and . _ = -, fit for a folder; "
            f"got {value!r}"
        )
    return value


def _text(path: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{path}: must be a text; got {value!r}")
    return value


def _integer(path: str, value: Any, *, least: int) -> int:
    if type(value) is not int or value < least:
        raise SpecError(f"{path}: must be an integer of at least {least}; got {value!r}")
    return value
