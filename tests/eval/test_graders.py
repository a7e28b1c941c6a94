"""Offline graders: closed forms, SQuAD's own formula, what decides and what doesn't."""

import asyncio
import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.eval.graders import (
    ChoiceGrader,
    ExactGrader,
    Graded,
    Grader,
    PartsGrader,
    ToGrade,
    TokenF1Grader,
    parts_found,
    token_f1,
)
from tilewright.eval.grading import Grade
from tilewright.eval.grading_choice import read_choice

OPTIONS = ("2024 Convention", "vice presidential debate", "A town hall", "109,000", "United Kingdom")
WORDS = st.lists(st.sampled_from(["oslo", "river", "Paris", "1889", "tower", "blue", "the"]), max_size=6).map(" ".join)


def grade(grader: Grader, prediction: str, *answers: str, **more: tuple[str, ...]) -> Graded:
    return asyncio.run(grader.grade(None, ToGrade("k", "q?", answers, prediction, **more)))  # type: ignore[arg-type]


def squad_f1(prediction: str, truth: str) -> float:
    """The formula of SQuAD's evaluation script v1.1, for plain ASCII words."""

    def normalized(text: str) -> list[str]:
        text = "".join(char for char in text.lower() if char not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    found, wanted = normalized(prediction), normalized(truth)
    same = sum((Counter(found) & Counter(wanted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(found), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def without_article_alone(text: str) -> bool:
    return text.split() == [] or set(text.lower().split()) != {"the"}


@given(WORDS.filter(without_article_alone), st.lists(WORDS.filter(without_article_alone), min_size=1, max_size=3))
def test_token_f1_is_squads_and_the_best_over_aliases(prediction: str, answers: list[str]) -> None:
    assert token_f1(prediction, answers) == pytest.approx(max(squad_f1(prediction, answer) for answer in answers))
    assert token_f1(answers[0], [prediction]) == pytest.approx(token_f1(prediction, answers[:1]))
    assert token_f1(prediction, answers) == token_f1(prediction, answers[::-1])


def test_token_f1_closed_forms() -> None:
    assert token_f1("the tower of Paris", ("Paris",)) == pytest.approx(2 * (1 / 3) / (4 / 3))
    assert token_f1("Paris.", ("paris", "Lutetia")) == 1.0
    assert token_f1("", ("Paris",)) == token_f1("...", ("!",)) == token_f1("x", ()) == 0.0
    found = grade(TokenF1Grader(), "Paris, France", "Paris")
    assert found == Graded(pytest.approx(2 / 3), None, "token_f1")


def test_exact_and_alias() -> None:
    assert grade(ExactGrader(), "the PARIS!", "Lutetia", "Paris").grade is Grade.CORRECT
    assert grade(ExactGrader(aliases=False), "Paris", "Lutetia", "Paris") == Graded(0.0, Grade.INCORRECT, "exact")
    assert grade(ExactGrader(aliases=False), "Lutetia", "Lutetia", "Paris").score == 1.0
    assert grade(ExactGrader(), "Cannot answer.", "Paris") == Graded(0.0, Grade.NOT_ATTEMPTED, "alias")
    assert grade(ExactGrader(), "Paris is it", "Paris").grade is Grade.INCORRECT


def test_parts() -> None:
    parts = (("1889", "in 1889"), ("Gustave Eiffel", "Eiffel"), ("art",))
    assert parts_found("Eiffel, 1889: the party", parts) == pytest.approx(2 / 3)  # art isn't in party
    assert parts_found("ART by Gustave Eiffel (1889)", parts) == 1.0
    assert parts_found("", parts) == 0.0 and parts_found("1,889", (("1889",),)) == 1.0
    with pytest.raises(ValueError, match="at least one part"):
        parts_found("x", ())
    assert grade(PartsGrader(), "He said Oslo.", "Christiania", "Oslo").score == 1.0
    assert grade(PartsGrader(), "Oslo", "Oslo; Bergen", answer_parts=(("Oslo",), ("Bergen",))).score == 0.5  # type: ignore[arg-type]


READ = [
    *((text, 1) for text in ("B", "b", "(B)", "B.", "B)", "**B**", "Answer: B", "The answer is B.", '{"answer": "B"}')),
    *((text, 1) for text in ("Option B", "<think>A or C?</think>B", "B\n", "B. Vice presidential debate", "`B`")),
    *(
        (text, 1)
        for text in ("B: vice presidential debate.", "(B) Vice Presidential Debate", "vice presidential debate")
    ),
    *((text, 1) for text in ("Answer: (B) vice presidential debate", "Final answer: B - vice presidential debate")),
    *((text, 2) for text in ("a town hall", "C. A town hall", "town hall", "C")),
    *((text, 3) for text in ("109000", "D. 109,000", "D")),
    *(
        (text, None)
        for text in ("", "A or B", "A\nB", "A good guess", "It is hard to say", "F", "B. A town hall", "C, D")
    ),
    *((text, None) for text in ("A. vice presidential debate", "not B", "I think it may be in the UK", "<think>B")),
    *((text, None) for text in ("Between A and B I choose neither", "AB", "BB", "ABCDE", "A, because B is wrong. B")),
]


@pytest.mark.parametrize(("reply", "chosen"), READ)
def test_choices_are_read_strictly(reply: str, chosen: int | None) -> None:
    assert read_choice(reply, OPTIONS) == chosen


def test_choice_grades() -> None:
    def of(prediction: str) -> Grade | None:
        return grade(ChoiceGrader(), prediction, OPTIONS[1], options=OPTIONS).grade

    assert (of("B"), of("C"), of("no idea"), of("vice presidential debate")) == (
        Grade.CORRECT, Grade.INCORRECT, Grade.NOT_ATTEMPTED, Grade.CORRECT,
    )  # fmt: skip
    with pytest.raises(InputError, match="gold answer among the options"):
        grade(ChoiceGrader(), "B", "elsewhere", options=OPTIONS)
    with pytest.raises(ValueError, match="2 to 26 options, found 1"):
        read_choice("A", ("one",))


@given(st.text(max_size=60), st.integers(2, 26))
def test_any_reply_is_read_without_an_error(reply: str, options: int) -> None:
    chosen = read_choice(reply, [f"option text {number}" for number in range(options)])
    assert chosen is None or 0 <= chosen < options
