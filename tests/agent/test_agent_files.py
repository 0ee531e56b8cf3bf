"""Saving and loading, and files that are not whole."""

import copy
import hashlib
import io
import pickle
import zipfile

import numpy as np
import pytest
from agent_checks import veteran

import driftbandits as db
from policy_checks import same


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "agent"
    veteran(intercept=True, centre=0.25, link="identity").save(path)
    return path


def test_a_save_is_one_file_where_it_was_asked_for(saved):
    assert [entry.name for entry in saved.parent.iterdir()] == ["agent"]
    assert zipfile.is_zipfile(saved)
    veteran().save(str(saved))
    assert [entry.name for entry in saved.parent.iterdir()] == ["agent"]
    assert db.Agent.load(str(saved)).policy.centre == 0.0


def test_a_save_that_fails_leaves_nothing_behind(saved):
    before = saved.read_bytes()
    with pytest.raises(FileNotFoundError, match=r"no such folder: '.*nowhere'$"):
        veteran().save(saved.parent / "nowhere" / "agent")
    (saved.parent / "folder").mkdir()
    with pytest.raises(OSError, match=r"."):
        veteran().save(saved.parent / "folder")
    assert sorted(entry.name for entry in saved.parent.iterdir()) == ["agent", "folder"]
    assert saved.read_bytes() == before


def test_the_content_of_a_file_can_be_kept_elsewhere(saved):
    agent = db.Agent.load(saved)
    assert agent.to_bytes() == saved.read_bytes()
    again = db.Agent.from_bytes(agent.to_bytes())
    assert again.digest == agent.digest
    assert same(again.decide(np.eye(2) / 2), agent.decide(np.eye(2) / 2))
    assert again.digest == agent.digest
    again.tick(1)
    assert again.digest != agent.digest
    with pytest.raises(db.BadSaveFile, match=r"the content"):
        db.Agent.from_bytes(b"nothing")


TABLES = db.Features(context={"x": "number", "y": "category"}, arm={"id": "category"})
COPIED = {
    "auto": {"dim": 2},
    "SW-GLUCB": {"dim": 2, "window": 90},
    "D-LinUCB": {"dim": 2, "discount": 0.9, "reward": "rating:0..1"},
    "GLM-TSL": {"dim": 2},
    "auto by arms": {"dim": 2, "arms": "separate"},
    "auto of tables": {"features": TABLES},
}


@pytest.mark.parametrize("label", COPIED)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_a_copy_goes_on_like_the_original(label, copied):
    given = COPIED[label]
    agent = db.Agent(db.policy(label.split()[0], **given), seed=3)
    agent.warns = False
    asked = {
        "features": lambda t: {"context": {"x": t / 9, "y": f"level {t}"}, "arms": ["a", "b"]},
        "arms": lambda t: {"actions": [0.5, t / 40], "arms": ["a", f"b{t % 3}"]},
        "dim": lambda t: {"actions": [[0.5, t / 40], [t / 40, 0.5]]},
    }
    ask = next(asked[key] for key in asked if key in given)
    waiting = agent.decide(**ask(0))
    for t in range(1, 12):
        agent.update(agent.decide(**ask(t)), t % 2)
    other = copied(agent)
    assert (other.digest, other.warns, other.pending) == (agent.digest, False, (1,))
    for t in range(12, 20):
        one, two = agent.decide(**ask(t)), other.decide(**ask(t))
        assert same(one, two)
        agent.update(one, 1)
        assert agent.digest != other.digest
        other.update(two, 1)
    assert agent.update(waiting.id, 0) == other.update(waiting.id, 0)
    assert agent.digest == other.digest


def test_a_decision_has_the_same_table_live_and_loaded(tmp_path):
    agent = veteran()
    live = agent.decide([[0.5, 0.0], [0.0, 0.5], [0.1, 0.2]])
    agent.save(tmp_path / "agent")
    loaded = db.Agent.load(tmp_path / "agent").explain(live.id).decision
    for decision in (live, loaded):
        assert decision.table.shape == (3, 3)
        assert decision.table.tolist() == [list(live.means), list(live.widths), list(live.scores)]
        assert not decision.table.flags.writeable


def test_truncated_files(saved):
    content = saved.read_bytes()
    cuts = {0, 1, 4, 30, 100, len(content) // 2, len(content) - 23, len(content) - 22}
    cuts |= set(range(0, len(content), 997)) | {len(content) - 1}
    for cut in sorted(cuts):
        saved.write_bytes(content[:cut])
        with pytest.raises(db.BadSaveFile, match=r"agent"):
            db.Agent.load(saved)


def changed_bytes(content):
    """Places all over the file, and every byte of the directory at its end."""
    directory = content.index(b"PK\x01\x02")
    rng = np.random.default_rng(0)
    inside = set(rng.integers(0, directory, size=100).tolist()) | set(range(100))
    return sorted(inside | set(range(directory, len(content))))


def test_no_changed_byte_goes_unnoticed(saved):
    content = saved.read_bytes()
    unnoticed = []
    for place in changed_bytes(content):
        altered = bytearray(content)
        altered[place] ^= 0xFF
        saved.write_bytes(altered)
        try:
            db.Agent.load(saved)
            unnoticed.append((place, "loaded"))
        except db.BadSaveFile:
            pass
        except Exception as error:
            unnoticed.append((place, repr(error)))
    assert unnoticed == []


def arrays_of(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def write_with_checksum(path, arrays):
    """What somebody would write who knows the format: only the content gives it away."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    archive = file.getvalue()[:-2] + (64).to_bytes(2, "little")
    path.write_bytes(archive + hashlib.sha256(archive).hexdigest().encode())


def test_an_archive_without_the_checksum_is_refused(saved):
    arrays = arrays_of(saved)
    with saved.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(db.BadSaveFile, match="checksum"):
        db.Agent.load(saved)


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"", "agent"), (b"\xff\xfe", "agent"), (b"{}", "format"), (b'{"format": 999}', "format 999")],
)
def test_what_is_not_the_right_json(saved, text, said):
    arrays = arrays_of(saved)
    arrays["json"] = np.frombuffer(text, dtype=np.uint8)
    write_with_checksum(saved, arrays)
    with pytest.raises(db.BadSaveFile, match=said):
        db.Agent.load(saved)


class Trap:
    """Says so when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def other_files():
    npy, plain = io.BytesIO(), io.BytesIO()
    np.save(npy, np.eye(2))
    with zipfile.ZipFile(plain, "w") as file:
        file.writestr("readme.txt", "nothing of ours")
    trap = np.empty(1, dtype=object)
    trap[0] = Trap()
    pickled, pickled_json = io.BytesIO(), io.BytesIO()
    np.savez(pickled, json=np.frombuffer(b"{}", dtype=np.uint8), rows=trap)
    np.savez(pickled_json, json=trap)
    return {
        "empty": b"",
        "text": b"not a zip\n",
        "npy": npy.getvalue(),
        "zip": plain.getvalue(),
        "pickle": pickle.dumps(Trap()),
        "pickle inside": pickled.getvalue(),
        "pickle for json": pickled_json.getvalue(),
        "zip signature": b"PK\x03\x04" + bytes(100),
        "end of a zip": b"PK\x05\x06" + bytes(18),
    }


@pytest.mark.parametrize("label", other_files())
def test_other_files(saved, label):
    saved.write_bytes(other_files()[label])
    with pytest.raises(db.BadSaveFile, match=r"agent"):
        db.Agent.load(saved)
    assert not Trap.sprung
