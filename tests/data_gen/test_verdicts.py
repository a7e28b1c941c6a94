"""Only the exact words are verdicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.verdicts import Verdict, parse_verdict

REPLIES = {
    "CORRECT": Verdict.CORRECT,
    " CORRECT\n": Verdict.CORRECT,
    "WRONG": Verdict.WRONG,
    "CANNOT_ANSWER": Verdict.CANNOT_ANSWER,
    "INCORRECT": Verdict.UNPARSED,
    "NOT CORRECT": Verdict.UNPARSED,
    "the answer is not correct": Verdict.UNPARSED,
    "The answer is CORRECT": Verdict.UNPARSED,
    "CORRECT or WRONG": Verdict.UNPARSED,
    "CORRECT, I think": Verdict.UNPARSED,
    "correct": Verdict.UNPARSED,
    "NOT_ATTEMPTED": Verdict.UNPARSED,
    "CANNOT ANSWER": Verdict.UNPARSED,
    "Answer: B": Verdict.UNPARSED,
    "A": Verdict.UNPARSED,
    "UNPARSED": Verdict.UNPARSED,
    "": Verdict.UNPARSED,
    "**CORRECT**": Verdict.UNPARSED,
    "ERROR 503": Verdict.UNPARSED,
}


@pytest.mark.parametrize(("reply", "verdict"), REPLIES.items())
def test_table_of_replies(reply: str, verdict: Verdict) -> None:
    assert parse_verdict(reply) is verdict


@given(st.text())
def test_any_other_text_decides_nothing(reply: str) -> None:
    if reply.strip() not in ("CORRECT", "WRONG", "CANNOT_ANSWER"):
        assert parse_verdict(reply) is Verdict.UNPARSED


@given(st.sampled_from(["CORRECT", "WRONG", "CANNOT_ANSWER"]), st.text(alphabet="abcINX .!", min_size=1))
def test_words_around_a_verdict_spoil_it(word: str, more: str) -> None:
    if more.strip():
        assert parse_verdict(more + word) is parse_verdict(word + more) is Verdict.UNPARSED
