"""Routing: which language model should answer a request, by an embedding of it, on a budget?

    python examples/language_models.py                                 # in this process
    driftbandits serve --no-auth &
    python examples/language_models.py --service http://127.0.0.1:8080

With `pip install paretobandit` it plays the 3,609 prompts of that package, with the judged answers
and the costs of three models; without it, simulated requests. In both, one model gets worse after
30 %, a new one appears half-way, and the dearest costs a tenth after 75 %; nobody says so.

To make it yours, replace `requests()` by your traffic, and `quality` and `cost` by what you see of
an answer. Here are two ways to keep a budget:

- `Router` subtracts a price from the scores, which rises while too much is spent. Do not subtract
  costs from the rewards for that: a reward that moves with the price is hard to learn.
- `ServedRouter` lets the service cap the share of requests that the dear model may answer.
"""

import argparse
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import driftbandits as db
from driftbandits.bench import Task, read_task

MODELS = ("small", "medium", "large", "newer")
DEAR = "large"


class Request(NamedTuple):
    """A prompt, and what each model would make of it."""

    embedding: list[float]
    models: list[str]  # on offer
    quality: dict[str, float]  # of each model's answer, in 0..1: you see that of the chosen one
    cost: dict[str, float]  # in dollars


def features(dim: int) -> db.Features:
    """Each model has coefficients of its own, and they share what they have in common."""
    return db.Features(
        context={"embedding": f"vector:{dim}"},
        arm={"id": "category"},
        cross=[("arm", "embedding")],
    )


class Router:
    """Learns the quality alone, and pays for it by a penalty that keeps the budget."""

    def __init__(self, dim: int, budget: float) -> None:
        policy = db.policy("auto", features=features(dim), reward="click")  # a share is fine, too
        self.agent = db.Agent(policy, seed=0)
        self.budget, self.spent, self.penalty = budget, budget, 0.01
        self.costs = dict.fromkeys(MODELS, budget)  # what a request to each has cost lately

    def choose(self, request: Request) -> str:
        seen = {"embedding": request.embedding}
        scores = self.agent.preview(context=seen, arms=request.models, seed=0).scores
        worth = [
            score - self.penalty * self.costs[model] / self.budget
            for model, score in zip(request.models, scores, strict=True)
        ]
        best = int(np.argmax(worth))
        self.choice = self.agent.decide(context=seen, arms=request.models, played=best)
        return request.models[best]

    def learn(self, model: str, quality: float, cost: float) -> None:
        self.agent.update(self.choice, quality)
        self.costs[model] += 0.02 * (cost - self.costs[model])
        self.spent += 0.05 * (cost - self.spent)
        self.penalty *= float(np.exp(0.02 * np.clip(self.spent / self.budget - 1, -1, 1)))


class ServedRouter:
    """The same over HTTP: at most so many of any requests may go to the dear model."""

    def __init__(self, url: str, dim: int, budget: float, prices: dict[str, float]) -> None:
        from driftbandits.client import Client

        cheap = float(np.mean([price for model, price in prices.items() if model != DEAR]))
        share = float(np.clip((budget - cheap) / (prices[DEAR] - cheap), 0.01, 1.0))
        self.client, self.count = Client(url, key=os.environ.get("DRIFTBANDITS_KEY")), 0
        self.client.put_policy(
            "router",
            "auto",
            features=features(dim),
            reward="click",
            shares={DEAR: [0.0, share]},
        )

    def choose(self, request: Request) -> str:
        self.count += 1
        return self.client.decide(
            "router",
            request.models,
            context={"embedding": request.embedding},
            event_id=f"request-{self.count}",
        ).arm

    def learn(self, model: str, quality: float, cost: float) -> None:
        self.client.reward("router", f"request-{self.count}", quality)


def traffic(count: int) -> tuple[Task, str]:
    """Real prompts where they are installed, else simulated ones."""
    try:
        return read_task("routing-budget").draw(0, count), "the prompts of paretobandit"
    except ImportError:
        pass
    rng = np.random.default_rng(0)
    about, topics = rng.integers(6, size=count), rng.normal(size=(6, 24))
    skill = np.clip(rng.normal([0.75, 0.9, 0.95], [0.15, 0.05, 0.03], size=(6, 3)), 0, 1)
    skill = skill[:, [0, 1, 2, 1]]
    quality = np.clip(rng.normal(skill[about], 0.1), 0, 1)
    quality[int(0.3 * count) :, 1] = quality[int(0.3 * count) :, 0]
    costs = rng.lognormal(np.log([3e-5, 5e-4, 1.2e-2, 5e-4]), 0.5, size=(count, 4))
    costs[int(0.75 * count) :, 2] /= 10
    arms = np.tile(np.arange(4), (count, 1))
    arms[: count // 2, 3] = -1
    contexts = topics[about] + rng.normal(0, 0.5, size=(count, 24))
    return Task(contexts, quality, arms, costs, budget=0.002), "simulated requests"


def requests(task: Task) -> Iterator[Request]:
    for t in range(task.horizon):
        yield Request(
            task.contexts[t].tolist(),
            [MODELS[arm] for arm in task.arms[t] if arm >= 0],
            dict(zip(MODELS, task.rewards[t].tolist(), strict=True)),
            dict(zip(MODELS, task.costs[t].tolist(), strict=True)),
        )


def main(count: int, service: str | None) -> None:
    task, source = traffic(count)
    prices = dict(zip(MODELS, task.costs[: count // 10].mean(axis=0), strict=True))
    dim = task.contexts.shape[1]
    if service:
        router: Router | ServedRouter = ServedRouter(service, dim, task.budget, prices)
    else:
        router = Router(dim, task.budget)
    asked, quality, spent = [], [], []
    for request in requests(task):
        model = router.choose(request)
        router.learn(model, request.quality[model], request.cost[model])
        asked.append(model)
        quality.append(request.quality[model])
        spent.append(request.cost[model])
    if isinstance(router, ServedRouter):
        router.client.close()
    print(f"{source}: quality of an answer, dollars a request (budget {task.budget:g})")
    print(f"  {'router':8} {np.mean(quality):.3f}  {np.mean(spent):.5f}")
    for k, model in enumerate(MODELS[:3]):
        print(f"  {model:8} {task.rewards[:, k].mean():.3f}  {task.costs[:, k].mean():.5f}")
    print("share of the requests, of every quarter: " + ", ".join(MODELS))
    for part in np.array_split(np.array(asked), 4):
        print("  " + "  ".join(f"{np.mean(part == model):.2f}" for model in MODELS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--service", help="the address of a service")
    given = parser.parse_args()
    main(given.requests, given.service)
