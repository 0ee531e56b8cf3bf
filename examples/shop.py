"""A shop: from tables with gaps and raw units to decisions, and what each feature is worth.

Prints the guessed features, the click rate beside that of the cheapest offer, and the strongest
effects that the model has found, before and after the taste changed.
"""

import argparse

import numpy as np

import driftbandits as db


def strongest(agent: db.Agent, most: int = 6) -> None:
    effects = sorted(agent.coefficients.items(), key=lambda item: -abs(item[1]))
    for name, effect in effects[:most]:
        print(f"  {name:35} {effect:+.2f}")


def main(visits: int) -> None:
    shop = db.environment("shop", horizon=visits).draw(np.random.default_rng(1))
    features = db.Features.guess(shop.contexts[:500], shop.offers[0])
    print(features)
    agent = db.Agent(db.policy("auto", features=features, reward="click"), seed=0)
    earned, cheapest = np.empty(visits), np.empty(visits)
    for t, (visit, offers) in enumerate(zip(shop.contexts, shop.offers, strict=True)):
        choice = agent.decide(context=visit, arms=offers)
        agent.update(choice, shop.rewards[t, choice.index])
        earned[t] = shop.means[t, choice.index]
        cheapest[t] = shop.means[t, min(range(len(offers)), key=lambda k: offers[k]["price"])]
        if t == visits // 2 - 1:
            print("\nstrongest effects before the change:")
            strongest(agent)
    print("\nstrongest effects at the end:")
    strongest(agent)
    print(f"\n{'visits':>8}{'agent':>9}{'cheapest':>10}{'best':>8}")
    for begin in range(0, visits, visits // 8):
        part = slice(begin, begin + visits // 8)
        rates = (earned[part].mean(), cheapest[part].mean(), shop.best[part].mean())
        print(f"{part.stop:8}{rates[0]:9.3f}{rates[1]:10.3f}{rates[2]:8.3f}")
    for found in agent.detections:
        print(f"visit {found.round}: taste has changed since about visit {found.change}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=4000)
    main(parser.parse_args().visits)
