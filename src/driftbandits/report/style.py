"""How a policy looks: the same in every figure, on the page and in print.

Colours are those of Okabe and Ito, which people with any common colour blindness tell apart. The
linear policies are dashed and every policy has a marker of its own, so that a grey print is read
as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from driftbandits.report.recordings import Policies, bonus_of, policy_kind

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
    "greedy": Look("#8C6D1F", "dashdot", "triangle-down"),
    "random": Look("#6b6b6b", "dot", "x"),
}
_OTHERS = (
    Look("#882255", "solid", "star"),
    Look("#44AA99", "dashdot", "cross"),
    Look("#332288", "dot", "pentagon"),
    Look("#999933", "longdash", "hexagon"),
)
_DASHES_OF_A_VARIANT = ("dot", "dashdot", "longdash")
_MARKERS_OF_A_VARIANT = ("triangle-up-open", "triangle-down-open", "star-open")

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


MOST_IN_A_CHART = 6


def panels(policies: Policies) -> dict[float | None, Policies]:
    """What is drawn in one chart each, by bonus_scale: many policies are told apart only so.

    A few policies stay together, under None.
    """
    scales = sorted({bonus_of(policy) for policy in policies.values()}, reverse=True)
    if len(policies) <= MOST_IN_A_CHART or len(scales) == 1:
        return {None: policies}
    return {
        scale: {label: p for label, p in policies.items() if bonus_of(p) == scale}
        for scale in scales
    }


def looks(policies: Policies) -> dict[str, Look]:
    """A look for every label. Variants of one policy share its colour and differ in the rest.

    What stands in another panel may look the same.
    """
    given: dict[str, Look] = {}
    for panel in panels(policies).values():
        times: dict[str, int] = {}
        strangers = 0
        for label, policy in panel.items():
            name = policy_kind(policy)
            nth = times[name] = times.get(name, 0) + 1
            if name in _LOOKS:
                given[label] = _variant(_LOOKS[name], nth - 1)
            else:
                given[label] = _variant(
                    _OTHERS[strangers % len(_OTHERS)], strangers // len(_OTHERS)
                )
                strangers += 1
    return given


def _variant(look: Look, number: int) -> Look:
    """The look itself, then others of its colour."""
    if number == 0:
        return look
    which = (number - 1) % len(_DASHES_OF_A_VARIANT)
    return Look(look.colour, _DASHES_OF_A_VARIANT[which], _MARKERS_OF_A_VARIANT[which])


def translucent(colour: str, opacity: float) -> str:
    """#rrggbb as an rgba() of the page."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
