"""Routing: which language model should answer a request, by an embedding of it.

The reward is what a good answer is worth less what the model costs. Half-way the provider of the
small model replaces it by a better one under the same name. Draws language_models.svg: which share
of the requests goes to whom.
"""

import argparse
from pathlib import Path

import numpy as np

import driftbandits as db

PRICE = {"small": 0.1, "medium": 0.5, "large": 2.0}
WORTH = 4.0
EMBEDDING = 24


def main(requests: int, out: Path) -> None:
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(6, EMBEDDING))  # requests are about six things
    skill = {
        "small": rng.normal(-1.0, 1.0, size=6),
        "medium": rng.normal(0.5, 1.0, size=6),
        "large": rng.normal(2.0, 0.5, size=6),
    }
    models = list(PRICE)
    features = db.Features(
        context={"embedding": f"vector:{EMBEDDING}"},
        arm={"id": "category"},
        cross=[("arm", "embedding")],  # each model has coefficients of its own
    )
    router = db.Agent(db.policy("auto", features=features, reward=f"amount:-2..{WORTH}"), seed=0)
    asked, earned = [], {"router": 0.0, **dict.fromkeys(models, 0.0), "best": 0.0}
    for request in range(requests):
        if request == requests // 2:
            skill["small"] = rng.normal(1.5, 1.0, size=6)  # nobody says so
        topic = int(rng.integers(6))
        embedding = topics[topic] + rng.normal(0.0, 0.5, size=EMBEDDING)
        chances = {model: 1 / (1 + np.exp(-skill[model][topic])) for model in models}
        worth = {model: WORTH * chances[model] - PRICE[model] for model in models}
        choice = router.decide(context={"embedding": embedding.tolist()}, arms=models)
        good = rng.random() < chances[str(choice.arm)]
        router.update(choice, WORTH * good - PRICE[str(choice.arm)])
        asked.append(models.index(str(choice.arm)))
        for name, value in (("router", worth[str(choice.arm)]), ("best", max(worth.values()))):
            earned[name] += value / requests
        for model in models:
            earned[model] += worth[model] / requests
    print("worth of an answer, less its price")
    for name, value in earned.items():
        print(f"  {name:7} {value:5.2f}")
    for found in router.detections:
        print(f"request {found.round}: somebody changed at about request {found.change}")
    draw(np.array(asked), models, out)
    print(f"drawn: {out}")


def draw(asked: np.ndarray, models: list[str], out: Path) -> None:
    from matplotlib.figure import Figure

    width = max(1, len(asked) // 30)
    shares = [
        np.convolve(asked == k, np.ones(width) / width, mode="valid") for k in range(len(models))
    ]
    figure = Figure(figsize=(7.0, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.stackplot(
        np.arange(len(shares[0])) + width,
        shares,
        labels=models,
        colors=["#56B4E9", "#0072B2", "#D55E00"],
    )
    axes.axvline(len(asked) // 2, color="black", ls="--", lw=1)
    axes.set(xlabel="request", ylabel="share of requests", ylim=(0, 1), xlim=(width, len(asked)))
    axes.legend(loc="lower right")
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("language_models.svg"))
    given = parser.parse_args()
    main(given.requests, given.out)
