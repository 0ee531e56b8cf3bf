"""PostgreSQL dies and comes back; a worker stands still in a transaction; a standby is promoted."""

import os
import signal
from contextlib import contextmanager

import httpx
import psutil
import psycopg
import pytest
from load import POLICY, Load, asking, configure, digest, record_kills, size_of_test

from servers import Postgres, Process, Served, started, wait_until

pytestmark = pytest.mark.compiled

KILLS = size_of_test("POSTGRES_KILLS", short=2)


@pytest.fixture
def postgres_of_my_own():
    server = Postgres()
    yield server
    server.stop()


def kill_database(server):
    """Every process of it at once, as when the machine stops."""
    postmaster = psutil.Process(server.get_pid())
    family = [postmaster, *postmaster.children(recursive=True)]
    for process in family:
        process.kill()
    psutil.wait_procs(family, timeout=300.0)


def test_kills_of_postgres(postgres_of_my_own, record_property):
    """The service stays, says 503 for as long as the database is away, and loses nothing."""
    database = postgres_of_my_own._server
    url, load = postgres_of_my_own.new_database(), Load()
    service = Process(url, "--no-auth")
    try:
        configure(service.address)
        for _ in range(KILLS):
            load.start(service.address)
            load.wait_for(40)
            kill_database(database)
            before = load.unavailable
            load.wait_for_unavailable(before + 5)
            started(database.ensure_postgres_running)
            load.wait_for(40)
            load.stop()
            assert load.ledger.check(url) == digest(service.address)
    finally:
        service.kill()
    record_kills(record_property, KILLS, load.ledger)


@contextmanager
def row_lock(url):
    with psycopg.connect(url) as holder:
        holder.execute("SELECT number FROM policy WHERE name = 'news' FOR UPDATE")
        yield


def waiting_for_the_row(url):
    """The backends that wait for a lock, and the processes that they belong to."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT pid, application_name FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchall()
    return [(backend, int(name.removeprefix("driftbandits "))) for backend, name in rows]


def has_ended(url, backend):
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,))
        return found.fetchone() is None


def test_a_worker_that_pauses_in_a_transaction(postgres_server):
    """It holds the row of the policy when it stops. The database ends its session, the other
    worker goes on, and when it wakes up its transaction is void."""
    url, load = postgres_server.new_database(), Load()
    workers = [Process(url, "--no-auth"), Process(url, "--no-auth")]
    try:
        configure(workers[0].address)
        load.start(*(worker.address for worker in workers))
        load.wait_for(40)
        with row_lock(url):
            wait_until(lambda: waiting_for_the_row(url))
            backend, paused = waiting_for_the_row(url)[0]
            os.kill(paused, signal.SIGSTOP)
        wait_until(lambda: has_ended(url, backend))
        load.wait_for(40)  # the other worker, while the first one still stands
        os.kill(paused, signal.SIGCONT)
        load.wait_for_every_caller()
        load.stop()
        assert len({load.ledger.check(url), *(digest(worker.address) for worker in workers)}) == 1
    finally:
        for worker in workers:
            worker.kill()


def test_two_workers_without_affinity(postgres_server):
    """Every policy is served by both at once: nothing is lost or doubled, both say the same."""
    url, load = postgres_server.new_database(), Load()
    workers = [Process(url, "--no-auth"), Process(url, "--no-auth")]
    try:
        configure(workers[0].address)
        load.start(*(worker.address for worker in workers))
        load.wait_for(600)
        load.wait_for_every_caller()
        load.stop()
        assert load.unavailable == 0
        assert len({load.ledger.check(url), *(digest(worker.address) for worker in workers)}) == 1
    finally:
        for worker in workers:
            worker.kill()


def test_a_database_that_refuses_to_be_written(postgres_server):
    """As after a switch to a standby: 503 while it lasts, then on without help."""
    url = postgres_server.new_database()
    with Served(url) as service:
        configure(service.address)
        assert decide(service.address, "e1").status_code == 200
        for read_only in ("on", "off"):
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute("SET default_transaction_read_only = off")
                name = admin.info.dbname
                admin.execute(
                    f"ALTER DATABASE {name} SET default_transaction_read_only = {read_only}"
                )
                if read_only == "on":
                    admin.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
            if read_only == "on":
                for i in range(3):
                    refused = decide(service.address, f"new{i}")
                    assert refused.status_code == 503, refused.text
                    assert int(refused.headers["retry-after"]) >= 1
        assert decide(service.address, "new0").status_code == 200


def decide(address, event_id):
    return httpx.post(f"{address}{POLICY}/decisions", json=asking(event_id, 1), timeout=300.0)
