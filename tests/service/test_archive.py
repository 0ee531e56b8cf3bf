"""Old events in an archive: the chain holds over both, and nothing is decided twice."""

import subprocess
import sys

import polars
import pytest
from calls import NEWS, configure, counts, decide, digest, ok, play, problem, reward, verified

from driftbandits import store
from driftbandits.service.archiving import archive
from driftbandits.service.verifying import verify
from driftbandits.store import StoreError
from servers import Clock, Served


def archived(url, folder, *, before_ns=2**62, say=lambda *_: None):
    with store.open(url) as log:
        return archive(log, "news", folder, before_ns=before_ns, say=say)


def verdict(url, folder):
    with store.open(url) as log:
        (found,) = verify(log, archive=folder)
    return found


def test_archived_events_are_taken_out_and_nothing_is_decided_twice(store_url, tmp_path):
    folder = tmp_path / "archive"
    with Served(store_url) as service:
        client = service.client
        configure(client)
        play(client, 30)
        before = counts(client)
        done = archived(store_url, folder)
        assert (done.written, done.last) == (sum(before.values()) + 1, done.written)
        assert counts(client) == before, "the service goes on from what was learned"
        for again in (decide(client, "e1", 1), decide(client, "e1", 2), reward(client, "e3", 1)):
            assert problem(again, 410)["code"] == "archived"
        assert ok(reward(client, "e8", 0)) == {"status": "learned"}, "it was still pending"
        play(client, 10, first=100)
        live = digest(client)
        assert verified(store_url) == {"news": live}
        whole = verdict(store_url, folder)
        assert (whole.faults, whole.digest) == ([], live)
        frame = polars.read_parquet(folder / "news" / "*.parquet")
        assert frame["seq"].to_list() == list(range(1, done.last + 1))
        with store.open(store_url) as log, log.read() as session:
            kept = list(session.all_events("news"))
        assert all(event.body == b"" for event in kept[: done.last])
        assert [event.event_id for event in kept[: done.last]] == frame["event_id"].to_list()
        more = archived(store_url, folder)
        assert more.last == len(kept) == done.last + more.written
        assert verdict(store_url, folder).faults == []
    with Served(store_url) as service:
        whole = verdict(store_url, folder)
        assert (whole.faults, whole.digest) == ([], digest(service.client))


def test_only_what_is_old_enough_is_archived(tmp_path):
    url, clock = f"sqlite:///{tmp_path}/log.db", Clock()
    with Served(url, clock=clock) as service:
        configure(service.client)
        for day in range(5):
            for i in range(10):
                ok(decide(service.client, f"d{day}-{i}"))
            clock.pass_seconds(86_400)
        third_day = clock.now_ns - 3 * 86_400_000_000_000
        assert archived(url, tmp_path / "a", before_ns=third_day).last == 21
        assert problem(decide(service.client, "d1-9"), 410)["code"] == "archived"
        ok(decide(service.client, "d2-0"))
        assert archived(url, tmp_path / "a", before_ns=third_day).written == 0


@pytest.mark.parametrize("step", ["written", "compared", "taken out"])
def test_an_archive_that_was_broken_off_is_made_whole_by_the_next(tmp_path, step, monkeypatch):
    url, folder = f"sqlite:///{tmp_path}/log.db", tmp_path / "archive"
    monkeypatch.setattr(store.archives, "MOST_EVENTS", 300)
    monkeypatch.setattr(store.archives, "_CLEARED_AT_ONCE", 300)
    with Served(url) as service:
        configure(service.client)
        for batch in range(2):
            asked = [
                {"event_id": f"{batch}-{i}", "arms": [{"id": "a", "x": [0.1, 0.2]}]}
                for i in range(600)
            ]
            ok(service.client.post(f"{NEWS}/decisions:batch", json={"decisions": asked}))

        def say(what, done, total):
            if what == step:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            archived(url, folder, say=say)
        assert verified(url) == {"news": digest(service.client)}
        ok(decide(service.client, "meanwhile"))
        done = archived(url, folder)
        assert done.last >= 1201
        whole = verdict(url, folder)
        assert (whole.faults, whole.digest) == ([], digest(service.client))
        assert problem(decide(service.client, "0-7"), 410)["code"] == "archived"


def test_an_archive_that_was_altered_is_found(tmp_path):
    url, folder = f"sqlite:///{tmp_path}/log.db", tmp_path / "archive"
    with Served(url) as service:
        configure(service.client)
        play(service.client, 20)
        archived(url, folder)
        (file,) = (folder / "news").iterdir()
        frame = polars.read_parquet(file)
        altered = frame.with_columns(
            body=polars.when(polars.col("seq") == 7).then(b"no").otherwise(polars.col("body"))
        )
        altered.write_parquet(file)
        assert any("event 7" in fault for fault in verdict(url, folder).faults)
        with pytest.raises(StoreError, match="event 7"):
            archived(url, folder)
        file.unlink()
        with pytest.raises(StoreError, match="event 1 is not in the archive"):
            archived(url, folder)
        with pytest.raises(StoreError, match="another archive"):
            archived(url, tmp_path / "elsewhere")
        assert verified(url)


def test_an_archived_event_can_be_erased_from_the_store(tmp_path):
    url, folder = f"sqlite:///{tmp_path}/log.db", tmp_path / "archive"
    with Served(url) as service:
        configure(service.client)
        play(service.client, 20)
        archived(url, folder)
        ok(service.client.post(f"{NEWS}/erasures", json={"event_ids": ["e3"]}))
        assert problem(decide(service.client, "e3"), 410)["code"] == "erased"
        with store.open(url) as log, log.read() as session:
            assert all(event.event_id != "e3" for event in session.all_events("news"))
        assert verdict(url, folder).faults == []
        assert verified(url) == {"news": digest(service.client)}


def test_the_commands_and_what_they_say(tmp_path):
    url, folder = f"sqlite:///{tmp_path}/log.db", tmp_path / "archive"
    with Served(url) as service:
        configure(service.client)
        play(service.client, 20)
    for arguments in (
        ("log", "archive", "--policy", "news", "--to", str(folder), "--before-days", "0"),
        ("verify", "--archive", str(folder)),
        ("verify",),
    ):
        told = subprocess.run(
            [sys.executable, "-m", "driftbandits", *arguments, "--store", url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        assert "events" in told.stdout
