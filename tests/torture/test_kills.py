"""kill -9 of the server, and of PostgreSQL, while callers repeat themselves."""

import random
import subprocess
import sys
import time

import pytest
from load import Load, configure, digest, size_of_test

from servers import Process

pytestmark = pytest.mark.compiled

KILLS = size_of_test("KILLS", short=5)


def test_kills_of_the_server(store_url):
    """After each kill the log holds what was answered, once, and the next server goes on."""
    moments, load = random.Random(KILLS), Load()
    server = Process(store_url, "--no-auth")
    configure(server.address)
    for kill in range(KILLS):
        load.start(server.address)
        load.wait_for(1)
        time.sleep(moments.uniform(0.0, 0.5))
        server.kill()
        load.stop()
        replayed = load.ledger.check(store_url)
        server = Process(store_url, "--no-auth")
        assert digest(server.address) == replayed
        report(kill + 1, load)
    server.kill()
    told = subprocess.run(
        [sys.executable, "-m", "driftbandits", "verify", "--store", store_url],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert replayed in told.stdout
    assert load.ledger.answers.total() > 10 * KILLS


def report(kills, load):
    """For `make torture`, which shows what tests print."""
    ledger = load.ledger
    print(
        f"{kills} kills, {ledger.answers.total()} acknowledged answers about "
        f"{len(ledger.decisions)} events: 0 lost, 0 doubled, digest equal",
        flush=True,
    )
