"""The page in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemask.report import write_report
from report.browsing import HOSTILE, needs_browser, requests, visit
from report.rundirs import RunMaker

pytestmark = needs_browser


@pytest.fixture(scope="module")
def single(make_run: RunMaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [*HOSTILE, *(f"class {place}" for place in range(2, 10))]
    run = make_run(names=names, name="<script>window.hit = 1</script>")
    return write_report([run], tmp_path_factory.mktemp("page")).html


@pytest.fixture(scope="module")
def several(make_run: RunMaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [
        make_run(f"{loss}-{seed}", loss=loss, head=head, seed=seed, lift=lift)
        for loss, head, lift in (("ce", "linear", 0.4), ("jal", "sem", 0.6), ("gce", "sem", 0.5))
        for seed in range(2)
    ]
    return write_report(runs, tmp_path_factory.mktemp("pages")).html


def column(browser: Any, table: str, place: int) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelector(arguments[0]).tBodies[0].rows]"
        ".map(row => row.cells[arguments[1]].dataset.sort)",
        table,
        place,
    )


def luminance(browser: Any, colour: str) -> float:
    """Return the relative luminance of a CSS colour, as WCAG defines it."""
    numbers = browser.execute_script(
        "const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});"
        "c.fillStyle = arguments[0]; c.fillRect(0, 0, 1, 1);"
        "return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3)",
        colour,
    )
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (number / 255 for number in numbers)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("which", ["single", "several"])
def test_no_console_error_no_request_and_hostile_names_do_nothing(
    browser: Any, which: str, request: pytest.FixtureRequest
) -> None:
    visit(browser, request.getfixturevalue(which))
    assert browser.get_log("browser") == []
    addresses = requests(browser)
    assert addresses
    assert all(address.startswith(("file:", "data:")) for address in addresses)
    assert browser.execute_script("return window.hit === undefined")


def test_figures_are_drawn(browser: Any, single: Path) -> None:
    visit(browser, single)
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.chart path.line, .chart path.bars')]"
        ".map(path => path.getBBox()).filter(box => box.width > 100 && box.height > 1).length"
    )
    assert drawn >= 10
    painted = browser.execute_script(
        "const c = document.querySelector('.heat canvas');"
        "return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0)"
    )
    assert painted
    widths = browser.execute_script(
        "return [...document.querySelectorAll('#review img')].map(i => i.naturalWidth)"
    )
    assert widths == [32] * len(widths)
    assert len(widths) > 20


def test_the_comparison_sorts_on_click(browser: Any, several: Path) -> None:
    visit(browser, several)
    table = "#comparison table"
    before = [float(value) for value in column(browser, table, 2)]
    assert before == sorted(before, reverse=True)
    button = f"document.querySelectorAll('{table} thead button')[2]"
    browser.execute_script(f"{button}.click()")
    assert [float(value) for value in column(browser, table, 2)] == sorted(before, reverse=True)
    browser.execute_script(f"{button}.click()")
    assert [float(value) for value in column(browser, table, 2)] == sorted(before)
    state = browser.execute_script(f"return {button}.parentElement.getAttribute('aria-sort')")
    assert state == "ascending"
    browser.execute_script(f"document.querySelector('{table} thead button').click()")
    names = column(browser, table, 0)
    assert names == sorted(names)


def test_unknown_values_sort_last_either_way(browser: Any, several: Path) -> None:
    visit(browser, several)
    place = browser.execute_script(
        "return [...document.querySelectorAll('#comparison thead th')]"
        ".findIndex(head => head.textContent === 'edges retained')"
    )
    for _ in range(2):
        browser.execute_script(
            "document.querySelectorAll('#comparison thead button')[arguments[0]].click()", place
        )
        assert column(browser, "#comparison table", place)[-1] == ""


def test_values_appear_under_the_pointer_and_by_keys(browser: Any, single: Path) -> None:
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.support.wait import WebDriverWait

    visit(browser, single)
    plot = browser.find_element("css selector", "#curves .plot")
    tip = browser.find_element("css selector", ".tip")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)

    def after(act: Callable[[], Any]) -> str:
        # Scrolling hides the values, and its event may come late: then the act is repeated.
        def shown(_: Any) -> str:
            act()
            return tip.text

        return WebDriverWait(browser, 10).until(shown)

    pointed = after(
        lambda: ActionChains(browser).move_to_element(plot).move_by_offset(2, 2).perform()
    )
    assert pointed.startswith("epoch ")
    assert "test accuracy" in pointed
    assert pointed.count("%") == 3
    right = after(lambda: plot.send_keys(Keys.ARROW_RIGHT))
    left = after(lambda: plot.send_keys(Keys.ARROW_LEFT))
    assert right != left
    plot.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()


def test_the_legend_hides_and_shows_a_line(browser: Any, single: Path) -> None:
    visit(browser, single)
    key = browser.find_element("css selector", ".chart .legend button")
    path = browser.find_element("css selector", '.chart path.line[data-series="0"]')
    for pressed in ("false", "true"):
        browser.execute_script("arguments[0].click()", key)
        assert key.get_attribute("aria-pressed") == pressed
        assert path.is_displayed() == (pressed == "true")


def test_the_slider_moves_heat_map_and_histogram(browser: Any, single: Path) -> None:
    visit(browser, single)
    state = (
        "const c = document.querySelector('.heat canvas');"
        "return [c.toDataURL(), document.querySelector('#head path.bars').getAttribute('d'),"
        "document.querySelector('.slider output').textContent,"
        "document.querySelector('.slider .note').textContent]"
    )
    last = browser.execute_script(state)
    browser.execute_script(
        "const s = document.querySelector('.slider input'); s.value = 0;"
        "s.dispatchEvent(new Event('input'))"
    )
    first = browser.execute_script(state)
    assert (last[2], first[2]) == ("23", "0")
    assert all(before != after for before, after in zip(last, first, strict=True))
    # At the first epoch the histogram shown and the one it is compared with are the same.
    other = browser.execute_script(
        "return document.querySelectorAll('#head path.bars')[1].getBBox().height"
    )
    shown = browser.execute_script(
        "return document.querySelectorAll('#head path.bars')[0].getBBox().height"
    )
    assert shown == pytest.approx(other, abs=1)


@pytest.mark.parametrize("which", ["single", "several"])
@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_nothing_hangs_over_the_edge(
    browser: Any, which: str, width: int, request: pytest.FixtureRequest
) -> None:
    visit(browser, request.getfixturevalue(which), width=width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    text = browser.execute_script(
        "return Math.min(...[...document.querySelectorAll('.ys span, .note, td')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert text >= 11


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast_in_both_schemes(browser: Any, single: Path, dark: bool) -> None:
    visit(browser, single, dark=dark)
    paper = luminance(
        browser, browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    )
    assert (paper < 0.1) == dark
    for selector in (
        "h1",
        ".lead",
        ".note",
        ".key",
        "thead th",
        ".badge",
        "#setup td",
        "kbd",
        ".tabs button",
        ".decide dt",
    ):
        colour = browser.execute_script(
            "return getComputedStyle(document.querySelector(arguments[0])).color", selector
        )
        light, deep = sorted((luminance(browser, colour), paper), reverse=True)
        assert (light + 0.05) / (deep + 0.05) >= 4.5, selector


def test_the_page_reads_without_scripts(browser: Any, single: Path, tmp_path: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        visit(browser, single)
        assert browser.find_element("css selector", ".heat img").is_displayed()
        assert not browser.find_element("css selector", ".slider").is_displayed()
        assert browser.find_element("css selector", ".chart svg").size["height"] > 100
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
