"""Services to ask."""

from contextlib import contextmanager

import pytest
from calls import configure, counts, digest, ok, verified

from driftbandits import store
from driftbandits.service.transactions import load
from servers import Clock, Served


@pytest.fixture
def served(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        yield service


@contextmanager
def checked(url):
    """A service with a clock; at the end a snapshot, and its log alone, come to the same state."""
    clock = Clock()
    with Served(url, clock=clock) as service:
        service.clock, service.url = clock, url
        configure(service.client)
        yield service
        names = [one["policy"] for one in ok(service.client.get("/v1/policies"))["policies"]]
        live = {name: digest(service.client, f"/v1/policies/{name}") for name in names}
    assert verified(url) == live
    with store.open(url) as log, log.read() as session:
        assert {name: load(session, name).digest for name in names} == live


@pytest.fixture
def both(store_url):
    """A checked service on each of the two stores."""
    with checked(store_url) as service:
        yield service


@pytest.fixture
def service(tmp_path):
    """A checked service on SQLite."""
    with checked(f"sqlite:///{tmp_path}/log.db") as service:
        yield service


@pytest.fixture
def client(service):
    return service.client


@pytest.fixture
def shared_url(postgres_server):
    """A store that several processes may serve."""
    return postgres_server.new_database()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """A service that is asked only for what it refuses."""
    with Served(f"sqlite:///{tmp_path_factory.mktemp('refusing')}/log.db") as service:
        configure(service.client)
        yield service.client
        assert counts(service.client)["decisions"] == 0
