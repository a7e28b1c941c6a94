"""What a judge may say about an answer, and the strict reading of a judge's reply."""

from enum import StrEnum

from tilewright.data_gen.reply_choice import ChoiceReader, Choices, Label, word
from tilewright.data_gen.reply_claims import Polarity
from tilewright.data_gen.self_contained_reply import parse_self_contained

__all__ = ["Verdict", "parse_judge", "parse_self_contained"]


class Verdict(StrEnum):
    """CORRECT, WRONG and CANNOT_ANSWER decide; UNPARSED decides nothing (try again, then drop and count)."""

    CORRECT = "CORRECT"
    WRONG = "WRONG"
    CANNOT_ANSWER = "CANNOT_ANSWER"
    UNPARSED = "UNPARSED"


_CANNOT_ANSWER = rf"(?:{word('CAN NOT ANSWER')}|CAN'T ANSWER)"
_READER = ChoiceReader(
    Choices(
        labels=(
            Label("CORRECT", Verdict.CORRECT, capitals="CORRECT"),
            Label("WRONG", Verdict.WRONG, capitals="WRONG"),
            Label(_CANNOT_ANSWER, Verdict.CANNOT_ANSWER, capitals=_CANNOT_ANSWER),
        ),
        polarity={
            Verdict.CORRECT: Polarity.RIGHT,
            Verdict.WRONG: Polarity.WRONG,
            Verdict.CANNOT_ANSWER: Polarity.NONE,
        },
    )
)


def parse_judge(reply: str) -> Verdict:
    """The verdict a judge's ``reply`` decides for; UNPARSED if it is none of the three, two of them, or in doubt.

    Case, markdown, punctuation, ``<think>`` blocks, JSON around it (``{"verdict": "WRONG", "reason": ...}``), a leading
    ``Verdict:`` and an explanation on its own are fine. Nothing is searched for inside a sentence: ``INCORRECT``,
    ``not correct``, ``the answer is CORRECT``, ``CORRECT or WRONG`` decide nothing. Never raises.
    """
    return _READER.read(reply) or Verdict.UNPARSED
