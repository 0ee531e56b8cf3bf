"""The clients go to the process that owns a policy, and come back where that does not answer."""

import asyncio
import signal
from contextlib import contextmanager

import httpx
import pytest

from driftbandits import client as dbc
from driftbandits.client.owners import Owners
from servers import Process, Served, wait_until

ARMS = {"left": [0.6, 0.1], "right": [0.2, 0.5], "stay": [-0.3, 0.4]}
NEWS = "/v1/policies/news"
CONFIGURATION = {"name": "D-GLUCB", "dim": 2, "discount": 0.95, "seed": 3}
DECISIONS = f"{NEWS}/decisions"


class Waiting:
    """An `AsyncClient` that is waited for, to be called like the other one."""

    def __init__(self, url, **settings):
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._make(url, settings))

    async def _make(self, url, settings):
        return dbc.AsyncClient(url, **settings)

    def __getattr__(self, name):
        def call(*given, **more):
            return self._runner.run(self._awaited(name, given, more))

        return call

    async def _awaited(self, name, given, more):
        return await getattr(self._client, name)(*given, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture(params=[dbc.Client, Waiting], ids=["sync", "async"])
def make(request):
    return request.param


def owner_known(address):
    """Whether a process would lead a caller to another one."""
    asked = httpx.get(f"{address}{NEWS}/digest", headers={"prefer": "redirect"}, timeout=30.0)
    return asked.status_code == 307


@contextmanager
def two_processes(url):
    """A process that serves no policy, and one that owns `news`; both end, if need be."""
    other = Process(url, "--no-auth")
    owner = Process(url, "--no-auth")
    try:
        httpx.put(f"{owner.address}{NEWS}", json=CONFIGURATION, timeout=120.0).raise_for_status()
        wait_until(lambda: owner_known(other.address))
        yield other, owner
    finally:
        for process in (owner, other):
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.mark.parametrize(
    "more", [{}, {"fallback": "stay", "budget": 60.0}], ids=["plain", "budget"]
)
def test_a_client_goes_to_the_owner(store_url, make, more):
    with Served(store_url) as one, Served(store_url) as two:
        two.client.put(NEWS, json=CONFIGURATION).raise_for_status()
        wait_until(lambda: owner_known(one.address))
        asked = requests_of(one)
        with make(one.address) as client:
            for i in range(10):
                assert not client.decide("news", ARMS, event_id=f"e{i}", **more).told
                assert client.reward("news", f"e{i}", 1.0).status == "learned"
        assert requests_of(one) - asked == 1, "who was asked first has said where to go"
        assert one.service.engine.metrics.forwarded == 0
        assert two.client.get(NEWS).json()["counts"]["rewards"] == 10


def requests_of(service):
    """Decisions and rewards that a process was asked for, whatever it answered."""
    text = httpx.get(f"{service.address}/metrics").text
    lines = [line for line in text.split("\n") if line.startswith("driftbandits_requests_total")]
    wanted = [line for line in lines if "/decisions" in line or "/rewards" in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in wanted)


def test_a_policy_that_moves_is_followed(store_url):
    with Served(store_url) as one, Served(store_url) as two:
        two.client.put(NEWS, json=CONFIGURATION).raise_for_status()
        wait_until(lambda: owner_known(one.address))
        with dbc.Client(one.address) as client:
            client.decide("news", ARMS, event_id="before")
            two.service.engine._give("news", one.service.engine.owners.me.id)
            wait_until(lambda: owner_known(two.address))
            client.decide("news", ARMS, event_id="after")
            assert client.reward("news", "before", 1.0).status == "learned"
        assert two.service.engine.metrics.forwarded == 0


def test_an_owner_that_is_killed_is_replaced(store_url, make):
    with two_processes(store_url) as (other, owner), make(other.address) as client:
        client.decide("news", ARMS, event_id="before")
        owner.kill()
        assert client.decide("news", ARMS, event_id="after").event_id == "after"
        assert client.reward("news", "before", 1.0).status == "learned"


def test_an_owner_that_stands_still_is_replaced(postgres_server, make):
    url = postgres_server.new_database()
    with two_processes(url) as (other, owner), make(other.address, timeout=60.0) as client:
        client.decide("news", ARMS, event_id="before")
        owner.send_signal(signal.SIGSTOP)
        assert client.decide("news", ARMS, event_id="after").event_id == "after"
        assert client.reward("news", "before", 1.0).status == "learned"


def test_where_an_owner_stands_still_a_budget_holds_and_nothing_is_lost(postgres_server, make):
    with two_processes(postgres_server.new_database()) as (other, owner):
        with make(other.address) as client:
            assert not client.decide("news", ARMS, fallback="stay", budget=60.0).told
            owner.send_signal(signal.SIGSTOP)
            chosen = [client.decide("news", ARMS, fallback="stay", budget=0.1) for _ in range(5)]
            assert chosen[0].told
            assert client.flush() == 0
            answer = client.decide("news", ARMS, fallback="stay", budget=60.0)
            assert not answer.told
        counts = httpx.get(f"{other.address}{NEWS}", timeout=30.0).json()["counts"]
        assert counts["decisions"] == 7


# -- what is followed, without a service ---------------------------------------------------------


def test_only_decisions_and_rewards_are_led():
    owners = Owners("http://given:1")
    owners.note("news", "http://owner:2")
    assert owners.way(DECISIONS).target == f"http://owner:2{DECISIONS}"
    for path in (f"{NEWS}/rewards", f"{NEWS}/decisions:batch"):
        assert owners.way(path).target == f"http://owner:2{path}"
    for path in (NEWS, f"{NEWS}/events?after=1", f"{NEWS}:freeze", "/healthz", "/v1/policies"):
        way = owners.way(path)
        assert (way.target, way.headers) == (path, None)
    assert owners.way("/v1/policies/other/rewards").target == "/v1/policies/other/rewards"


@pytest.mark.parametrize("url", ["https://given:1", "http://given:1/bandits", "https://given/b"])
def test_behind_a_proxy_nobody_is_followed(url):
    way = Owners(url).way(DECISIONS)
    assert way.headers is None
    assert way.ends(307, "http://owner:2/")


@pytest.mark.parametrize("location", [None, "", "https://owner:2/x", "/elsewhere", "ftp://a/b"])
def test_a_place_that_cannot_be_gone_to_is_not(location):
    owners = Owners("http://given:1")
    with owners.way(DECISIONS) as way:
        assert not way.ends(307, location)
        assert (way.target, way.headers) == (DECISIONS, None), "and asks not to be led again"
        assert way.ends(307, location)
    assert not owners.follows


def test_nobody_is_led_in_circles():
    owners = Owners("http://given:1")
    with owners.way(DECISIONS) as way:
        answers = [way.ends(307, f"http://p{k % 2}:1{DECISIONS}") for k in range(4)]
        assert answers == [False, False, False, True]
        assert way.target == DECISIONS


def test_a_place_that_fails_is_forgotten_for_all_policies():
    owners = Owners("http://given:1")
    owners.note("news", "http://owner:2")
    owners.note("shop", "http://owner:2")
    owners.note("ads", "http://owner:3")
    with pytest.raises(httpx.ConnectError), owners.way(DECISIONS):
        raise httpx.ConnectError("nobody there")
    assert not owners.follows
    assert [owners.address_of(name) for name in ("news", "shop", "ads")] == [
        "",
        "",
        "http://owner:3",
    ]


@pytest.mark.parametrize(
    ("status", "is_kept"), [(200, True), (409, True), (429, True), (503, False)]
)
def test_what_an_owner_answers(status, is_kept):
    owners = Owners("http://given:1")
    owners.note("news", "http://owner:2")
    with owners.way(DECISIONS) as way:
        assert way.ends(status, None)
    assert bool(owners.address_of("news")) == is_kept
    assert owners.follows
