"""Grids agree with the boxes that Chromium gives to the cells of the same tables."""

import asyncio
import json
import random
from typing import Any

import pytest

from tilewright.data_gen.chromium import launch_first
from tilewright.data_gen.devtools.tab import Request, TabSettings
from tilewright.eval.evidence.table_grid import build_grid

pytestmark = pytest.mark.browser
STYLE = (
    "<!doctype html><style>table{border-collapse:separate;border-spacing:0;table-layout:fixed;width:4800px}"
    "col{width:12px}tr{height:24px}td,th{padding:0;border:0;height:24px;font-size:9px;vertical-align:top}</style>"
)
BOXES = """JSON.stringify([...document.querySelectorAll("body > table")].map((table) => ({
  rows: [...table.rows].map((row) => row.getBoundingClientRect()).filter((box) => box.height).map((box) => box.top),
  cells: [...table.rows].flatMap((row) => [...row.cells]).map((cell) => {
    const box = cell.getBoundingClientRect();
    return [cell.dataset.n, box.left, box.top, box.right, box.bottom];
  }).filter((cell) => cell[3] > cell[1]),
})))"""


def random_table(chance: random.Random) -> str:
    """Rows of up to 5 cells in up to 3 groups, with spans of all kinds; some rows and cells are hidden."""
    parts, number = ["<table>" + "<col>" * 400], 0
    kinds = chance.sample(["tbody", "tfoot", "tbody"], chance.randint(1, 3))
    for kind in ["thead"] * chance.randint(0, 1) + kinds:  # a thead further down is shown first: not in the standard
        parts.append(f"<{kind}>")
        for _ in range(chance.randint(1, 4)):
            parts.append(chance.choice(["<tr>"] * 9 + ["<tr hidden>"]))
            for _ in range(chance.randint(1, 5)):
                spans = f"colspan={chance.choice([1, 1, 1, 2, 3, 40])} rowspan={chance.choice([1, 1, 1, 2, 3, 0, 900])}"
                hide = chance.choice([""] * 20 + [" style='display:none'"])
                parts.append(f"<{chance.choice(['td', 'th'])} data-n={number} {spans}{hide}>{number}")
                number += 1
    return "".join([*parts, "</table>"])


async def boxes_of(page: str) -> list[dict[str, Any]]:
    """For each table of ``page``: the tops of its rows, its cells as [number, left, top, right, bottom] in px."""

    async def answer(request: Request) -> None:
        await request.fulfill(200, page.encode(), {"content-type": "text/html; charset=utf-8"})

    browser, _ = await launch_first()
    try:
        tab = await browser.new_tab(TabSettings((5000, 800), False), answer, lambda: None)
        await tab.go("https://tables.test/")
        while True:
            ready = await tab.session.send("Runtime.evaluate", {"expression": "document.readyState"})
            if ready["result"]["value"] == "complete":
                break
        reply = await tab.session.send("Runtime.evaluate", {"expression": BOXES, "returnByValue": True})
        made: list[dict[str, Any]] = json.loads(reply["result"]["value"])
        return made
    finally:
        await browser.close()


def places_in_browser(table: dict[str, Any]) -> dict[int, tuple[int, int, int, int]]:
    """{cell: (row, end row, column, end column)}, columns counted by where cells start."""
    lefts = sorted({round(cell[1], 1) for cell in table["cells"]})
    tops = sorted(round(top, 1) for top in table["rows"])
    return {
        int(number): (
            tops.index(round(top, 1)),
            sum(start < bottom - 1 for start in tops),
            lefts.index(round(left, 1)),
            sum(start < right - 0.4 for start in lefts),
        )
        for number, left, top, right, bottom in table["cells"]
    }


def overlapping(places: dict[int, tuple[int, int, int, int]]) -> set[int]:
    """The cells that share a slot with one before them: that is the part they don't keep in our grid."""
    slots: dict[tuple[int, int], int] = {}
    found = set()
    for number, (row, end_row, column, end_column) in sorted(places.items()):
        for slot in ((r, c) for r in range(row, end_row) for c in range(column, end_column)):
            if slots.setdefault(slot, number) != number:
                found.add(number)
    return found


def places_in_grid(html: str) -> dict[int, tuple[int, int, int, int]]:
    """The same of our grid."""
    grid = build_grid(html)
    found = {}
    for cell in (cell for row in grid.source for cell in row.cells):
        stops = [stop for _, stop, other in grid.layout.spans[cell.row] if other is cell]
        found[int(cell.node.get("data-n"))] = (cell.row, cell.end_row, cell.column, max(stops))
    return found


def test_grids_agree_with_chromium() -> None:
    chance = random.Random(3)
    tables = [random_table(chance) for _ in range(200)]
    laid_out = asyncio.run(boxes_of(STYLE + "".join(tables)))
    assert len(laid_out) == len(tables)
    compared = 0
    for html, table in zip(tables, laid_out, strict=True):
        ours, theirs = places_in_grid(html), places_in_browser(table)
        assert ours.keys() == theirs.keys(), html
        shared = overlapping(theirs)
        for number, place in ours.items():
            if number in shared:  # they start at the same slot
                assert (place[0], place[2]) == (theirs[number][0], theirs[number][2]), (html, number)
            else:
                assert place == theirs[number], (html, number)
                compared += 1
    assert compared > 800
