"""Owners of policies are killed, or stand still, while callers ask all processes alike."""

import random
import signal
import subprocess
import sys
import time

import pytest
from load import Load, configure, digest, record_kills, size_of_test

from driftbandits import store
from driftbandits.store import leases
from servers import Process, wait_until

pytestmark = pytest.mark.compiled

KILLS = size_of_test("OWNER_KILLS", short=2)


def owner(url):
    """The process that owns the policy, if it lives."""
    with store.open(url) as log, log.read() as session:
        return leases.peers(session).get(leases.owners(session)["news"])


def verified(url):
    told = subprocess.run(
        [sys.executable, "-m", "driftbandits", "verify", "--store", url],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


@pytest.mark.parametrize("count", [2, 4])
def test_kills_of_owners(store_url, count, record_property):
    """Whoever owned the policy is gone; another one goes on with it, and nothing is decided twice
    or lost."""
    moments, load = random.Random(KILLS), Load()
    processes = {process.address: process for process in started(store_url, count)}
    configure(next(iter(processes)))
    longest = 0.0
    try:
        for _ in range(KILLS):
            load.start(*processes)
            load.wait_for(10)
            time.sleep(moments.uniform(0.0, 0.3))
            dead = processes.pop(owner(store_url).address)
            dead.kill()
            began = time.monotonic()
            load.wait_for(1)
            longest = max(longest, time.monotonic() - began)
            load.wait_for(10)
            load.stop()
            replayed = load.ledger.check(store_url)
            (newcomer,) = started(store_url, 1)
            processes[newcomer.address] = newcomer
            assert {digest(address) for address in processes} == {replayed}
    finally:
        load.stop()
        for process in processes.values():
            process.kill()
    assert replayed in verified(store_url)
    record_kills(record_property, KILLS, load.ledger)
    record_property("ms without an answer at most", round(1e3 * longest))


def started(url, count):
    return [Process(url, "--no-auth") for _ in range(count)]


def test_an_owner_that_stands_still_and_wakes_up(store_url):
    """It is given up, another one owns the policy and goes on. When it wakes up it writes nothing:
    it asks the new owner, like everybody else."""
    load = Load()
    processes = {process.address: process for process in started(store_url, 2)}
    try:
        configure(next(iter(processes)))
        load.start(*processes)
        load.wait_for(20)
        load.stop()  # a process that stops while it writes would keep SQLite's lock with it
        before = owner(store_url)
        standing = processes[before.address]
        others = [address for address in processes if address != before.address]
        standing.send_signal(signal.SIGSTOP)
        load.start(*others)
        load.wait_for(40)
        assert owner(store_url).address == others[0]
        standing.send_signal(signal.SIGCONT)
        load.wait_for(10)
        load.stop()
        load.start(*processes)
        load.wait_for(40)
        load.stop()
        assert owner(store_url).address == others[0]
        replayed = load.ledger.check(store_url)
        wait_until(lambda: {digest(address) for address in processes} == {replayed})
    finally:
        load.stop()
        for process in processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
    assert replayed in verified(store_url)
