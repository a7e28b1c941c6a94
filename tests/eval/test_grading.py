"""A grader's reply decides if it can be read one way only."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.grading import Grade, parse_grade


def read_table(path: Path) -> list[tuple[str, str]]:
    """(reply, label) of a file of replies, one a line, under ``@ label``; ``\\n`` is a line break."""
    rows, label = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("@ "):
            label = line[2:]
        elif line:
            rows.append((line.replace("\\n", "\n"), label))
    return rows


TABLE = Path(__file__).parents[1] / "data_gen/replies/grade.txt"
REPLIES = [(reply, Grade(name)) for reply, name in read_table(TABLE)] + [
    ("", Grade.UNPARSED),
    (" \n", Grade.UNPARSED),
    ("Ａ：ＣＯＲＲＥＣＴ", Grade.CORRECT),
    ("\xa0B\u200b", Grade.INCORRECT),
]
WAYS = [
    *((letter + form, grade) for letter, grade in zip("ABC", Grade, strict=False) for form in ("", ".", ")")),
    *((grade.value, grade) for grade in Grade if grade is not Grade.UNPARSED),
    *(("A: CORRECT", Grade.CORRECT), ("B (INCORRECT)", Grade.INCORRECT), ("NOT_ATTEMPTED (C)", Grade.NOT_ATTEMPTED)),
]
WRAPPINGS = [
    *(
        "{}",
        "\n {} \n",
        "**{}**",
        "`{}`",
        '"{}"',
        "> {}",
        "- {}",
        "```\n{}\n```",
        "Grade: {}",
        "**Final grade:** {}",
        "\xa0{}",
    ),
    *(
        "<think>A, B or C?</think>{}",
        "is it B\n</think>\n{}",
        '{{"grade": "{}"}}',
        "{}\n\nReason: see the gold target.",
    ),
]


@pytest.mark.parametrize(("reply", "grade"), REPLIES)
def test_table_of_replies(reply: str, grade: Grade) -> None:
    assert parse_grade(reply) is grade


def test_tables_are_large() -> None:
    assert len(REPLIES) > 150 and sum(grade is Grade.UNPARSED for _, grade in REPLIES) > 60


@given(st.sampled_from(WAYS), st.sampled_from(WRAPPINGS), st.sampled_from([str.upper, str.lower]))
def test_harmless_wrapping_changes_nothing(way: tuple[str, Grade], wrapping: str, case: Callable[[str], str]) -> None:
    assert parse_grade(wrapping.format(case(way[0]))) is way[1]


@given(
    st.sampled_from(WAYS),
    st.sampled_from(WAYS),
    st.sampled_from([" ", "\n", "\n\n", " or ", "/", ", ", " - ", " and "]),
)
def test_two_grades_decide_nothing(one: tuple[str, Grade], other: tuple[str, Grade], between: str) -> None:
    if one[1] is not other[1]:
        assert parse_grade(one[0] + between + other[0]) is Grade.UNPARSED


@given(
    st.lists(
        st.sampled_from(
            (
                "A",
                "a",
                "the",
                "an",
                "answer",
                "correct",
                "incorrect",
                "attempted",
                "is",
                "B",
                "C",
                "or",
                "not",
                "it",
                "year",
            )
        ),
        min_size=3,
    )
)
def test_prose_decides_nothing(words: list[str]) -> None:
    assert parse_grade(" ".join([*words, "of it"])) is Grade.UNPARSED


@given(st.text(min_size=2))
def test_any_other_text_decides_nothing(reply: str) -> None:
    if len(reply.strip().strip("ABCabc.()")) > 1:
        assert parse_grade(reply) is Grade.UNPARSED


@given(st.text(alphabet="ABCORETINPMDabcorectinpmd {}[]\"':,.!?\n*_`#->|/<think>\\~"))
def test_never_raises(reply: str) -> None:
    assert parse_grade(reply) in Grade
