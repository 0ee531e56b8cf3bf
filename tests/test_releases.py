"""Databases that releases have written: this one replays them to the digests they had."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from driftbandits.cli.commands import group
from servers import Clock, Served

pytestmark = pytest.mark.compiled

RELEASES = sorted(folder for folder in (Path(__file__).parent / "fixtures").glob("*.*/"))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda folder: folder.name)
def test_a_release_is_replayed(release, kind, tmp_path, request):
    recorded = json.loads((release / "digests.json").read_text())[kind]
    url = opened(release, kind, tmp_path, request)
    run = CliRunner().invoke(group, ["verify", "--store", url])
    assert run.exit_code == 0, run.output
    for policy, digest in recorded.items():
        assert f"{policy}  " in run.output
        assert digest in run.output
    with Served(url, clock=Clock()) as service:  # from the snapshots of that release
        for policy, digest in recorded.items():
            told = service.client.get(f"/v1/policies/{policy}/digest").json()
            assert told["digest"] == digest
            body = {"event_id": "new", "arms": [{"id": "a", "x": [0.1, 0.2]}], "baseline": "a"}
            answer = service.client.post(f"/v1/policies/{policy}/decisions", json=body)
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda folder: folder.name)
def test_a_policy_of_a_release_is_renamed_aside(release, kind, tmp_path, request):
    url = opened(release, kind, tmp_path, request)
    policy, *_ = json.loads((release / "digests.json").read_text())[kind]
    path, aside = f"/v1/policies/{policy}", "/v1/policies/aside"
    body = {"event_id": "new", "arms": [{"id": "a", "x": [0.1, 0.2]}], "baseline": "a"}
    with Served(url, clock=Clock()) as service:
        client = service.client
        before = client.get(path).json()
        told = client.post(f"{path}:rename", json={"to": "aside"}).json()
        assert (told["chain"], told["theta_hat"]) == (policy, before["theta_hat"])
        made = client.put(path, json={"name": "LinUCB", "dim": 2})
        assert made.status_code == 201, made.text
        for each in (path, aside):
            answer = client.post(f"{each}/decisions", json=body)
            assert answer.status_code == 200, answer.text
    run = CliRunner().invoke(group, ["verify", "--store", url])
    assert run.exit_code == 0, run.output
    assert "aside  " in run.output


def opened(release, kind, tmp_path, request):
    """A copy of what a release has written."""
    if kind == "sqlite":
        shutil.copy(release / "log.db", tmp_path)
        return f"sqlite:///{tmp_path}/log.db"
    postgres = request.getfixturevalue("postgres_server")
    return restored(postgres, (release / "log.sql").read_text())


def restored(postgres, dump):
    url = postgres.new_database()
    psql = [postgres._server.bin_path / "psql", "--quiet", "--set", "ON_ERROR_STOP=1", url]
    subprocess.run(psql, input=dump, text=True, check=True, capture_output=True)
    return url


def test_there_is_something_to_replay():
    assert RELEASES
