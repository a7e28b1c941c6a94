"""Precision from marks: Wilson by its own equation, the bootstrap by a case with few outcomes, strict files."""

import argparse
import json
import math
from pathlib import Path
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.eval.bootstrap import BOOTSTRAP, NOT_ESTIMABLE, WILSON
from tilewright.eval.precision import Mark, precision, precision_by_outcome, read_marks
from tilewright.eval.precision_cli import add_parser

SAMPLE = "5a" * 32


def mark(number: int, value: str, page: str | None = None, outcome: str = "kept") -> Mark:
    return Mark(f"q{number}", value, "", outcome, f"page{number}" if page is None else page, SAMPLE)


def marks_of(good: int, bad: int, unsure: int = 0) -> list[Mark]:
    """Every one on a page of its own."""
    return [mark(number, value) for number, value in enumerate(["good"] * good + ["bad"] * bad + ["unsure"] * unsure)]


@given(good=st.integers(0, 60), bad=st.integers(0, 60), confidence=st.floats(0.5, 0.999))
def test_the_bounds_solve_the_equation_of_the_score_test(good: int, bad: int, confidence: float) -> None:
    """Wilson (1927): a bound p is where the observed share lies z standard errors *of p* away from p."""
    found = precision(marks_of(good, bad), confidence)
    if good + bad == 0:
        assert (found.share, found.low, found.high, found.method) == (None, None, None, NOT_ESTIMABLE)
        return
    n, z = good + bad, NormalDist().inv_cdf((1 + confidence) / 2)
    assert found.share == good / n and found.method == WILSON
    assert found.low is not None and found.high is not None and found.low <= found.share <= found.high
    for bound in (found.low, found.high):
        assert (found.share - bound) ** 2 == pytest.approx(z * z * bound * (1 - bound) / n, abs=1e-9)


def test_closed_forms() -> None:
    z2 = NormalDist().inv_cdf(0.975) ** 2
    none, all_good = precision(marks_of(0, 20)), precision(marks_of(20, 0))
    assert (none.low, none.high) == (0.0, pytest.approx(z2 / (20 + z2)))
    assert (all_good.low, all_good.high) == (pytest.approx(20 / (20 + z2)), pytest.approx(1.0))
    half = precision(marks_of(10, 10))
    assert half.low is not None and half.high is not None
    assert half.high - 0.5 == pytest.approx(0.5 - half.low) == pytest.approx(math.sqrt(z2 / (20 + z2)) / 2)


def test_unsure_marks_are_bounds() -> None:
    found = precision(marks_of(30, 10, 10))
    assert (found.good, found.bad, found.unsure, found.pages, found.share) == (30, 10, 10, 50, 0.75)
    assert found.if_unsure_bad == precision(marks_of(30, 20)).if_unsure_good
    assert (found.if_unsure_bad.value, found.if_unsure_good.value) == (0.6, 0.8)
    assert found.if_unsure_good.low == precision(marks_of(40, 10)).low
    only_unsure = precision(marks_of(0, 0, 4))
    assert only_unsure.share is None and only_unsure.method == NOT_ESTIMABLE
    assert (only_unsure.if_unsure_bad.value, only_unsure.if_unsure_good.value) == (0.0, 1.0)


def test_pages_are_resampled_where_one_has_several_marks() -> None:
    """Two pages that agree within themselves: a resample has share 0, 1/2 or 1 with chances 1/4, 1/2, 1/4."""
    two = [mark(n, "good", "a") for n in range(50)] + [mark(50 + n, "bad", "b") for n in range(50)]
    found = precision(two)
    assert (found.share, found.low, found.high, found.method, found.pages) == (0.5, 0.0, 1.0, BOOTSTRAP, 2)
    alone = precision(marks_of(50, 50))
    assert alone.low is not None and alone.low > 0.4  # as a hundred independent pairs it would look much surer
    narrow = precision(two, 0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5)  # the middle half of the chances
    assert precision(list(reversed(two))) == found


def test_many_marks_of_a_page_are_one_trial_when_all_agree() -> None:
    pages = [mark(n, "good", f"page{n // 5}") for n in range(50)]
    found = precision(pages)
    assert (found.share, found.method, found.pages) == (1.0, WILSON, 10)
    assert found.low == precision(marks_of(10, 0)).low
    single = precision([mark(0, "good", "a"), mark(1, "bad", "a")])
    assert (single.share, single.low, single.high, single.method) == (0.5, None, None, NOT_ESTIMABLE)


def test_the_method_follows_the_marks_that_count() -> None:
    """A page's second mark is unsure: without it, marks are independent; with it, they aren't."""
    marks = [*marks_of(5, 5), mark(99, "unsure", "page0")]
    found = precision(marks)
    assert (found.method, found.if_unsure_bad.method) == (WILSON, BOOTSTRAP)
    assert found.low == precision(marks_of(5, 5)).low


def test_by_outcome() -> None:
    marks = [mark(1, "good"), mark(2, "bad", outcome="unanswerable"), mark(3, "good", outcome="not_self_contained")]
    found = precision_by_outcome(marks)
    assert list(found) == ["kept", "not_self_contained", "unanswerable"]
    assert [entry.share for entry in found.values()] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan, 1 - 2**-53])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        precision(marks_of(1, 1), confidence)


def line(**changes: object) -> str:
    entry = {"query_id": "q1", "mark": "good", "note": "", "outcome": "kept", "page_id": "p1", "sample": SAMPLE}
    return json.dumps({name: value for name, value in (entry | changes).items() if value is not None}) + "\n"


def test_the_last_mark_of_a_query_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text(line() + line(query_id="q2", note="é\u2028 \"'") + line(mark="bad"), encoding="utf-8")
    second.write_text(line(query_id="q2", mark="good") + line(query_id="q3", mark="unsure"), encoding="utf-8")
    found = read_marks(first)
    assert [(entry.query_id, entry.mark) for entry in found.marks] == [("q2", "good"), ("q1", "bad")]
    assert (found.replaced, found.changed) == (1, 1)
    assert found.marks[0].note == "é\u2028 \"'"
    both = read_marks(first, second)
    assert {entry.query_id: entry.mark for entry in both.marks} == {"q1": "bad", "q2": "good", "q3": "unsure"}
    assert (both.replaced, both.changed) == (2, 1)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (line(mark="Good"), "mark: wanted good, bad or unsure, found 'Good'"),
        (line(mark=""), "mark: wanted good, bad or unsure, found ''"),
        (line(mark=1), "mark: wanted <class 'str'>, found 1"),
        (line(sample=None), r"unknown keys \[\], missing keys \['sample'\]"),
        (line(extra="x"), r"unknown keys \['extra'\]"),
        (line(page_id=""), "page_id: wanted a name, found ''"),
        (line(query_id=""), "query_id: wanted a name"),
        (line(outcome=""), "outcome: wanted a name"),
        (line()[:-10] + "\n", "wanted a mark as JSON"),
        ("[]\n", "wanted a JSON object for Mark, found list"),
        ("\n", "wanted a mark as JSON, found ''"),
        ("[" * 100_000 + "\n", "wanted a mark as JSON"),
        ("\ud800\n".encode("utf-8", "surrogatepass").decode("latin-1"), "wanted a mark as JSON"),
    ],
)
def test_what_is_no_mark_names_its_line(tmp_path: Path, broken: str, message: str) -> None:
    path = tmp_path / "marks.jsonl"
    path.write_text(line() + broken, encoding="utf-8")
    with pytest.raises(InputError, match=rf"marks\.jsonl:2: .*{message}"):
        read_marks(path)


def test_no_marks_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match=r"empty\.jsonl: wanted at least one mark"):
        read_marks(tmp_path / "empty.jsonl")
    with pytest.raises(InputError, match=r"none\.jsonl: wanted a file of marks"):
        read_marks(tmp_path / "none.jsonl")


def run(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["precision", *arguments])
    options.action(options)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "marks.jsonl"
    lines = [line(query_id=f"q{n}", page_id=f"p{n}", mark="bad" if n < 10 else "good") for n in range(50)]
    dropped = line(query_id="d", page_id="d", outcome="odd[red]\x1b[31m", mark="unsure", sample="other")
    path.write_text("".join([*lines, dropped, line(query_id="q0", page_id="p0")]), encoding="utf-8")
    run(str(path), "--json")
    found = json.loads(capsys.readouterr().out)
    kept = found["outcomes"]["kept"]
    assert (found["marks"], found["replaced"], found["changed"]) == (51, 1, 1)
    assert found["samples"] == [SAMPLE, "other"]
    assert (kept["good"], kept["bad"], kept["share"]) == (41, 9, 0.82)
    assert found["outcomes"]["odd[red]\x1b[31m"]["share"] is None
    run(str(path))
    shown = capsys.readouterr().out
    assert "82.0" in shown and f"{100 * kept['low']:.1f} to {100 * kept['high']:.1f}" in shown
    assert "odd[red]" in shown and "\x1b" not in shown
    assert "1 earlier marks" in shown and "2 samples" in shown and "wrongly dropped" in shown
    for wrong in ("1", "0", "x", "nan", "0.9999999999999999"):
        with pytest.raises(SystemExit):
            run(str(path), "--confidence", wrong)
