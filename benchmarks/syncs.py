"""How long the disk takes to sync 4 KB while nothing else writes: `python benchmarks/syncs.py`.

A decision is answered when it is synced. Where a sync takes 300 ms now and then, so do the answers
of everybody who waits for it, whatever the service does.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np

PAUSE_S = 0.02


def synced_ms(file: int) -> float:
    began = time.perf_counter()
    os.pwrite(file, bytes(4096), 0)
    os.fdatasync(file)
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    found = []
    with tempfile.NamedTemporaryFile() as file:
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            found.append(synced_ms(file.fileno()))
            time.sleep(PAUSE_S)
    middle, high, longest = np.quantile(found, [0.5, 0.99, 1.0])
    print(
        f"{len(found):,} syncs of 4 KB: p50 {middle:.1f}, p99 {high:.1f}, longest {longest:.0f} ms;"
        f" {np.sum(np.array(found) > 30.0)} above 30 ms"
    )


if __name__ == "__main__":
    main()
