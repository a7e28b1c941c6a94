"""Questions from a real model about passages of text, for the text warm-up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import digest_text
from tilewright.data_gen.annotator import Skip
from tilewright.data_gen.generation import check_language
from tilewright.data_gen.llm import Answered, Client, LlmSettings, Request, Session, Unusable
from tilewright.data_gen.passages import Passage
from tilewright.data_gen.prompts import check_prompt, load_prompt
from tilewright.data_gen.replies import GeneratedText, parse_text_pairs

SPAN_NOT_IN_PASSAGE = "span_not_in_passage"


@dataclass(frozen=True)
class QuestionSettings:
    """At most ``per_passage`` questions in ``language`` by a shipped ``prompt``."""

    per_passage: int = 1
    language: str = "English"
    prompt: str = "text_pairs.v1"

    def __post_init__(self) -> None:
        check_bounds(self, 1, 20, "per_passage")
        check_prompt("prompt", self.prompt, "text_pairs")
        check_language(self.language)


@dataclass(frozen=True)
class Asked:
    """What a model made of a passage: its questions, and {why: how many} of those left out."""

    queries: tuple[str, ...]
    dropped: Mapping[str, int]


def passage_key(passage: Passage) -> str:
    """A passage in the journal: by page and text."""
    return digest_text(f"{passage.page_id}\n{passage.text}")[:32]


def ask_about(
    passages: Sequence[Passage], settings: QuestionSettings, llm: LlmSettings, out: Path, max_error_share: float
) -> dict[str, Asked]:
    """{passage_key: what the model made of it}; a passage whose call failed isn't in it. Resumes passage by passage."""
    prompt = load_prompt(settings.prompt)

    async def work(client: Client, passage: Passage) -> dict[str, Any]:
        values = {"title": passage.title, "passage": passage.text, "language": settings.language}
        text = prompt.fill(max_pairs=str(settings.per_passage), **values)

        def parse(reply: str) -> GeneratedText | Skip | None:
            return parse_text_pairs(reply, settings.per_passage)

        request = Request("text_pairs", (text,), schema=prompt.schema, schema_name="text_pairs")
        found: Answered[GeneratedText | Skip] | Unusable = await client.complete(request, parse)
        if isinstance(found, Unusable):
            return {"queries": [], "dropped": {f"reply_{found.reason}": 1}}
        if isinstance(found.value, Skip):
            return {"queries": [], "dropped": {f"skipped_{found.value.reason}": 1}}
        shown = _squeezed(passage.text)
        queries = [pair.query for pair in found.value.pairs if _squeezed(pair.source_span) in shown]
        strangers = len(found.value.pairs) - len(queries)
        return {"queries": queries, "dropped": {**found.value.dropped, SPAN_NOT_IN_PASSAGE: strangers}}

    with Session(llm, out) as session:
        found = session.process(
            "text_pairs",
            list({passage_key(passage): passage for passage in passages}.values()),
            passage_key,
            work,
            max_error_share,
        )
    return {key: Asked(tuple(value["queries"]), value["dropped"]) for key, value in found.items()}


def _squeezed(text: str) -> str:
    return "".join(text.split()).casefold()
