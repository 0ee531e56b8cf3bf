"""`auto` with the columns and arms that people have, beside LinUCB and Vowpal Wabbit.

python benchmarks/zoo.py --seeds 2 --stream digits,clusters --prep raw,std --player auto,LinUCB

Every labelled table that the installed packages carry is played raw and after each preparation of
`zoo_columns.py`. A row comes, its class is to be named, and only the chosen arm's reward is shown.
A seed is an order of the rows. Then come worlds of many arms, and tables of visits that one model
with features learns from. LinUCB and Vowpal Wabbit see the same numbers as `auto`, and of their
settings the best counts. A ceiling sees the rewards of all arms: an online logistic regression,
which is no ceiling where columns are many and weak. `--quick` takes two minutes, everything about
ten a seed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from zoo_columns import ABSURD, INVERTIBLE, PREPARATIONS, with_absurd
from zoo_players import chosen_by, player_labels, way_to_best
from zoo_streams import ABSURD_VISITS, TABLES, WORLDS, Floats, table_task, visits

AFTERMATH = 200
"""Rounds after the first absurd number from which on a loss counts."""
QUICK = ("digits", "phishing", "segment", "clusters-20", "clusters-40", "features")
QUICK_ROWS = 1000


class Cell(NamedTuple):
    """One stream after one preparation, played by one player with one seed."""

    stream: str
    prep: str
    player: str
    seed: int
    share: float  # of right choices
    aftermath: float  # the same, from AFTERMATH rounds after the first absurd number on
    clean: float  # the same rounds of the raw stream
    useless: int  # plays of the last arm, where it never pays


def cells_of(
    name: str, seed: int, preps: Iterable[str], players: list[str], most: int
) -> Iterable[Cell]:
    """Play a stream. Raw comes first: what is absurd is compared with it."""
    world = WORLDS.get(name)
    task = world(np.random.default_rng(seed), most) if world else table_task(name, seed, most)
    rounds = np.arange(len(task.contexts))
    raw: dict[str, Floats] = {}
    for prep in preps:
        rng = np.random.default_rng([seed, 1])
        hit = np.zeros(len(rounds), dtype=bool)
        if prep in ABSURD:
            contexts, hit = with_absurd(task.contexts, ABSURD[prep], rng)
        else:
            contexts = PREPARATIONS[prep](task.contexts, rng)
        after = rounds >= (np.flatnonzero(hit)[0] + AFTERMATH if hit.any() else len(rounds))
        for player in players:
            if player == "ceiling" and (task.arms != task.arms[0]).any():
                continue  # its arms stay
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numbers are meant to be absurd
                chosen = chosen_by(player, task._replace(contexts=contexts), seed)
            right = task.rewards[rounds, chosen]
            if prep == "raw":
                raw[player] = right
            last = task.rewards.shape[1] - 1
            yield Cell(
                *(name, prep, player, seed, float(right.mean())),
                aftermath=float(right[after].mean()) if after.any() else np.nan,
                clean=float(raw[player][after].mean()) if after.any() and player in raw else np.nan,
                useless=int((chosen == last).sum()) if name == "useless-arm" else 0,
            )


def best_of(cells: list[Cell], kind: str) -> tuple[float, str]:
    """The mean over seeds of the best player of a kind, and its setting."""
    labels = {cell.player for cell in cells if cell.player.split(" ")[0] == kind}
    means = {p: float(np.mean([c.share for c in cells if c.player == p])) for p in labels}
    best = max(means, key=lambda p: means[p], default="")
    return means.get(best, np.nan), best.partition(" ")[2]


def line_of(prep: str, cells: list[Cell]) -> str:
    found = [best_of(cells, kind) for kind in ("auto", "LinUCB", "VW", "ceiling")]
    text = "".join(f"{share:9.3f} {setting:<9}" for share, setting in found)
    mine = [cell for cell in cells if cell.player == "auto"]
    if any(cell.useless for cell in mine):
        text += f"  auto plays the useless arm {np.mean([c.useless for c in mine]):.0f} times"
    return f"{prep:<16}{text}"


def summary(cells: list[Cell]) -> dict[str, float]:
    """The worst of every kind, in points."""
    by = {(c.stream, c.prep): [] for c in cells}  # type: ignore[var-annotated]
    for cell in cells:
        by[cell.stream, cell.prep].append(cell)
    auto = {key: best_of(found, "auto")[0] for key, found in by.items()}
    figures = {}

    def worst(what: str, losses: dict[Any, float]) -> None:
        known = {key: loss for key, loss in losses.items() if np.isfinite(loss)}
        if known:
            at = max(known, key=lambda key: known[key])
            where = at if isinstance(at, str) else ", ".join(at)
            figures[f"{what} ({where})"] = 100.0 * known[at]

    for kind in ("VW", "LinUCB"):
        worst(f"loss to the best {kind}", {k: best_of(f, kind)[0] - auto[k] for k, f in by.items()})
    for stream_name in dict.fromkeys(stream_name for stream_name, _ in by):
        for what, group in (("", INVERTIBLE), (" of levels", ("levels", "levels-less"))):
            shares = [auto[stream_name, prep] for prep in group if (stream_name, prep) in auto]
            if len(shares) > 1 and np.isfinite(shares).all():
                figures[f"spread{what}, {stream_name}"] = 100.0 * float(np.ptp(shares))
    lost = {
        key: float(np.mean([c.clean - c.aftermath for c in found if c.player == "auto"] or np.nan))
        for key, found in by.items()
        if key[1] in ABSURD
    }
    worst("loss by absurd numbers", lost)
    return figures


def play_features(seeds: int, rounds: int) -> dict[str, float]:
    """Play visits as tables, some with absurd numbers."""
    figures = {}
    print(f"\nfeatures, {rounds} visits: share of the way from random to best, second half")
    for items in (5, 40):
        for absurd in ABSURD_VISITS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shares = [
                    way_to_best(visits(items, absurd, np.random.default_rng(seed), rounds), seed)
                    for seed in range(seeds)
                ]
            figures[f"features, {items} items, {absurd}"] = float(np.mean(shares))
            print(f"{items:>3} items, {absurd:<24}{np.mean(shares):7.3f}", flush=True)
    return figures


# -- the command -----------------------------------------------------------------------------------


def wanted(names: Iterable[str], given: str | None) -> list[str]:
    """Those that contain one of the given words; all unless some are given."""
    return [n for n in names if not given or any(w in n for w in given.split(","))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="orders of the rows")
    parser.add_argument("--stream", help="only streams that contain one of these, by commas")
    parser.add_argument(
        "--prep", help="only these preparations, by commas; absurd ones need raw beside them"
    )
    parser.add_argument("--player", help="only players that contain one of these, by commas")
    parser.add_argument("--rows", type=int, default=4000, help="most rows of a table")
    parser.add_argument("--rounds", type=int, default=5000, help="of the worlds of many arms")
    parser.add_argument("--quick", action="store_true", help="a few streams, 1,000 rows, one seed")
    parser.add_argument("--out", type=Path, default=Path("results/zoo.json"))
    given = parser.parse_args()
    if given.quick:
        given.seeds, given.rows, given.rounds = 1, QUICK_ROWS, 2 * QUICK_ROWS
    missing = {package for package, _ in TABLES.values() if not find_spec(package)}
    missing |= {name for name in ("vowpalwabbit",) if not find_spec(name)}
    if missing:
        print(f"not installed: pip install {' '.join(sorted(missing))}")
    names = [*(n for n, (p, _) in TABLES.items() if p not in missing), *WORLDS, "features"]
    names = wanted(names, given.stream or (",".join(QUICK) if given.quick else None))
    only = given.prep.split(",") if given.prep else None
    preps = [p for p in (*PREPARATIONS, *ABSURD) if only is None or p in only]
    players = wanted(player_labels(), given.player)
    cells: list[Cell] = []
    for name in names:
        if name == "features":
            continue
        before = time.perf_counter()
        here = preps if name in TABLES else [p for p in preps if p == "raw"]
        most = given.rows if name in TABLES else given.rounds
        runs = [cells_of(name, seed, here, players, most) for seed in range(given.seeds)]
        print(f"\n{name:<16}{'auto':>9}{'LinUCB':>19}{'VW':>19}{'ceiling':>19}")
        cells += [cell for run in runs for cell in run]
        for prep in here:
            print(line_of(prep, [c for c in cells if (c.stream, c.prep) == (name, prep)]))
        print(f"{time.perf_counter() - before:.0f} s", flush=True)
    figures = summary(cells)
    print("\nworst of all, in points")
    for what, value in figures.items():
        print(f"{what:<64}{value:7.1f}")
    if "features" in names and (not given.player or "auto" in given.player):
        figures |= play_features(given.seeds, min(given.rounds, 4000))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(
        json.dumps({"cells": [c._asdict() for c in cells], "figures": figures}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
