"""Pricing: which price earns the most, for whom, when what people will pay changes.

The reward is the revenue of a visit: the price if it was bought, nothing otherwise. Prints the
price that the agent prefers for two kinds of customers as time goes on, beside the best one. One
visitor in thirty gets a price at random: a price that is never asked is never learned about.
"""

import argparse

import numpy as np

import driftbandits as db

PRICES = (6, 10, 16, 24)


def chance(price: float, limit: float) -> float:
    """Return the probability that somebody with about this limit buys."""
    return float(1 / (1 + np.exp((price - limit) / 2)))


def main(visits: int) -> None:
    rng = np.random.default_rng(0)
    features = db.Features(
        context={"customer": "category"}, arm={"id": "category"}, cross=[("arm", "customer")]
    )
    reward = f"amount:0..{max(PRICES)}"
    policy = db.policy("auto", features=features, reward=reward, epsilon=0.03)
    agent = db.Agent(policy, seed=0)
    revenue, possible, fixed = [], [], []
    print(f"{'visits':>8}  {'students pay':>13} {'(best)':>7}  {'firms pay':>10} {'(best)':>7}")
    for visit in range(visits):
        before = visit < visits // 2  # then money gets short
        limits = {"student": 12.0 if before else 8.0, "firm": 27.0 if before else 18.0}
        customer = "firm" if rng.random() < 0.4 else "student"
        choice = agent.decide(context={"customer": customer}, arms=list(PRICES))
        bought = rng.random() < chance(choice.arm, limits[customer])
        agent.update(choice, choice.arm * bought)
        revenue.append(choice.arm * bought)
        expected = {price: price * chance(price, limits[customer]) for price in PRICES}
        possible.append(max(expected.values()))
        fixed.append(expected[10])
        if (visit + 1) % (visits // 8) == 0:
            cells = []
            for kind, limit in limits.items():
                asked = agent.preview(context={"customer": kind}, arms=list(PRICES), seed=0)
                best = max(PRICES, key=lambda price: price * chance(price, limit))
                cells += [PRICES[int(np.argmax(asked.means))], f"({best})"]
            print(f"{visit + 1:8}  {cells[0]:13} {cells[1]:>7}  {cells[2]:10} {cells[3]:>7}")
    print(
        f"revenue a visit: {np.mean(revenue):.2f}, one price of 10 for all {np.mean(fixed):.2f}, "
        f"the best prices {np.mean(possible):.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=4000)
    main(parser.parse_args().visits)
