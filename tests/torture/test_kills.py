"""kill -9 of the server, and of PostgreSQL, while callers repeat themselves."""

import random
import subprocess
import sys
import threading
import time

import httpx
import pytest
from lives import Lives
from load import CONFIGURATION, POLICY, Load, configure, digest, record_kills, size_of_test

pytestmark = pytest.mark.compiled

KILLS = size_of_test("KILLS", short=5)
KILLS_A_LOG = 100  # after each one the whole log is replayed
CHANGES_A_LOG = 20  # after each one the whole log is learned again for each of them


@pytest.fixture(scope="module")
def lives():
    found = Lives()
    yield found
    found.end()


@pytest.mark.parametrize("first", range(0, KILLS, KILLS_A_LOG))
def test_kills_of_the_server(lives, store_url, first, record_property):
    """After each kill the log holds what was answered, once, and the next server goes on."""
    kills = min(KILLS_A_LOG, KILLS - first)
    moments, load = random.Random(KILLS + first), Load()
    server = lives.begin(store_url)
    configure(server.address)
    for kill in range(kills):
        load.start(server.address)
        load.wait_for(1)
        time.sleep(moments.uniform(0.0, 0.5))
        server.kill()
        load.stop()
        replayed = load.ledger.check(store_url)
        server = lives.begin(store_url)
        assert digest(server.address) == replayed
        print(f"{kill + 1} kills, {load.ledger.answers.total()} answers", flush=True)
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
    assert load.ledger.answers.total() > 10 * kills
    record_kills(record_property, kills, load.ledger)


def test_kills_while_a_changed_configuration_learns_again(lives, store_url, record_property):
    """A change that was begun takes over in some life, wherever the others have ended."""
    kills = min(KILLS, CHANGES_A_LOG)
    moments, load = random.Random(kills), Load()
    server = lives.begin(store_url)
    configure(server.address)
    load.start(server.address)
    load.wait_for(200)
    for kill in range(kills):
        wanted = {**CONFIGURATION, "lam": 2.0 + kill}
        shadow = {**CONFIGURATION, "lam": 7.0, "seed": 99}
        ask(server.address, "PUT", shadow, path="/shadows/other")
        asking = threading.Thread(target=ask, args=(server.address, "PUT", wanted))
        asking.start()  # it has no answer before the log is learned again
        time.sleep(moments.uniform(0.0, 0.2))
        server.kill()
        asking.join()
        load.stop()
        load.ledger.check(store_url)
        server = lives.begin(store_url)
        load.start(server.address)
        while ask(server.address, "PUT", wanted)["lam"] != wanted["lam"]:
            time.sleep(0.01)
    ask(server.address, "POST", path="/shadows/other:promote")
    load.wait_for(20)
    load.stop()
    last = digest(server.address)
    server.kill()
    assert load.ledger.check(store_url) == last
    record_kills(record_property, kills, load.ledger)


def ask(address, method, body=None, *, path=""):
    """The arguments of the version that decides, after a request that may get no answer."""
    url = f"{address}{POLICY}{path}"
    try:
        answer = httpx.request(method, url, json=body, timeout=300.0)
        assert answer.status_code < 300, answer.text
        told = httpx.get(address + POLICY, timeout=300.0).json()
    except httpx.TransportError:
        return {}
    return told["configuration"]["arguments"]
