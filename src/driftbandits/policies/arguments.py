"""The arguments of a policy, one row each, and how a policy is made of them.

`Given` is the table. The signature, the help and the checks of `policy`, the body that the service
takes, `driftbandits policies` and docs/configuration.md all follow from it.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple, TypedDict, Unpack, get_args, get_type_hints

from driftbandits import checks
from driftbandits.core import links
from driftbandits.core.estimator.model import DISCOUNT, PROJECTIONS, WINDOW
from driftbandits.features import Features, features_from, rewards
from driftbandits.policies.catalogue import (
    ALIASES,
    ARMS,
    ROWS,
    SEPARATE,
    SHARED,
    Policy,
    Row,
    Setting,
    policy_names,
    problem_of,
    tuned_memory,
    tuned_penalty,
)
from driftbandits.policies.scoring import CONSTANT, GREEDY, SCALED

_LEAST_ROOM = 16  # from which on models of features are computed in the ways for large ones


# -- which policy uses what ------------------------------------------------------------------------


_USES: Mapping[str, Callable[[Row], bool]] = {
    "all": lambda row: True,
    "bounded": lambda row: not row.believes,
    "with a link": lambda row: not row.linear,
    "informed": lambda row: row.score != CONSTANT,
    "with a bonus": lambda row: row.score not in (CONSTANT, GREEDY),
    # an index of counts or a posterior needs no bound on the parameter, and no confidence
    "with a bound": lambda row: row.score != CONSTANT and _is_confident(row),
    "with confidence": lambda row: row.score not in (CONSTANT, GREEDY) and _is_confident(row),
    "projected": lambda row: row.projected,
    "tuned": lambda row: row.memory in (WINDOW, DISCOUNT) or row.adaptation == "arm tests",
    "tuned by changes": lambda row: (
        row.adaptation in ("none", "mirror descent", "arm tests") and _USES["tuned"](row)
    ),
    "tuned by a path": lambda row: (
        row.periodic
        or (row.memory == DISCOUNT and row.radius == "mirror")
        or (row.memory == DISCOUNT and row.radius != "count" and row.one_matrix)
    ),
    "with a window": lambda row: (
        row.memory in (WINDOW, None) and row.adaptation != "bandit over windows"
    ),
    "with a discount": lambda row: row.memory in (DISCOUNT, None),
    "looking for changes": lambda row: row.false_alarm_rate > 0.0,
}
"""Kinds of policies that use an argument, in words."""


def _is_confident(row: Row) -> bool:
    return not row.believes and row.radius not in ("count", "posterior")


# -- the table -------------------------------------------------------------------------------------


def _checked_elsewhere(label: str, value: Any) -> Any:
    """For what `links.link` and `rewards.reward` check."""
    return value


_positive = partial(checks.number, above=0.0)
_not_negative = partial(checks.number, at_least=0.0)
_within_0_and_1 = partial(checks.number, above=0.0, below=1.0)
_whole = partial(checks.integer, least=1)


class Argument(NamedTuple):
    """An argument of `policy`: what it says, and what may be given."""

    says: str
    check: Callable[[str, Any], Any]
    default: Any = None  # None: it may be missing
    used_by: str = "all"  # of `_USES`


class Product(TypedDict, total=False):
    """The arguments that an application needs first.

    Each has its type, a sentence, its check, its default, and what the policies are that use it.
    """

    features: Annotated[
        Features | Mapping[str, Any] | None,
        "how tables become vectors, see docs/features.md",
        lambda label, value: features_from(value),
    ]
    dim: Annotated[
        int | None,
        "instead of features: length of an action, or of a context of separate arms",
        _whole,
    ]
    arms: Annotated[
        str,
        "shared: one model for all actions; separate: one for each arm, see docs/separate-arms.md",
        partial(checks.choice, allowed=ARMS),
        SHARED,
    ]
    reward: Annotated[
        str | None,
        "what a reward is: click, rating:1..5, count, count:20, amount, amount:0..500, cost or "
        "cost:0..500, see docs/rewards.md",
        _checked_elsewhere,
    ]
    outside: Annotated[
        str | None,
        "clip rewards outside that range, which is counted, or refuse them",
        _checked_elsewhere,
    ]
    link: Annotated[
        str,
        "instead of reward: the reward model, logistic, binomial, poisson or identity",
        _checked_elsewhere,
        "logistic",
        "with a link",
    ]
    intercept: Annotated[
        bool | None,
        "append a constant 1 to every action; unless given: of auto, with features and with "
        "separate arms",
        checks.flag,
        None,
        "informed",
    ]
    epsilon: Annotated[
        float,
        "share of rounds in which the action is drawn uniformly",
        partial(checks.number, at_least=0.0, at_most=1.0),
        0.0,
        "informed",
    ]
    horizon: Annotated[
        int | None,
        "number of rounds to come, from which a window or a discount follows by the rule of "
        "the policy's source",
        _whole,
        None,
        "tuned",
    ]
    changes: Annotated[
        int | None,
        "number of changes within the horizon, if known",
        partial(checks.integer, least=0),
        None,
        "tuned by changes",
    ]
    window: Annotated[
        int | None,
        "instead of horizon: rounds that SW-* remember, and from restart to restart of "
        "Restart-* and REXP3",
        _whole,
        None,
        "with a window",
    ]
    discount: Annotated[
        float | None,
        "instead of horizon: weight that D-*, DOMD-GLB and *-Weight* keep from round to round",
        _within_0_and_1,
        None,
        "with a discount",
    ]
    false_alarm_rate: Annotated[
        float | None,
        "of CD-* and auto: about one false report of a change in 1/rate decisions; of dLinUCB: "
        "with which a judgement may discard a sound model",
        _within_0_and_1,
        None,
        "looking for changes",
    ]
    exact: Annotated[
        bool,
        "compute a model of 16 dimensions or more to 1e-8, as small ones always are; otherwise "
        "its scores are within a ten-thousandth of their widths",
        checks.flag,
        False,
    ]


class Given(Product, total=False):
    """The keyword arguments of `policy`: those, and what the theory asks for."""

    S: Annotated[
        float,
        "bound of the length of theta, the intercept included",
        _positive,
        1.0,
        "with a bound",
    ]
    L: Annotated[float, "bound of the length of an action", _positive, 1.0, "bounded"]
    too_long: Annotated[
        str,
        "refuse an action longer than L, or rescale it to L",
        partial(checks.choice, allowed=("refuse", "rescale")),
        "refuse",
        "bounded",
    ]
    m: Annotated[
        float | None, "largest reward; unless given what its link has, mostly 1", _checked_elsewhere
    ]
    centre: Annotated[
        float,
        "rewards are centre + mu(a.theta) + noise: 1/2 lets a linear model fit 0/1 rewards",
        checks.number,
        0.0,
        "informed",
    ]
    lam: Annotated[
        float | None,
        "penalty (lam/2)||theta||^2; unless given 1, or what the source asks for",
        _positive,
        None,
        "informed",
    ]
    delta: Annotated[
        float,
        "probability that a confidence bound fails; of dLinUCB also that of a bad reward",
        _within_0_and_1,
        0.01,
        "with confidence",
    ]
    bonus_scale: Annotated[
        float,
        "factor of the bonus of the theory, which is several times too wide in practice",
        _not_negative,
        1.0,
        "with a bonus",
    ]
    path_length: Annotated[
        float | None,
        "sum of ||theta_t - theta_{t-1}|| over the horizon, for *-Weight* and Restart-*, and "
        "instead of changes for DOMD-GLB; unless given 2 S changes, or 1 where changes are "
        "unknown too",
        _not_negative,
        None,
        "tuned by a path",
    ]
    projection: Annotated[
        str,
        "of theta-hat on the ball of S: exact, radial or none",
        partial(checks.choice, allowed=PROJECTIONS),
        "exact",
        "projected",
    ]


_HINTS = get_type_hints(Given, include_extras=True)
ARGUMENTS: Mapping[str, Argument] = {
    name: Argument(*hint.__metadata__) for name, hint in _HINTS.items()
}
"""The table by name."""
PRODUCT = tuple(Product.__annotations__)
THEORY = tuple(name for name in ARGUMENTS if name not in PRODUCT)
"""The arguments that an application needs first, and those that the theory asks for."""
LIMITED = tuple(name for name, argument in ARGUMENTS.items() if argument.used_by != "all")
"""The arguments that some policies have no use for."""
OF_ANY_WORLD = ("horizon", "changes", "projection")
"""Accepted by every policy, whether or not it has a use for them."""
_COMMON_WORDS = {
    "gamma": "discount",
    "tau": "window",
    "alpha": "bonus_scale",
    "exploration": "bonus_scale",
    "regularization": "lam",
    "reg": "lam",
    "n_arms": "arms",
    "n_features": "dim",
    "context": "features",
    "bias": "intercept",
    "seed": "",
}
"""Words of other libraries, and the arguments that they mean; a seed belongs to the agent."""


def row_of(name: str) -> Row:
    """The row of a name or of an alias."""
    return ROWS[ALIASES.get(name, name)]


def uses(name: str, argument: str) -> bool:
    """Say whether a policy has a use for an argument.

    >>> uses("auto", "discount"), uses("D-GLUCB", "discount")
    (False, True)
    """
    return argument not in ARGUMENTS or _USES[ARGUMENTS[argument].used_by](row_of(name))


def takes(name: str, argument: str) -> bool:
    """Say whether a policy may be given an argument.

    One that tunes itself refuses what would tune it. The others are compared with each other, and
    one dictionary may be given to all of them.
    """
    return uses(name, argument) or argument in OF_ANY_WORLD or not row_of(name).believes


# -- from arguments to a policy --------------------------------------------------------------------


def policy(name: str, **given: Unpack[Given]) -> Policy:
    values = _checked(name, given)
    if given.get("features") is not None and given.get("dim") is not None:
        raise ValueError(
            f"dim must not be given beside features, from which it follows; got {given['dim']!r}"
        )
    for label, argument in ARGUMENTS.items():
        # a value that is the default is none that was given
        ordinary = (argument.default, getattr(ROWS[values["name"]], label, argument.default))
        if values[label] not in ordinary and not takes(name, label):
            raise ValueError(
                f"{label} has no effect on {values['name']} and must not be given; got "
                f"{values[label]!r}. `driftbandits policies` shows what each policy uses."
            )
    made = _made(values)
    features = made.features
    if features is not None and not (features.arm or features.cross or made.separate):
        warnings.warn(
            "features have no column of the arm and no cross, so that all arms look alike and the "
            "choice is left to chance: add a cross such as ('arm', '*'), or arms='separate'",
            UserWarning,
            stacklevel=2,
        )
    return made


def policy_from(arguments: Mapping[str, Any]) -> Policy:
    """The policy whose `arguments` these are."""
    given = dict(arguments)
    return _made(_checked(given.pop("name"), given))


def _lines(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        text = f"{name:<18}{ARGUMENTS[name].says}"
        yield textwrap.fill(text, width=98, subsequent_indent=" " * 18)


policy.__doc__ = "\n".join(
    (
        "A policy by its name, see `policy_names`.",
        "",
        *_lines(PRODUCT),
        "",
        "What the theory asks for:",
        "",
        *_lines(THEORY),
        "",
        "`driftbandits policies` lists which arguments a policy refuses or ignores.",
        "",
        '>>> policy("SW-GLUCB", dim=2, horizon=6000, changes=3).window',
        "252",
    )
)
_TYPES = {label: get_args(hint)[0] for label, hint in _HINTS.items()}
policy.__annotations__ = {"name": str, **_TYPES, "return": Policy}
policy.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str),
        *(
            inspect.Parameter(
                label,
                inspect.Parameter.KEYWORD_ONLY,
                default=argument.default,
                annotation=_TYPES[label],
            )
            for label, argument in ARGUMENTS.items()
        ),
    ],
    return_annotation=Policy,
)


def _checked(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments, each as what it should be; the name of an alias is that of its row."""
    for label in [label for label in given if label not in ARGUMENTS]:
        if label == "seed":
            raise TypeError("policy has no argument seed; give it to Agent(policy, seed=...)")
        meant = _COMMON_WORDS.get(label.casefold()) or checks.nearest(label, ARGUMENTS)
        known = f"perhaps {meant}: {ARGUMENTS[meant].says}" if meant else ", ".join(ARGUMENTS)
        raise TypeError(f"policy has no argument {label}; {known}")
    name = checks.choice("name", name, policy_names())
    values: dict[str, Any] = {"name": ALIASES.get(name, name)}
    for label, argument in ARGUMENTS.items():
        value = given.get(label, argument.default)
        missing = value is None and argument.default is None
        values[label] = None if missing else argument.check(label, value)
    row = ROWS[values["name"]]
    if values["false_alarm_rate"] is None:
        values["false_alarm_rate"] = row.false_alarm_rate
    if values["intercept"] is None:
        by_itself = row.believes or values["features"] is not None
        values["intercept"] = by_itself or values["arms"] == SEPARATE
    values["dim"] = _dimension(values)
    return values


def _dimension(values: Mapping[str, Any]) -> int:
    """That of the features, which for those that may grow is the room that they have."""
    dim, features = values["dim"], values["features"]
    if features is None:
        if dim is None:
            raise ValueError("dim must be given, or features=driftbandits.Features(...); got None")
        return int(dim)
    if values["arms"] == SEPARATE and "arm" in features.kinds():
        raise ValueError(
            "features of separate arms must not name the arm, in a cross or as the column 'id': "
            "all coefficients are the arm's own already"
        )
    if features.is_fitted:
        if dim not in (None, features.dim):
            raise ValueError(f"dim must be {features.dim} for these features; got {dim!r}")
        return int(features.dim)
    least = room_for(features.least_dim, features, intercept=values["intercept"])
    return max(least, dim or 0)


def room_for(coordinates: int, features: Features, *, intercept: bool) -> int:
    """The dimension of a model that has room for so many coordinates of these features.

    Models grow in steps, as each is made anew: 16, 24, 32, 48, 64, 96 ... with the intercept.
    """
    wanted, room = coordinates + intercept, _LEAST_ROOM
    while room < wanted:
        room = room * 3 // 2 if room & (room - 1) == 0 else room * 4 // 3
    return max(_LEAST_ROOM - intercept, min(room - intercept, features.limit))


def _made(values: Mapping[str, Any]) -> Policy:
    name, features, horizon = values["name"], values["features"], values["horizon"]
    row = ROWS[name]
    if values["arms"] == SEPARATE and not row.separable:
        what = "draws" if row.score >= SCALED else "adapts"
        raise ValueError(
            f"arms must be {SHARED} for {name}, which {what} by one model of all actions; "
            f"got {SEPARATE!r}"
        )
    if features is not None and not features.is_fitted and not row.believes:
        raise ValueError(
            f"features must be fitted for {name}, whose bonus follows from the dimension and the "
            "length L of the actions: give features.fit(frame); auto takes them as they are"
        )
    S, L = (1.0, 1.0) if row.believes else (values["S"], values["L"])  # a belief uses neither
    reward = _reward(values, row)
    if reward is None:
        link = links.link("identity" if row.linear else values["link"], m=values["m"])
    else:
        link = reward.link
    model_L = math.sqrt(L**2 + 1.0) if values["intercept"] else L
    setting = Setting(
        problem_of(link, dim=values["dim"] + values["intercept"], S=S, L=model_L),
        horizon=horizon,
        changes=values["changes"],
        path_length=values["path_length"],
    )
    tau, gamma = tuned_memory(name, row, setting, values["window"], values["discount"])
    lam = tuned_penalty(row, setting) if values["lam"] is None else values["lam"]
    resolved = {
        **{"link": link, "reward": reward, "S": S, "L": L},
        **{"lam": float(lam), "window": tau, "discount": gamma},
    }
    return Policy(**{field: {**values, **resolved}[field] for field in Policy.__dataclass_fields__})


def _reward(values: Mapping[str, Any], row: Row) -> rewards.Reward | None:
    text = values["reward"]
    if text is None:
        if values["outside"] is not None:
            raise ValueError(
                f"outside is about the range of a reward: give reward too, as in "
                f"reward='amount:0..500'; got {values['outside']!r}"
            )
        return None
    for label in ("link", "m"):
        if values[label] != ARGUMENTS[label].default:
            raise ValueError(
                f"{label} must not be given with reward={text!r}, from which it follows; "
                f"got {values[label]!r}"
            )
    reward = rewards.reward(
        text,
        outside=values["outside"],
        linear=row.linear,
        any_number=row.believes,
        name=values["name"],
    )
    if values["centre"] and not reward.link.linear:
        raise ValueError(
            f"centre must be 0 for reward={text!r}, whose model is {reward.link.name}; "
            f"got {values['centre']!r}"
        )
    return reward
