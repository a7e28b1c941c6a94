"""Table grids: the given cases, what holds for any table, huge spans, mutated tables."""

import random
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.table_cells import MAX_COLSPAN, MAX_ROWSPAN, parse_span
from tilewright.eval.evidence.table_grid import GridOptions, TableGrid, build_grid
from tilewright.eval.evidence.table_labels import LabelOptions

Row = tuple[bool, list[tuple[str, int, int, str]]]  # in a tbody of its own; (tag, colspan, rowspan, text)


def test_given_cases(table_cases: list[dict[str, Any]]) -> None:
    assert len(table_cases) == 16
    for case in table_cases:
        assert build_grid(case["html"]).to_dict() == case["expected"], case["id"]


@pytest.mark.parametrize(
    ("value", "colspan", "rowspan"),
    [
        ("3", 3, 3),
        (" \t4", 4, 4),
        ("2.7", 2, 2),
        ("+5", 5, 5),
        ("7px", 7, 7),
        ("0", 1, 0),
        ("-0", 1, 0),
        ("-2", 1, 1),
        ("", 1, 1),
        ("two", 1, 1),
        ("٣", 1, 1),
        ("1000", 1000, 1000),
        ("100000", MAX_COLSPAN, MAX_ROWSPAN),
        ("9" * 10_000, MAX_COLSPAN, MAX_ROWSPAN),
    ],
)
def test_spans_are_read_as_the_standard_says(value: str, colspan: int, rowspan: int) -> None:
    assert parse_span(value, zero=1, most=MAX_COLSPAN) == colspan
    assert parse_span(value, zero=0, most=MAX_ROWSPAN) == rowspan


def cell_rows() -> st.SearchStrategy[list[Row]]:
    spans = st.sampled_from([1, 1, 1, 2, 3, 0, 9])
    tags = st.sampled_from(["td", "td", "td", "th", "th", "th scope=rowgroup"])
    cells = st.tuples(tags, spans, spans, st.sampled_from(["", "a", "b", "long text"]))
    return st.lists(st.tuples(st.booleans(), st.lists(cells, max_size=5)), min_size=1, max_size=7)


def html_of(rows: list[Row], extra: bool = False) -> str:
    """The table; every text once; ``extra``: with an empty cell at the end of each row."""
    parts = ["<table>"]
    for number, (own, cells) in enumerate(rows):
        parts.append("<tbody><tr>" if own or not number else "<tr>")
        for index, (tag, colspan, rowspan, text) in enumerate(cells):
            label = f"{text} {number}.{index}" if text else ""
            parts.append(f"<{tag} colspan={colspan} rowspan={rowspan}>{label}</{tag}>")
        parts.append("<td></td></tr>" if extra else "</tr>")
    return "".join([*parts, "</table>"])


@settings(max_examples=50)
@given(cell_rows())
def test_each_slot_has_one_cell_or_none_and_spans_end_with_their_group(rows: list[Row]) -> None:
    grid = build_grid(html_of(rows))
    groups, group = [], 0
    for own, _ in rows:
        group += own
        groups.append(group)
    assert grid.height == len(rows) and all(len(row) == grid.width for row in grid.slots)
    for number, spans in enumerate(grid.layout.spans):
        edges = [edge for start, stop, _ in spans for edge in (start, stop)]
        assert edges == sorted(edges) and all(start < stop for start, stop, _ in spans)
        assert all(groups[cell.row] == groups[number] for _, _, cell in spans)
    anchored = {cell: (cell.row, cell.column) for row in grid.source for cell in row.cells}
    assert all(grid.slots[row][column] is cell for cell, (row, column) in anchored.items())
    assert {column for _, column in anchored.values()} == set(range(grid.width))


@settings(max_examples=50)
@given(cell_rows())
def test_no_header_cell_is_a_data_cell_and_no_text_is_lost(rows: list[Row]) -> None:
    grid = build_grid(html_of(rows))
    data = {entry.cell for row in grid.rows for entry in (*row.labels, *row.cells)}
    headers = {cell for number in grid.header_rows for cell in grid.source[number].cells}
    assert not data & headers
    shown = {
        text
        for row in grid.rows
        for entry in (*row.labels, *row.cells)
        for text in (entry.text, *sum(entry.labels, ()))
    }
    shown |= {text for row in grid.rows for text in row.group} | set(grid.title)
    shown |= {part for context in grid.context_rows for part in context.text.split(" | ")}
    assert {cell.text for row in grid.source for cell in row.cells if cell.text} <= shown


def labels_of(grid: TableGrid) -> list[Any]:
    return [
        (row.row, row.group, [(e.text, e.labels) for e in row.labels], [(e.text, e.labels) for e in row.cells])
        for row in grid.rows
    ]


@settings(max_examples=50)
@given(
    st.integers(2, 4),
    st.lists(st.sampled_from(["data", "group", "key", "note"]), min_size=1, max_size=6),
    st.booleans(),
)
def test_an_empty_column_changes_no_label(width: int, kinds: list[str], header: bool) -> None:
    """The column is added behind; full-width cells stay as they are, or become one wider."""

    def table(extra: str, wider: int) -> str:
        rows = ["<tr>" + "".join(f"<th>H{i}" for i in range(width)) + extra] if header else []
        for n, kind in enumerate(kinds):
            full = f"<tr><{{}} colspan={width + wider}>full {n}" + ("" if wider else extra)
            rows += {
                "data": ["<tr>" + "".join(f"<td>d{n}.{i}" for i in range(width)) + extra],
                "key": [f"<tr><th scope=row>k{n}" + "".join(f"<td>v{n}.{i}" for i in range(width - 1)) + extra],
                "group": [full.format("th")],
                "note": [full.format("td")],
            }[kind]
        return f"<table>{''.join(rows)}</table>"

    plain = build_grid(table("", 0))
    for extra, wider in (("<td></td>", 0), ("<td></td>", 1), ("<th> </th>", 0)):
        assert labels_of(build_grid(table(extra, wider))) == labels_of(plain)


@settings(max_examples=50)
@given(cell_rows())
def test_an_empty_column_changes_no_label_of_any_rectangular_table(rows: list[Row]) -> None:
    width = max(len(cells) for _, cells in rows)
    plain: list[Row] = []
    for own, cells in rows:
        single = [(tag, 1, 1, text) for tag, _, _, text in cells]
        plain.append((own, single + [("td", 1, 1, "")] * (width - len(cells))))
    assert labels_of(build_grid(html_of(plain))) == labels_of(build_grid(html_of(plain, extra=True)))


@pytest.mark.parametrize(
    ("html", "labels"),
    [
        ("<table><tr><td><b>N</b><td><b>A</b><tr><td>x<td>1</table>", [["N"], ["A"]]),
        ("<table><tr><td style='font-weight: bold'>N<td><strong>A</strong><tr><td>x<td>1</table>", [["N"], ["A"]]),
        ("<table><tr><td><b>N</b> n<td><b>A</b><tr><td>x<td>1</table>", []),
    ],
)
def test_a_bold_first_row_is_a_header(html: str, labels: list[list[str]]) -> None:
    row = build_grid(html).to_dict()["rows"][-1]
    assert [path for cell in row["cells"] for path in cell["cols"]] == labels
    off = build_grid(html, GridOptions(LabelOptions(bold_header=False))).to_dict()
    assert len(off["rows"]) == 2 and not off["header_rows"]


def test_a_cell_in_two_parts_keeps_both_texts() -> None:
    html = "<table><tr><td>a<td rowspan=2>b<td>c<td>d<tr><td colspan=4>wide<td>e</table>"
    assert build_grid(html).to_dict()["grid"] == [["a", "b", "c", "d", None], ["wide", "b", "wide", "wide", "e"]]


def test_an_overlapping_cell_has_its_slots_back_below() -> None:
    html = "<table><tr><td>a<td rowspan=2>b<tr><td colspan=2 rowspan=2>c<tr><tr><td>d<td>e</table>"
    assert build_grid(html).to_dict()["grid"] == [["a", "b"], ["c", "b"], ["c", "c"], ["d", "e"]]


def test_a_key_without_a_value_is_not_lost() -> None:
    table = "<table><tr><th>Born<td>1900<th>Died<td><tr><th>City<td>Graz<th>Work<td>Poet</table>"
    row = build_grid(table).to_dict()["rows"][0]
    assert row["labels"] == [{"cols": [], "text": "Died"}]
    assert row["cells"] == [{"cols": [["Born"]], "text": "1900"}]


def test_row_groups_and_later_headers() -> None:
    html = (
        "<table><tr><th>C<th>P<th>N<tbody><tr><th scope=rowgroup rowspan=2>Europe<td>a<td>1<tr><td>b<td>2"
        "<tbody><tr><td>c<td>d<td>3<tr><th>X<th>Y<th>Z<tr><td>e<td>f<td>g</table>"
    )
    rows = build_grid(html).rows
    assert [row.group for row in rows] == [("Europe",), ("Europe",), (), ()]
    assert [entry.labels for entry in rows[1].cells] == [(("P",),), (("N",),)]
    assert [entry.labels for entry in rows[3].cells] == [(("X",),), (("Y",),), (("Z",),)]


def test_the_th_of_a_row_group_without_rows_is_not_lost() -> None:
    html = "<table><tr><th>C<th>P<tbody><tr><th scope=rowgroup>Asia<td><tbody><tr><th scope=rowgroup>Europe<td>"
    rows = build_grid(html + "<tr><td>a<td>1</table>").rows
    assert [(row.group, [e.text for e in row.labels], [e.text for e in row.cells]) for row in rows] == [
        ((), ["Asia"], []),
        (("Europe",), [], ["a", "1"]),
    ]


def test_the_headers_attribute_beats_the_key_before_a_cell() -> None:
    html = "<table><tr><th id=x>A<th>B<th>C<th>D<tr><th>k<td headers=x>1<th>l<td>2</table>"
    row = build_grid(html).rows[0]
    assert [(entry.text, entry.labels) for entry in row.cells] == [("1", (("A",),)), ("2", (("D", "l"),))]
    assert [entry.text for entry in row.labels] == ["k"]


def test_a_full_width_th_that_holds_a_table_alone_names_nothing() -> None:
    inner = "<table><tr><td><b>bold</b><td><b>too</b></table>"
    for tag in ("th", "td"):
        grid = build_grid(f"<table><tr><th>A<th>B<tr><{tag} colspan=2>{inner}<tr><td>1<td>2</table>")
        assert not grid.title and [row.group for row in grid.rows] == [()]
    assert build_grid(f"<table><tr><th colspan=2>{inner}<tr><td>1<td>2</table>").title == []


def test_many_header_rows_cost_little() -> None:
    """Each row of th adds to the labels of the block; they are put together once, when a row needs them."""
    html = "<table>" + ("<tr>" + "<th>a" * 60) * 600 + "</table>"
    table = next(node for node in parse_html(html).root.walk() if node.tag == "table")
    started = time.process_time()
    assert len(build_grid(table).header_rows) == 600
    assert time.process_time() - started < 1


def test_groups_of_td_and_notes() -> None:
    html = (
        "<table><tr><th>A<th>B<tr><td colspan=2>Short<tr><td>1<td>2<tr><td colspan=2><b>Bold</b><tr><td>3<td>4"
        f"<tr><td colspan=2>{'long ' * 30}<tr><td>5<td>6<tr><td colspan=2>the end</table>"
    )
    rows = build_grid(html).rows
    assert [(row.kind, row.group) for row in rows] == [
        ("data", ("Short",)),
        ("data", ("Bold",)),
        ("note", ("Bold",)),
        ("data", ("Bold",)),
        ("note", ("Bold",)),
    ]
    assert rows[2].cells[0].labels == ()


def test_what_is_hidden_is_in_no_slot() -> None:
    html = (
        "<table><tr hidden><td>x<td>x<td>x<tr><th>A<td style='display:none'>y<td rowspan=2>1<tr style='DISPLAY : none'>"
        "<td>z<tr><th>B<tbody hidden><tr><td>w</table>"
    )
    assert build_grid(html).to_dict()["grid"] == [["A", "1"], ["B", "1"]]


def test_html_without_a_table_is_refused() -> None:
    with pytest.raises(InputError, match="wanted HTML that holds a table"):
        build_grid("<p>no table")


def test_tables_nested_too_deep_become_text() -> None:
    html = "<table><tr><td>level" * 12 + "</table>" * 12
    grid, depth = build_grid(html), 0
    while grid.nested:
        grid, depth = grid.nested[0].grid, depth + 1
    assert depth == 8 and grid.slots[0][0] is not None and grid.slots[0][0].text.count("level") == 4


@pytest.mark.parametrize("rows", [1, 60, pytest.param(2_500, marks=pytest.mark.slow)])
def test_huge_spans_cost_little(rows: int) -> None:
    """CPU time, so that a busy machine is no failure; the table is parsed beforehand, as on a page."""
    html = "<table>" + "<tr><td colspan=100000 rowspan=70000>a<td>b" * rows + "</table>"
    table = next(node for node in parse_html(html).root.walk() if node.tag == "table")
    taken = []
    for _ in range(3):
        started = time.process_time()
        grid = build_grid(table)
        taken.append(time.process_time() - started)
    tracemalloc.start()
    build_grid(table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grid.fallback == (rows > 2_000) and grid.height == rows
    assert peak < 50_000_000 and min(taken) < (0.05 if rows <= 60 else 2), (peak, taken)


def test_rows_over_the_budget_come_without_column_labels() -> None:
    html = "<table><tr><th>A<th>B" + "".join(f"<tr><th>k{i}<td>v{i}" for i in range(6)) + "</table>"
    made = build_grid(html, GridOptions(max_rows=4)).to_dict()
    assert made["grid_fallback"] and made["height"] == 7 and len(made["grid"]) == 4 and len(made["rows"]) == 6
    assert made["rows"][2]["cells"] == [{"cols": [["B"]], "text": "v2"}]
    assert made["rows"][3] == {
        "row": 4,
        "group": [],
        "labels": [{"cols": [], "text": "k3"}],
        "cells": [{"cols": [], "text": "v3"}],
    }


def mutate(html: str, chance: random.Random) -> str:
    """``html`` with pieces cut out, doubled, moved or replaced by odd markup."""
    odd = [
        "<table>",
        "</table>",
        "<tr>",
        "</tr>",
        "<td rowspan=0>",
        "<th scope=rowgroup>",
        "\0",
        "<tbody>",
        "colspan=-1 ",
    ]
    for _ in range(chance.randint(1, 6)):
        start, stop = sorted(chance.randrange(len(html) + 1) for _ in range(2))
        stop = min(stop, start + 40)
        piece = chance.choice(["", html[start:stop] * 2, chance.choice(odd), f'"{chance.randrange(10**6)}"'])
        html = html[:start] + piece + html[stop:]
    return html


def fuzz(cases: list[dict[str, Any]], count: int) -> None:
    chance = random.Random(10)
    for number in range(count):
        html = "<table>" + mutate(cases[number % len(cases)]["html"], chance)
        grid = build_grid(html).to_dict()
        assert all(len(row) == grid["width"] for row in grid["grid"]), html


def test_mutated_tables_are_no_trouble(table_cases: list[dict[str, Any]]) -> None:
    fuzz(table_cases, 1_000)


@pytest.mark.slow
def test_20000_mutated_tables_are_no_trouble(table_cases: list[dict[str, Any]]) -> None:
    fuzz(table_cases, 20_000)
