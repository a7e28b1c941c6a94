"""Grades of a predicted answer against gold answers, and the strict reading of a grader's reply."""

from enum import StrEnum

from tilewright.data_gen.reply_choice import ChoiceReader, Choices, Label, word
from tilewright.data_gen.reply_claims import Polarity


class Grade(StrEnum):
    """SimpleQA's three grades (Wei et al. 2024); ``unparsed`` is none of them: ask again, then count apart."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    NOT_ATTEMPTED = "not_attempted"
    UNPARSED = "unparsed"


_WORDS = {
    Grade.CORRECT: ("A", "CORRECT"),
    Grade.INCORRECT: ("B", "INCORRECT"),
    Grade.NOT_ATTEMPTED: ("C", word("NOT ATTEMPTED")),
}


def _labels(grade: Grade) -> tuple[Label[Grade], ...]:
    """``A: CORRECT``, ``CORRECT (A)``, ``CORRECT``, ``A``. A letter alone takes no explanation on its line."""
    letter, name = _WORDS[grade]
    both = rf"\(?{letter}\)?\s?(?:[:.)=-]{{1,2}}|\s)\s?\(?{name}\)?|{letter}\s?\({name}\)"
    both += rf"|{name}\s?(?:\({letter}\)|[:=-]\s?{letter})"
    return (
        Label(rf"(?:{both})(?![\w-])", grade),
        Label(name, grade, capitals=name),
        Label(rf"\(?{letter}\)?", grade, explains=False),
    )


_READER = ChoiceReader(
    Choices(
        labels=tuple(label for grade in _WORDS for label in _labels(grade)),
        polarity={
            Grade.CORRECT: Polarity.RIGHT,
            Grade.INCORRECT: Polarity.WRONG,
            Grade.NOT_ATTEMPTED: Polarity.NONE,
        },
    )
)


def parse_grade(reply: str) -> Grade:
    """The grade a grader's ``reply`` decides for: A, B, C or CORRECT, INCORRECT, NOT_ATTEMPTED, or both if they agree.

    Wrapped as ``parse_judge`` allows it. ``unparsed`` for all else: ``A: INCORRECT``, ``A or B``, and sentences
    (``A correct answer``). ``NOT_ATTEMPTED`` isn't read as A, nor ``Answer: B`` as anything but incorrect. Never
    raises.
    """
    return _READER.read(reply) or Grade.UNPARSED
