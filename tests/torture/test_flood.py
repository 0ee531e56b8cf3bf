"""Floods: of bytes, of requests, of rewards that fall due, of connections that say nothing."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from load import POLICY, asking, configure, size_of_test

from driftbandits import store
from driftbandits.service.verifying import verify
from servers import Clock, Served
from wire import connected

FLOOD = size_of_test("FLOOD", short=4000)
DUE = size_of_test("DUE", short=300)

pytestmark = pytest.mark.compiled


@pytest.fixture
def service(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db", with_keys=True) as served:
        yield served


def memory_kb():
    """What this process, of which the service is a thread, has in memory."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def test_a_flood_without_a_key_takes_no_memory_and_no_turn_of_others(service, record_property):
    """Posts in a row, none with a key; beside them a caller is served between any two slices."""
    body = json.dumps(asking("e", 1)).encode()
    head = f"POST {POLICY}/decisions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"
    row = (head.encode() + body) * 100
    before, sent = memory_kb(), 0
    with connected(service) as flood, service.connect(service.key) as other:
        flood.setblocking(False)
        served = taken = 0
        while sent < FLOOD * len(row) / 100 or served < 20:
            try:
                sent += flood.send(row[sent % len(row) :])
            except BlockingIOError:
                assert other.get("/healthz").status_code == 200  # while the flood waits
                served += 1
            with suppress(BlockingIOError):
                taken += flood.recv(1 << 20).count(b"HTTP/1.1 401")
    assert taken > 0
    assert memory_kb() - before < 100_000
    record_property("posts", sent * 100 // len(row))
    record_property("answers to another", served)


def test_everything_falls_due_at_once(store_url, record_property):
    """It is learned portion by portion; meanwhile a neighbour decides."""
    clock = Clock()
    with Served(store_url, clock=clock) as service:
        client = service.client
        large = {"name": "auto", "dim": 20, "reward_wait_s": 5, "seed": 1}
        assert client.put("/v1/policies/large", json=large).status_code == 201
        configure(service.address)
        for first in range(0, DUE, 500):
            decisions = [
                {"event_id": f"d{i}", "arms": [{"id": "a", "x": [0.01 * (i % 7)] * 20}]}
                for i in range(first, min(DUE, first + 500))
            ]
            answer = client.post(
                "/v1/policies/large/decisions:batch", json={"decisions": decisions}
            )
            assert answer.status_code == 200
        clock.pass_seconds(6)
        decided = 0
        while client.get("/v1/policies/large").json()["counts"]["defaults"] < DUE:
            answer = client.post(f"{POLICY}/decisions", json=asking(f"beside{decided}", 1))
            assert answer.status_code == 200
            decided += 1
    with store.open(store_url) as log:
        assert not any(verdict.faults for verdict in verify(log))
    record_property("due", DUE)
    record_property("decisions of another meanwhile", decided)
