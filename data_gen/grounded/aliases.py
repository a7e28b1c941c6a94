"""Other forms of an answer that mean the same."""

import re
from collections.abc import Iterator

from tilewright.data_gen.grounded.asked import Asked
from tilewright.data_gen.grounded.lexicon import NUMBER_WORDS
from tilewright.data_gen.grounded.terms import terms
from tilewright.data_gen.grounded.values import without_brackets

_WORDS_OF_DIGITS = {digits: word for word, digits in NUMBER_WORDS.items()}
_DAY_FIRST = re.compile(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})")
_MONTH_FIRST = re.compile(r"([A-Z][a-z]+) (\d{1,2}), (\d{4})")


def aliases(fact: Asked, subject: str) -> Iterator[str]:
    """Aliases of the answer: digits and words of small counts, both orders of a date, ``%`` and *percent*, a century
    without the word, a person's full name for the family name that the page uses, a cell without its brackets."""
    answer = fact.answer
    if fact.kind == "count":
        yield from (form for form in (_WORDS_OF_DIGITS.get(answer), NUMBER_WORDS.get(answer.casefold())) if form)
    if fact.kind == "percentage":
        digits = answer.removesuffix("%").removesuffix("percent").removesuffix("per cent").strip()
        yield from (form for form in (f"{digits}%", f"{digits} percent") if form != answer)
    if fact.kind == "century":
        yield answer.split()[0]
    if date := _DAY_FIRST.fullmatch(answer):
        yield f"{date.group(2)} {date.group(1)}, {date.group(3)}"
    if date := _MONTH_FIRST.fullmatch(answer):
        yield f"{date.group(2)} {date.group(1)} {date.group(3)}"
    if fact.kind == "subject" and terms(answer) != terms(subject) and terms(answer) == terms(subject)[-1:]:
        yield subject
    if without_brackets(answer) not in ("", answer):
        yield without_brackets(answer)
