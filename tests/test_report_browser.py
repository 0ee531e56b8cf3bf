"""The report in a real browser, without a network, at the width of a desk and of a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browsing import FILES, complaints_of

WIDTHS = {"desk": (1400, 1000), "phone": (390, 844)}


@pytest.fixture(scope="module", params=list(WIDTHS))
def page(request, browser, report):
    """The page with all charts drawn; anything it complains of or asks for is a failure."""
    width, height = WIDTHS[request.param]
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
    opened = context.new_page()
    complaints = complaints_of(opened, FILES)
    opened.goto(report.as_uri())
    opened.wait_for_selector("html[data-drawn=yes]")
    yield opened
    context.close()
    assert complaints == []


def test_every_chart_is_drawn(page):
    charts = page.locator(".chart").count()
    assert charts > 10
    assert page.locator(".chart .canvas .plot-container").count() == charts


def test_page_does_not_scroll_sideways(page):
    beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert beyond <= 0
    outside = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((e) => !e.closest(".table, pre, svg, .hoverlayer"))
            .filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1)
            .map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert outside == []


def test_wide_tables_scroll_in_their_own_box(page):
    hidden = page.evaluate(
        """[...document.querySelectorAll(".table")]
            .map((e) => [e.scrollWidth - e.clientWidth, getComputedStyle(e).overflowX])"""
    )
    assert {overflow for _, overflow in hidden} == {"auto"}
    if page.viewport_size == {"width": 390, "height": 844}:
        assert any(beyond > 0 for beyond, _ in hidden)
    else:
        assert all(beyond <= 0 for beyond, _ in hidden)


def test_policies_stay_in_sight_when_the_worlds_scroll(page):
    box = page.locator(".wide .table").first
    box.evaluate("(e) => { e.scrollLeft = 1000; }")
    first = box.locator("tbody th").first
    assert first.evaluate(
        "(e) => e.getBoundingClientRect().left - e.closest('.table').getBoundingClientRect().left"
    ) == pytest.approx(0, abs=1)
    widest = max(row.bounding_box()["width"] for row in box.locator("tbody th").all())
    assert widest < box.bounding_box()["width"] / 2
    box.evaluate("(e) => { e.scrollLeft = 0; }")


def test_tick_labels_can_be_read(page):
    crowded = page.evaluate(
        """() => [...document.querySelectorAll(".canvas")].filter((canvas) => {
            const texts = [...canvas.querySelectorAll(".xtick text")];
            const boxes = texts.map((t) => t.getBoundingClientRect()).sort((a, b) => a.x - b.x);
            const edge = canvas.getBoundingClientRect().left;
            const cut = [...canvas.querySelectorAll(".ytick text")]
                .some((t) => t.getBoundingClientRect().left < edge);
            const small = texts.some((t) => parseFloat(getComputedStyle(t).fontSize) < 11);
            const overlap = boxes.some((b, i) => i && b.left < boxes[i - 1].right + 2);
            return cut || small || overlap || boxes.length < 3;
        }).map((canvas) => canvas.closest("figure").id)"""
    )
    assert crowded == []


def test_legend_click_takes_a_curve_and_its_band_away(page):
    figure = page.locator("#abrupt2d-regret")
    figure.scroll_into_view_if_needed()
    shown = figure.locator(".scatterlayer .trace")
    state = """(canvas) => canvas.data.filter((t) => t.legendgroup === "SW-GLUCB")
        .map((t) => t.visible ?? true)"""
    canvas = figure.locator(".canvas")
    assert canvas.evaluate(state) == [True, True]
    before = shown.count()
    entry = figure.locator(".legend .traces", has_text="SW-GLUCB").locator(".legendtoggle")
    entry.click()
    expect(shown).to_have_count(before - 2)
    assert canvas.evaluate(state) == ["legendonly", "legendonly"]
    page.wait_for_timeout(400)  # or plotly takes the next click for the second of a double click
    entry.click()
    expect(shown).to_have_count(before)
    assert canvas.evaluate(state) == [True, True]


def test_hovering_tells_the_numbers(page):
    figure = page.locator("#abrupt2d-regret")
    figure.scroll_into_view_if_needed()
    # in the middle of the curves, wherever the legend has pushed them
    box = figure.locator(".nsewdrag").first.bounding_box()
    line = figure.locator(".scatterlayer .trace path.js-line").last.bounding_box()
    assert box is not None
    assert line is not None
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.move(line["x"] + line["width"] - 3, line["y"] + 3, steps=4)
    label = figure.locator(".hoverlayer")
    expect(label).to_contain_text("to ")
    page.mouse.move(0, 0)


def test_texts_of_a_spec_are_shown_as_they_are(page):
    assert page.title() != "broken"
    legend = page.locator("#my-own-regret .legend").first.text_content() or ""
    assert "<script>" in legend
    assert page.locator("#my-own-regret .legend script").count() == 0


def test_page_prints_without_its_controls(page):
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert not page.locator("#abrupt2d-regret .charts").is_visible()
    assert page.locator("#abrupt2d-regret .still").is_visible()
    page.emulate_media(media="screen")


def test_pictures_stand_in_where_scripts_are_off(browser, report):
    context = browser.new_context(java_script_enabled=False, offline=True)
    opened = context.new_page()
    opened.goto(report.as_uri())
    assert opened.locator("#abrupt2d-regret .still").is_visible()
    assert not opened.locator("#abrupt2d-regret .charts").is_visible()
    context.close()
