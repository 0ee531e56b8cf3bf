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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from driftbandits import checks
from driftbandits.checks import SpecError
from driftbandits.environments import Environment, Trace, environment, environment_names
from driftbandits.experiments.player import Player, Restarted, draw_trace
from driftbandits.features import Features
from driftbandits.policies import Policy, policy, policy_names, takes

ONLY_THE_END = 10**9
"""More rounds than any run has: a curve with this step is its last point."""
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
Check = Callable[[str, Any], Any]

# -- what a table may hold -------------------------------------------------------------------------


def _text(label: str, given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{label} must be a string; got {given!r}")
    return given


def _name(label: str, given: Any) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=-]*", _text(label, given)):
        raise ValueError(f"{label} must be fit for a folder, of a-z, 0-9, . _ = -; got {given!r}")
    return str(given)


def _number(label: str, given: Any) -> float:
    checks.number(label, given)
    return given  # type: ignore[no-any-return]  # an int stays one


def _table(label: str, given: Any) -> Table:
    if not isinstance(given, dict):
        raise ValueError(f"{label} must be a table; got {given!r}")
    return given


def _several(label: str, given: Any, *, each: Check, least: int = 1) -> list[Any]:
    values = checks.listed(label, given)
    if len(values) < least:
        raise ValueError(f"{label} must not be empty; got {given!r}")
    return [each(f"{label}[{number}]", value) for number, value in enumerate(values, 1)]


_tables = partial(_several, each=_table)
_from_zero, _from_one = (partial(checks.integer, least=least) for least in (0, 1))
_ARGUMENTS: dict[str, Check] = {
    key: lambda label, given: given for key in inspect.signature(policy).parameters if key != "name"
}
_FILE: dict[str, Check] = {
    **{"experiment": _table, "environment": _table, "defaults": _table, "policies": _tables},
    **{"axes": _table, "grid": _tables, "sweep": _tables},
}
_HEADING: dict[str, Check] = {
    **{"name": _name, "title": _text, "description": _text},
    "section": partial(checks.choice, allowed=("regret", "share", "worlds", "growth")),
    **{"runs": _from_one, "seed": _from_zero, "every": _from_one, "theta_every": _from_zero},
    "coverage": checks.flag,
}
_VARIANT: dict[str, Check] = {
    **{"name": _name, "title": _text, "runs": _from_one},
    **{"environment": _table, "defaults": _table, "axes": _table},
}
_LINE: dict[str, Check] = {
    **{"label": _text, "name": _text, "restart": _text},
    "knows": partial(_several, each=partial(checks.choice, allowed=tuple(_ARGUMENTS)), least=0),
    **_ARGUMENTS,
}


def _read(path: str, given: Table, kinds: Mapping[str, Check], *needed: str) -> Table:
    """Check a table, which may have the keys of `kinds` and must have those that are needed."""
    place = f"{path}." if path else ""
    for key in given:
        if key not in kinds:
            meant = checks.perhaps(key, kinds)
            raise SpecError(f"{place}{key}: unknown key{meant}; allowed: {', '.join(kinds)}")
    for key in needed:
        if key not in given:
            raise SpecError(f"{place}{key}: is missing")
    with _at(path, kinds):
        return {key: kinds[key](key, value) for key, value in given.items()}


@contextmanager
def _at(path: str, names: Iterable[str]) -> Iterator[None]:
    """Put a path before what is refused, which mostly begins with one of these names."""
    try:
        yield
    except (TypeError, ValueError, OSError) as error:
        begins = re.split(r"[ \[]", str(error), maxsplit=1)[0] in names
        joint = "." if begins else ": "
        raise SpecError(f"{path}{joint if path else ''}{error}") from None


def _distinct(path: str, key: str, values: list[str]) -> None:
    """Refuse a list of tables of which two have the same value."""
    for number, value in enumerate(values, 1):
        if value in values[: number - 1]:
            raise SpecError(f"{path}[{number}].{key}: must differ from the others; got {value!r}")


# -- experiments -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One world, some policies, and how much of their runs to keep."""

    name: str
    title: str
    description: str = ""
    section: str = "regret"
    runs: int
    seed: int = 0
    every: int = 10
    theta_every: int = 0
    coverage: bool = False
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
    file = _read("", dict(contents), _FILE, "experiment", "environment", "policies")
    heading = _read("experiment", file["experiment"], _HEADING, "name", "runs")
    heading.setdefault("title", heading["name"])
    file["experiment"] = heading
    if "sweep" not in file:
        return _experiments(file)
    variants = [
        _read(f"sweep[{number}]", variant, _VARIANT, "name")
        for number, variant in enumerate(file["sweep"], 1)
    ]
    _distinct("sweep", "name", [variant["name"] for variant in variants])
    return [
        replace(
            experiment,
            sweep=heading["name"],
            sweep_title=heading["title"],
            variant=variant["name"],
            position=number,
        )
        for number, variant in enumerate(variants, 1)
        for experiment in _experiments(_merged(file, variant))
    ]


def _merged(file: Table, variant: Table) -> Table:
    """Return the file of one variant."""
    heading, own = file["experiment"], {key: variant[key] for key in variant if key == "runs"}
    own["name"] = f"{heading['name']}-{variant['name']}"
    own["title"] = variant.get("title", f"{heading['title']}: {variant['name']}")
    tables = {
        key: {**file.get(key, {}), **variant.get(key, {})}
        for key in ("environment", "defaults", "axes")
    }
    if "name" in variant.get("environment", {}):
        tables["environment"] = variant["environment"]
    return {**file, **tables, "experiment": {**heading, **own}}


def _experiments(file: Table) -> list[Experiment]:
    """The experiment, and the one of its grids where it has any."""
    heading, options = file["experiment"], file["environment"]
    with _at("environment", ("name", "horizon", *options)):
        checks.choice("name", options.get("name"), environment_names())
        world = environment(**options)
        trace = draw_trace(world, heading.get("seed", 0), 0)
    if heading.get("coverage") and (trace.means is None or trace.theta is None):
        raise SpecError(
            "experiment.coverage: must be false in a world whose means nobody knows; got true"
        )
    defaults = _read("defaults", file.get("defaults", {}), _ARGUMENTS)
    facts = {"horizon": trace.horizon, "changes": number_of_changes(trace), **defaults}
    players = _players("policies", file["policies"], facts, trace)
    experiment = Experiment(**heading, world=world, environment=options, players=players)
    points = _points(file)
    if not points:
        return [experiment]
    grid = replace(
        experiment,
        name=f"{experiment.name}-grid",
        every=ONLY_THE_END,
        theta_every=0,
        coverage=False,
        players=_players("grid", points, facts, trace),
        is_grid=True,
    )
    return [experiment, grid]


def _points(file: Table) -> list[Table]:
    """One policy for every combination of the values of the axes that a grid is `over`."""
    axes = _read(
        "axes", file.get("axes", {}), dict.fromkeys(_ARGUMENTS, partial(_several, each=_number))
    )
    points = []
    for number, grid in enumerate(file.get("grid", ()), 1):
        own = dict(grid)
        with _at(f"grid[{number}]", ("over",)):
            over = _several(
                "over", own.pop("over", None), each=partial(checks.choice, allowed=axes)
            )
        label = str(own.get("label", own.get("name", "")))
        for values in product(*(axes[key] for key in over)):
            point = dict(zip(over, values, strict=True))
            words = [label, *(f"{key}={value:g}" for key, value in point.items())]
            points.append({**own, **point, "label": ", ".join(words)})
    return points


def _players(section: str, lines: list[Table], facts: Table, trace: Trace) -> dict[str, Player]:
    made = [
        _player(f"{section}[{number}]", line, facts, trace) for number, line in enumerate(lines, 1)
    ]
    _distinct(section, "label", [label for label, _ in made])
    return dict(made)


def _player(path: str, line: Table, facts: Table, trace: Trace) -> tuple[str, Player]:
    """The label and the player of a line."""
    own = _read(path, line, _LINE, "name")
    name, restart, knows = own.pop("name"), own.pop("restart", None), own.pop("knows", facts)
    label = own.pop("label", name)
    told = {
        key: value
        for key, value in facts.items()
        if key in knows and (name not in policy_names() or takes(name, key))
    }
    wanted = {**told, **own}
    with _at(path, ("name", *_ARGUMENTS)):
        if "features" in wanted:
            wanted["features"] = _features(wanted["features"], trace)
        else:
            wanted.setdefault("dim", trace.dim)
        made = policy(name, **wanted)
        player: Player = made if restart is None else Restarted(made)
    if restart is not None and (restart != "changes" or trace.changes is None):
        allowed = '"changes"' if trace.changes is not None else "left out: no one knows the changes"
        raise SpecError(f"{path}.restart: must be {allowed}; got {restart!r}")
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
