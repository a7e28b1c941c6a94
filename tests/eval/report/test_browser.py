"""The report in a real browser: nothing leaves it, markup in data stays text, tables sort, filters and keys work."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browsers import launch

from tilewright.eval.report.data import as_script

HOSTILE = '<script>alert("x")</script>'
SAID = ("stand-ins", "random weights", "Recall@10", "MRR@12", "chance", "0.953", "trained − base", "Learning check")
SAID += ("Embedder trained", "Reader trained", "Failure modes", "Infobox displacement", "Latency")

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as browsers:
        found = launch(browsers)
        yield found
        found.close()


class Watched:
    """A page, and what it logged, asked for and popped up."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.logged, self.requested, self.dialogs = list[str](), list[str](), list[str]()
        self.page = browser.new_page(**options)
        self.page.on("console", lambda message: self.logged.append(message.text))
        self.page.on("pageerror", lambda error: self.logged.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready=true]")


def test_nothing_leaves_the_file_and_markup_stays_text(evaluation: Path, browser: Any) -> None:
    path = evaluation / "report.html"
    assert path.stat().st_size < 30_000_000
    shown = Watched(browser, path)
    page = shown.page
    text = page.inner_text("body")
    for wanted in SAID:
        assert wanted in text, wanted
    page.fill("#search", "Warsaw")
    assert HOSTILE in page.inner_text("#detail") and HOSTILE in page.inner_text("#list")
    images = page.evaluate("[...document.images].map(image => [image.naturalWidth > 0, image.src.slice(0, 16)])")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert (shown.logged, shown.dialogs) == ([], [])
    assert [url for url in shown.requested if not url.startswith("data:")] == [path.as_uri()]
    assert all(image[1] == "data:image/webp;" for image in images)
    page.close()


def test_tables_sort_by_any_column(evaluation: Path, browser: Any) -> None:
    page = Watched(browser, evaluation / "report.html").page
    table = page.locator("table", has_text="Retrieval by gold tile").first
    column = "rows => rows.map(row => row.cells[1].querySelector('b')?.textContent || row.cells[1].textContent)"

    def shown() -> list[str]:
        return [value for value in table.locator("tbody tr").evaluate_all(column) if value != "–"]

    table.locator("thead button").nth(1).click()
    falling = [float(value) for value in shown()]
    assert falling == sorted(falling, reverse=True) and len(set(falling)) > 1
    table.locator("thead button").nth(1).click()
    assert [float(value) for value in shown()] == falling[::-1]
    assert table.locator("thead th").nth(1).get_attribute("aria-sort") == "ascending"
    page.close()


def test_filters_and_keys(evaluation: Path, browser: Any) -> None:
    shown = Watched(browser, evaluation / "report.html")
    page = shown.page
    assert page.inner_text("#count") == "8 of 8 questions"
    first = page.inner_text("#detail h3")
    page.keyboard.press("j")
    assert page.inner_text("#detail h3") != first
    page.keyboard.press("k")
    assert page.inner_text("#detail h3") == first
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("founded lisbon")
    assert page.inner_text("#count") == "1 of 8 questions"
    page.keyboard.press("Escape")
    page.fill("#search", "")
    page.focus("#list")
    page.keyboard.press("End")
    assert page.get_attribute("#list li:last-child", "aria-selected") == "true"
    page.select_option("#row", "bm25")
    page.select_option("#other", "base")
    page.select_option("#difference", "lost")
    assert page.inner_text("#count") == "0 of 8 questions", "BM25 finds every page"
    assert "No question fits" in page.inner_text("#detail")
    page.select_option("#difference", "")
    page.select_option("#row", "gold.as_is.base.k1")
    page.select_option("#mode", "reader")
    assert page.inner_text("#count").endswith("of 8 questions") and shown.logged == []
    page.close()


def test_what_failed_is_shown_as_an_error_and_compared_with_nothing(
    evaluation: Path, browser: Any, tmp_path: Path
) -> None:
    """As in the tables of differences: a question counts where it does in both rows."""
    before, start, rest = (evaluation / "report.html").read_text().partition('id="data">')
    text, end, after = rest.partition("</script>")
    data = json.loads(text)
    for question in data["questions"]:
        question["found"] = {name: found | {"rank": 1} for name, found in question["found"].items()}
    failed, goldless, answered = data["questions"][0], data["questions"][1], data["questions"][2]
    failed["found"]["bm25"] = {"error": "no server"}
    goldless["found"]["bm25"]["rank"] = -1
    read = next(question for question in data["questions"] if len(question["said"]) > 1)
    left, right = data["cells"][:2]
    said = {row: read["said"][row] | {"verdict": "CORRECT", "error": None} for row in (left, right)}
    for question in data["questions"]:
        question["said"] = {row: dict(one) for row, one in said.items()}
    failed["said"][right] |= {"verdict": None, "error": "no server"}
    answered["said"][right]["verdict"] = "WRONG"
    goldless["said"] = {}
    path = tmp_path / "report.html"
    path.write_text(f"{before}{start}{as_script(data)}{end}{after}")
    shown = Watched(browser, path)
    page = shown.page
    page.select_option("#row", "bm25")
    assert page.locator("#list li small").all_inner_texts()[:3] == ["error", "no gold page", "rank 1"]
    assert "error: no server" in page.inner_text("#detail")
    page.select_option("#other", "base")
    for difference in ("any", "gained", "lost"):
        page.select_option("#difference", difference)
        assert page.inner_text("#count") == "0 of 8 questions", difference
    page.select_option("#row", left)
    page.select_option("#other", right)
    for difference, count in (("any", 1), ("gained", 1), ("lost", 0)):
        page.select_option("#difference", difference)
        assert page.inner_text("#count") == f"{count} of 8 questions", difference
    assert shown.logged == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_are_readable(evaluation: Path, browser: Any, scheme: str) -> None:
    shown = Watched(browser, evaluation / "report.html", color_scheme=scheme)
    page = shown.page
    colours = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor].map("
        "colour => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0))"
    )
    assert (colours[0] < 200 < 600 < colours[1]) if scheme == "light" else (colours[1] < 200 < 600 < colours[0])
    page.screenshot(full_page=True)
    assert shown.logged == []
    page.close()
