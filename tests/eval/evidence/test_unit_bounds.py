"""What a page repeats is bounded, and nothing of it is lost: long labels, headings, and texts over many rows."""

import subprocess
import sys

import pytest

from tilewright.eval.evidence.html_text import MAX_LABEL_CHARS
from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.long_units import rough_tokens
from tilewright.eval.evidence.unit_builder import build_units
from tilewright.eval.evidence.units import MAX_CONTEXT_CHARS, ROW, Unit, UnitOptions

LONG = " ".join(f"w{number}" for number in range(400))  # 1,889 characters


def units_of(html: str, max_tokens: int = 300) -> list[Unit]:
    return build_units(parse_html(html), options=UnitOptions(max_tokens=max_tokens))


def test_each_part_of_a_long_row_has_its_labels_and_the_columns() -> None:
    words = [f"W{number} said." for number in range(40)]
    html = (
        "<h1>T</h1><table><tr><th>Name<th>Year<th>Story"
        f"<tr><th>Ada<td>1815<td>{' '.join(words)}<tr><th>Bo<td>1900<td>short</table>"
    )
    units = [unit for unit in units_of(html, 40) if unit.kind == ROW]
    parts, short = units[:-1], units[-1]
    assert len(parts) > 2 and all(rough_tokens(unit.body) <= 40 for unit in parts)
    assert parts[0].body.startswith("Ada | Year: 1815 | Story: W0 said. W1")
    assert all(unit.body.startswith("Ada | Story: W") for unit in parts[1:])
    assert " ".join(unit.body.rpartition("Story: ")[2] for unit in parts) == " ".join(words)
    assert all(unit.context == "T" and not unit.values for unit in parts)
    assert short.body == "Bo | Year: 1900 | Story: short" and short.values == ("Bo", "1900", "short")


def test_labels_that_leave_no_room_come_once() -> None:
    label, words = " ".join(f"l{number}" for number in range(30)), " ".join(f"w{number}" for number in range(60))
    units = units_of(f"<table><tr><th>{label}<td>{words}</table>", 40)
    assert " ".join(unit.body for unit in units).replace(" | ", " ") == f"{label} {words}"
    assert all(rough_tokens(unit.body) <= 40 for unit in units)


@pytest.mark.parametrize(
    "html",
    [
        f"<h2>{LONG}</h2><p>p1<p>p2",
        f"<table><tr><th>A<th>{LONG}<tr><td>1<td>2<tr><td>3<td>4</table>",
        f"<table><tr><th>A<th>B<tr><th colspan=2>{LONG}<tr><td>1<td>2<tr><td>3<td>4</table>",
        f"<table><tr><th>A<th>B<th>C<tr><th rowspan=2 scope=rowgroup>{LONG}<td>1<td>2<tr><td>3<td>4</table>",
        f"<table><caption>{LONG}</caption><tr><th>A<th>B<tr><td>1<td>2</table>",
        f"<table><tr><th id=a>A<th id=b>{LONG}<tr><td headers=b>1<td>2<tr><td headers=b>3<td>4</table>",
        f"<ul><li>{LONG}<ul><li>p1<li>p2</ul></ul>",
        f"<table><tr><td>{LONG}<table><tr><td>1<td>2<tr><td>3<td>4</table><td>x</table>",
    ],
)
def test_a_long_label_is_whole_once_and_short_where_it_is_repeated(html: str) -> None:
    units = units_of(html)
    bodies = " ".join(unit.body for unit in units if unit.kind != ROW or "w399" in unit.body or "w0 " in unit.body)
    assert [word for word in LONG.split() if word not in bodies.split()] == []
    repeated = [part for unit in units for part in (*unit.section, *unit.within, *unit.group, *unit.header)]
    assert all(len(part) <= MAX_LABEL_CHARS for part in repeated)
    assert sum("w399" in unit.body for unit in units) == 1
    assert any(LONG[:100] in text for unit in units for text in (unit.context, unit.body))


HOSTILE = {
    "long column labels": "'<table><tr>' + ('<th>' + word[:90_000]) * 50 + ('<tr>' + '<td>x' * 50) * 1900 + '</table>'",
    "long group": "'<table><tr><th>A<th>B<tr><th colspan=2>' + word + '<tr><td>1<td>2' * 1900 + '</table>'",
    "long cell over all rows": "'<table><tr><th>A<th>B<tr><td rowspan=1990>' + word + '<td>x' + '<tr><td>y' * 1900",
    "long cell over all columns": "'<table>' + '<tr><th>A' + '<th>B' * 900 + '<tr><td colspan=900>' + word",
    "stack of headers": "'<table><thead>' + ('<tr>' + '<th>' + 'v' * 290 + '<th>u' * 180) * 500 + '</thead>' + "
    "('<tr>' + '<td>x' * 180) * 500",
    "long heading": "'<h2>' + word + '</h2>' + '<p>x' * 20_000",
    "long title": "'<title>' + word + '</title>' + '<p>x' * 20_000",
    "deep list": "('<ul><li>' + 'v' * 1000) * 190 + '<p>x' * 20_000",
    "cells that many cells name": "'<table><tr>' + ''.join(f'<td id=a{n} headers=\"{names}\">' + 'v' * 200 "
    "for n in range(900)) + '</table>'",
}
BUILD = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.prefilter import UnitIndex
from tilewright.eval.evidence.unit_builder import build_units
word, names = "v" * 900_000, " ".join(f"a{n}" for n in range(900))
for html in [HTML]:
    units = build_units(parse_html(html))
    UnitIndex.of(units)
    print(len(units))
"""


def test_hostile_repetition_is_bounded() -> None:
    code = BUILD.replace("HTML", ", ".join(HOSTILE.values()))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert len(done.stdout.split()) == len(HOSTILE)


def test_a_long_context_keeps_both_ends() -> None:
    groups = tuple(f"group {number} {'v' * 250}" for number in range(20))
    unit = Unit("p:0", "p", ROW, 0, (), "Title", (), "body", group=groups)
    assert len(unit.context) <= MAX_CONTEXT_CHARS + 3
    assert unit.context.startswith("Title > group 0") and unit.context.endswith(groups[-1])
