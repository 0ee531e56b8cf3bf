"""The look of a policy: the same in every figure, on the page and in print.

Colours are those of Okabe and Ito, which people with any common colour blindness tell apart. The
linear policies are dashed and every policy has a marker of its own, so that a grey print is read
as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from driftbandits.policies import ALIASES

INK, QUIET, FAINT = "#222222", "#6b6b6b", "#d9d9d6"


class Look(NamedTuple):
    """Colour, and dash and marker under the names of plotly."""

    colour: str
    dash: str
    marker: str


_LOOKS: Mapping[str, Look] = {
    "D-GLUCB": Look("#0072B2", "solid", "circle"),
    "SW-GLUCB": Look("#D55E00", "solid", "square"),
    "LogisticUCB": Look("#009E73", "solid", "diamond"),
    "D-LinUCB": Look("#56B4E9", "dash", "circle-open"),
    "SW-LinUCB": Look("#E69F00", "dash", "square-open"),
    "LinUCB": Look("#CC79A7", "dash", "diamond-open"),
    "LogisticUCB, restarted": Look("#000000", "solid", "triangle-up"),
    "auto": Look("#882255", "solid", "star"),
    "greedy": Look("#8C6D1F", "dashdot", "triangle-down"),
    "random": Look("#6b6b6b", "dot", "x"),
}
_OTHERS = (
    Look("#44AA99", "dashdot", "cross"),
    Look("#332288", "dot", "pentagon"),
    Look("#999933", "longdash", "hexagon"),
)
_DASHES_OF_A_VARIANT = ("dot", "dashdot", "longdash")
_MARKERS_OF_A_VARIANT = ("triangle-up-open", "triangle-down-open", "star-open")

SVG_DASH = {"solid": "", "dash": "6 3", "dot": "2 2", "dashdot": "7 3 2 3", "longdash": "10 4"}
MATPLOTLIB_DASH: Mapping[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": (0, (6, 2, 1, 2)),
    "longdash": (0, (9, 3)),
}
MATPLOTLIB_MARKER: Mapping[str, str] = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "x": "x",
    "star": "*",
    "cross": "P",
    "pentagon": "p",
    "hexagon": "h",
}


def looks(policies: Mapping[str, Mapping[str, Any]]) -> dict[str, Look]:
    """Give every label a look. Variants of one policy share its colour and differ in the rest."""
    given: dict[str, Look] = {}
    times: dict[str, int] = {}
    strangers = 0
    for label, policy in policies.items():
        kind = ALIASES.get(policy["name"], str(policy["name"]))
        kind += ", restarted" if policy.get("restart") else ""
        if kind in _LOOKS:
            look, number = _LOOKS[kind], times.get(kind, 0)
            times[kind] = number + 1
        else:
            number, which = divmod(strangers, len(_OTHERS))
            look = _OTHERS[which]
            strangers += 1
        if number:
            which = (number - 1) % len(_DASHES_OF_A_VARIANT)
            look = Look(look.colour, _DASHES_OF_A_VARIANT[which], _MARKERS_OF_A_VARIANT[which])
        given[label] = look
    return given
