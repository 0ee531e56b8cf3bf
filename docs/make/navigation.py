"""In which order the site shows the pages of docs/.

A page that nobody has listed here appears by itself, at the end of the how-to pages.
"""

from __future__ import annotations

from collections.abc import Iterable

ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that stand at the top of the repository, and what they are called on the site."""

TITLES = {
    "features.md": "Features and scales",
    "rewards.md": "Rewards",
    "which-policy.md": "Choosing a policy",
    "effects-and-lengths.md": "S and L: effects and lengths",
    "warm-start.md": "Warm start from an old log",
    "comparing.md": "Comparing with your rule",
    "evaluation.md": "Judging another policy from a log",
    "guardrails.md": "Guardrails",
    "ranked-lists.md": "Ranked lists",
    "seasons.md": "Seasons and time of day",
    "separate-arms.md": "Arms with models of their own",
    "fixed-arms.md": "Arms without features",
    "debugging.md": "Debugging one decision",
    "service.md": "Running the service",
    "changing.md": "Changing a configuration",
    "calls.md": "The same calls in five languages",
    "deploying.md": "Deploying",
    "scaling.md": "Many processes and machines",
    "personalizer.md": "Moving from Personalizer",
    "moving.md": "Moving from other libraries",
    "language-models.md": "Choosing between language models",
    "extending.md": "Your own policy, world or reward",
    "cluster.md": "Experiments on a cluster",
    "api.md": "Python",
    "client.md": "Python client",
    "paper.md": "The paper and its map",
    "policies.md": "Every policy",
    "speed.md": "The estimator and its speed",
    "reliability.md": "What the service promises",
}
"""Short titles for the list of pages; the others are called by their headings."""

SECTIONS: dict[str, list[str]] = {
    "Start": ["index.md"],
    "Tutorial": ["tutorial.md"],
    "How-to": [
        "features.md",
        "rewards.md",
        "which-policy.md",
        "effects-and-lengths.md",
        "warm-start.md",
        "comparing.md",
        "evaluation.md",
        "guardrails.md",
        "ranked-lists.md",
        "seasons.md",
        "separate-arms.md",
        "fixed-arms.md",
        "debugging.md",
        "service.md",
        "changing.md",
        "calls.md",
        "deploying.md",
        "scaling.md",
        "personalizer.md",
        "moving.md",
        "language-models.md",
        "extending.md",
        "cluster.md",
    ],
    "Reference": [
        "api.md",
        "client.md",
        "command-line.md",
        "http.md",
        "configuration.md",
        "formats.md",
        "metrics.md",
        "examples.md",
    ],
    "Science": [
        "paper.md",
        "policies.md",
        "auto.md",
        "streams.md",
        "speed.md",
        "reliability.md",
        "report.md",
        "negative-results.md",
        "decisions.md",
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
        if title == "How-to":
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
