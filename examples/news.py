"""News: one front page, articles that come and go, and a public whose interest turns.

Prints the click rate of the last 500 readers beside that of three simple rules.
"""

import argparse

import numpy as np

import driftbandits as db

TOPICS = ("politics", "sport", "science", "culture", "local")


def main(readers: int) -> None:
    rng = np.random.default_rng(3)
    features = db.Features(
        context={"device": "category", "hour": "cycle:24"},
        arm={"topic": "category", "age_hours": "log"},
        cross=[("topic", "device"), ("topic", "hour")],
    )
    agent = db.Agent(db.policy("auto", features=features, reward="click"), seed=0)
    interest = {device: rng.normal(0.0, 1.0, size=5) for device in ("phone", "desktop")}
    clicks: dict[str, list[float]] = {"auto": [], "newest": [], "random": [], "best": []}
    written = {number: rng.integers(5) for number in range(12)}  # article -> topic
    born = dict.fromkeys(written, 0)
    for reader in range(readers):
        if reader == readers // 2:  # an election
            for device in interest:
                interest[device] = rng.normal(0.0, 1.0, size=5)
        if reader % 100 == 99:  # the oldest article makes room for a new one
            oldest = min(born, key=lambda number: born[number])
            del written[oldest], born[oldest]
            written[reader], born[reader] = rng.integers(5), reader
        device = "phone" if rng.random() < 0.6 else "desktop"
        hour = reader * 0.01 % 24
        ages = {number: (reader - when) / 100 for number, when in born.items()}
        chances = {
            number: 1 / (1 + np.exp(1.5 - interest[device][topic] + 0.3 * np.log1p(ages[number])))
            for number, topic in written.items()
        }
        arms = {
            str(number): {"topic": TOPICS[topic], "age_hours": ages[number]}
            for number, topic in written.items()
        }
        choice = agent.decide(context={"device": device, "hour": hour}, arms=arms)
        agent.update(choice, float(rng.random() < chances[int(choice.arm)]))
        clicks["auto"].append(chances[int(choice.arm)])
        clicks["newest"].append(chances[max(born, key=lambda number: born[number])])
        clicks["random"].append(float(np.mean(list(chances.values()))))
        clicks["best"].append(max(chances.values()))
    print("click rate, of every 500 readers")
    print(f"{'readers':>12}" + "".join(f"{name:>9}" for name in clicks))
    for begin in range(0, readers, 500):
        means = (np.mean(values[begin : begin + 500]) for values in clicks.values())
        print(f"{begin + 500:12}" + "".join(f"{mean:9.3f}" for mean in means))
    for found in agent.detections:
        print(f"reader {found.round}: interest has changed since about reader {found.change}")
    print(f"(it changed at reader {readers // 2})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=4000)
    main(parser.parse_args().readers)
