"""The review page in a real browser: keyboard, filters, files, the random check."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from edgemask.audit import read_corrections
from edgemask.report import write_audit_report, write_report
from report.auditdirs import REASONS, write_audit
from report.browsing import HOSTILE, needs_browser, requests, visit
from report.rundirs import RunMaker

pytestmark = needs_browser

NAMES = ["=cat", "dog", *HOSTILE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of 300 samples, 60 listed, with names that attack."""
    ids = [f"{n:03d}.png" for n in range(300)]
    ids[:3] = ['=1+1,"x"', "<img src=x onerror='window.hit = 1'>", "a\u202eb.png"]
    items = [{"index": n, "text": "</script><script>window.hit = 1</script>"} for n in range(5)]
    items += [{"index": n, "path": f"javascript:window.hit = 1/{n}.png"} for n in range(5, 300)]
    path = tmp_path_factory.mktemp("audit") / "<b>photos"
    return write_audit(path, names=NAMES, ids=ids, items=items, pictures=100)


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    return write_audit_report(folder)


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    """The page in a browser that remembers nothing."""
    visit(browser, page)
    browser.execute_script("localStorage.clear()")
    visit(browser, page)
    return browser


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    chain = ActionChains(browser)
    for key in keys:
        chain.send_keys(key)
    chain.perform()


def text(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).get_property("textContent"))


def listed(folder: Path) -> list[int]:
    """Return the positions of the samples worth checking, in rank order."""
    with np.load(folder / "samples.npz") as file:
        order = np.argsort(file["rank"])
        return [int(place) for place in order if file["listed"][place]]


def columns(folder: Path) -> dict[str, Any]:
    with np.load(folder / "samples.npz") as file:
        return {key: file[key] for key in file.files}


@pytest.fixture
def saved(browser: Any, tmp_path: Path) -> Callable[[], Path]:
    """Save the decisions and return the file."""

    def save() -> Path:
        options = {"behavior": "allow", "downloadPath": str(tmp_path)}
        browser.execute_cdp_cmd("Browser.setDownloadBehavior", options)
        target = tmp_path / "corrections.csv"
        target.unlink(missing_ok=True)
        browser.find_element("id", "review-save").click()
        for _ in range(600):
            if target.is_file():
                return target
            time.sleep(0.05)
        raise AssertionError("nothing was downloaded")

    return save


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_page_is_quiet_and_hostile_names_are_text(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert all(address.startswith(("file:", "data:")) for address in requests(opened))
    press(opened, *"krdkr")
    opened.find_element("id", "tab-check").click()
    press(opened, *"kd")
    assert opened.execute_script("return window.hit === undefined")
    links = opened.execute_script(
        "return [...document.querySelectorAll('#review a')].map(a => a.getAttribute('href'))"
    )
    assert all(link.startswith("./") for link in links)
    assert opened.get_log("browser") == []


def test_samples_come_in_rank_order_with_labels_score_and_reason(opened: Any, folder: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    table = columns(folder)
    for place in listed(folder)[:4]:
        assert text(opened, "sample-id") == str(table["id"][place]).replace("\u202e", "\\u202e")
        facts = opened.execute_script(
            "return [...document.querySelectorAll('#sample-facts dd')].map(d => d.textContent)"
        )
        assert facts == [
            NAMES[table["given"][place]],
            NAMES[table["suggested"][place]],
            REASONS[table["reason"][place]],
            f"{table['trust'][place]:.3f}",
        ]
        loaded = opened.execute_script(
            "const i = document.querySelector('#sample-shown img'); return !i || i.naturalWidth"
        )
        assert loaded
        press(opened, Keys.ARROW_RIGHT)
    press(opened, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert text(opened, "sample-place") == "3 of 60"


def test_keys_decide_and_undo_and_the_file_holds_the_decisions(
    opened: Any, folder: Path, saved: Callable[[], Path]
) -> None:
    table, order = columns(folder), listed(folder)
    press(opened, "k", "r", "d", "k", "u", "u", "r")
    assert text(opened, "review-count") == "3 of 60 decided: 1 kept, 2 relabelled, 0 dropped"
    press(opened, "u", "d", "c")
    # The choice of a class: any but the given and the suggested one.
    place = order[3]
    other = next(n for n in range(4) if n not in (table["given"][place], table["suggested"][place]))
    opened.execute_script("document.getElementById('right-class').value = arguments[0]", str(other))
    from selenium.webdriver.common.keys import Keys

    press(opened, Keys.ENTER)
    check = json.loads((folder / "audit.json").read_text())["check"]
    expected = [
        ("keep", "", order[0]),
        ("relabel", NAMES[table["suggested"][order[1]]], order[1]),
        ("drop", "", order[2]),
        ("relabel", NAMES[other], order[3]),
    ]
    rows = read_corrections(saved()).rows
    assert [(row.id, row.action, row.label, row.given, row.check) for row in rows] == [
        (
            str(table["id"][place]).replace("\u202e", "\\u202e"),
            action,
            label,
            NAMES[table["given"][place]],
            check.index(place) + 1 if place in check else None,
        )
        for action, label, place in expected
    ]
    assert read_corrections(saved()).apply(table["id"], table["given"], NAMES).reviewed.sum() == 3


def test_cells_of_the_file_are_no_formulas_and_are_read_back(
    opened: Any, folder: Path, saved: Callable[[], Path]
) -> None:
    opened.find_element("id", "tab-check").click()
    total = int(text(opened, "sample-place").split()[-1])
    press(opened, *"k" * total)
    opened.find_element("id", "tab-listed").click()
    press(opened, *"r" * 60)
    path = saved()
    rows = read(path)
    assert len(rows) > 100
    assert not any(cell[:1] in tuple("=+-@|%") for row in rows for cell in row.values() if cell)
    given = {row["given"] for row in rows}
    assert "'=cat" in given
    table = columns(folder)
    result = read_corrections(path).apply(table["id"], table["given"], NAMES)
    assert result.reviewed.sum() == len(rows)


def test_decisions_are_remembered_and_loaded_again(
    opened: Any, page: Path, saved: Callable[[], Path], tmp_path: Path
) -> None:
    press(opened, *"krdr")
    first = saved().read_text()
    visit(opened, page)
    assert text(opened, "review-count").startswith("4 of 60 decided")
    assert "4 decisions of an earlier visit are back" in text(opened, "review-status")
    opened.execute_script("localStorage.clear()")
    visit(opened, page)
    assert text(opened, "review-count").startswith("0 of 60 decided")
    file = tmp_path / "mine.csv"
    file.write_text(first + "elsewhere.png,drop,,,\nbad.png,relabel,zebra,,\n299.png,hide,,,\n")
    opened.find_element("id", "review-load").send_keys(str(file))
    for _ in range(200):
        if "Loaded" in text(opened, "review-status"):
            break
        time.sleep(0.05)
    assert text(opened, "review-count").startswith("4 of 60 decided")
    assert "line 7: there is no class “zebra”; line 8: the action “hide” is unknown" in text(
        opened, "review-status"
    )
    assert saved().read_text() == first + "elsewhere.png,drop,,,\n"
    file.write_text("nothing,here\n1,2\n")
    opened.find_element("id", "review-load").send_keys(str(file))
    for _ in range(200):
        if "no file of corrections" in text(opened, "review-status"):
            break
        time.sleep(0.05)
    assert "no file of corrections" in text(opened, "review-status")


def test_filters_by_class_reason_and_state(opened: Any, folder: Path) -> None:
    from selenium.webdriver.support.ui import Select

    table, order = columns(folder), listed(folder)

    def shown(**wanted: str) -> int:
        for name, value in wanted.items():
            Select(opened.find_element("id", f"filter-{name}")).select_by_value(value)
        place = text(opened, "sample-place")
        hidden = not opened.find_element("id", "review-sample").is_displayed()
        return 0 if hidden else int(place.split()[-1])

    by_class = [place for place in order if table["given"][place] == 1]
    assert shown(given="1") == len(by_class) > 0
    both = [place for place in by_class if table["reason"][place] == 2]
    assert shown(reason="2") == len(both)
    assert shown(given="", reason="") == 60
    by_suggestion = [place for place in order if table["suggested"][place] == 0]
    assert shown(suggested="0") == len(by_suggestion) > 0
    assert shown(suggested="", state="done") == 0
    assert opened.find_element("id", "review-empty").is_displayed()
    shown(state="")
    opened.execute_script("document.activeElement.blur()")
    press(opened, "k", "d")
    assert shown(state="done") == 2
    assert shown(state="open") == 58


def test_the_random_check_gives_the_interval(
    opened: Any, folder: Path, saved: Callable[[], Path]
) -> None:
    assert "Cannot tell" in text(opened, "verdict")
    opened.find_element("id", "tab-check").click()
    assert text(opened, "review-interval") == "Nothing has been checked yet."
    facts = opened.find_element("id", "sample-facts").text
    assert "suggested" not in facts
    press(opened, *("k" * 6 + "d"))
    low, high = binomtest(1, 7).proportion_ci(method="exact")
    limits = f"between {100 * low:.1f} % and {100 * high:.1f} % of all are"
    assert f"1 of 7 labels checked by hand were wrong: {limits}" in text(opened, "review-interval")
    assert "Cannot tell" in text(opened, "verdict")
    from selenium.webdriver.common.keys import Keys

    press(opened, Keys.ARROW_RIGHT, "k")
    assert "after the first undecided sample do not count" in text(opened, "review-interval")
    press(opened, "u", Keys.ARROW_LEFT)
    press(opened, *("k" * 86 + "d" * 7))
    low, high = binomtest(8, 100).proportion_ci(method="exact")
    words = f"8 of 100 labels checked by hand were wrong: between {100 * low:.1f} % and"
    assert text(opened, "verdict").startswith(words)
    assert not opened.find_element("id", "verdict-more").is_displayed()
    assert read_corrections(saved()).checked() == (8, 100)


def test_the_interval_agrees_with_scipy(opened: Any) -> None:
    cases = [
        (k, n) for n in (1, 2, 7, 30, 100, 1000, 20_000) for k in range(0, n + 1, max(1, n // 9))
    ]
    found = opened.execute_script(
        "return arguments[0].map(([k, n]) => edgemaskReview.clopperPearson(k, n))", cases
    )
    for (k, n), (low, high) in zip(cases, found, strict=True):
        expected = binomtest(k, n).proportion_ci(method="exact")
        assert low == pytest.approx(expected.low, abs=1e-9), (k, n)
        assert high == pytest.approx(expected.high, abs=1e-9), (k, n)


def test_shortcuts_leave_fields_alone_and_can_be_switched_off(opened: Any) -> None:
    opened.find_element("id", "filter-given").send_keys("d")
    assert text(opened, "review-count").startswith("0 of 60")
    opened.find_element("id", "review-keys").click()
    opened.execute_script("document.activeElement.blur()")
    press(opened, "k")
    assert text(opened, "review-count").startswith("0 of 60")


def test_every_field_has_a_name_and_decisions_are_announced(opened: Any) -> None:
    unnamed = opened.execute_script(
        "return [...document.querySelectorAll('#review button, #review select, #review input')]"
        ".filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label')"
        " && !e.textContent.trim()).length"
    )
    assert unnamed == 0
    status = opened.find_element("id", "review-status")
    assert status.get_attribute("aria-live") == "polite"
    press(opened, "k")
    assert text(opened, "review-status").endswith(": kept.")


@pytest.mark.parametrize("width", [1200, 360])
def test_nothing_is_wider_than_the_screen(opened: Any, page: Path, width: int) -> None:
    visit(opened, page, width=width)
    for tab in ("tab-listed", "tab-check"):
        opened.find_element("id", tab).click()
        wide = opened.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0


def test_thousands_of_samples_are_listed_in_pages(browser: Any, tmp_path: Path) -> None:
    files = [{"index": n, "path": str(tmp_path / f"photos/{n}.png")} for n in range(6000)]
    folder = write_audit(tmp_path / "large", samples=6000, listed=5000, pictures=2500, items=files)
    page = write_audit_report(folder)
    assert page.stat().st_size < 16_000_000
    visit(browser, page)
    data = json.loads(browser.find_element("id", "review-data").get_property("textContent"))
    assert len(data["pictures"]) == 2000
    assert len(data["links"]) == len(data["id"]) > 5000
    assert browser.execute_script("return document.querySelectorAll('*').length") < 2000
    assert text(browser, "page-place") == "page 1 of 167"
    assert "2,000 pictures are in the page" in page.read_text()
    linked = next(row for row in range(5000) if str(row) not in data["pictures"])
    assert data["links"][str(linked)].startswith("./../photos/")
    browser.find_element("id", "page-after").click()
    assert text(browser, "page-place") == "page 2 of 167"


def test_without_scripts_the_samples_are_a_table(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        visit(browser, page)
        assert not browser.find_element("id", "review").is_displayed()
        assert len(browser.find_elements("css selector", "#samples noscript tbody tr")) == 60
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_what_was_reviewed_before_an_audit_is_kept_as_it_was(
    browser: Any, tmp_path: Path, saved: Callable[[], Path]
) -> None:
    folder = write_audit(tmp_path / "again", draw=0)
    table, order = columns(folder), listed(folder)
    names = ["cat", "dog", "cow", "hen"]
    # The audit has the corrected label of the first sample: it was another when it was reviewed.
    first, second = order[:2]
    former = names[(table["given"][first] + 1) % 4]
    decisions = [
        {"id": str(table["id"][first]), "action": "relabel", "given": former,
         "label": names[table["given"][first]]},
        {"id": str(table["id"][second]), "action": "keep"},
        {"id": "gone.png", "action": "drop", "given": "cat"},
    ]  # fmt: skip
    facts = json.loads((folder / "audit.json").read_text())
    (folder / "audit.json").write_text(json.dumps(facts | {"decisions": decisions}))
    visit(browser, write_audit_report(folder))
    assert text(browser, "review-count").startswith("2 of 60 decided")
    press(browser, "k")
    rows = [(row.id, row.action, row.label, row.given) for row in read_corrections(saved()).rows]
    assert rows[0] == (decisions[0]["id"], "relabel", decisions[0]["label"], former)
    assert rows[1] == (decisions[1]["id"], "keep", "", "")
    assert rows[2][0] == str(table["id"][order[2]])
    assert rows[3] == ("gone.png", "drop", "", "cat")


def test_a_run_is_reviewed_in_the_same_way(
    browser: Any, make_run: RunMaker, tmp_path: Path, saved: Callable[[], Path]
) -> None:
    visit(browser, write_report([make_run()], tmp_path / "page").html)
    assert not browser.find_element("id", "tab-check").is_displayed()
    press(browser, "k", "r")
    assert [row["action"] for row in read(saved())].count("keep") == 1
    assert browser.get_log("browser") == []


def test_random_samples_of_a_run_are_checked_and_their_places_stay_out_of_the_file(
    browser: Any, make_run: RunMaker, tmp_path: Path, saved: Callable[[], Path]
) -> None:
    path = make_run()
    with np.load(path / "samples.npz") as file:
        arrays = {key: file[key] for key in file.files}
    drawn = [5, 400, 17]
    arrays["check"] = np.zeros(len(arrays["index"]), dtype=np.int32)
    arrays["check"][drawn] = [1, 2, 3]
    np.savez(path / "samples.npz", **arrays)
    visit(browser, write_report([path], tmp_path / "page").html)
    browser.find_element("id", "tab-check").click()
    assert "at random from the training labels. " in text(browser, "review-hint")
    for place in drawn:
        assert text(browser, "sample-id") == str(place)
        facts = browser.find_element("id", "sample-facts").get_property("textContent")
        assert "suggested" not in facts
        assert "true" not in facts
        press(browser, "k" if place != 400 else "d")
    low, high = binomtest(1, 3).proportion_ci(method="exact")
    assert text(browser, "review-interval").startswith(
        f"1 of 3 labels checked by hand were wrong: between {100 * low:.1f} % and "
        f"{100 * high:.1f} % of the training labels are"
    )
    assert {row["id"]: row["check"] for row in read(saved())} == dict.fromkeys(map(str, drawn), "")
    # Places of an audit's draw survive a visit to the page of a run.
    earlier = tmp_path / "earlier.csv"
    earlier.write_text("id,action,label,given,check\n5,keep,,,7\n9999,keep,,,8\n")
    browser.find_element("id", "review-load").send_keys(str(earlier))
    rows = {row["id"]: row["check"] for row in read(saved())}
    assert (rows["5"], rows["9999"], rows["17"]) == ("7", "8", "")
    assert browser.get_log("browser") == []


@pytest.fixture(autouse=True)
def _no_leftovers(browser: Any) -> Iterator[None]:
    yield
    browser.execute_script("try { localStorage.clear() } catch {}")
