"""The page of the service, in a real browser and over a real server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import driftbandits as db
from browsing import complaints_of
from driftbandits import store
from driftbandits.service import relearning
from driftbandits.service.offers import Offer
from driftbandits.service.routes import OPERATIONS
from driftbandits.service.state import State
from driftbandits.store import Kind, NewEvent
from driftbandits.store.records import Configured, packed
from servers import Clock, Process, Served, wait_until

WIDTHS = {"desk": (1300, 1000), "phone": (390, 844)}
CONFIGURATION = {"name": "D-GLUCB", "dim": 2, "discount": 0.95, "seed": 3}
LONG = "arm-" + 124 * "x"
HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


def ok(answer: Any) -> Any:
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def arms(number: int, count: int = 3) -> list[dict[str, Any]]:
    angles = 0.7 * number + np.arange(count)
    names = ["left", "right", LONG, *(f"arm-{i}" for i in range(3, count))]
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1).tolist()
    return [{"id": name, "x": row} for name, row in zip(names, x, strict=False)]


def decide(service: Served, policy: str, number: int, *, count: int = 3, **more: Any) -> Any:
    body = {"event_id": f"visit-{number}", "arms": arms(number, count), **more}
    return ok(service.client.post(f"/v1/policies/{policy}/decisions", json=body))


def reward(service: Served, policy: str, number: int, value: float) -> None:
    body = {"event_id": f"visit-{number}", "value": value}
    ok(service.client.post(f"/v1/policies/{policy}/rewards", json=body))


def configure(service: Served, policy: str, **more: Any) -> None:
    ok(service.client.put(f"/v1/policies/{policy}", json={**CONFIGURATION, **more}))


class RunningClock(Clock):
    """The time of day, which a test begins in the past and lets catch up."""

    def __init__(self, *, behind_s: float) -> None:
        self._behind_s = behind_s

    def __call__(self) -> int:
        return time.time_ns() - round(self._behind_s * 1e9)

    def pass_seconds(self, seconds: float) -> None:
        self._behind_s -= seconds


@pytest.fixture
def opened(browser):
    """Open the page; what it complains of or asks of others is a failure, but for `expected`."""

    @contextmanager
    def opening(
        address: str, *, width: str = "desk", expected: str | None = None, **options: Any
    ) -> Iterator[Page]:
        across, down = WIDTHS[width]
        context = browser.new_context(viewport={"width": across, "height": down}, **options)
        page = context.new_page()
        page.clock.install()
        complaints = complaints_of(page, address.partition("#")[0])
        page.goto(address)
        yield page
        context.close()
        unexpected = [c for c in complaints if expected is None or not re.search(expected, c)]
        assert unexpected == []

    return opening


@pytest.fixture(scope="module")
def news(tmp_path_factory):
    """Forty minutes of a policy whose rewards turn after half of them; every fifth is missing."""
    folder = tmp_path_factory.mktemp("page")
    clock = RunningClock(behind_s=2400)
    with Served(f"sqlite:///{folder}/log.db", clock=clock) as service:
        configure(service, "news")
        for number in range(80):
            clock.pass_seconds(30)
            made = decide(service, "news", number, count=12)
            if number % 5:
                reward(service, "news", number, float((made["index"] < 2) == (number < 40)))
        configure(service, "other", name="SW-GLUCB", window=50, discount=None, mode="apprentice")
        decide(service, "other", 0, baseline="left")
        configure(service, "live")
        for number in range(3):
            decide(service, "live", number)
        yield service


@pytest.fixture(scope="module")
def believing(tmp_path_factory):
    """Policies that say what they believe: one has seen a change, one little at all."""
    with Served(f"sqlite:///{tmp_path_factory.mktemp('believing')}/log.db") as service:
        configure(service, "turning", name="auto", discount=None)
        turn(service, "turning")
        configure(service, "young", name="auto", discount=None)
        for number in range(20):
            decide(service, "young", number)
            reward(service, "young", number, number % 2)
        yield service


def ask_again(page: Page, path: str = "/v1/policies", *, after_ms: int = 1500) -> None:
    """Let the page's own clock run on until it asks for this path, and is answered."""
    with page.expect_response(lambda response: response.url.endswith(path)):
        page.clock.run_for(after_ms)


def tile(page: Page, name: str) -> str:
    return page.locator(".tile", has_text=name).locator("dd").inner_text()


# -- what it shows -------------------------------------------------------------------------------


def test_a_service_without_policies_says_how_to_begin_and_many_can_be_filtered(opened, tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service, opened(service.address) as page:
        expect(page.get_by_role("heading", name="No policies yet")).to_be_visible()
        assert (
            f"curl -X PUT {service.address}/v1/policies/" in page.locator("#example").inner_text()
        )
        configure(service, "first")  # and it comes by itself
        expect(page.get_by_role("heading", name="first", exact=True)).to_be_visible()
        expect(page.locator("#decisions")).to_have_text("None yet.")
        decide(service, "first", 0)
        expect(page.locator(".decision")).to_have_count(1)
        expect(page.locator(".outcome")).to_have_text("pending")
        reward(service, "first", 0, 1.0)
        expect(page.locator(".outcome")).to_have_text("reward 1")
        for i in range(12):
            configure(service, f"shop.{i}")
        expect(page.locator("#policies li")).to_have_count(13)
        page.get_by_label("Filter").fill("SHOP.1")
        expect(page.locator("#policies li")).to_have_count(3)


def test_tiles_tell_what_the_service_knows(opened, news):
    told = ok(news.client.get("/v1/policies/news"))
    minutes = ok(news.client.get("/v1/policies/news/history"))["minutes"]
    with opened(f"{news.address}/#/news") as page:
        expect(page.locator("#name")).to_have_text("news")
        assert "80 in all" in tile(page, "Decisions per min")
        assert "64 reported, 0 by default" in tile(page, "Rewards per min")
        assert tile(page, "Waiting for a reward").startswith(f"{told['pending']}\n")
        shown = float(tile(page, "Rewards that count").split()[0])
        assert shown == pytest.approx(told["effective_sample_size"], rel=0.005)
        assert "discount 0.95" in tile(page, "Rewards that count")
        mean, low, high = re.findall(r"0\.\d+", tile(page, "Mean reward"))
        n, successes = sum(m["rewards"] for m in minutes), sum(m["reward_sum"] for m in minutes)
        assert float(mean) == pytest.approx(successes / n, abs=5e-4)
        # the ends of Wilson's interval are where the score test is on the brink
        for end in (float(low), float(high)):
            deviation = abs(successes / n - end) / np.sqrt(end * (1 - end) / n)
            assert deviation == pytest.approx(1.96, abs=0.02)
        expect(page.locator("#detections")).to_contain_text("None so far.")


def turn(service: Served, policy: str) -> Any:
    """Six hundred rounds, after half of which the other arms pay; what is then told of it."""
    path = f"/v1/policies/{policy}"
    for first in range(0, 600, 20):
        decisions = [{"event_id": f"e{n}", "arms": arms(n)} for n in range(first, first + 20)]
        made = ok(service.client.post(f"{path}/decisions:batch", json={"decisions": decisions}))
        chosen = [
            decision["arms"][result["decision"]["index"]]["x"][0]
            for decision, result in zip(decisions, made["results"], strict=True)
        ]
        rewards = [
            {"event_id": decision["event_id"], "value": float((x > 0) == (first < 300))}
            for decision, x in zip(decisions, chosen, strict=True)
        ]
        ok(service.client.post(f"{path}/rewards:batch", json={"rewards": rewards}))
    told = ok(service.client.get(path))
    assert told["detections"]
    assert told["detections"][0]["round"] > 300
    return told


def test_changes_of_a_belief_are_told_in_words_and_figures(opened, believing):
    told = ok(believing.client.get("/v1/policies/turning"))
    with opened(f"{believing.address}/#/turning", width="phone") as page:
        expect(page.locator("#detections tbody tr")).to_have_count(len(told["detections"]))
        heads = page.locator("#detections th[scope=col]").all_inner_texts()
        assert heads[3:] == ["Probability", "Threshold", "Size"]
        probability, threshold, size = (
            page.locator("#detections tbody tr").last.locator("td").all_inner_texts()[2:]
        )
        first = told["detections"][0]
        assert float(threshold.removesuffix(" %")) == pytest.approx(
            100 * first["threshold"], abs=0.05
        )
        shown = re.fullmatch(r"(> )?(\d+\.\d) %", probability)
        assert shown
        assert float(shown[2]) == pytest.approx(100 * first["statistic"], abs=0.1)
        assert float(size) == pytest.approx(first["size"], rel=0.01)
        table = page.locator("#detections .scroll")
        assert table.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
        expect(page.locator(".changes li")).to_have_count(min(3, len(told["detections"])))
        newest = page.locator(".changes li").first.inner_text()
        moved = [one["name"] for one in told["detections"][-1]["moved"]]
        assert moved
        for words in ("A change was noticed at", "Probably since", *moved):
            assert words in newest


@pytest.mark.parametrize(("policy", "width"), [("turning", "phone"), ("young", "desk")])
def test_what_is_believed_is_told_in_words(opened, believing, policy, width):
    told = ok(believing.client.get(f"/v1/policies/{policy}"))
    with opened(f"{believing.address}/#/{policy}", width=width) as page:
        expect(page.get_by_role("heading", name="How fast the world changes")).to_be_visible()
        words: dict[str, float] = {}
        for one in told["beliefs"]:
            if one["path"] != "constant":
                drifts = {"wandering": "drifting", "turning": "drifting smoothly"}[one["path"]]
                said = f"{drifts}, within {one['rounds']:,.0f} rounds"
            elif "since" in one:
                said = f"the same since round {one['since']}"
            else:
                said = "always been the same"
            words[said] = words.get(said, 0.0) + one["probability"]
        likely = sorted((-p, said) for said, p in words.items() if p >= 0.01)
        lines = page.locator("#beliefs li")
        expect(lines.locator("span")).to_have_text([f"{said}:" for _, said in likely])
        for line, (negative, _) in zip(lines.all(), likely, strict=True):
            percentage = float(line.locator("strong").inner_text().strip("> %"))
            assert percentage == pytest.approx(-100 * negative, abs=1.0)
            bar, whole = line.locator("rect").bounding_box(), line.locator("svg").bounding_box()
            assert bar
            assert whole
            assert bar["width"] / whole["width"] == pytest.approx(-negative, abs=0.01)
        if policy == "young":
            assert {said.split()[0] for _, said in likely} >= {"always", "drifting,", "drifting"}
        assert_it_fits(page)


def test_charts_tell_the_history(opened, news):
    minutes = ok(news.client.get("/v1/policies/news/history"))["minutes"]
    with opened(f"{news.address}/#/news") as page:
        for chart in ("flow", "rate", "path"):
            expect(page.locator(f"#{chart} svg")).to_be_visible()
            page.locator(f"#{chart} summary").click()
        assert page.locator("#flow .bars").count() == sum(m["decisions"] > 0 for m in minutes)
        flow = page.locator("#flow tbody td:nth-child(2)").all_inner_texts()
        assert sum(float(cell) for cell in flow[1:]) == pytest.approx(80, abs=3)
        rewards = page.locator("#rate tbody td:nth-child(4)").all_inner_texts()
        assert sum(int(cell) for cell in rewards) == 64
        first = page.locator("#path tbody td:nth-child(2)").last
        assert float(first.inner_text().replace("−", "-")) == minutes[0]["theta"][0]
        assert page.locator("#path .line").count() == 2
        page.get_by_label("15 min").check()
        expect(page.locator("#flow tbody tr")).to_have_count(15)


def test_a_chart_can_be_read_by_pointer_and_by_keys(opened, news):
    with opened(f"{news.address}/#/news") as page:
        chart, readout = page.locator("#flow svg"), page.locator("#flow .readout")
        expect(readout).to_contain_text("Latest: decisions")
        chart.focus()
        page.keyboard.press("Home")
        earliest = readout.inner_text()
        page.keyboard.press("ArrowRight")
        assert readout.inner_text() != earliest
        ask_again(page, "/v1/policies/news", after_ms=16_000)  # drawn again: the place is kept
        page.keyboard.press("ArrowLeft")
        assert readout.inner_text().split(":")[:2] == earliest.split(":")[:2]
        page.keyboard.press("Escape")
        expect(readout).to_contain_text("Latest")
        chart.hover()
        expect(readout).not_to_contain_text("Latest")


def test_a_choice_is_explained_arm_by_arm(opened, news):
    told = ok(news.client.get("/v1/policies/news/explanations?limit=1"))["decisions"][0]
    with opened(f"{news.address}/#/news") as page:
        newest = page.locator(".decision").first
        expect(newest.locator(".why")).to_contain_text("The highest score")
        newest.get_by_role("button", name="Show all 12 arms").click()
        rows = newest.locator("tbody tr")
        assert rows.count() == 12
        ranked = sorted(told["arms"], key=lambda arm: -arm["score"])
        assert newest.locator("tbody .id").all_inner_texts() == [arm["id"] for arm in ranked]
        chosen = newest.locator("tr.chosen")
        assert chosen.count() == 1
        assert chosen.locator(".id").inner_text() == told["arms"][told["index"]]["id"]
        for row, arm in zip(rows.all(), ranked, strict=True):
            cells = [text.replace("−", "-") for text in row.locator("td").all_inner_texts()[1:]]
            assert [float(cell) for cell in cells] == pytest.approx(
                [arm["mean"], arm["width"], arm["score"]], abs=6e-3
            )


def test_a_baseline_is_told_from_what_the_policy_would_do(opened, news):
    told = ok(news.client.get("/v1/policies/other/explanations"))["decisions"][0]
    with opened(news.address) as page:
        expect(page.locator("#name")).to_have_text("live")  # the first by name
        page.locator("#policies a", has_text="other").click()
        expect(page.locator("#name")).to_have_text("other")
        expect(page).to_have_title("other · driftbandits")
        marked = page.locator("tr", has=page.locator(".tag.baseline"))
        assert marked.locator(".id").inner_text() == "left"
        assert told["arms"][told["index"]]["id"] == "left"
        assert told["suggested"] != told["index"]
        expect(page.locator(".why")).to_contain_text("The caller's baseline was played")
        suggested = page.locator("tr", has=page.locator(".tag.suggested"))
        assert suggested.locator(".id").inner_text() == told["arms"][told["suggested"]]["id"]
        page.evaluate("location.hash = '#policy'")  # as the link that skips the list does
        ask_again(page)
        expect(page.locator("#name")).to_have_text("other")
        page.evaluate("location.hash = '#/%'")
        expect(page.locator("#trouble")).to_have_text("There is no policy %.")
        page.locator("#policies a", has_text="live").click()
        expect(page.locator("#name")).to_have_text("live")


# -- the explanations themselves -----------------------------------------------------------------


def test_explanations_are_those_of_the_agent(tmp_path):
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95), seed=3)
    url = f"sqlite:///{tmp_path}/log.db"
    expected = []
    with Served(url) as service:
        configure(service, "news")
        for number in range(30):
            decide(service, "news", number)
            made = agent.decide(np.array([arm["x"] for arm in arms(number)]))
            expected.insert(0, made)
            if number % 3:
                reward(service, "news", number, 1.0)
                agent.update(made, 1.0)
        told = ok(service.client.get("/v1/policies/news/explanations?limit=12"))
    with Served(url) as service:
        assert ok(service.client.get("/v1/policies/news/explanations?limit=12")) == told
    assert [one["event_id"] for one in told["decisions"]] == [
        f"visit-{number}" for number in range(29, 17, -1)
    ]
    for one, made in zip(told["decisions"], expected, strict=False):
        assert one["index"] == made.index
        assert [arm["mean"] for arm in one["arms"]] == made.means.tolist()
        assert [arm["width"] for arm in one["arms"]] == made.widths.tolist()
        assert [arm["score"] for arm in one["arms"]] == made.scores.tolist()
        learned = int(one["event_id"].removeprefix("visit-")) % 3 > 0
        assert (one["outcome"] is not None) == learned


def test_what_only_the_log_remembers_is_explained_too(opened, tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service, "news")
        decide(service, "news", 0)
        reward(service, "news", 0, 1.0)
        configure(service, "news", mode="frozen")
        decide(service, "news", 1)
        frozen, online = ok(service.client.get("/v1/policies/news/explanations"))["decisions"]
        assert (frozen["round"], online["round"]) == (1, 1)
        assert None not in {arm["mean"] for arm in [*frozen["arms"], *online["arms"]]}
        with opened(service.address) as page:
            newest = page.locator(".decision").first
            expect(newest).to_contain_text("visit-1")
            cells = newest.locator("tr.chosen td").all_inner_texts()
            mean, width, score = (float(cell.replace("−", "-")) for cell in cells[1:])
            assert mean + width == pytest.approx(score, abs=0.011)  # three digits each


# -- what may go wrong ---------------------------------------------------------------------------


def hostile_log(url: str) -> None:
    """A log with names that no request could bring in, as a restored one might have."""
    record = Configured(
        1, dict(CONFIGURATION), 3, "online", None, 0.0, None, None, fresh=True, key=""
    )
    del record.arguments["seed"]
    with store.open(url) as log, log.write() as session:
        for policy in ("news", HOSTILE):
            state = State(policy)
            state.configure(record, 1)
            (made,) = state.decide(HOSTILE, Offer((HOSTILE, "b"), np.eye(2), -1, ""), 1)
            session.create(policy)
            session.lock([policy])
            configured = NewEvent(Kind.CONFIGURED, "", 1, packed(record))
            session.append(policy, [configured, NewEvent(Kind.DECISION, HOSTILE, 1, packed(made))])


def test_names_are_shown_and_never_run(opened, tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    hostile_log(url)
    with (
        Served(url) as service,
        opened(f"{service.address}/#/news", expected="status of 4(04|22)") as page,
    ):
        expect(page.locator("#name")).to_have_text("news")
        assert page.locator(".decision .id").first.inner_text() == HOSTILE
        assert page.locator(".decision .event").inner_text() == HOSTILE
        names = page.locator("#policies .policy-name").all_inner_texts()
        assert set(names) == {HOSTILE, "news"}
        page.locator("#policies a", has_text="onerror").click()
        expect(page.locator("#trouble")).to_contain_text(HOSTILE)
        assert page.locator("main img, main script, nav img, nav script").count() == 0
        assert page.title() != "broken"


def test_only_its_own_files_may_be_loaded(news):
    answer = news.client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    for name in re.findall(r'(?:src|href)="(/page/[^"]+)"', answer.text):
        assert ok_bytes(news, name)
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", answer.text)


def ok_bytes(service: Served, path: str) -> bytes:
    answer = service.client.get(path)
    assert answer.status_code == 200
    return answer.content


def test_a_key_is_asked_for_tried_and_kept_in_the_tab_alone(opened, tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, with_keys=True) as service:
        configure(service, "news")
        with opened(service.address, expected="status of 401") as page:
            expect(page.get_by_role("heading", name="asks for a key")).to_be_visible()
            expect(page.locator("#refusal")).to_be_hidden()
            box = page.get_by_label("Key")
            expect(box).to_be_focused()
            box.fill("dbk_0_wrong")
            box.press("Enter")
            expect(page.locator("#refusal")).to_contain_text("The key was refused")
            box.fill("no key ✗")
            box.press("Enter")
            expect(page.locator("#refusal")).to_contain_text("does not look like a key")
            assert service.key is not None
            box.fill(service.key)
            box.press("Enter")
            expect(page.get_by_role("heading", name="news", exact=True)).to_be_visible()
            kept = page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]")
            assert kept == [1, 0, ""]
            assert service.key not in page.content()
            page.reload()
            expect(page.get_by_role("heading", name="news", exact=True)).to_be_visible()
            with store.open(url) as keys, keys.write() as session:
                session.revoke_key(service.key.split("_")[1], at_ns=time.time_ns())
            expect(page.locator("#refusal")).to_contain_text("revoked")
            expect(page.locator("#board")).to_be_hidden()
            assert page.evaluate("sessionStorage.length") == 0


def test_a_server_that_goes_away_is_waited_for(opened, tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    first = Process(url, "--no-auth")
    with opened(
        first.address, expected="ERR_CONNECTION|ERR_EMPTY|ERR_SOCKET|status of 503"
    ) as page:
        status = page.locator("#status")
        expect(status).to_have_attribute("data-state", "live")
        first.kill()
        expect(status).to_contain_text("The server is away")
        expect(status).to_contain_text("What you see is from")
        first.start()
        expect(status).to_have_attribute("data-state", "live")
        first.kill()


# -- how it behaves ------------------------------------------------------------------------------


def test_it_asks_for_what_is_new_and_for_nothing_while_paused(opened, news):
    with opened(f"{news.address}/#/live") as page:
        expect(page.locator(".decision").first).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.removeprefix(news.address)))
        for _ in range(2):
            ask_again(page)
        assert set(asked) == {"/v1/policies"}
        decide(news, "live", 1000)
        expect(page.locator(".decision").first).to_contain_text("visit-1000")
        (history,) = [path for path in asked if "/history" in path]
        seen = ok(news.client.get("/v1/policies/live/history"))["seq"]
        assert history.partition("since=")[2] == str(seen - 1)
        page.get_by_role("button", name="Pause").click()
        counts = []
        for _ in range(3):
            page.clock.run_for(60_000)
            counts.append(len(asked))
        assert counts[0] == counts[1] == counts[2]
        expect(page.locator("#status")).to_contain_text("Paused")
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("#status")).to_have_attribute("data-state", "live")


def test_an_opened_decision_stays_open_and_focused(opened, news):
    with opened(f"{news.address}/#/live") as page:
        second = page.locator(".decision").nth(1)
        event = second.locator(".event").inner_text()
        summary = second.locator("summary")
        summary.focus()
        page.keyboard.press("Enter")
        decide(news, "live", 2000)
        expect(page.locator(".decision").first).to_contain_text("visit-2000")
        same = page.locator(".decision").nth(2)
        assert same.locator(".event").inner_text() == event
        assert same.locator("details").get_attribute("open") is not None
        expect(same.locator("summary")).to_be_focused()


def assert_it_fits(page: Page) -> None:
    """Nothing is cut off or too faint."""
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    outside = page.evaluate(
        """() => [...document.querySelectorAll("body *:not(.skip)")]
            .filter((e) => !e.closest(".scroll, pre, svg"))
            .filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1)
            .map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert outside == []
    assert page.evaluate(FAINT_TEXTS) == []


@pytest.mark.parametrize(("width", "scheme"), [("desk", "dark"), ("phone", "light")])
def test_it_fits_and_can_be_read(opened, news, width, scheme):
    with opened(f"{news.address}/#/news", width=width, color_scheme=scheme) as page:
        expect(page.locator(".decision").first).to_be_visible()
        page.evaluate("for (const e of document.querySelectorAll('details')) e.open = true")
        expect(page.locator("#path tbody tr").first).to_be_visible()
        assert_it_fits(page)
        assert page.evaluate(NAMELESS) == []


FAINT_TEXTS = """() => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b]
        .map((c) => c / 255).map((c) => (c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
    const ground = (e) => {
        for (; e; e = e.parentElement) {
            const colour = numbers(getComputedStyle(e).backgroundColor);
            if (colour.length === 3 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const e = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || !e.checkVisibility()) continue;
        const style = getComputedStyle(e);
        const ink = numbers(e.closest("svg") ? style.fill : style.color);
        const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5) found.push(`${walk.currentNode.data} ${style.color}`);
    }
    return found;
}"""

NAMELESS = """() => [
    ...[...document.querySelectorAll("input")].filter((e) => !e.labels.length),
    ...[...document.querySelectorAll("button, summary, a")].filter((e) => !e.textContent.trim()),
    ...[...document.querySelectorAll("svg")]
        .filter((e) => !e.hasAttribute("aria-label") && e.getAttribute("aria-hidden") !== "true"),
].map((e) => e.outerHTML.slice(0, 120))"""


def test_nothing_moves_for_those_who_ask_for_that(opened, news):
    moving = "getComputedStyle(document.getElementById('status'), '::before').animationName"
    with opened(news.address, reduced_motion="reduce") as page:
        expect(page.locator("#status")).to_have_attribute("data-state", "live")
        assert page.evaluate(moving) == "none"
    with opened(news.address) as page:
        expect(page.locator("#status")).to_have_attribute("data-state", "live")
        assert page.evaluate(moving) == "breathe"


# -- does it work? -----------------------------------------------------------------------------


def compare(service: Served, clock: RunningClock, policy: str, *, rounds: int = 400) -> None:
    """Controls play `left`, which pays in every fifth round; everything else pays more often."""
    for number in range(rounds):
        clock.pass_seconds(9)
        made = decide(service, policy, number, baseline="left")
        every = 5 if made["arm"] == "left" else 2
        if number % every == 0:
            reward(service, policy, number, 1.0)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """An hour with a control; rewards of 0 are never reported, and learned after five minutes."""
    clock = RunningClock(behind_s=3600)
    folder = tmp_path_factory.mktemp("compared")
    with Served(f"sqlite:///{folder}/log.db", clock=clock) as service:
        settings = {"epsilon": 0.1, "control": 0.4, "reward_wait_s": 300}
        configure(service, "shop", **settings)
        compare(service, clock, "shop")
        configure(service, "shop", **settings, bonus_scale=0.5)
        yield service


@pytest.mark.parametrize(("width", "scheme"), [("desk", "dark"), ("phone", "light")])
def test_the_policy_is_shown_beside_its_control(opened, compared, width, scheme):
    told = ok(compared.client.get("/v1/policies/shop/lift"))["lift"]
    with opened(compared.address, width=width, color_scheme=scheme) as page:
        expect(page.get_by_role("heading", name="Is it better than the old rule?")).to_be_visible()
        verdict = page.locator("#verdict")
        box = verdict.bounding_box()
        assert box  # on the first screen
        assert box["y"] + box["height"] < WIDTHS[width][1]
        shown = [
            float(x.replace("−", "-")) for x in re.findall(r"[+−]?[\d.]*\d", verdict.inner_text())
        ]
        assert shown[0] == pytest.approx(told["difference"]["value"], abs=6e-4)
        wins = told["difference"]["low"] > 0
        expect(verdict).to_have_attribute("data-tone", "good" if wins else "open")
        cells = page.locator("#sides tr").nth(1).locator("td").all_inner_texts()
        assert float(cells[1]) == pytest.approx(told["control"]["mean"]["value"], abs=6e-4)
        assert cells[2] == f"{told['control']['rewards']} of {told['control']['decisions']}"
        bars = [bar.bounding_box() for bar in page.locator("#sides .range").all()]
        points = [point.bounding_box() for point in page.locator("#sides .estimate").all()]
        assert len(bars) == len(points) == 3
        for bar, point in zip(bars, points, strict=True):
            assert bar
            assert point
            assert bar["x"] <= point["x"] + point["width"] / 2 <= bar["x"] + bar["width"]
        expect(page.locator("#lift-notes")).to_contain_text("40 % of the decisions are controls")
        expect(page.locator("#versions li")).to_have_count(2)
        expect(page.locator("#versions")).to_contain_text("bonus_scale 1 → 0.5")
        page.evaluate("for (const e of document.querySelectorAll('details')) e.open = true")
        expect(page.locator("#means tbody tr").first).to_be_visible()
        assert_it_fits(page)
        assert page.evaluate(NAMELESS) == []


def test_a_change_that_waits_is_told(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(relearning, "_PORTION_S", 0.0)
    monkeypatch.setattr(relearning, "_PAUSE_S", 0.5)  # an event at a time: it is on its way
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service, "news")
        for number in range(40):
            decide(service, "news", number)
        body = {**CONFIGURATION, "lam": 3.0}
        assert service.client.put("/v1/policies/news", json=body).status_code == 202
        with opened(service.address) as page:
            line = page.locator("#limits li", has_text="Version 2 learns the log again")
            expect(line).not_to_contain_text("thawed")
            ok(service.client.post("/v1/policies/news:freeze"))
            held = page.locator("#limits li", has_text="Version 3 learns the log again")
            expect(held).to_contain_text("It takes over when the policy is thawed.")


def test_shadows_are_shown_beside_the_versions(opened, compared):
    body = {**CONFIGURATION, "name": "LinUCB", "seed": 77}
    ok(compared.client.put("/v1/policies/shop/shadows/bold", json=body))

    def shadow() -> dict[str, Any]:
        found: dict[str, Any] = ok(compared.client.get("/v1/policies/shop/shadows"))["shadows"][0]
        return found

    wait_until(lambda: shadow()["seq"] == shadow()["of"])
    with opened(compared.address) as page:
        line = page.locator("#limits li", has_text="Shadow bold")
        expect(line).to_contain_text(f"of {shadow()['decisions']} decisions")
        # Rewards that fall due meanwhile are learned by both.
        wait_until(lambda: f"over {shadow()['rounds']} rounds" in line.inner_text())
    ok(compared.client.delete("/v1/policies/shop/shadows/bold"))


def test_minutes_whose_rewards_are_still_to_come_are_marked(opened, compared):
    minutes = ok(compared.client.get("/v1/policies/shop/history"))["minutes"]
    open_ = [m for m in minutes if m["pending"]]
    assert 0 < len(open_) < len(minutes) / 2
    with opened(compared.address) as page:
        expect(page.locator("#rate .legend")).to_contain_text("still to come, 0 until then")
        expect(page.locator("#rate .shade")).to_have_count(len(open_))
        page.locator("#rate summary").click()
        expect(page.locator("#rate tbody tr").first).to_be_visible()
        rows = page.locator("#rate tbody tr").all()
        told = [row.locator("td").all_inner_texts() for row in rows]
        assert sum(int(cells[3]) for cells in told) == sum(m["pending"] for m in minutes)
        known = {m["at"]: m for m in minutes if m["decisions"]}
        last = list(known.values())[-1]
        so_far = last["reward_sum"] / (last["rewards"] + last["pending"])
        assert float(told[0][0]) == pytest.approx(so_far, abs=6e-4)
        # and they do not look like a better world
        assert max(float(cells[0]) for cells in told if int(cells[3])) < 1.0


def test_shares_and_means_of_arms_are_drawn(opened, compared):
    parts = ok(compared.client.get("/v1/policies/shop/history"))["arms"]
    played = {
        arm: sum(part["arms"].get(arm, {"decisions": 0})["decisions"] for part in parts)
        for arm in ("left", "right", LONG)
    }
    assert sum(played.values()) == 400
    with opened(compared.address) as page:
        page.locator("#shares summary").click()
        expect(page.locator("#shares th[scope=col]").first).to_be_visible()
        heads = page.locator("#shares th[scope=col]").all_inner_texts()
        assert heads[1:] == sorted(played, key=lambda arm: -played[arm])
        first = page.locator("#shares tbody tr").last.locator("td").all_inner_texts()
        counts = parts[0]["arms"]
        whole = sum(row["decisions"] for row in counts.values())
        for arm, cell in zip(heads[1:], first, strict=True):
            share = counts.get(arm, {"decisions": 0})["decisions"] / whole
            assert float(cell.strip("> %")) == pytest.approx(100 * share, abs=1.0)
        assert page.locator("#shares .stack").count() > len(parts)
        assert page.locator("#means .line").count() >= 3


# -- tables and separate arms --------------------------------------------------------------------


def test_features_and_separate_arms_are_shown_by_their_names(opened, tmp_path):
    shop = {
        "name": "auto",
        "seed": 3,
        "features": {"context": {"country": "category"}, "arm": {"kind": "category"}},
    }
    own = {"name": "LinUCB", "seed": 3, "dim": 1, "arms": "separate"}
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        client = service.client
        ok(client.put("/v1/policies/shop", json=shop))
        ok(client.put("/v1/policies/own", json=own))
        for number, country in enumerate(["DE", "FR", "DE", "PL"]):
            visit = {"event_id": f"visit-{number}", "context": {"country": country}}
            hats = [{"id": kind, "features": {"kind": kind}} for kind in ("hats", "shoes")]
            ok(client.post("/v1/policies/shop/decisions", json={**visit, "arms": hats}))
            reward(service, "shop", number, number % 2)
            visit["context"] = [0.5]
            ok(client.post("/v1/policies/own/decisions", json={**visit, "arms": ["up", "down"]}))
            reward(service, "own", number, 1.0)
        with opened(f"{service.address}/#/shop") as page:
            expect(page.locator(".decision .parts").first).to_contain_text("What counted for")
            expect(page.locator("#path")).to_contain_text("kind=hats")
            expect(page.locator("#kind")).to_contain_text("auto · 2 columns · online")
            expect(page.locator("#no-control")).to_be_visible()
        with opened(f"{service.address}/#/own") as page:
            expect(page.locator("#path")).to_contain_text("up θ1")


def test_the_interface_is_shown_without_a_network(news, opened):
    """Every operation of the document, by a viewer whose files the service has."""
    own = rf"^request: {re.escape(news.address)}/"
    with opened(f"{news.address}/docs", expected=own) as page:
        expect(page.locator(".opblock")).to_have_count(len(OPERATIONS))
