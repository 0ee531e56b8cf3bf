"""Services to ask."""

import pytest
from calls import configure, counts

from servers import Served


@pytest.fixture
def served(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        yield service


@pytest.fixture
def client(served):
    return served.client


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
