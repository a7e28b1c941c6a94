"""The two-step judge on a real model: what does this tile alone answer, and is that the known answer?

Step one sees the picture and the question, never the known answer; step two sees question, known answer and what step
one said, never the picture (PixelRAG, arXiv 2606.28344, whose judge doesn't see the stored answer; this one does).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.llm import Client, ImagePart, Request, Unusable
from tilewright.data_gen.prompts import Prompt, check_prompt, load_prompt
from tilewright.data_gen.records import Tile
from tilewright.data_gen.replies import CANNOT_ANSWER, parse_answer
from tilewright.data_gen.verdicts import Verdict, parse_judge

STAND_IN = "an answer of some words"  # in a dry run, so that the second step is counted too


@dataclass(frozen=True)
class JudgePrompts:
    """Shipped templates of the two steps. ``exact_match_first``: an answer equal to the known one needs no judge."""

    answer: str = "answer.v1"
    judge: str = "judge.v1"
    exact_match_first: bool = True

    def __post_init__(self) -> None:
        check_prompt("answer", self.answer, "answer")
        check_prompt("judge", self.judge, "judge")


@dataclass(frozen=True)
class Look:
    """What came of one tile. ``answer``: what step one read, None if it gave none. ``by``: the step that decided."""

    verdict: Verdict
    answer: str | None
    by: str


class LlmJudge:
    """Judges tiles with a model; ``name`` is prompts and their versions, for manifests."""

    def __init__(self, settings: JudgePrompts) -> None:
        self._settings = settings
        self._answer, self._judge = load_prompt(settings.answer), load_prompt(settings.judge)

    @property
    def name(self) -> str:
        """Names and digests of the two prompts."""
        return f"{self._answer.identity}+{self._judge.identity}"

    async def look(self, client: Client, query: str, answers: Sequence[str], tile: Tile) -> Look:
        """Whether ``tile`` (with its image) alone yields one of ``answers``; raises what ``client.complete`` raises.

        UNPARSED decides nothing: no attempt gave a reply that can be read.
        """
        asking = _request(self._answer, "answer", ImagePart(tile.image), query=query)
        read = await client.complete(asking, parse_answer, stand_in=STAND_IN)
        if isinstance(read, Unusable):
            return Look(Verdict.UNPARSED, None, f"answer: {read.reason}")
        if read.value == CANNOT_ANSWER:
            return Look(Verdict.CANNOT_ANSWER, None, "answer")
        if self._settings.exact_match_first and exact_match(read.value, answers):
            return Look(Verdict.CORRECT, read.value, "exact match")
        judged = await client.complete(self._judging(query, answers, read.value), _decided)
        if isinstance(judged, Unusable):
            return Look(Verdict.UNPARSED, read.value, f"judge: {judged.reason}")
        return Look(judged.value, read.value, "judge")

    def _judging(self, query: str, answers: Sequence[str], given: str) -> Request:
        known, aliases = answers[0], "; ".join(answers[1:]) or "none"
        return _request(self._judge, "judge", None, query=query, answer=known, aliases=aliases, given=given)


def _decided(reply: str) -> Verdict | None:
    verdict = parse_judge(reply)
    return None if verdict is Verdict.UNPARSED else verdict


def _request(prompt: Prompt, purpose: str, image: ImagePart | None, **values: str) -> Request:
    text = prompt.fill(**values)
    return Request(purpose, (text,) if image is None else (image, text), schema=prompt.schema, schema_name=purpose)
