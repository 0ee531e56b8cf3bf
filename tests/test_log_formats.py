"""Logs in files: what goes in comes out, and what is no log is refused by name."""

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import driftbandits as db
from driftbandits import store
from driftbandits.cli.commands import BAD_USAGE, DONE, run
from driftbandits.evaluate import Log, LoggedDecision, log_of, read_log, read_stored, write_log
from driftbandits.evaluate.dsjson import columns
from driftbandits.evaluate.log import nanoseconds, timestamp
from driftbandits.service.logs import parquet
from driftbandits.service.state import State
from driftbandits.store import NewEvent
from driftbandits.store.records import Decided, Rewarded, packed

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable())


@st.composite
def logs(draw: st.DrawFn) -> Log:
    dim, n = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    rows = []
    for name in draw(st.lists(NAMES, min_size=n, max_size=n, unique=True)):
        arm_ids = tuple(draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)))
        vector = st.lists(FINITE, min_size=dim, max_size=dim)
        rows.append(
            LoggedDecision(
                name,
                draw(st.integers(0, 2**62)),
                arm_ids,
                np.array([draw(vector) for _ in arm_ids]),
                draw(st.integers(0, len(arm_ids) - 1)),
                draw(st.floats(0, 1, exclude_min=True)),
                draw(st.none() | FINITE.map(lambda x: x + 0.0)),
            )
        )
    return log_of(rows)


def plain(log: Log) -> list[LoggedDecision]:
    return [row._replace(arms=row.arms.tolist(), table=None) for row in log]


@pytest.mark.parametrize("suffix", [".parquet", ".dsjson"])
@given(log=logs())
def test_what_is_written_is_read(suffix, log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / f"log{suffix}"
    write_log(log, path)
    assert plain(read_log(path)) == plain(log)


def test_objects_within_objects_are_columns():
    given = {"a": 1, "b": [{"c": "x", "_at": 3}, {"d": [0.5, 1.5]}], "tags": ["u"], "none": None}
    assert columns(given) == {"a": 1, "b.c": "x", "b.d": [0.5, 1.5], "tags": ["u"], "none": None}
    with pytest.raises(ValueError, match=r"each column once; got 'b\.c' twice"):
        columns({"b": {"c": 1}, "b.c": 2})


def test_dsjson_is_what_vowpal_wabbit_reads(tmp_path):
    log = Log(
        event_id=["first", "second"],
        at=[1_612_456_289_246_000_000, 1_612_456_289_246_000_001],
        arms=[[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [[0.25, 0.0]]],
        chosen=[1, 0],
        propensity=[0.5, 1.0],
        reward=[1.0, math.nan],
        arm_ids=[["tea", "milk", "mate"], ["tea"]],
    )
    write_log(log, tmp_path / "log.dsjson")
    first, second = map(json.loads, (tmp_path / "log.dsjson").read_text().splitlines())
    assert first == {
        "_label_cost": -1.0,
        "_label_probability": 0.5,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Timestamp": "2021-02-04T16:31:29.2460000Z",
        "Version": "1",
        "EventId": "first",
        "a": [2, 1, 3],
        "c": {
            "_multi": [
                {"_tag": "tea", "x": [1.0, 0.0]},
                {"_tag": "milk", "x": [0.0, 1.0]},
                {"_tag": "mate", "x": [0.5, 0.5]},
            ]
        },
        "p": [0.5, 0.25, 0.25],
    }
    # Vowpal Wabbit reads a missing cost as 0; being told not to learn, it leaves the line alone.
    assert "_label_cost" not in second
    assert second["_skipLearn"] is True
    assert second["p"] == [1.0]
    assert second["Timestamp"] == "2021-02-04T16:31:29.246000001Z"


# As such services wrote it: features by namespace, rewards observed (o), a model's name (VWState).
FOREIGN = {
    "_label_cost": -0.75,
    "_label_probability": 0.8166667,
    "_label_Action": 3,
    "_labelIndex": 2,
    "o": [{"v": 0.75, "EventId": "e1", "ActionTaken": False}],
    "Timestamp": "2021-02-04T16:31:29.2460000Z",
    "Version": "1",
    "EventId": "e1",
    "a": [3, 1, 2],
    "c": {
        "GUser": {"major": "biology", "age": 0.3},
        "_synthetic": False,
        "_multi": [
            {"_tag": "tea", "i": {"constant": 1, "id": "tea"}, "j": [{"type": "hot"}]},
            {"_tag": "cola", "i": {"constant": 1, "id": "cola"}, "j": [{"type": "cold"}]},
            {"_tag": "mate", "i": {"constant": 1, "id": "mate"}},
        ],
    },
    "p": [0.8166667, 0.0916667, 0.0916667],
    "VWState": {"m": "ab/1"},
}


def written(folder: Path, *events: object) -> Path:
    path = folder / "foreign.dsjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_a_log_from_elsewhere_has_tables_and_the_vectors_of_its_features(tmp_path):
    elder = {**FOREIGN, "EventId": "e0", "Timestamp": "2021-02-04T16:31:28Z"}
    elder["c"] = {**elder["c"], "GUser": {"major": "law", "age": 0.7}}
    log = read_log(written(tmp_path, FOREIGN, elder))
    _, row = log
    assert (row.event_id, row.at, row.chosen) == ("e1", 1_612_456_289_246_000_000, 2)
    assert (row.propensity, row.reward) == (0.8166667, 0.75)
    assert row.arm_ids == ("tea", "cola", "mate")
    context, arms = row.table
    assert context == {"GUser.major": "biology", "GUser.age": 0.3}
    assert arms[0] == {"i.constant": 1, "i.id": "tea", "j.type": "hot"}
    assert arms[2] == {"i.constant": 1, "i.id": "mate"}
    assert log.features.context["GUser.major"] == "category"
    assert len({tuple(x) for x in row.arms.tolist()}) == 3
    assert max(np.linalg.norm(x) for one in log for x in one.arms) <= 1.0 + 1e-12
    given = db.Features(arm={"i.id": "category"}, extra="ignore")
    small = read_log(written(tmp_path, FOREIGN, elder), features=given)
    assert small.dim == given.fit([context], arms).dim
    np.testing.assert_array_equal(*(one.arms for one in small))


def changed(**fields: object) -> dict[str, object]:
    event = {**FOREIGN, **fields}
    return {key: value for key, value in event.items() if value is not ...}


@pytest.mark.parametrize(
    ("event", "reward", "place"),
    [
        (changed(_label_cost=-0.0, o=...), 0.0, 2),  # the default reward of a service
        (changed(_label_cost=2.5, _label_Action=...), -2.5, 2),
        (changed(_label_cost=..., _labelIndex=...), None, 2),
        (changed(_labelIndex=..., _label_Action=..., a=[2, 3, 1]), 0.75, 1),
        (changed(_skipLearn=True), None, 2),  # never shown to anybody
    ],
)
def test_rewards_are_minus_costs_and_three_fields_name_the_choice(event, reward, place, tmp_path):
    (row,) = read_log(written(tmp_path, event))
    assert (row.reward, row.chosen) == (reward, place)
    assert reward is None or math.copysign(1.0, row.reward) == math.copysign(1.0, reward)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ([], "an event must be an object"),
        ({"RewardValue": 1.0, "EventId": "e1"}, "c._multi must be the list of actions"),
        (changed(c={"_multi": []}), "c._multi must hold one object for each action"),
        (changed(_outcomes=[]), "one choice from one set"),
        (changed(Timestamp="yesterday"), "Timestamp must be a time such as .*; got 'yesterday'"),
        (
            changed(_label_probability=...),
            "_label_probability must be a finite number .*; got None",
        ),
        (changed(_labelIndex=3), "_labelIndex must be an integer from 0 to 2; got 3"),
        (changed(_labelIndex=[1]), "_labelIndex must be an integer from 0 to 2"),
        (
            changed(_labelIndex=..., _label_Action=..., a=...),
            "_label_Action, or the first of a, must be an integer from 1 to 3; got None",
        ),
        (changed(pdrop=-0.1), "pdrop must be a finite number of at least 0"),
    ],
)
def test_a_line_that_is_no_decision_is_refused(event, message, tmp_path):
    path = written(tmp_path, FOREIGN, event)
    with pytest.raises(ValueError, match=f"(?s)line 2 of .*foreign.dsjson.*{message}"):
        read_log(path)


def test_a_file_without_events_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold at least one event"):
        read_log(written(tmp_path))


def test_vectors_are_of_one_length_and_stand_everywhere_or_nowhere(tmp_path):
    ours = {**FOREIGN, "EventId": "e2", "c": {"_multi": [{"x": [1.0]}, {"x": [2.0]}, {"x": [3.0]}]}}
    with pytest.raises(ValueError, match=r"every action .* must have a vector x, or none"):
        read_log(written(tmp_path, FOREIGN, ours))
    ours["c"] = {"_multi": [{"x": [1.0]}, {"x": [2.0, 3.0]}, {"x": [3.0]}]}
    with pytest.raises(ValueError, match=r"a vector x of numbers, all of one length"):
        read_log(written(tmp_path, ours))


def test_thinning_before_logging_must_be_even(tmp_path):
    other = changed(EventId="e2", pdrop=0.5)
    with pytest.raises(ValueError, match=r"pdrop must be the same in every line.*0.0 to 0.5"):
        read_log(written(tmp_path, FOREIGN, other))


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T02:00:00.000000001+02:00", 1),
        ("1969-12-31T23:59:59.9Z", -100_000_000),
        ("2019-08-13T20:40:28.7880000Z", 1_565_728_828_788_000_000),
    ],
)
def test_times_are_exact(text, ns):
    assert nanoseconds("at", text) == ns
    assert nanoseconds("at", timestamp(ns)) == ns


def test_parquet_of_other_programs(tmp_path):
    frame = pl.DataFrame(
        {
            "event_id": ["a", "b"],
            "at": [20, 10],
            "arms": [[[1.0], [2.0]], [[3.0]]],
            "chosen": [1, 0],
            "propensity": [0.5, 1.0],
            "reward": [None, 1.0],
        }
    )
    path = tmp_path / "log.parquet"
    frame.write_parquet(path)
    later, earlier = "a", "b"
    log = read_log(path)
    assert [row.event_id for row in log] == [earlier, later]
    assert [row.arm_ids for row in log] == [("0",), ("0", "1")]
    assert [row.reward for row in log] == [1.0, None]
    microseconds = frame.with_columns(pl.from_epoch("at", "s").cast(pl.Datetime("us")))
    microseconds.write_parquet(path)
    assert read_log(path).at.tolist() == [10 * 10**9, 20 * 10**9]
    frame.drop("arms").write_parquet(path)
    with pytest.raises(ValueError, match=r"must have the columns .*; arms missing"):
        read_log(path)
    frame.with_columns(propensity=None).write_parquet(path)
    with pytest.raises(ValueError, match="propensity must be known in every line"):
        read_log(path)


GOOD = {
    "event_id": ["a", "b"],
    "at": [1, 2],
    "arms": [[[1.0], [0.5]], [[0.2]]],
    "chosen": [1, 0],
    "propensity": [0.5, 1.0],
    "reward": [1.0, 0.0],
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"event_id": []}, "event_id must hold at least one decision"),
        ({"event_id": ["a", 2]}, "event_id must hold .* each with a text that is not empty"),
        ({"at": [1.5, 2.0]}, "at must be 2 whole numbers"),
        ({"event_id": ["a", "a"]}, "event_id must differ from row to row; got 'a' twice"),
        ({"at": [2, 1]}, "at must be no earlier than in the row before; row 1 has 1"),
        ({"arms": [[[1.0]]]}, r"arms must be 2 arrays \(K, d\), one for each decision.*; got 1"),
        ({"arms": [[[1.0]], [[1.0, 2.0]]]}, r"with one d for all; got 2 with d = \[1, 2\]"),
        ({"arms": [[[1.0], [0.5]], [[math.nan]]]}, "arms of row 1 must be finite"),
        ({"chosen": [2, 0]}, "chosen must be the place of an arm, from 0; row 0 has 2"),
        ({"propensity": [0.5, 0.0]}, "propensity must be above 0 and at most 1; row 1 has 0.0"),
        ({"reward": [math.inf, 0.0]}, "reward must be finite, or NaN where unknown; row 0"),
        ({"arm_ids": [["a", "a"], ["b"]]}, "arm_ids must be texts that differ"),
        ({"arm_ids": [["a"], ["b"]]}, "arm_ids must have one name for each action"),
    ],
)
def test_a_log_refuses_what_does_not_fit(wrong, message):
    assert len(Log(**GOOD)) == 2
    with pytest.raises(ValueError, match=message):
        Log(**{**GOOD, **wrong})


def test_a_log_is_a_world_to_play():
    trace = Log(**{**GOOD, "reward": [1.0, None]}).trace()
    np.testing.assert_array_equal(trace.actions, [[[1.0], [0.5]], [[0.2], [0.0]]])
    np.testing.assert_array_equal(trace.rewards, [[math.nan, 1.0], [math.nan, math.nan]])
    np.testing.assert_array_equal(trace.available, [[True, True], [True, False]])


# --- stores --------------------------------------------------------------------------------------


def some_log(n: int = 60) -> Log:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 4, size=n)
    return Log(
        event_id=[f"e{t}" for t in range(n)],
        at=10**18 + np.arange(n) * 10**9,
        arms=[rng.uniform(-0.5, 0.5, size=(size, 3)) for size in sizes],
        chosen=[int(rng.integers(size)) for size in sizes],
        propensity=1.0 / sizes,
        reward=np.where(rng.random(n) < 0.8, (rng.random(n) < 0.5).astype(float), np.nan),
    )


@pytest.fixture
def imported(tmp_path, capsys):
    """The address of a store with a policy that was warmed by a log."""
    write_log(some_log(), tmp_path / "old.parquet")
    url = f"sqlite:///{tmp_path / 'bandits.db'}"
    command = ["log", "import", str(tmp_path / "old.parquet"), "--store", url, "--as", "news"]
    assert run([*command, "--policy", "D-GLUCB", "--discount", "0.99", "--seed", "3"]) == DONE
    known = int(some_log().known.sum())
    assert capsys.readouterr().out == f"60 decisions, {known} with a reward\n"
    return url


def test_an_imported_log_warms_a_policy(imported):
    with store.open(imported) as opened, opened.read() as session:
        state = State("news")
        state.replay(store.checked(session.all_events("news"), after=state.head))
    assert state.differences == 0
    assert [version.record.mode for version in state.versions] == ["apprentice", "online"]
    log = some_log()
    agent = db.Agent(db.policy("D-GLUCB", dim=3, discount=0.99))
    for row in log:
        agent.tick()
        if row.reward is not None:
            agent.learn(row.arms[[row.chosen]], [row.reward], ages=[0])
    np.testing.assert_allclose(state.playing.theta_hat, agent.theta_hat, atol=1e-9)
    assert np.linalg.norm(agent.theta_hat) > 0.01
    assert run(["verify", "--store", imported]) == DONE


def test_an_imported_policy_can_forget_by_the_clock(tmp_path):
    """A reward of an hour ago counts half with a half-life of an hour."""
    hour = 3600 * 10**9
    rows = [
        LoggedDecision(f"e{i}", at, ("a",), np.array([[1.0]]), 0, 1.0, value)
        for i, (at, value) in enumerate([(hour, 1.0), (2 * hour, 0.0)])
    ]
    write_log(log_of(rows), tmp_path / "old.parquet")
    url = f"sqlite:///{tmp_path / 'bandits.db'}"
    command = ["log", "import", str(tmp_path / "old.parquet"), "--store", url]
    command += ["--as", "news", "--policy", "D-LinUCB", "--lam", "1"]
    assert run([*command, "--half-life-s", "3600"]) == DONE
    with store.open(url) as opened, opened.read() as session:
        state = State("news")
        state.replay(store.checked(session.all_events("news"), after=state.head))
    assert state.differences == 0
    assert state.playing.theta_hat[0] == pytest.approx(0.5 / (1.0 + 0.5 + 1.0), rel=1e-6)
    assert run(["verify", "--store", url]) == DONE


@pytest.mark.parametrize("suffix", [".parquet", ".dsjson"])
def test_what_was_imported_can_be_exported(imported, suffix, tmp_path):
    path = tmp_path / f"new{suffix}"
    assert run(["log", "export", imported, str(path), "--policy", "news"]) == DONE
    assert plain(read_log(path)) == plain(some_log())


@pytest.mark.parametrize("name", ["auto", pytest.param("D-GLUCB", marks=pytest.mark.compiled)])
def test_an_imported_log_of_tables_makes_a_policy_with_features(name, tmp_path):
    events = [
        {**FOREIGN, "EventId": f"e{t}", "Timestamp": f"2021-02-04T16:31:{10 + t}Z"}
        | {"c": {**FOREIGN["c"], "GUser": {"major": ["biology", "law"][t % 2], "age": 0.1 * t}}}
        for t in range(20)
    ]
    source, url = written(tmp_path, *events), f"sqlite:///{tmp_path / 'bandits.db'}"
    features = tmp_path / "features.json"
    features.write_text(read_log(source).features.with_columns().to_json())
    for number, chosen in enumerate([[], ["--features", str(features)]]):
        command = ["log", "import", str(source), "--store", url, "--as", f"menu{number}"]
        more = ["--discount", "0.99"] if name == "D-GLUCB" else []
        assert run([*command, "--policy", name, *more, *chosen]) == DONE
    assert run(["verify", "--store", url]) == DONE
    with store.open(url) as opened, opened.read() as session:
        state = State("menu0")
        state.replay(store.checked(session.all_events("menu0"), after=state.head))
    agent = state.playing
    assert agent.policy.features.is_fitted == (name == "D-GLUCB")
    assert state.learned == 20
    assert agent.coefficients["i.id=mate"] != 0
    agent.decide(context={"GUser.major": "art"}, arms={"a": {"i.id": "tea"}, "b": {}})


def test_learned_rewards_count_and_late_ones_where_nothing_was(tmp_path):
    x = np.array([[1.0, 0.0], [0.0, 0.5]])

    def decided(number: int, arms: np.ndarray = x) -> Decided:
        scores = np.zeros(len(arms)).tobytes()
        names = tuple("ab"[: len(arms)])
        return Decided(1, names, arms.tobytes(), -1, 1, 1, number, 0.5, scores, "")

    entries = [
        NewEvent(store.Kind.DECISION, "old", 1, packed(decided(1, np.ones((2, 3))))),
        *(
            NewEvent(store.Kind.DECISION, f"e{i}", 1 + i, packed(decided(1 + i)))
            for i in range(1, 6)
        ),
        NewEvent(store.Kind.REWARD, "e1", 10, packed(Rewarded(1.0, ""))),
        NewEvent(store.Kind.DEFAULT, "e2", 11, packed(Rewarded(0.0, ""))),
        NewEvent(store.Kind.LATE, "e2", 12, packed(Rewarded(1.0, ""))),
        NewEvent(store.Kind.LATE, "e3", 13, packed(Rewarded(0.25, ""))),
    ]
    with store.open(f"sqlite:///{tmp_path / 'bandits.db'}") as opened:
        with opened.write() as session:
            session.create("news")
            session.create("empty")
            session.lock(["news"])
            session.append("news", entries)
            session.erase(
                "news", session.matching("news", first="e5", last="e5", until=99, limit=9)
            )
        with opened.read() as session:
            log = read_stored(session, "news")
            (tmp_path / "events.parquet").write_bytes(parquet(session.events("news")))
            exported = read_log(tmp_path / "events.parquet")  # as the service gives its events
            assert plain(exported) == plain(log)
            assert [(row.event_id, row.at, row.reward) for row in log] == [
                ("e1", 2, 1.0),
                ("e2", 3, 0.0),
                ("e3", 4, 0.25),
                ("e4", 5, None),
            ]
            np.testing.assert_array_equal(log.arms[0], x)
            assert next(iter(log))._replace(arms=x) == LoggedDecision(
                "e1", 2, ("a", "b"), x, 1, 0.5, 1.0
            )
            with pytest.raises(ValueError, match="policy must be one of empty, news; got 'old'"):
                read_stored(session, "old")
            with pytest.raises(ValueError, match="events must hold at least one decision"):
                read_stored(session, "empty")


@pytest.mark.parametrize(
    ("change", "policy", "message"),
    [
        ({}, "D-GLUCB", "D-GLUCB needs discount="),
        ({"event_id": "white space"}, "random", "event_id must be 1 to 128 characters"),
        ({"arm_ids": ("a|b", "c", "d")}, "random", "arm must be 1 to 128 characters"),
        ({"reward": 9.0}, "random", "reward must be a number in [0, 1]"),
    ],
)
def test_a_log_that_no_service_could_go_on_with_makes_no_policy(
    change, policy, message, tmp_path, capsys
):
    changed = next(row for row in some_log() if len(row.arms) == 3)._replace(**change)
    write_log(log_of([changed]), tmp_path / "log.parquet")
    url = f"sqlite:///{tmp_path / 'new.db'}"
    command = ["log", "import", str(tmp_path / "log.parquet"), "--store", url, "--as", "news"]
    assert run([*command, "--policy", policy]) == BAD_USAGE
    assert capsys.readouterr().err.startswith(f"Error: {message}")
    if (tmp_path / "new.db").exists():
        with store.open(url) as opened, opened.read() as session:
            assert session.policies() == []
