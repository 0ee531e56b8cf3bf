"""What is left of erased events in the files: nothing that can be read.

The policy keeps sums. One that keeps rows, as exact generalized linear models do, has the features
of played arms in its state, which an erasure leaves as it is.
"""

import struct
from pathlib import Path

import pytest
from calls import NEWS, configure, ok, verified

from driftbandits import store
from driftbandits.service import erasure
from servers import Served, wait_until

PEOPLE = 60
OF_SUMS = {"name": "LinUCB", "discount": None, "link": "identity"}


def told(number):
    """What a person's event says, each word of it found nowhere else."""
    return {
        "event_id": f"person-{number:03}-visit",
        "arms": [
            {"id": f"offer-{number:03}-red", "x": [0.25 + (number + 1) / 7919, 0.125]},
            {"id": f"offer-{number:03}-blue", "x": [0.5 + (number + 1) / 7919, 0.25]},
        ],
    }


def value(number):
    return 0.3 + (number + 1) / 7907


def words(number):
    said = told(number)
    numbers = [said["arms"][0]["x"][0], said["arms"][1]["x"][0], value(number)]
    return [
        said["event_id"].encode(),
        *(arm["id"].encode() for arm in said["arms"]),
        *(struct.pack(order + "d", number) for number in numbers for order in "<>"),
    ]


def found(folder, numbers):
    """Those whose words stand anywhere in the files."""
    content = b"".join(file.read_bytes() for file in sorted(Path(folder).iterdir()))
    return [n for n in numbers if any(word in content for word in words(n))]


def visit(client, numbers, *, pending=lambda number: number % 5 == 0):
    for number in numbers:
        ok(client.post(f"{NEWS}/decisions", json=told(number)))
        if not pending(number):
            answer = {"event_id": told(number)["event_id"], "value": value(number)}
            ok(client.post(f"{NEWS}/rewards", json=answer))
            ok(client.post(f"{NEWS}/rewards", json=answer))  # a duplicate is an event too


@pytest.mark.parametrize("by", ["ids", "prefix", "age"])
def test_erased_events_leave_no_traces(tmp_path, monkeypatch, by):
    """Neither in the database nor in its log nor in a backup made afterwards."""
    monkeypatch.setattr(erasure, "_MOST_AT_ONCE", 25)  # several portions
    live = tmp_path / "live"
    url = f"sqlite:///{live}/log.db"
    erased, kept = range(PEOPLE), range(100, 120)
    with Served(url, snapshot_every=50) as service:
        configure(service.client, **OF_SUMS)
        visit(service.client, erased)
        if by == "age":
            with store.open(url) as log, log.write() as session:
                session.run("UPDATE event SET at_ns = 0")  # an old log; verified no more
        visit(service.client, kept)
        assert found(live, erased) == list(erased)
        request = {
            "ids": {"event_ids": [told(n)["event_id"] for n in erased]},
            "prefix": {"prefix": "person-0"},
            "age": {"older_than_days": 1},
        }[by]
        count = ok(service.client.post(f"{NEWS}/erasures", json=request))["erased"]
        assert count == PEOPLE + 2 * (PEOPLE - PEOPLE // 5)
        wait_until(lambda: not found(live, erased))
        assert found(live, kept) == list(kept)
    assert found(live, erased) == []
    if by != "age":
        verified(url)
    copy = tmp_path / "copy"
    with store.open(url) as log:
        store.backup(log, f"sqlite:///{copy}/copy.db")
    assert found(copy, erased) == []
    assert found(copy, kept) == list(kept)


def test_an_erasure_is_cut_into_portions(tmp_path, monkeypatch):
    """Each is committed by itself, and after each the log can be folded."""
    monkeypatch.setattr(erasure, "_MOST_AT_ONCE", 10)
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url) as service:
        configure(service.client, **OF_SUMS)
        visit(service.client, range(40))
        portions = []
        erase = erasure.Erase.run

        def run(self, work):
            result = erase(self, work)
            portions.append(result)
            if len(portions) == 3:  # in the middle of it
                raise RuntimeError("the process ends here")
            return result

        with monkeypatch.context() as broken:
            broken.setattr(erasure.Erase, "run", run)
            answer = service.client.post(f"{NEWS}/erasures", json={"prefix": "person"})
        assert answer.status_code == 500
    before = verified(url)
    with Served(url) as service:
        assert ok(service.client.get(f"{NEWS}/digest"))["digest"] == before["news"]
        count = ok(service.client.post(f"{NEWS}/erasures", json={"prefix": "person"}))["erased"]
        assert 0 < count < 40 + 64
        again = ok(service.client.post(f"{NEWS}/erasures", json={"prefix": "person"}))["erased"]
        assert again == 0
    verified(url)
