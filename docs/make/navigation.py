"""The order in which the site shows the pages of docs/.

A page that nobody has listed here appears by itself, at the end of the group "Use".
"""

from __future__ import annotations

from collections.abc import Iterable

ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that stand at the top of the repository, and what they are called on the site."""

TITLES = {
    "index.md": "Install and first steps",
    "tutorial.md": "Tutorial",
    "which-policy.md": "Which policy?",
    "comparing.md": "Comparing with your rule",
    "moving.md": "Moving from another library",
    "operating.md": "Operating",
    "paper.md": "The paper, equation by equation",
    "results.md": "Benchmark results",
    "api.md": "Python",
    "policies.md": "Every policy",
}
"""Short titles for the list of pages; the others are called by their headings."""

SECTIONS: dict[str, list[str]] = {
    "Start": ["index.md", "tutorial.md", "which-policy.md", "moving.md"],
    "Use": [
        "features.md",
        "rewards.md",
        "delays.md",
        "separate-arms.md",
        "explain.md",
        "evaluation.md",
        "comparing.md",
        "guardrails.md",
    ],
    "Serve": ["service.md", "client.md", "deploying.md", "operating.md", "scaling.md"],
    "Science": [
        "paper.md",
        "auto.md",
        "speed.md",
        "experiments.md",
        "results.md",
        "extending.md",
        "negative-results.md",
    ],
    "Reference": [
        "api.md",
        "command-line.md",
        "http.md",
        "configuration.md",
        "policies.md",
        "examples.md",
        "decisions.md",
        "changelog.md",
        "contributing.md",
    ],
}


def navigation(pages: Iterable[str]) -> list[dict[str, object]]:
    """Return the sections with the pages that exist; decisions are listed below their page."""
    there = set(pages)
    listed = {page for section in SECTIONS.values() for page in section}
    decisions = sorted(page for page in there if page.startswith("decisions/"))
    new = sorted(there - listed - set(decisions))
    made: list[dict[str, object]] = []
    for title, section in SECTIONS.items():
        own: list[object] = [_titled(page) for page in section if page in there]
        if title == "Use":
            own += map(_titled, new)
        if title == "Reference" and decisions:
            own.append({"All decisions": decisions})
        if own:
            made.append({title: own})
    return made


def _titled(page: str) -> object:
    return {TITLES[page]: page} if page in TITLES else page
