"""Settings shared by all tests."""

import os
import shutil

import pytest
from hypothesis import settings

# No deadlines: the first call of a kernel compiles it. `make test` draws the same examples every
# time, so that a red run is about the change at hand; `make slow` looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("coverage", parent=settings.get_profile("fixed"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def postgres_server():
    """A real PostgreSQL, started when the first test asks for it."""
    from servers import Postgres

    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.db"
    return request.getfixturevalue("postgres_server").new_database()


@pytest.fixture(scope="module")  # while it lives, this thread can run no other event loop
def browser():
    """Chromium: a command, or the path where it is installed."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # of a page that never shows what is waited for
    wanted = os.environ.get("CHROMIUM", "chromium")
    installed = shutil.which(wanted)
    assert installed, f"there is no {wanted}: run make system, or set CHROMIUM to its path"
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    quiet += ["--headless", "--disable-component-update", "--no-first-run"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=installed, args=quiet)
        yield started
        started.close()


@pytest.fixture(scope="session")
def long_results(tmp_path_factory):
    """The results of an experiment that is long enough to be interrupted."""
    from driftbandits.experiments import run_experiment
    from experiment_checks import LONG, small

    folder = tmp_path_factory.mktemp("whole")
    return run_experiment(small(runs=64, horizon=LONG), out=folder)


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """A page with every section of the report."""
    import report_results
    from driftbandits.report import write_report

    folder = tmp_path_factory.mktemp("results")
    report_results.everything(folder)
    return write_report(folder)
