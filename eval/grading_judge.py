"""A language model as grader: question, gold answer, aliases and prediction in, one of three grades out."""

from dataclasses import dataclass
from functools import cached_property

from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.llm import Client, Request, Unusable
from tilewright.data_gen.prompts import Prompt, check_prompt, load_prompt
from tilewright.eval.graders import Graded, ToGrade, decided
from tilewright.eval.grading import Grade, parse_grade

JUDGE, EXACT = "judge", "exact match"


@dataclass(frozen=True)
class JudgeGrader:
    """Asks with the shipped template ``prompt``. It sees at most ``max_aliases`` aliases, in their order.

    ``exact_match_first``: a prediction that equals an answer or alias is CORRECT without asking. A reply that can't be
    read is asked for again, as often as the model's settings say, then UNPARSED: it is never a grade.
    """

    prompt: str = "grade.v1"
    max_aliases: int = 10
    exact_match_first: bool = True
    asks_model: bool = True

    def __post_init__(self) -> None:
        check_prompt("prompt", self.prompt, "grade")
        if self.max_aliases < 0:
            raise ValueError(f"max_aliases: wanted at least 0, found {self.max_aliases}")

    @property
    def name(self) -> str:
        """Name, version and digest of the prompt."""
        return self._template.identity

    async def grade(self, client: Client | None, item: ToGrade) -> Graded:
        """Raises CallError (an ItemError) if the call failed for good."""
        if client is None:
            raise ValueError("wanted a client: this grader asks a model")
        given = item.prediction or ""
        if self.exact_match_first and exact_match(given, item.answers):
            return decided(Grade.CORRECT, EXACT)
        found = await client.complete(self._request(item, given), _decided)
        if isinstance(found, Unusable):
            return decided(Grade.UNPARSED, f"{JUDGE}: {found.reason}")
        return decided(found.value, JUDGE)

    def _request(self, item: ToGrade, given: str) -> Request:
        answer, *aliases = item.answers
        lines = "\n".join(" ".join(alias.split()) for alias in aliases[: self.max_aliases]) or "none"
        text = self._template.fill(query=item.query, answer=answer, aliases=lines, prediction=given)
        return Request("grade", (text,), schema=self._template.schema, schema_name="grade")

    @cached_property
    def _template(self) -> Prompt:
        return load_prompt(self.prompt)


def _decided(reply: str) -> Grade | None:
    grade = parse_grade(reply)
    return None if grade is Grade.UNPARSED else grade
