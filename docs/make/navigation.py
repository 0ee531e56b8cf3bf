"""In which order the site shows the pages of docs/.

A page that nobody has listed here appears by itself, at the end of the group "Use".
"""

from __future__ import annotations

from collections.abc import Iterable

ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that stand at the top of the repository, and what they are called on the site."""

TITLES = {
    "index.md": "Installation and first steps",
    "which-policy.md": "Which policy?",
    "features.md": "Features",
    "delays.md": "Late rewards, old logs, lists",
    "separate-arms.md": "Separate arms",
    "explain.md": "Explaining a decision",
    "comparing.md": "Comparing with your rule",
    "evaluation.md": "Evaluating a log",
    "moving.md": "Moving from another library",
    "service.md": "Running the service",
    "changing.md": "Changing a configuration",
    "calls.md": "Calls in five languages",
    "deploying.md": "Deploying",
    "scaling.md": "Scaling",
    "reliability.md": "What the service promises",
    "paper.md": "The paper, equation by equation",
    "speed.md": "Exactness and speed",
    "results.md": "Benchmark results",
    "cluster.md": "Experiments on a cluster",
    "extending.md": "Extending",
    "api.md": "Python",
    "client.md": "Python client",
    "policies.md": "Every policy",
}
"""Short titles for the list of pages; the others are called by their headings."""

SECTIONS: dict[str, list[str]] = {
    "Start": ["index.md", "tutorial.md", "which-policy.md", "examples.md"],
    "Use": [
        "features.md",
        "rewards.md",
        "delays.md",
        "separate-arms.md",
        "explain.md",
        "evaluation.md",
        "comparing.md",
        "guardrails.md",
        "moving.md",
    ],
    "Serve": [
        "service.md",
        "calls.md",
        "deploying.md",
        "changing.md",
        "scaling.md",
        "reliability.md",
    ],
    "Science": [
        "paper.md",
        "auto.md",
        "speed.md",
        "report.md",
        "cluster.md",
        "results.md",
        "extending.md",
        "negative-results.md",
        "decisions.md",
    ],
    "Reference": [
        "api.md",
        "client.md",
        "command-line.md",
        "http.md",
        "configuration.md",
        "policies.md",
        "formats.md",
        "metrics.md",
    ],
    "Project": ["changelog.md", "contributing.md"],
}


def navigation(pages: Iterable[str]) -> list[dict[str, object]]:
    """The sections, with those of the pages that there are; decisions are listed below theirs."""
    there = set(pages)
    listed = {page for section in SECTIONS.values() for page in section}
    decisions = sorted(page for page in there if page.startswith("decisions/"))
    new = sorted(there - listed - set(decisions))
    made: list[dict[str, object]] = []
    for title, section in SECTIONS.items():
        own: list[object] = [_titled(page) for page in section if page in there]
        if title == "Use":
            own += map(_titled, new)
        if title == "Science" and decisions:
            own.append({"All decisions": decisions})
        if len(section) == 1:
            made.append({title: section[0]})
        elif own:
            made.append({title: own})
    return made


def _titled(page: str) -> object:
    return {TITLES[page]: page} if page in TITLES else page
