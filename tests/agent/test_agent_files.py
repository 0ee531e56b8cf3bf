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


def test_a_save_is_one_file_which_another_replaces(saved):
    assert zipfile.is_zipfile(saved)
    veteran().save(str(saved))
    assert db.Agent.load(str(saved)).policy.centre == 0.0
    before = saved.read_bytes()
    with pytest.raises(FileNotFoundError, match=r"no such folder: '.*nowhere'$"):
        veteran(intercept=True).save(saved.parent / "nowhere" / "agent")
    assert [entry.name for entry in saved.parent.iterdir()] == ["agent"]
    assert saved.read_bytes() == before


def test_the_content_of_a_file_can_be_kept_elsewhere(saved):
    agent = db.Agent.load(saved)
    assert agent.to_bytes() == saved.read_bytes()
    again = db.Agent.from_bytes(agent.to_bytes())
    assert same(again.decide(np.eye(2) / 2), agent.decide(np.eye(2) / 2))
    assert again.digest == agent.digest
    again.tick(1)
    assert again.digest != agent.digest
    with pytest.raises(db.BadSaveFile, match=r"the content"):
        db.Agent.from_bytes(b"nothing")


@pytest.mark.parametrize("clock", ["decisions", "ticks"])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("auto", {}),
        ("SW-GLUCB", {"window": 90}),
        ("D-LinUCB", {"discount": 0.9, "reward": "rating:0..1"}),
        ("GLM-TSL", {}),
    ],
)
def test_a_copy_goes_on_like_the_original(name, given, clock):
    """Separate arms and tables are saved in their own tests."""
    agent = db.Agent(db.policy(name, dim=2, **given), seed=3, clock=clock)
    agent.warns = False
    waiting = agent.decide([[0.5, 0.0], [0.0, 0.5]])
    for t in range(1, 12):
        agent.update(agent.decide([[0.5, t / 40], [t / 40, 0.5]]), t % 2)
        agent.tick(t % 3)
    other = copy.deepcopy(agent) if name == "auto" else pickle.loads(pickle.dumps(agent))
    assert (other.digest, other.warns, other.pending) == (agent.digest, False, (1,))
    for t in range(12, 20):
        one, two = (each.decide([[0.5, t / 40], [t / 40, 0.5]]) for each in (agent, other))
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


def test_no_file_that_was_cut_or_changed_is_loaded(saved):
    """Cuts everywhere; bytes all over the file, and every byte of the directory at its end."""
    content = saved.read_bytes()
    directory = content.index(b"PK\x01\x02")
    places = {*np.random.default_rng(0).integers(0, directory, size=100).tolist(), *range(100)}
    broken = [content[:cut] for cut in (0, 1, 4, *range(30, len(content), 997), len(content) - 1)]
    for place in sorted(places | set(range(directory, len(content)))):
        altered = bytearray(content)
        altered[place] ^= 0xFF
        broken.append(bytes(altered))
    for one in broken:
        with pytest.raises(db.BadSaveFile, match="the content"):
            db.Agent.from_bytes(one)


def test_the_content_has_a_checksum_and_the_right_json(saved):
    """Somebody who knows the format writes the checksum too: only the content gives it away."""
    with np.load(saved, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    file = io.BytesIO()
    np.savez(file, **arrays)
    with pytest.raises(db.BadSaveFile, match="checksum"):
        db.Agent.from_bytes(file.getvalue())
    for text, said in ((b"", "the con"), (b"{}", "'format'"), (b'{"format": 999}', "format 999")):
        file = io.BytesIO()
        np.savez(file, **{**arrays, "json": np.frombuffer(text, dtype=np.uint8)})
        archive = file.getvalue()[:-2] + (64).to_bytes(2, "little")
        with pytest.raises(db.BadSaveFile, match=said):
            db.Agent.from_bytes(archive + hashlib.sha256(archive).hexdigest().encode())


class Trap:
    """Says so when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_other_files_are_refused_and_nothing_is_unpickled(saved):
    npy, trap, pickled = io.BytesIO(), np.empty(1, dtype=object), io.BytesIO()
    np.save(npy, np.eye(2))
    trap[0] = Trap()
    np.savez(pickled, json=trap)
    archive = pickled.getvalue()[:-2] + (64).to_bytes(2, "little")
    signed = archive + hashlib.sha256(archive).hexdigest().encode()
    others = (b"", b"no zip\n", npy.getvalue(), pickle.dumps(Trap()), pickled.getvalue(), signed)
    for content in others:
        saved.write_bytes(content)
        with pytest.raises(db.BadSaveFile, match=r"agent"):
            db.Agent.load(saved)
    assert not Trap.sprung
