"""What a judge may say about an answer, and the strict reading of a judge's reply."""

from enum import StrEnum


class Verdict(StrEnum):
    """CORRECT, WRONG and CANNOT_ANSWER decide; UNPARSED decides nothing (try again, then drop and count)."""

    CORRECT = "CORRECT"
    WRONG = "WRONG"
    CANNOT_ANSWER = "CANNOT_ANSWER"
    UNPARSED = "UNPARSED"


_DECIDING = {verdict.value: verdict for verdict in Verdict if verdict is not Verdict.UNPARSED}


def parse_verdict(reply: str) -> Verdict:
    """The verdict that ``reply`` consists of, white space around it aside; UNPARSED for any other text.

    Nothing is searched for inside a sentence, so ``INCORRECT`` or ``the answer is not correct`` can't pass as CORRECT.
    """
    return _DECIDING.get(reply.strip(), Verdict.UNPARSED)
