"""Ratings: films with one to five stars, which come days after the film was proposed.

Prints the mean rating of what was proposed, and what the model expects of one viewer with its
uncertainty, in stars.
"""

import argparse
from collections import deque

import numpy as np

import driftbandits as db

GENRES = ("crime", "comedy", "drama", "documentary")


def main(viewers: int) -> None:
    rng = np.random.default_rng(5)
    features = db.Features(
        context={"age": "number", "weekend": "flag"},
        arm={"genre": "category", "minutes": "number"},
        cross=[("genre", "age"), ("minutes", "weekend")],
    )
    agent = db.Agent(db.policy("auto", features=features, reward="rating:1..5"), seed=0)
    by_age = {"crime": 0.02, "comedy": -0.04, "drama": 0.03, "documentary": 0.0}
    waiting: deque[tuple[int, float]] = deque()
    given, random = [], []
    for viewer in range(viewers):
        age, weekend = int(rng.integers(15, 80)), bool(viewer // 50 % 7 >= 5)
        films = {
            f"film-{k}": {"genre": GENRES[rng.integers(4)], "minutes": int(rng.integers(60, 180))}
            for k in rng.choice(200, size=8, replace=False)
        }

        def stars(film: dict[str, object], age: int = age, weekend: bool = weekend) -> float:
            length = (float(film["minutes"]) - 110) / 60
            liking = by_age[str(film["genre"])] * (age - 45) + (0.8 if weekend else -0.8) * length
            return 1.0 + rng.binomial(4, 1 / (1 + np.exp(-liking)))

        choice = agent.decide(context={"age": age, "weekend": weekend}, arms=films)
        waiting.append((choice.id, stars(films[str(choice.arm)])))
        if len(waiting) > 100:  # a rating comes when a hundred others have chosen
            agent.update(*waiting.popleft())
        given.append(waiting[-1][1])
        random.append(stars(films[next(iter(films))]))
    print(f"{'viewers':>8}{'proposed':>10}{'at random':>11}")
    for begin in range(0, viewers, viewers // 6):
        part = slice(begin, begin + viewers // 6)
        print(f"{part.stop:8}{np.mean(given[part]):10.2f}{np.mean(random[part]):11.2f}")
    print("\nthe last viewer, in stars:")
    print("\n".join(agent.explain(choice).table().splitlines()[:10]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=3000)
    main(parser.parse_args().viewers)
