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
    if kind == "sqlite":
        shutil.copy(release / "log.db", tmp_path)
        url = f"sqlite:///{tmp_path}/log.db"
    else:
        postgres = request.getfixturevalue("postgres_server")
        url = restored(postgres, (release / "log.sql").read_text())
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


def restored(postgres, dump):
    url = postgres.new_database()
    psql = [postgres._server.bin_path / "psql", "--quiet", "--set", "ON_ERROR_STOP=1", url]
    subprocess.run(psql, input=dump, text=True, check=True, capture_output=True)
    return url


def test_there_is_something_to_replay():
    assert RELEASES
