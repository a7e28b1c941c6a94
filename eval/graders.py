"""Graders: parts that say what a predicted answer is worth against the gold answers, each under a name of its own.

Strict exact match is about 20 points below a judge's accuracy on NQ (PixelRAG, arXiv 2606.28344): the two never share
a column.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.configs.errors import InputError
from tilewright.data_gen.answers import exact_match, normalize_answer
from tilewright.data_gen.llm import Client
from tilewright.eval.grading import Grade
from tilewright.eval.grading_choice import read_choice
from tilewright.train.reader_prompt import CANNOT_ANSWER


@dataclass(frozen=True)
class ToGrade:
    """A reader's answer to one question. ``key`` is unique among those graded together.

    ``answers``: the gold answer, then its aliases. ``answer_parts``: where the answer is a list, each item with its
    spellings, all wanted. ``options``: of a multiple choice, without letters. ``prediction`` is None where the reader
    failed, as ``error`` says.
    """

    key: str
    query: str
    answers: tuple[str, ...]
    prediction: str | None
    error: str | None = None
    options: tuple[str, ...] = ()
    answer_parts: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Graded:
    """What a grader made of an answer; ``by``: what decided.

    Either ``score`` from 0 to 1, with a ``grade`` where the grader decides, or none and UNPARSED (the grader's reply
    can't be read), or none and ``error`` (the reader or the grader failed). Only a score counts.
    """

    score: float | None
    grade: Grade | None
    by: str
    error: str | None = None


class Grader(Protocol):
    """``name``: column and manifest; for a model's grader it names the prompt's version."""

    @property
    def name(self) -> str: ...

    @property
    def asks_model(self) -> bool:
        """Whether ``grade`` wants a client."""
        ...

    async def grade(self, client: Client | None, item: ToGrade) -> Graded:
        """Grade a prediction that isn't empty. Raises what ``client.complete`` raises."""
        ...


def decided(grade: Grade, by: str) -> Graded:
    """The outcome of a grader that decides: 1 for CORRECT, 0 for the other two, no score for UNPARSED."""
    return Graded(None if grade is Grade.UNPARSED else float(grade is Grade.CORRECT), grade, by)


def gives_up(prediction: str) -> bool:
    """Whether a prediction is the phrase by which our readers say that they were shown no answer."""
    return exact_match(prediction, CANNOT_ANSWER)


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """SQuAD's F1 over tokens of the normalised texts, the best over ``answers`` (Rajpurkar et al. 2016).

    0 if nothing but punctuation is left of both.
    """
    return max(
        (_f1(normalize_answer(prediction).split(), normalize_answer(answer).split()) for answer in answers), default=0.0
    )


def _f1(found: Sequence[str], wanted: Sequence[str]) -> float:
    common = (Counter(found) & Counter(wanted)).total()
    return 2 * common / (len(found) + len(wanted)) if common else 0.0


def parts_found(prediction: str, parts: Sequence[Sequence[str]]) -> float:
    """Share of the parts of which some spelling stands in the prediction, as whole words, after normalisation.

    ASQA's STR-EM (Stelmakh et al. 2022), on whole words. Raises ValueError without parts.
    """
    if not parts:
        raise ValueError("wanted at least one part of the answer, found none")
    text = f" {normalize_answer(prediction)} "
    spellings = [[normalize_answer(spelling) for spelling in part] for part in parts]
    return sum(any(one and f" {one} " in text for one in part) for part in spellings) / len(parts)


@dataclass(frozen=True)
class ExactGrader:
    """CORRECT if the prediction equals the gold answer, or, with ``aliases``, one of its aliases; normalised."""

    aliases: bool = True
    asks_model: bool = False

    @property
    def name(self) -> str:
        """``alias`` or ``exact``."""
        return "alias" if self.aliases else "exact"

    async def grade(self, client: Client | None, item: ToGrade) -> Graded:
        """Never UNPARSED; NOT_ATTEMPTED for a reader that says it can't answer."""
        given = item.prediction or ""
        if exact_match(given, item.answers if self.aliases else item.answers[:1]):
            return decided(Grade.CORRECT, self.name)
        return decided(Grade.NOT_ATTEMPTED if gives_up(given) else Grade.INCORRECT, self.name)


@dataclass(frozen=True)
class TokenF1Grader:
    """A score alone: ``token_f1``."""

    name: str = "token_f1"
    asks_model: bool = False

    async def grade(self, client: Client | None, item: ToGrade) -> Graded:
        """The best F1 over the answers."""
        return Graded(token_f1(item.prediction or "", item.answers), None, self.name)


@dataclass(frozen=True)
class PartsGrader:
    """A score alone: ``parts_found`` of an answer that is a list, else of the answer and its aliases as one part."""

    name: str = "answer_parts"
    asks_model: bool = False

    async def grade(self, client: Client | None, item: ToGrade) -> Graded:
        """The share of the parts that are there."""
        return Graded(parts_found(item.prediction or "", item.answer_parts or (item.answers,)), None, self.name)


@dataclass(frozen=True)
class ChoiceGrader:
    """Multiple choice: CORRECT if the prediction names the right option, by letter or text, and no other.

    NOT_ATTEMPTED if it names no single option: it was asked for one, so it isn't correct.
    """

    name: str = "choice"
    asks_model: bool = False

    async def grade(self, client: Client | None, item: ToGrade) -> Graded:
        """Raises InputError for a question whose gold answer isn't one of its options."""
        if not item.answers or item.answers[0] not in item.options:
            raise InputError(f"{item.key}: wanted a gold answer among the options {list(item.options)}")
        chosen = read_choice(item.prediction or "", item.options)
        if chosen is None:
            return decided(Grade.NOT_ATTEMPTED, self.name)
        right = item.options[chosen] == item.answers[0]
        return decided(Grade.CORRECT if right else Grade.INCORRECT, self.name)
