"""How columns become coordinates: every kind, crosses, missing values, limits, bad input."""

import json
import math
import tomllib
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import driftbandits as db
from driftbandits.features import Encoding, offered
from driftbandits.features.columns import KEPT, SETTLED_AFTER

SHOP = db.Features(
    context={"age": "number", "country": "category", "hour": "cycle:24", "basket": "log"},
    arm={"kind": "category", "price": "log"},
    cross=[("kind", "country"), ("price", "basket")],
)


def coordinates(features, context, arms, encoding=None):
    """What each arm's row has, by name; read by an encoding that keeps it."""
    encoding = Encoding(features) if encoding is None else encoding
    for name, _ in encoding._unsettled:  # as if the centre were settled at 0
        encoding.book.seen[name], encoding.book.centres[name] = (SETTLED_AFTER, ()), 0.0
    encoding._find_unsettled()
    encoded = encoding.encode(context, offered(arms, ()))
    encoding.commit()
    rows = encoded.dense(len(encoding))
    names = encoding.book.names
    return {
        arm: {name: x for name, x in zip(names, row.tolist(), strict=True) if x != 0.0}
        for arm, row in zip(encoded.arms, rows, strict=True)
    }


# -- kinds ---------------------------------------------------------------------------------------


def test_a_row_is_the_sum_of_its_columns_and_their_products():
    context = {"age": 34, "country": "DE", "hour": 6, "basket": math.e - 1}
    found = coordinates(SHOP, context, {"o": {"kind": "shoes", "price": math.e**2 - 1}})
    wanted = {"age": 34.0, "country=DE": 1.0, "hour sin": 1.0}
    wanted |= {"basket": 1.0, "kind=shoes": 1.0, "price": 2.0}
    wanted |= {"kind=shoes x country=DE": 1.0, "price x basket": 2.0}
    assert found["o"] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("number", -2.5, {"x": -2.5}),
        ("number", True, {"x": 1.0}),
        ("number", pd.NA, {"x missing": 1.0}),
        ("log", -(math.e - 1), {"x": -1.0}),
        ("category", "a b", {"x=a b": 1.0}),
        ("category", 3, {"x=3": 1.0}),
        ("category", 3.0, {"x=3": 1.0}),
        ("category", True, {"x=true": 1.0}),
        ("category", None, {"x missing": 1.0}),
        ("cycle:24", 30, {"x sin": 1.0}),
        ("flag", True, {"x": 1.0}),
        ("flag", 0, {}),
        ("tags", ["b", "a", "b"], {"x=a": 1.0, "x=b": 1.0}),
        ("tags", [], {}),
        ("vector:3", [1, 0, 2.0], {"x[0]": 1.0, "x[2]": 2.0}),
        ("vector:2", np.array([0.5, 0.25]), {"x[0]": 0.5, "x[1]": 0.25}),
        ("bins:18,30,65", 18, {"x 18..30": 1.0}),
        ("bins:18,30,65", 1e9, {"x 65..inf": 1.0}),
    ],
)
def test_every_kind(kind, value, wanted):
    features = db.Features(context={"x": kind})
    assert coordinates(features, {"x": value}, ["a"])["a"] == pytest.approx(wanted)


def test_words_are_hashed_and_have_unit_length_in_all():
    features = db.Features(context={"x": "text:16"})
    found = coordinates(features, {"x": "The shoes, the HAT"}, ["a"])["a"]
    assert math.hypot(*found.values()) == pytest.approx(1.0)
    assert found == coordinates(features, {"x": "hat shoes the"}, ["a"])["a"]
    assert all(name.startswith("x~") for name in found)


def test_bins_are_set_by_the_first_values_and_stay():
    features = db.Features(context={"x": "bins:4"})
    encoding = Encoding(features)
    values = np.random.default_rng(0).permutation(80)
    for value in values:
        assert coordinates(features, {"x": value}, ["a"], encoding) == {
            "a": {"x before its bins": 1.0}
        }
    assert encoding.book.edges["x"] == (20.0, 40.0, 60.0)
    again = Encoding(features, json.loads(json.dumps(encoding.to_dict())))
    for each in (encoding, again):
        assert coordinates(features, {"x": 19}, ["a"], each) == {"a": {"x -inf..20": 1.0}}
        assert coordinates(features, {"x": 60}, ["a"], each) == {"a": {"x 60..inf": 1.0}}


def test_a_column_that_is_not_given_is_missing_and_its_flag_is_crossed():
    found = coordinates(SHOP, {"age": 1, "hour": 0}, {"o": {"kind": None, "price": 0}})
    missing = [f"{name} missing" for name in ("country", "basket", "kind")]
    wanted = ["age", "hour cos", *missing, "kind missing x country missing"]
    assert found["o"] == dict.fromkeys(wanted, 1.0)


def test_an_arm_may_have_coefficients_of_its_own():
    features = db.Features(context={"x": "number", "c": "category"}, cross=[("arm", "*")])
    found = coordinates(features, {"x": 2, "c": "u"}, ["a", 7])
    shared = {"x": 2.0, "c=u": 1.0}
    for arm in ("a", 7):
        own = {f"arm={arm}": 1.0, f"arm={arm} x x": 2.0, f"arm={arm} x c=u": 1.0}
        assert found[arm] == {**shared, **own}


def test_the_id_of_an_arm_can_be_a_column():
    found = coordinates(db.Features(arm={"id": "category", "p": "number"}), None, {"a": {"p": 3}})
    assert found == {"a": {"p": 3.0, "arm=a": 1.0}}


def test_numbers_count_from_the_mean_of_what_was_offered():
    """Looked at after 1, 2, 4, ... offers, all of an offer before any of it is encoded."""
    features = db.Features(context={"x": "number"}, arm={"p": "log"}, cross=[("p", "x")])
    encoding = Encoding(features)
    rng = np.random.default_rng(0)
    xs, ps = rng.normal(50.0, 3.0, size=1100), rng.uniform(1, 9, size=(1100, 2))
    for t, (x, prices) in enumerate(zip(xs, ps, strict=True), 1):
        arms = {str(i): {"p": p} for i, p in enumerate(prices)}
        rows = encoding.encode({"x": x}, offered(arms, ())).dense(3)
        encoding.commit()
        seen = min(2 ** int(math.log2(t)), 1024)
        log_prices = np.log1p(ps[:seen]).ravel()
        centre, log_centre = xs[:seen][-KEPT:].mean(), log_prices[-KEPT:].mean()
        away, log_away = x - centre, np.log1p(prices) - log_centre
        wanted = np.column_stack([np.full(2, away), log_away, away * log_away])
        np.testing.assert_allclose(rows, wanted, rtol=1e-9, atol=1e-12)
        if t == 700:
            encoding = Encoding(features, json.loads(json.dumps(encoding.to_dict())))


# -- plain data ----------------------------------------------------------------------------------


def test_features_go_through_json_and_toml():
    plain = json.loads(json.dumps(SHOP.to_dict()))
    assert db.Features.from_dict(plain) == SHOP
    text = (
        'cross = [["kind", "country"], ["price", "basket"]]\n'
        '[context]\nage = "number"\ncountry = "category"\nhour = "cycle:24"\nbasket = "log"\n'
        '[arm]\nkind = "category"\nprice = "log"\n'
    )
    assert db.Features.from_dict(tomllib.loads(text)) == SHOP
    assert hash(db.Features.from_dict(plain)) == hash(SHOP)
    assert db.policy("auto", features=plain) == db.policy("auto", features=SHOP)


AGE = {"context": {"age": "number"}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"context": {"age": "numbr"}}, "'age' .*number.*'numbr', perhaps number"),
        ({"context": {"age": "cycle:0"}}, "'cycle:0'"),
        ({"context": {"age": "bins:3,2"}}, "'bins:3,2'"),
        ({}, "at least one column"),
        ({**AGE, "arm": {"age": "number"}}, "'age' in both"),
        ({"arm": {"arm": "number"}}, "'arm' must have another name"),
        ({"arm": {"id": "number"}}, "'id'"),
        ({**AGE, "cross": [("age",)]}, r"cross .*\['age'\]"),
        ({**AGE, "cross": [("agee", "arm")]}, "cross .*'agee', perhaps age"),
        ({**AGE, "cross": [("age", "*")]}, "'[*]'.*'age'"),
        ({**AGE, "limit": 4}, "limit .* 4"),
        ({**AGE, "fitted": {"age": {"centre": 1.0, "scale": 0.0}}}, "fitted must have centre, sc"),
        ({"context": {"v": "vector:400"}}, "limit .*800 .* 512"),
        ({"contxt": {}}, "'contxt', perhaps context"),
    ],
)
def test_what_is_no_feature_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        db.Features.from_dict(given)


# -- levels and limits ---------------------------------------------------------------------------


def test_levels_beyond_the_limit_share_coordinates_and_are_counted():
    features = db.Features(context={"user": "category", "age": "number"}, levels=10, limit=64)
    encoding = Encoding(features)
    seen = [coordinates(features, {"user": u, "age": 1}, ["a"], encoding)["a"] for u in range(500)]
    own = [name for found in seen[:10] for name in found if name.startswith("user=")]
    assert own == [f"user={u}" for u in range(10)]
    shared = [name for found in seen[10:] for name in found if name != "age"]
    assert set(shared) == {f"user~{k}" for k in range(16)}
    assert len(encoding) == 1 + 10 + 16
    assert encoding.book.counts["shared", "user"] == 490
    assert encoding.book.sharers_of("user") == 490
    again = Encoding(features, json.loads(json.dumps(encoding.to_dict())))
    for each in (encoding, again):
        coordinates(features, {"user": "late"}, ["a"], each)
    assert json.dumps(again.to_dict()) == json.dumps(encoding.to_dict())
    assert again.book.sharers_of("user") == 491


def test_twenty_thousand_levels_take_no_more_than_the_limit():
    features = db.Features(context={"u": "category", "v": "category"}, cross=[("u", "v")], limit=64)
    encoding = Encoding(features)
    sizes = set()
    for level in range(20_000):
        encoding.encode({"u": level, "v": level % 7}, offered(["a"], ()))
        encoding.commit()
        if level % 4_000 == 3_999:
            sizes.add(len(json.dumps(encoding.to_dict()["coordinates"])))
    assert len(encoding) == 64
    assert len(sizes) == 1
    assert len(encoding.book.sharers) == 1000
    rows = encoding.encode({"u": "new", "v": 0}, offered(["a"], ())).dense(64)
    assert rows.sum() == 3.0  # what shares a coordinate is added, never lost


def test_what_was_refused_changes_nothing():
    encoding = Encoding(SHOP)
    size, before = len(encoding), encoding.to_dict()
    with pytest.raises(ValueError, match=r"arm 'b'.*'price'.*infinit|arm 'b'.*'price'.*finite"):
        encoding.encode(
            {"age": 1, "country": "XX", "hour": None},
            offered({"a": {"kind": "new", "price": 1}, "b": {"kind": "k", "price": math.inf}}, ()),
        )
    encoding.take_back(size)
    assert encoding.to_dict() == before
    found = coordinates(SHOP, {"country": "YY"}, {"a": {"kind": "k"}}, encoding)
    assert "country=YY" in found["a"]
    assert not any("XX" in name or "new" in name for name in encoding.book.names)


def test_huge_numbers_are_clipped_and_counted():
    features = db.Features(context={"x": "number", "y": "number"}, cross=[("x", "y")])
    encoding = Encoding(features)
    found = coordinates(features, {"x": 1e300, "y": -1e300}, ["a"], encoding)["a"]
    assert found == pytest.approx({"x": 1e60, "y": -1e60, "x x y": -1e120})
    assert [encoding.book.counts["clipped", name] for name in "xy"] == [1, 1]


# -- fitted --------------------------------------------------------------------------------------

EVERYTHING = db.Features(
    context={
        **{"n": "number", "l": "log", "c": "category", "h": "cycle:24", "b": "bins:3"},
        **{"f": "flag", "t": "tags", "v": "vector:2", "w": "text:8"},
    },
    arm={"p": "number", "k": "category"},
    cross=[("k", "*"), ("p", "n"), ("n", "t"), ("arm", "c")],
)
_numbers = st.floats(-1e12, 1e12) | st.none()
_levels = st.sampled_from("abcdef") | st.none()
CONTEXTS = st.fixed_dictionaries(
    {
        **dict.fromkeys("nlhb", _numbers),
        "c": _levels,
        "f": st.booleans() | st.none(),
        "t": st.lists(st.sampled_from("abcdef")) | st.none(),
        "v": st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)) | st.none(),
        "w": st.text(alphabet="ab c", max_size=12) | st.none(),
    }
)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    contexts = [
        {
            "n": rng.normal(40, 5),
            **{"l": rng.exponential(9), "c": str(rng.choice(list("abc")))},
            **{"h": rng.uniform(0, 24), "b": rng.normal(), "f": True, "t": ["a", "b"]},
            **{"v": [rng.normal(), 1.0], "w": "a b"},
        }
        for _ in range(60)
    ]
    arms = [{"id": "x", "p": 1.0, "k": "u"}, {"id": "y", "p": 3.0, "k": None}]
    return EVERYTHING.fit(contexts, arms)


@given(context=CONTEXTS, price=_numbers, kind=_levels, arm=st.sampled_from("xyz"))
def test_no_fitted_vector_is_longer_than_L(fitted, context, price, kind, arm):
    encoding = Encoding(fitted)
    rows = encoding.encode(context, offered({arm: {"p": price, "k": kind}}, ())).dense(fitted.dim)
    assert np.linalg.norm(rows) <= fitted.L == 1.0
    assert len(encoding) == fitted.dim


def test_what_was_fitted_is_plain_data_and_knows_its_levels(fitted):
    again = db.Features.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert again == fitted
    names = Encoding(again).book.names
    assert {"c=a", "c=b", "c=c", "c other", "c missing", "arm=x", "arm other"} <= set(names)
    context, arms = {"c": "zzz", "n": 1e6}, {"x": {"p": 1.0, "k": "u"}}
    encoding = Encoding(fitted)
    rows = encoding.encode(context, offered(arms, ())).dense(fitted.dim)
    assert rows[0, names.index("c other")] == rows[0, names.index("n")] > 0.0
    assert encoding.book.counts["clipped", "n"] == 1
    assert encoding.book.counts["shared", "c"] == 1


def test_a_fit_needs_values_and_room():
    with pytest.raises(ValueError, match=r"column 'x' must have a value"):
        db.Features(context={"x": "number"}).fit([{"x": None}])
    rows = [{"u": u, "v": u} for u in range(30)]
    crossed = db.Features(context={"u": "category", "v": "category"}, cross=[("u", "v")])
    with pytest.raises(ValueError, match=r"limit must be at least 1088 .* got 512"):
        crossed.fit(rows)


# -- guesses -------------------------------------------------------------------------------------


def test_a_guess_says_why():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "country": rng.choice(["DE", "FR", None], n),
            "hour": rng.uniform(0, 24, n),
            "basket": rng.lognormal(3, 1.5, n),
            "member": rng.random(n) < 0.5,
            "visitor": [f"u{i}" for i in range(n)],
            "note": [f"word{i % 7} and word{i} more" for i in range(n)],
            "embedding": [[0.1, float(i)] for i in range(n)],
            "tags": [["a"] if i % 2 else ["a", "b"] for i in range(n)],
            "always": 3,
            "clicked": rng.integers(2, size=n),
        }
    )
    offers = {"o1": {"kind": "shoes", "price": 20.0}, "o2": {"kind": "hats", "price": 5.0}}
    features = db.Features.guess(frame, offers, leave_out=["clicked"])
    wanted = {"age": "number", "country": "category", "hour": "cycle:24", "basket": "log"}
    wanted |= {"member": "flag", "note": "text", "embedding": "vector:2", "tags": "tags"}
    assert features.context == wanted
    assert features.arm == {"kind": "category", "price": "log"}
    assert ("kind", "country") in features.cross
    assert ("price", "basket") in features.cross
    assert ("price", "country") not in features.cross
    text = str(features)
    for words in ("35% missing", "left out visitor", "as an id has", "is always 3", "long tail"):
        assert words in text
    assert "clicked" not in text
    with pytest.warns(UserWarning, match=r"clicked left out .*keep=\['clicked'\]"):
        asked = db.Features.guess(frame, offers)
    assert asked == features
    assert "left out clicked" in str(asked)
    assert db.Features.guess(frame, offers, keep=["clicked"]).context["clicked"] == "flag"
    same = db.Features.guess(pl.from_pandas(frame), offers, leave_out=["clicked"])
    assert same == features


@pytest.mark.parametrize("make", [list, pl.Series])
def test_a_guess_leaves_out_what_shows_the_choice_and_the_agent_ignores_it(make):
    rows = [{"age": 20.0 + n, "name": f"n{n}", "shown": "ab"[n % 2]} for n in range(60)]
    with pytest.warns(UserWarning, match=r"shown left out .*keep=\['shown'\]"):
        features = db.Features.guess(rows, make(["a", "b", "a"]))
    assert (dict(features.context), features.extra) == ({"age": "number"}, ("name", "shown"))
    assert db.Features.from_dict(json.loads(features.to_json())) == features
    agent = db.Agent(db.policy("auto", features=features))
    agent.decide(context=rows[0], arms=["a", "b"])
    with pytest.raises(ValueError, match=r"column 'aeg' of the context is not known, perhaps age"):
        agent.decide(context={"name": "n", "aeg": 1}, arms=["a", "b"])


def test_arms_without_columns_get_coefficients_of_their_own():
    features = db.Features.guess([{"x": 1.5}, {"x": 2.5}], [{"id": "a"}, {"id": "b"}])
    assert features.cross == (("arm", "*"),)
    with pytest.warns(UserWarning, match=r"the context cannot change which arm is chosen"):
        db.Features.guess([{"x": 1.5}, {"x": 2.5}])
    named = db.Features.guess([{"x": 1.5, "k": "u"}, {"x": 2.5, "k": "v"}], ["k"])
    assert (dict(named.context), dict(named.arm)) == ({"x": "number"}, {"k": "category"})
    with pytest.raises(ValueError, match=r"arm must name columns of the table; got 'kk'"):
        db.Features.guess([{"x": 1.5}], ["kk"])
    with pytest.raises(ValueError, match=r"arm must name columns of the table; got 'kinds'"):
        db.Features.guess([{"x": 1.5, "kind": "u", "y": 1}], ["kinds", "y"])


def test_arms_that_are_named_like_columns_are_arms_if_a_column_holds_them():
    """A wide table: what was shown, and a column for what each arm would have earned."""
    rows = [
        {"age": 20.0 + n, "shown": ("tea", "mate")[n % 2], "tea": n % 3, "mate2": n % 5}
        for n in range(60)
    ]
    with pytest.warns(UserWarning, match=r"shown left out"):
        features = db.Features.guess(rows, ["tea", "mate"], leave_out=["tea", "mate2"])
    assert (dict(features.context), features.cross) == ({"age": "number"}, (("arm", "*"),))
    with pytest.raises(ValueError, match=r"at least one row"):
        db.Features.guess([])


# -- tables --------------------------------------------------------------------------------------


class Row(NamedTuple):
    age: int
    country: str


ROWS = [{"age": 34, "country": "DE"}, {"age": 50, "country": "FR"}]
OFFERS = [{"id": "o1", "price": 2.0}, {"id": "o2", "price": None}]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pylist}


@pytest.fixture
def agent():
    features = db.Features(
        context={"age": "number", "country": "category"}, arm={"price": "number"}
    )
    return db.Agent(db.policy("auto", features=features))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=list(FRAMES))
def test_frames_are_as_good_as_dicts(agent, frame):
    other = db.Agent(agent.policy)
    agent.decide_many(context=ROWS, arms=OFFERS)
    other.decide_many(context=frame(ROWS), arms=frame(OFFERS))
    assert agent.digest == other.digest
    played = [OFFERS[1], OFFERS[0]]
    agent.learn(context=ROWS, arms=played, rewards=[1, 0])
    other.learn(context=frame(ROWS), arms=frame(played), rewards=[1, 0])
    assert agent.digest == other.digest
    agent.decide(context=ROWS[0], arms=OFFERS)
    other.decide(context=frame(ROWS[:1]), arms=frame(OFFERS))
    assert agent.digest == other.digest


def test_rows_of_frames_are_contexts(agent):
    table = pd.DataFrame(ROWS)
    offers = {row["id"]: {"price": row["price"]} for row in OFFERS}
    given = [table.iloc[0], next(table.itertuples(index=False)), Row(34, "DE"), ROWS[0]]
    agents = [db.Agent(agent.policy) for _ in given]
    for one, context in zip(agents, given, strict=True):
        assert one.decide(context=context, arms=offers).arms == ("o1", "o2")
    assert len({one.digest for one in agents}) == 1


# -- bad input -----------------------------------------------------------------------------------


LONG = "x" * 10_000_000
BAD = [
    (ROWS[0], [OFFERS[0], OFFERS[0]], "arms must differ.*'o1'"),
    (ROWS[0], [], "arms .*at least one"),
    (ROWS[0], [{"price": 1}], "arms .*'id'"),
    (ROWS[0], [{"id": 1.5, "price": 1}], r"arms .*1\.5"),
    (ROWS[0], ["o1"], "'o1'.*price"),
    ({"age": math.inf}, OFFERS, "'age' .*finite.*inf"),
    ({"age": "34"}, OFFERS, "'age' .*number.*'34'"),
    ({"country": LONG}, OFFERS, "'country' .*256.*10000000"),
    (ROWS[0], {LONG: {"price": 1}}, "1024.*10000000"),
    ({"agee": 3}, OFFERS, "'agee' .*perhaps age.*extra='ignore'"),
    (ROWS[0], {"o": {"prize": 3}}, "'o'.*'prize'.*price"),
    ({"price": 3}, OFFERS, "'price' .*arm's"),
    (pd.DataFrame([{"age": 3}]), OFFERS, "context .*'country'"),
    (ROWS[0], pl.DataFrame([{"id": 1}]), "arms .*'price'"),
]


def test_bad_input_is_refused_by_name_and_changes_nothing(agent):
    agent.update(agent.decide(context=ROWS[0], arms=OFFERS), 1)
    before = agent.digest
    for context, arms, words in BAD:
        with pytest.raises(ValueError, match=words) as caught:
            agent.decide(context=context, arms=arms)
        assert len(str(caught.value)) < 1000
        with pytest.raises(ValueError, match=words):
            agent.preview(context=context, arms=arms, seed=1)
        assert agent.digest == before, words


def test_other_columns_can_be_ignored():
    features = db.Features(context={"age": "number"}, extra="ignore")
    assert coordinates(features, {"age": 2, "x": LONG}, {"a": {"y": 1}}) == {"a": {"age": 2.0}}


def test_actions_and_tables_are_not_mixed(agent):
    with pytest.raises(ValueError, match=r"context= and arms= .* instead of actions"):
        agent.decide(np.eye(2))
    plain = db.Agent(db.policy("auto", dim=2))
    with pytest.raises(ValueError, match=r"context can be given to a policy with features"):
        plain.decide(context={"age": 1}, arms=["a"])
    with pytest.raises(ValueError, match=r"dim must be given, or features"):
        db.policy("auto")


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        *((name, True) for name in ("p", "p_shown", "prob_shown", "propensity_logged", "y")),
        *((name, True) for name in ("Revenue (EUR)", "revenue_eur", "num_clicks", "was_sold")),
        *((name, False) for name in ("age", "hour", "price", "clicks_last_week", "pages")),
        *((name, False) for name in ("days_since_purchase", "avg_revenue", "product")),
    ],
)
def test_names_of_outcomes_and_propensities(name, left_out):
    rows = [{name: 0.5 * i, "other": -1.5 * i} for i in range(20)]
    if not left_out:
        assert name in db.Features.guess(rows, ["a", "b"]).context
        return
    with pytest.warns(UserWarning, match="left out"):
        assert name not in db.Features.guess(rows, ["a", "b"]).context


def test_guess_knows_arms_that_are_numbers():
    rows = [{"shown": 1 + i % 4, "member": i % 2, "age": i} for i in range(40)]
    with pytest.warns(UserWarning, match="shown left out"):
        assert list(db.Features.guess(rows, [1, 2, 3, 4]).context) == ["member", "age"]
    with pytest.raises(ValueError, match=r"texts or whole numbers; got 1\.0"):
        db.Features.guess(rows, [1.0, 2.0])


def test_a_cycle_is_exactly_0_where_its_sine_is():
    encoding = Encoding(db.Features(context={"hour": "cycle:24"}, cross=[("arm", "*")]))
    for hour in (0, 12, 24):
        rows = encoding.read({"hour": hour}, ["a"]).dense(len(encoding))
        sines = [x for x, name in zip(rows[0], encoding.names, strict=False) if "sin" in name]
        assert set(sines) == {0.0}


def test_arms_that_all_look_alike_are_a_warning():
    features = db.Features(context={"age": "number"})
    with pytest.warns(UserWarning, match="all arms look alike"):
        db.policy("auto", features=features)
    db.policy("auto", features=features, arms="separate")


def test_too_many_levels_name_the_column():
    rows = [{"city": f"c{i}", "age": i} for i in range(300)]
    features = db.Features(context={"city": "category", "age": "number"}, limit=100)
    with pytest.raises(ValueError, match="Column 'city' has 300 levels"):
        features.fit(rows)


def test_guess_leaves_out_what_looks_like_an_id():
    rows = [
        {"customer": 1000 + 7 * i % 3001, "user_id": i // 3, "shop_id": i % 3, "age": i % 50}
        for i in range(300)
    ]
    assert list(db.Features.guess(rows, ["a", "b"]).context) == ["shop_id", "age"]
    assert "customer" in db.Features.guess(rows, ["a", "b"]).extra
