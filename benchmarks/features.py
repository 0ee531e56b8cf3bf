"""What it costs to make vectors of tables: `python benchmarks/features.py`.

A context of eight columns and ten arms of three, crossed three times, is read in turns with what it
is compared to: the same as JSON, parsed and nothing else, and a decision of the same agent's policy
from vectors that are made already. A time is the processor's, a mean over a block, and the least of
all blocks counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import driftbandits as db
from driftbandits.features import Encoding
from driftbandits.features.tables import offered

FEATURES = db.Features(
    context={
        "age": "number",
        "country": "category",
        "device": "category",
        "hour": "cycle:24",
        "basket": "log",
        "member": "flag",
        "visits": "number",
        "segment": "category",
    },
    arm={"category": "category", "price": "log", "margin": "number"},
    cross=[("category", "country"), ("price", "basket"), ("arm", "device")],
)
CONTEXT = {
    "age": 34,
    "country": "DE",
    "device": "phone",
    "hour": 13.5,
    "basket": 33.3,
    "member": True,
    "visits": None,
    "segment": 3,
}
ARMS = {
    f"o{i}": {"category": "shoes" if i % 2 else "hats", "price": 10.0 * i, "margin": 0.2}
    for i in range(10)
}
BLOCKS, BLOCK = 20, 200


def main() -> None:
    encoding = Encoding(FEATURES)
    text = json.dumps({"context": CONTEXT, "arms": ARMS})

    def read() -> None:
        encoded = encoding.encode(CONTEXT, offered(ARMS, ()))
        encoding.commit()
        encoded.dense(48)

    read()
    rows = encoding.encode(CONTEXT, offered(ARMS, ())).dense(48)
    agent = db.Agent(db.policy("auto", dim=48), seed=0)
    by_tables = db.Agent(db.policy("auto", features=FEATURES), seed=0)
    calls: dict[str, Callable[[], object]] = {
        "the same as JSON, parsed": lambda: json.loads(text),
        "tables to vectors": read,
        "decide, from vectors": lambda: agent.decide(rows),
        "decide, from tables": lambda: by_tables.decide(context=CONTEXT, arms=ARMS),
    }
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(BLOCKS):
        for name, call in calls.items():
            call()
            start = time.process_time()
            for _ in range(BLOCK):
                call()
            least[name] = min(least[name], (time.process_time() - start) / BLOCK)
    yardstick = least["the same as JSON, parsed"]
    for name, seconds in least.items():
        print(f"{name:<28}{1e6 * seconds:8.1f} us{seconds / yardstick:8.1f} x parsing")


if __name__ == "__main__":
    main()
