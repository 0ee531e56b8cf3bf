"""The disk fills up or turns read-only, the clock jumps, the writer dies: 503, no hang, no help."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from disk import Disk
from load import POLICY, Load, asking, configure, digest

from driftbandits import store
from driftbandits.service.commands import View
from driftbandits.service.engine import Engine
from driftbandits.service.refusals import Refused
from driftbandits.service.transactions import Command
from driftbandits.service.verifying import verify
from servers import Clock, Served, wait_until

pytestmark = pytest.mark.compiled

DAY_S = 86_400.0


def verified(url):
    with store.open(url) as log:
        (verdict,) = verify(log)
    assert verdict.faults == []
    return verdict.digest


@pytest.mark.parametrize("fault", ["full", "read-only", "full in a commit"])
def test_a_disk_that_fails_under_load(fault, tmp_path):
    """What is answered while it fails is 503; when it is well again the same callers go on."""
    disk, load = Disk(fault), Load()
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, vfs=fault) as service:
        configure(service.address)
        for _ in range(2):
            load.start(service.address)
            load.wait_for(20)
            disk.is_read_only = fault == "read-only"
            disk.room = {"full": 0, "full in a commit": 30_000}.get(fault)
            load.wait_for_unavailable(load.unavailable + 10)
            assert httpx.get(f"{service.address}/healthz").status_code == 200
            disk.is_read_only, disk.room = False, None
            load.wait_for(20)
            load.stop()
            assert load.ledger.check(url) == digest(service.address)


def test_a_disk_that_is_full_from_the_start(tmp_path):
    """The service waits for it, says so, and begins when there is room."""
    disk = Disk("none")
    disk.room = 0
    url = f"sqlite:///{tmp_path}/log.db"
    opened = threading.Event()
    threading.Timer(0.3, lambda: (opened.set(), setattr(disk, "room", None))).start()
    with Served(url, vfs="none") as service:
        assert opened.is_set()
        configure(service.address)


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S], ids=["ahead", "back"])
def test_a_clock_that_jumps_under_load(jump_s, tmp_path):
    """Time in the log never goes back, every reward is learned once, and a replay agrees."""
    clock, load = Clock(), Load()
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, clock=clock) as service:
        configure(service.address, discount=None, half_life_s=3600.0, reward_wait_s=7 * DAY_S)
        load.start(service.address)
        for _ in range(4):
            load.wait_for(20)
            clock.pass_seconds(jump_s)
        load.wait_for(20)
        load.stop()
        assert load.ledger.check(url) == digest(service.address)
    with store.open(url) as log, log.read() as session:
        times = [event.at_ns for event in session.all_events("news")]
    assert times == sorted(times)
    with Served(url, clock=clock) as service:
        assert digest(service.address) == verified(url)


class DeadlyClock(Clock):
    """Looking at it ends the thread, once it is told to."""

    def __init__(self):
        super().__init__()
        self.deadly = False

    def __call__(self):
        if self.deadly:
            raise SystemExit("the writer looked at the clock")
        return super().__call__()


def test_a_writer_that_dies_leaves_nobody_waiting(tmp_path):
    """Everybody who waits is told, readiness flips, and the process ends with code 1."""
    clock = DeadlyClock()
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, clock=clock) as service:
        configure(service.address)
        told = []

        def call(i):
            with httpx.Client(base_url=service.address, timeout=300.0) as client:
                for j in range(200):
                    try:
                        body = asking(f"e{i}-{j}", j)
                        answer = client.post(f"{POLICY}/decisions", json=body)
                    except httpx.ConnectError:  # the process has ended
                        return
                    except httpx.TransportError:
                        continue
                    told.append(answer)
                    clock.deadly = len(told) > 40

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(call, range(16), timeout=300.0))
        service.join()
        assert service.code == 1
    assert {answer.status_code for answer in told} == {200, 503}
    for answer in told:
        if answer.status_code == 503:
            assert answer.json()["error"]["code"] == "writer_died"
            assert int(answer.headers["retry-after"]) >= 1
    answered = {a.json()["event_id"] for a in told if a.status_code == 200}
    with store.open(url) as log, log.read() as session:
        assert answered <= {event.event_id for event in session.all_events("news")}
    verified(url)


class Deadly(Command):
    """Takes its time, and then the thread with it."""

    def __init__(self):
        super().__init__("news")
        self.begun, self.end = threading.Event(), threading.Event()

    def run(self, work):
        self.begun.set()
        self.end.wait(300.0)
        raise SystemExit("the writer was told to die")


def test_requests_that_wait_while_the_writer_dies_are_told(tmp_path):
    async def told():
        deadly = Deadly()
        engine = Engine(lambda: store.open(f"sqlite:///{tmp_path}/log.db"))
        engine.start(asyncio.get_running_loop())
        await asyncio.to_thread(wait_until, lambda: engine.ready, most_s=300.0)
        waiting = [engine.do(deadly)]
        await asyncio.to_thread(deadly.begun.wait, 300.0)
        waiting.append(engine.do(View("news", lambda state: state.seq)))
        deadly.end.set()
        answers = await asyncio.wait_for(asyncio.gather(*waiting), 300.0)
        with pytest.raises(Refused) as refused:
            engine.do(View("news", lambda state: state.seq))
        return [*answers, refused.value]

    for answer in asyncio.run(told()):
        assert (answer.status, answer.problem.code) == (503, "writer_died")
