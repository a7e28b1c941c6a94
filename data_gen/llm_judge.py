"""The two-step judge on a real model: what does this tile alone answer, and is that the known answer?

Step one sees the picture (or, for a model that can't see, the text) and the question, never the known answer; step two
sees question, known answer and what step one said, never the tile (PixelRAG, arXiv 2606.28344, whose judge doesn't see
the stored answer; this one does).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.llm import Client, Request, Unusable
from tilewright.data_gen.prompts import check_prompt, load_prompt
from tilewright.data_gen.records import Tile
from tilewright.data_gen.replies import CANNOT_ANSWER, parse_answer
from tilewright.data_gen.tile_request import check_prompt_of_tile, is_for_texts, tile_request
from tilewright.data_gen.verdicts import Verdict, parse_judge

STAND_IN = "an answer of some words"  # in a dry run, so that the second step is counted too


@dataclass(frozen=True)
class JudgePrompts:
    """Shipped templates of the two steps.

    ``answer``: answer.v1 with a tile's picture, or answer_text.v1 with its DOM text. ``exact_match_first``: an
    answer equal to the known one needs no judge.
    """

    answer: str = "answer.v1"
    judge: str = "judge.v1"
    exact_match_first: bool = True

    def __post_init__(self) -> None:
        check_prompt_of_tile("answer", self.answer, "answer")
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

    @property
    def sees_pictures(self) -> bool:
        """Whether step one is sent pictures."""
        return not is_for_texts(self._settings.answer)

    async def look(self, client: Client, query: str, answers: Sequence[str], tile: Tile) -> Look:
        """Whether ``tile`` alone yields one of ``answers``; raises what ``client.complete`` raises.

        ``tile`` has its image if ``sees_pictures``.
        UNPARSED decides nothing: no attempt gave a reply that can be read.
        """
        asking = tile_request(self._answer, "answer", tile, query=query)
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
        text = self._judge.fill(query=query, answer=known, aliases=aliases, given=given)
        return Request("judge", (text,), schema=self._judge.schema, schema_name="judge")


def _decided(reply: str) -> Verdict | None:
    verdict = parse_judge(reply)
    return None if verdict is Verdict.UNPARSED else verdict
