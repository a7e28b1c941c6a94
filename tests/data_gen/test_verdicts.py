"""A judge's reply decides if it can be read one way only: tables of replies, and properties of wrapped ones."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.verdicts import Verdict, parse_judge


def read_table(path: Path) -> list[tuple[str, str]]:
    """(reply, label) of a file of replies, one a line, under ``@ label``; ``\\n`` is a line break."""
    rows, label = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("@ "):
            label = line[2:]
        elif line:
            rows.append((line.replace("\\n", "\n"), label))
    return rows


MORE = {
    Verdict.CORRECT: (
        *(
            "CORRECT\r\n",
            " CORRECT\n",
            "\xa0CORRECT\xa0",
            "\ufeffCORRECT",
            "COR\u200bRECT",
            "Verdict:\u3000ＣＯＲＲＥＣＴ",
        ),
        *("| Verdict | CORRECT |", "|---|---|\n| Verdict | CORRECT |"),
    ),
    Verdict.CANNOT_ANSWER: ("CANNOT\xa0ANSWER",),
    Verdict.UNPARSED: ("", " ", "\n", "\t", "\0", "CORRECT\0", "\ud800"),
}
REPLIES = [(reply, Verdict(name)) for reply, name in read_table(Path(__file__).with_name("replies") / "judge.txt")]
REPLIES += [(reply, verdict) for verdict, replies in MORE.items() for reply in replies]
DECIDING = [verdict for verdict in Verdict if verdict is not Verdict.UNPARSED]

labels = st.sampled_from(DECIDING)
cases = st.sampled_from([str.upper, str.lower, str.title])
harmless = st.sampled_from(
    [
        *(
            "{}",
            " {}\n",
            "{}.",
            "**{}**",
            "*{}*",
            "`{}`",
            '"{}"',
            "({})",
            "# {}",
            "- {}",
            "> {}",
            "```\n{}\n```",
            "Verdict: {}",
        ),
        *(
            "**Verdict:** {}",
            "Answer: {}",
            "Final verdict - {}",
            "<think>WRONG or CORRECT?</think>\n{}",
            "hm, CORRECT\n</think>\n\n{}",
        ),
        *(
            '{{"verdict": "{}"}}',
            '```json\n{{"verdict": "{}", "reason": "see the tile"}}\n```',
            "\xa0{}\u3000",
            "{}<|im_end|>",
        ),
        *("{}\n\nReasoning: see the tile.", "Reasoning: see the tile.\n\nVerdict: {}"),
    ]
)
doubtful = st.sampled_from(
    [
        *(
            "not {}",
            "NOT {}",
            "{}?",
            "{}? no",
            "{}, I think",
            "probably {}",
            "The answer is {}",
            "the verdict is not {}",
            "in{}",
        ),
        *(
            "<think>{}",
            "{}<think>",
            '{{"verdict": "{}"',
            "~~{}~~",
            "{}\nActually, no.",
            "{} if the year is right",
            "!{}",
            "{}ish",
        ),
        *("Reply with {}", "Is it {}", "Verdict: not {}", "Verdict: probably {}", "{} or not"),
    ]
)
prose = st.lists(
    st.sampled_from(
        ("the", "tile", "answer", "is", "year", "1889", "it", "no", "a", "correct", "wrong", "verdict", "of", "and")
    ),
    min_size=2,
)


@pytest.mark.parametrize(("reply", "verdict"), REPLIES)
def test_table_of_replies(reply: str, verdict: Verdict) -> None:
    assert parse_judge(reply) is verdict


def test_tables_are_large() -> None:
    counted = {verdict: sum(found is verdict for _, found in REPLIES) for verdict in Verdict}
    assert len(REPLIES) > 200 and counted[Verdict.CORRECT] > 60 and counted[Verdict.UNPARSED] > 100, counted


@given(labels, cases, harmless)
def test_harmless_wrapping_changes_nothing(verdict: Verdict, case: Callable[[str], str], wrapping: str) -> None:
    assert parse_judge(wrapping.format(case(verdict.value))) is verdict


@given(labels, cases, doubtful)
def test_doubtful_wrapping_decides_nothing(verdict: Verdict, case: Callable[[str], str], wrapping: str) -> None:
    assert parse_judge(wrapping.format(case(verdict.value))) is Verdict.UNPARSED


@given(
    st.permutations(DECIDING),
    harmless,
    harmless,
    st.sampled_from([" ", "\n", "\n\n", ", ", " or ", "/", ". ", " - ", ": ", "? "]),
)
def test_two_labels_decide_nothing(verdicts: list[Verdict], one: str, other: str, between: str) -> None:
    if "think>" not in other:
        reply = one.format(verdicts[0].value) + between + other.format(verdicts[1].value)
        assert parse_judge(reply) is Verdict.UNPARSED


@given(prose)
def test_prose_decides_nothing(words: list[str]) -> None:
    assert parse_judge(" ".join([*words, "it"])) is Verdict.UNPARSED


@given(st.text())
def test_any_other_text_decides_nothing(reply: str) -> None:
    assert parse_judge(reply) is Verdict.UNPARSED


@given(st.text(alphabet="CORECTWNGcorectwng {}[]\"':,.!?\n*_`#->|/<think>\\~0"))
def test_never_raises_and_decides_only_where_a_label_stands(reply: str) -> None:
    verdict = parse_judge(reply)
    assert verdict is Verdict.UNPARSED or verdict.value.split("_")[0] in reply.upper()


HOSTILE = [
    "[",
    "{",
    '{"a":',
    '"\\"',
    "<think>",
    "</think>",
    "n't",
    "not ",
    "~",
    "`",
    "```\n",
    "``` ",
    "*",
    "_",
    "_a_ ",
    ">",
    "> ",
    "# ",
]
HOSTILE += [
    "1. ",
    "\\boxed{",
    "(",
    '"',
    "CORRECT ",
    "CORRECT\n",
    "-",
    "no.",
    " ",
    "\n",
    "< ",
    "<|a|>",
    "\u3000",
    "<verdict>",
    "is a ",
    "|",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_long_replies_take_no_time_and_never_raise(piece: str) -> None:
    for reply in (piece * (60_000 // len(piece)), "CORRECT\n" + piece * (60_000 // len(piece)) + "x"):
        started = time.process_time()
        parse_judge(reply)
        assert time.process_time() - started < 2
