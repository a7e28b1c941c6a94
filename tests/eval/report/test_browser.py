"""The report in a real browser: nothing leaves it, markup in data stays text, tables sort, filters and keys work."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HOSTILE = '<script>alert("x")</script>'
SAID = ("stand-ins", "random weights", "Recall@10", "MRR@12", "chance", "0.953", "trained − base", "Learning check")
SAID += ("Embedder trained", "Reader trained", "Failure modes", "Infobox displacement", "Latency")

pytestmark = pytest.mark.browser


def launch(browsers: Any) -> Any:
    """The system's Chromium if there is one, else Playwright's."""
    names = ("chromium", "chromium-browser", "google-chrome")
    system = next((path for name in names if (path := shutil.which(name))), None)
    return browsers.chromium.launch(args=["--no-sandbox"], executable_path=system)


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
