"""Every figure of README and docs: what measures it, what it measures, and where it stands.

    python benchmarks/figures.py --status           which are older than the code they measure
    python benchmarks/figures.py --only speed        measure one again, and write it down
    python benchmarks/figures.py                     all of them, one after the other: hours

A figure is measured from sources without uncommitted changes. The commit that is written beside it
is the last one that changed them, and it is as new as the code while that is still so.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import tables
from tables import with_table

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ".venv/bin/python"
PEERS = ".venv-peers/bin/python"

_SOURCE = "src/driftbandits/"
_KERNELS = tuple(
    _SOURCE + name
    for name in ("jit", "links", "linalg.py", "theory", "estimator", "policies", "simulation")
)
_AGENT = (*_KERNELS, _SOURCE + "agent")
_FEATURES = (*_AGENT, _SOURCE + "features")
_WORLDS = (_SOURCE + "environments",)
_SERVICE = (*_AGENT, _SOURCE + "service", _SOURCE + "store")
_FAULTS = (
    *(_SOURCE + "service", _SOURCE + "store", "tests/torture"),
    *(f":(exclude)tests/torture/{name}.py" for name in ("soak", "test_soak")),
)

Lines = Callable[[str], list[str]]
"""From what the commands printed to the lines of a place."""


@dataclass(frozen=True)
class Figure:
    """One thing that is measured.

    commands  run one after the other at the top of the repository
    sources   whose changes make it old
    places    (page, name) -> its lines; None where a command writes them itself, or draws
    pictures  files that the commands draw
    minutes   about, on two cores that are free
    """

    name: str
    commands: tuple[str, ...]
    sources: tuple[str, ...]
    places: dict[tuple[str, str], Lines | None] = field(default_factory=dict)
    pictures: tuple[str, ...] = ()
    minutes: float = 1.0


def _printed(text: str) -> list[str]:
    """As it was printed."""
    return ["```text", *(line.rstrip() for line in text.strip().split("\n")), "```"]


def _page(name: str, *, pictures: tuple[str, ...] = (), sources: tuple[str, ...]) -> Figure:
    """What the programs of a page print and draw."""
    return Figure(
        name=name,
        commands=(f"{PYTHON} docs/make/programs.py docs/{name}.md --write",),
        sources=sources,
        places={(f"docs/{name}.md", "programs"): None},
        pictures=pictures,
        minutes=0.3,
    )


_RATES = (1000, 2000, 3000, 4000)
_PARTS_OF_THE_SUITE = (
    *("at-rest", "false-alarms", "fixed-arms", "quiet", "rare-rewards", "units"),
)

FIGURES = (
    Figure(
        name="one-run",
        commands=(f"{PYTHON} benchmarks/which_policy.py --policy auto",),
        sources=(*_AGENT, *_WORLDS, "benchmarks/which_policy.py"),
        places={("docs/which-policy.md", "one run"): None},
        pictures=("docs/figures/one-run.svg",),
        minutes=0.2,
    ),
    Figure(
        name="suite",
        commands=("make suite",),
        sources=(
            *_KERNELS,
            *_WORLDS,
            "experiments/suite.toml",
            *(f"experiments/suite-{part}.toml" for part in _PARTS_OF_THE_SUITE),
        ),
        places={
            ("docs/which-policy.md", name): None
            for name in (
                *("reached", "suite", "worlds"),
                *("fixed arms", "fixed arms by world", "at rest", "units"),
            )
        },
        minutes=30,
    ),
    Figure(
        name="sensitivity",
        commands=(f"{PYTHON} benchmarks/sensitivity.py",),
        sources=(*_KERNELS, *_WORLDS, "experiments/suite.toml", "benchmarks/sensitivity.py"),
        places={("docs/auto.md", "sensitivity"): lambda told: told.strip().split("\n")},
        minutes=20,
    ),
    Figure(
        name="still",
        commands=(f"{PYTHON} benchmarks/hard_worlds.py still",),
        sources=(*_KERNELS, *_WORLDS, "benchmarks/hard_worlds.py"),
        places={("docs/auto.md", "still"): _printed},
        minutes=5,
    ),
    Figure(
        name="guardrails",
        commands=(f"{PYTHON} benchmarks/guardrails.py",),
        sources=(
            *_AGENT,
            _SOURCE + "service/guardrails.py",
            _SOURCE + "service/accounts.py",
            "benchmarks/guardrails.py",
        ),
        places={
            ("docs/guardrails.md", "budgets"): lambda told: _printed(told.split("\n\n")[0]),
            ("docs/guardrails.md", "shares"): lambda told: _printed(told.split("\n\n")[1]),
        },
        minutes=10,
    ),
    Figure(
        name="speed",
        commands=(f"{PYTHON} benchmarks/speed.py",),
        sources=(*_AGENT, "benchmarks/speed.py", "benchmarks/yardstick.py"),
        places={
            ("docs/speed.md", "speed"): lambda _: tables.speed_table(),
            ("docs/speed.md", "first use"): lambda _: tables.first_use_table(),
        },
        minutes=10,
    ),
    Figure(
        name="dimensions",
        commands=(f"{PYTHON} benchmarks/dimensions.py",),
        sources=(*_AGENT, "benchmarks/dimensions.py"),
        places={
            ("docs/speed.md", "dimensions"): lambda _: tables.dimensions_table(
                "dimensions.json", goals=True
            )
        },
        minutes=10,
    ),
    Figure(
        name="other-dimensions",
        commands=(
            f"{PYTHON} benchmarks/dimensions.py --others --out results/other-dimensions.json",
        ),
        sources=(*_AGENT, "benchmarks/dimensions.py"),
        places={
            ("docs/speed.md", "other dimensions"): lambda _: tables.dimensions_table(
                "other-dimensions.json", goals=False
            )
        },
        minutes=10,
    ),
    Figure(
        name="separate-arms",
        commands=(f"{PYTHON} benchmarks/separate_arms.py",),
        sources=(*_AGENT, "benchmarks/separate_arms.py"),
        places={("docs/speed.md", "separate arms"): _printed},
        minutes=2,
    ),
    Figure(
        name="growth",
        commands=(f"{PYTHON} benchmarks/growth.py",),
        sources=(*_KERNELS, "benchmarks/growth.py", "benchmarks/yardstick.py"),
        places={
            ("docs/speed.md", f"growth of {what}"): None
            for what in ("dimension", "arms", "window", "horizon")
        },
        pictures=tuple(
            f"docs/figures/speed-{what}.svg" for what in ("dimension", "arms", "window", "horizon")
        ),
        minutes=15,
    ),
    Figure(
        name="peers",
        commands=("make -s peers", f"{PEERS} benchmarks/peers/compare.py"),
        sources=(*_AGENT, "benchmarks/peers/compare.py"),
        places={("docs/speed.md", "peers"): lambda _: tables.peers_table()},
        minutes=15,
    ),
    Figure(
        name="streams",
        commands=(
            "make -s peers",
            f"{PEERS} benchmarks/peers/compare_streams.py --runs 6",
            f"{PEERS} benchmarks/streams.py --runs 6 --policy 'D-LinUCB x0.03'",
        ),
        sources=(
            *_AGENT,
            *_WORLDS,
            "benchmarks/peers/compare_streams.py",
            "experiments/streams.toml",
        ),
        places={("docs/streams.md", "streams"): lambda _: tables.streams_table()},
        minutes=12,
    ),
    Figure(
        name="shop",
        commands=(".venv/bin/driftbandits run shop --out results/figures",),
        sources=(*_FEATURES, *_WORLDS, "experiments/shop.toml"),
        places={
            ("docs/features.md", "shop"): lambda _: tables.shop_table(Path("results/figures/shop"))
        },
        minutes=10,
    ),
    Figure(
        name="service",
        commands=tuple(
            f"{PYTHON} benchmarks/service.py --pairs-per-second {rate} --out"
            f" results/service-{rate}.json"
            for rate in _RATES
        ),
        sources=(*_SERVICE, "benchmarks/service.py"),
        places={
            ("docs/service.md", "service"): lambda _: tables.service_table(
                [f"service-{rate}.json" for rate in _RATES]
            )
        },
        minutes=5,
    ),
    Figure(
        name="disk",
        commands=(
            f"{PYTHON} benchmarks/syncs.py",
            *(
                f"TMPDIR=/dev/shm {PYTHON} benchmarks/service.py --pairs-per-second {rate} --out"
                f" results/service-memory-{rate}.json"
                for rate in (2000, 3000)
            ),
        ),
        sources=(*_SERVICE, "benchmarks/service.py", "benchmarks/syncs.py"),
        places={
            ("docs/service.md", "disk"): lambda told: [
                told.split("\n")[0],
                "",
                *tables.service_table([f"service-memory-{rate}.json" for rate in (2000, 3000)]),
            ]
        },
        minutes=3,
    ),
    Figure(
        name="coverage",
        commands=(f"{PYTHON} benchmarks/interval_coverage.py",),
        sources=(*_AGENT, _SOURCE + "evaluate", "benchmarks/interval_coverage.py"),
        places={("docs/evaluation.md", "coverage"): lambda text: text.strip().split("\n")},
        minutes=3,
    ),
    Figure(
        name="lift",
        commands=(f"{PYTHON} benchmarks/lift.py",),
        sources=(_SOURCE + "sequences.py", "benchmarks/lift.py"),
        places={("docs/comparing.md", "lift"): lambda text: text.strip().split("\n")},
        minutes=8,
    ),
    Figure(
        name="torture",
        commands=("make -s faults",),
        sources=_FAULTS,
        places={("docs/reliability.md", "torture"): lambda _: tables.torture_table()},
        minutes=90,
    ),
    Figure(
        name="thousand-kills",
        commands=(
            "TORTURE_KILLS=1000 .venv/bin/pytest --quiet --junitxml results/kills.xml "
            "tests/torture/test_kills.py -k test_kills_of_the_server",
        ),
        sources=_FAULTS,
        places={
            ("docs/reliability.md", "thousand-kills"): lambda _: tables.torture_table("kills.xml")
        },
        minutes=120,
    ),
    Figure(
        name="hour",
        commands=("make -s soak",),
        sources=(_SOURCE + "service", _SOURCE + "store", "tests/torture/soak.py"),
        places={
            ("docs/reliability.md", "hour"): lambda told: _printed(
                "\n".join(told.strip().split("\n")[-2:])
            )
        },
        minutes=60,
    ),
    Figure(
        name="year",
        commands=(f"{PYTHON} benchmarks/year.py --events 1000000",),
        sources=(*_SERVICE, "benchmarks/year.py"),
        places={
            ("docs/reliability.md", "year"): lambda told: _printed(
                re.sub(r"^ .*\n|, in \S+/archive$", "", told, flags=re.MULTILINE)
            )
        },
        minutes=8,
    ),
    Figure(
        name="relearning",
        commands=(f"{PYTHON} benchmarks/relearning.py",),
        sources=(*_SERVICE, "benchmarks/relearning.py"),
        places={("docs/changing.md", "relearning"): _printed},
        minutes=5,
    ),
    Figure(
        name="outages",
        commands=(f"{PYTHON} benchmarks/outages.py",),
        sources=(*_SERVICE, _SOURCE + "client", "benchmarks/outages.py"),
        places={("docs/calls.md", "outages"): lambda _: tables.outages_table()},
        minutes=3,
    ),
    Figure(
        name="neighbours",
        commands=(f"{PYTHON} benchmarks/neighbours.py",),
        sources=(*_SERVICE, "benchmarks/neighbours.py"),
        places={("docs/reliability.md", "neighbours"): _printed},
        minutes=3,
    ),
    Figure(
        name="processes",
        commands=(f"{PYTHON} benchmarks/processes.py",),
        sources=(*_SERVICE, "benchmarks/processes.py", "benchmarks/service.py"),
        places={
            ("docs/scaling.md", "processes"): lambda told: (
                told.strip().split("\n\n", 1)[1].split("\n")
            )
        },
        minutes=8,
    ),
    Figure(
        name="staleness",
        commands=(f"{PYTHON} benchmarks/staleness.py",),
        sources=(*_AGENT, *_WORLDS, "benchmarks/staleness.py"),
        places={("docs/scaling.md", "staleness"): lambda told: told.strip().split("\n")},
        minutes=5,
    ),
    _page(
        "tutorial",
        pictures=("docs/figures/tutorial-clicks.svg",),
        sources=(*_FEATURES, *_WORLDS),
    ),
    *(
        _page(name, sources=(*_FEATURES, *_WORLDS))
        for name in ("warm-start", "seasons", "debugging", "language-models", "extending")
    ),
)


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def newest_change(figure: Figure) -> str:
    """The last commit that changed what a figure measures."""
    return git("log", "-1", "--format=%h", "--abbrev=7", "--", *figure.sources)


def age(figure: Figure, commit: str) -> str:
    """What is to be said of a figure of that commit; nothing where it is as new as the code."""
    try:
        git("merge-base", "--is-ancestor", commit, "HEAD")
    except subprocess.CalledProcessError:
        return f"{commit} is no commit before this one"
    later = git("log", "--format=%h", f"{commit}..HEAD", "--", *figure.sources).split()
    if later:
        return f"older than the code: {len(later)} commits since {commit}, the last {later[0]}"
    if git("status", "--porcelain", "--", *figure.sources):
        return "older than the code: there are changes without a commit"
    return ""


def status(chosen: list[Figure]) -> None:
    """Print how old every figure is."""
    for figure in chosen:
        for page, name in figure.places:
            commit = tables.places((ROOT / page).read_text(encoding="utf-8"))[name]
            said = age(figure, commit) or "as new as the code"
            print(f"{figure.name:17} {page:24} {name:20} {said}")


def make(figure: Figure) -> None:
    """Measure, and write down what came out with the commit of what was measured."""
    dirty = git("status", "--porcelain", "--", *figure.sources)
    if dirty:
        raise SystemExit(f"commit what {figure.name} measures first:\n{dirty}")
    commit = newest_change(figure)
    print(f"==> {figure.name}: about {figure.minutes:g} minutes", flush=True)
    began, printed = time.monotonic(), []
    for command in figure.commands:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                printed.append(line)
                print(f"    {line}", end="", flush=True)
        if process.returncode != 0:
            raise SystemExit(f"{figure.name}: {command} ended with {process.returncode}")
    for (page, name), lines in figure.places.items():
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        made = None if lines is None else lines("".join(printed))
        path.write_text(with_table(text, name, made, commit=commit), encoding="utf-8")
    print(f"==> {figure.name}: done in {(time.monotonic() - began) / 60:.1f} minutes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", choices=[figure.name for figure in FIGURES])
    parser.add_argument("--status", action="store_true", help="measure nothing")
    parser.add_argument("--old", action="store_true", help="only those older than the code")
    given = parser.parse_args()
    chosen = [f for f in FIGURES if not given.only or f.name in given.only]
    os.chdir(ROOT)
    if given.status:
        status(chosen)
        return
    for figure in chosen:
        commits = {tables.places((ROOT / page).read_text())[name] for page, name in figure.places}
        if not given.old or any(age(figure, commit) for commit in commits):
            make(figure)
    status(chosen)


if __name__ == "__main__":
    main()
