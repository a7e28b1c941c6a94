"""Verdicts on numbered questions: a table of replies, and properties of wrapped, shuffled and contradictory ones."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.verdicts import parse_self_contained

TABLE = Path(__file__).with_name("replies") / "self_contained.jsonl"
REPLIES = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
YES = (
    "YES",
    "Yes",
    "yes",
    "y",
    "true",
    "self-contained",
    "SELF_CONTAINED",
    "Self contained",
    "KEEP",
    "pass",
    "**YES**",
    "Yes.",
)
NO = (
    "NO",
    "No",
    "no",
    "n",
    "false",
    "not self-contained",
    "NOT_SELF_CONTAINED",
    "Not self contained",
    "DROP",
    "fail",
    "`NO`",
)
FORMS = (
    "{}. {}",
    "{}: {}",
    "{}) {}",
    "[{}] {}",
    "({}) {}",
    "#{} - {}",
    "Question {}: {}",
    "- {}. {}",
    "**{}.** {}",
    "> {}. {}",
)
FORMS += (
    "Q{}: {}",
    "| {} | {} |",
    "{} {}",
    "{}\t{}",
    "{} -> {}",
    "{}. Self-contained: {}",
    "{}. {} - see the list",
    "{}.\n{}",
    "No. {}: {}",
)
WRAPPINGS = (
    "{}",
    "<think>1. NO 2. YES</think>\n{}",
    "```\n{}\n```",
    "Here are the verdicts:\n\n{}",
    "{}\n\nDone.",
    "1. NO\n</think>\n{}",
)

verdicts = st.lists(st.booleans(), min_size=2, max_size=12)


@pytest.mark.parametrize(("reply", "n", "wanted"), REPLIES)
def test_table_of_replies(reply: str, n: int, wanted: list[bool | None]) -> None:
    assert parse_self_contained(reply, n) == wanted


def test_table_is_large() -> None:
    assert len(REPLIES) >= 100


@given(verdicts, st.sampled_from(FORMS), st.sampled_from(WRAPPINGS), st.randoms(use_true_random=False))
def test_lines_in_any_order_and_wrapping(wanted: list[bool], form: str, wrapping: str, random: st.DataObject) -> None:
    lines = [form.format(i, random.choice(YES if verdict else NO)) for i, verdict in enumerate(wanted, start=1)]
    random.shuffle(lines)
    assert parse_self_contained(wrapping.format("\n".join(lines)), len(wanted)) == wanted


@given(
    verdicts, st.sampled_from(WRAPPINGS[:4]), st.sampled_from(["objects", "map", "array", "words", "lines", "nested"])
)
def test_json_in_any_form(wanted: list[bool], wrapping: str, form: str) -> None:
    objects = [{"id": i, "self_contained": verdict, "reason": "see it"} for i, verdict in enumerate(wanted, start=1)]
    reply = {
        "objects": json.dumps(objects, indent=1),
        "map": json.dumps({str(i): verdict for i, verdict in enumerate(wanted, start=1)}),
        "array": json.dumps(wanted),
        "words": json.dumps(["YES" if verdict else "NO" for verdict in wanted]),
        "lines": "\n".join(map(json.dumps, objects)),
        "nested": json.dumps({"verdicts": objects}),
    }[form]
    if form in ("array", "lines"):  # [true, false] in prose may be anything, and lines of JSON stand alone
        wrapping = "```json\n{}\n```"
    assert parse_self_contained(wrapping.replace("{}", reply), len(wanted)) == wanted


@given(verdicts, st.data())
def test_missing_and_contradicted_numbers_are_none_and_change_no_other(wanted: list[bool], data: st.DataObject) -> None:
    missing, twice = (data.draw(st.sets(st.integers(1, len(wanted)))) for _ in range(2))
    lines = [f"{i}. {'YES' if verdict else 'NO'}" for i, verdict in enumerate(wanted, start=1) if i not in missing]
    lines += [f"{i}. {'NO' if wanted[i - 1] else 'YES'}" for i in twice - missing]
    lines += [f"{len(wanted) + 1}. YES", "999999999. NO"]
    expected = [None if i in missing | twice else verdict for i, verdict in enumerate(wanted, start=1)]
    assert parse_self_contained("\n".join(lines), len(wanted)) == expected


@given(st.text() | st.text(alphabet="123yesnoYESNO.:-|[]{}\"', \n#*()_"), st.integers(0, 9))
def test_never_raises_and_has_n_verdicts(reply: str, n: int) -> None:
    found = parse_self_contained(reply, n)
    assert len(found) == n and all(verdict in (True, False, None) for verdict in found)


@given(st.text(alphabet="abcdefgh .,\n?"), st.integers(1, 5))
def test_prose_decides_nothing(reply: str, n: int) -> None:
    assert parse_self_contained(reply, n) == [None] * n


def test_counting_below_nought_is_an_error() -> None:
    with pytest.raises(ValueError, match="n must be 0 or more, found -1"):
        parse_self_contained("1. YES", -1)


@pytest.mark.parametrize(
    "piece", ["1. YES ", "1. YES\n", "|", "| 1 ", "[", '{"1":', "1 ", "- ", "yes ", "1. YES - n't ", "1-", "\n", "not "]
)
def test_long_replies_take_no_time(piece: str) -> None:
    started = time.process_time()
    for reply in (piece * (60_000 // len(piece)), "1. YES - " + piece * (60_000 // len(piece)) + "x"):
        parse_self_contained(reply, 50)
    assert time.process_time() - started < 3
