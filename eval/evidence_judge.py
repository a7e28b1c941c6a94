"""Who says whether a hit is valid evidence: a model in two steps, or rules; the hits of all rows are judged together.

Valid evidence (Tessera's and PixelRAG's Evidence Recall@k): an answerer that is given the item alone answers, and a
judge that knows the answer accepts what it says. A question's hits are walked down to the first that is evidence.
"""

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.requests import request_of
from tilewright.configs.stage import StageError
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.llm import Client, LlmSettings, Session
from tilewright.data_gen.llm_judge import JudgePrompts, LlmJudge
from tilewright.data_gen.prompts import check_prompt
from tilewright.data_gen.records import Tile
from tilewright.data_gen.tile_store import EVIDENCE_KINDS
from tilewright.data_gen.verdicts import Verdict
from tilewright.eval.judged_hits import JudgedHits
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Item, Modality, Question, Retriever
from tilewright.eval.questions import subset
from tilewright.eval.readers.chat import png_of
from tilewright.eval.workshop import Workshop

RULES_JUDGE = (
    f"Evidence recall is judged by {GroundedJudge.name}: rules over an item's text, no model. An answer must stand with"
    " the question's key terms in one sentence, row or infobox pair."
)
Verdicts = Mapping[str, Verdict]  # {key of ToJudge: verdict}; without a key where the call failed
Found = tuple[Retriever, RowResult]


@dataclass(frozen=True)
class GroundedEvidence:
    """The offline stand-in: answer and key terms of the question in one sentence, row or infobox pair of the item."""

    kind: Literal["grounded"]
    depth: int = 10
    questions: int | None = None

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "depth", "questions")

    @property
    def name(self) -> str:
        """Name and version of the rules."""
        return GroundedJudge.name


@dataclass(frozen=True)
class ModelEvidence:
    """A model behind ``llm``, by shipped prompts: ``answer`` to a picture, ``answer_text`` to a text, then ``judge``.

    ``depth``: hits judged at most; ``questions``: of how many, chosen by digest of their ids (None: all).
    """

    kind: Literal["openai"]
    llm: LlmSettings
    depth: int = 10
    questions: int | None = None
    answer: str = "answer.v1"
    answer_text: str = "answer_text.v1"
    judge: str = "judge.v1"

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "depth", "questions")
        check_prompt("answer", self.answer, "answer")
        check_prompt("answer_text", self.answer_text, "answer_text")
        check_prompt("judge", self.judge, "judge")

    @property
    def name(self) -> str:
        """The model and its prompts."""
        return ", ".join((self.llm.model, *(judge.name for judge in self.judges().values())))

    def judges(self) -> dict[Modality, LlmJudge]:
        """By what is judged."""
        return {
            "picture": LlmJudge(JudgePrompts(self.answer, self.judge)),
            "text": LlmJudge(JudgePrompts(self.answer_text, self.judge)),
        }


EvidenceJudge = GroundedEvidence | ModelEvidence


@dataclass(frozen=True)
class ToJudge:
    """One hit of a question."""

    question: Question
    item: Item

    @functools.cached_property
    def key(self) -> str:
        """Names it by all that a judge sees: equal hits of a question are judged once for all rows."""
        title = "" if self.item.picture is not None else self.item.title
        seen = [self.question.asked_digest, list(self.question.answers), title, self.item.digest]
        return digest_text(canonical_json(seen))

    @property
    def query(self) -> str:
        """The question with its options."""
        return "\n".join((self.question.query, *self.question.options))


@dataclass
class _Walk:
    """A question under a row on its way down the hits."""

    row: str
    question: Question
    retriever: Retriever
    hits: Sequence[tuple[str, float]]
    held: list[bool | None] = field(default_factory=list)

    @property
    def next(self) -> ToJudge | None:
        """The hit to judge now; None at the end."""
        if len(self.held) == len(self.hits) or True in self.held:
            return None
        return ToJudge(self.question, self.retriever.item(self.hits[len(self.held)][0]))


def judged_hits(options: EvidenceJudge, workshop: Workshop, rows: Mapping[str, Found]) -> dict[str, JudgedHits]:
    """{row: what the judge says of its hits}, of the rows that search something.

    A model's verdicts are kept in the run's cache; a failed call is no verdict, for any row, and is tried again by the
    next run.
    Raises StageError if a model gives no verdict on anything, and for what stops a session (budget, key, no server).
    """
    walks = _walks(options, workshop, rows)
    outcomes: dict[str, Verdict] = {}
    asked: set[str] = set()
    with _judging(options, workshop) as ask:
        for _ in range(options.depth):
            steps = [(walk, one) for walk in walks if (one := walk.next) is not None]
            todo = {one.key: one for _, one in steps if one.key not in asked}
            outcomes |= ask(list(todo.values()))
            asked |= todo.keys()
            if todo and not outcomes:
                raise StageError(
                    f"evidence_judge: {options.name}: no verdict on any of {len(todo)} hits. Start the server again,"
                    " then run the same command again"
                )
            for walk, one in steps:
                walk.held.append(_held(outcomes.get(one.key)))
    return {name: _of_row(name, options, walks, outcomes) for name in dict.fromkeys(walk.row for walk in walks)}


def judged_questions(options: EvidenceJudge, workshop: Workshop) -> list[Question]:
    """Those whose hits are judged: of those that have an answer, as many as the options say."""
    answered = [one for one in workshop.questions if any(answer.strip() for answer in one.answers)]
    return subset(answered, options.questions or len(answered), 0, "evidence judge")


def hits_to_judge(options: EvidenceJudge, workshop: Workshop, rows: Mapping[str, Found]) -> list[ToJudge]:
    """Every hit down to the depth, each once: at most so many are judged."""
    walks = _walks(options, workshop, rows)
    found = (ToJudge(walk.question, walk.retriever.item(item)) for walk in walks for item, _ in walk.hits)
    return list({one.key: one for one in found}.values())


def _walks(options: EvidenceJudge, workshop: Workshop, rows: Mapping[str, Found]) -> list[_Walk]:
    return [
        _Walk(name, question, retriever, result.hits[question.query_id][: options.depth])
        for name, (retriever, result) in rows.items()
        if not retriever.closed_book
        for question in judged_questions(options, workshop)
        if question.query_id in result.hits
    ]


def _held(verdict: Verdict | None) -> bool | None:
    return None if verdict in (None, Verdict.UNPARSED) else verdict is Verdict.CORRECT


def _of_row(name: str, options: EvidenceJudge, walks: Sequence[_Walk], outcomes: Verdicts) -> JudgedHits:
    mine = [walk for walk in walks if walk.row == name]
    missing = [
        ToJudge(walk.question, walk.retriever.item(item)).key
        for walk in mine
        for (item, _), held in zip(walk.hits, walk.held, strict=False)
        if held is None
    ]
    unparsed = sum(key in outcomes for key in missing)
    held = {walk.question.query_id: tuple(walk.held) for walk in mine}
    return JudgedHits(options.name, options.depth, held, len(missing) - unparsed, unparsed)


@contextmanager
def _judging(options: EvidenceJudge, workshop: Workshop) -> Iterator[Callable[[Sequence[ToJudge]], Verdicts]]:
    """What gives the verdicts on distinct hits."""
    if isinstance(options, GroundedEvidence):
        yield _by_rules(workshop)
        return
    identity = request_of("evidence judge", 1, options.llm)["config"]
    part = workshop.cache.part("evidence", options.name, identity)
    with Session(options.llm, part) as session:
        yield functools.partial(ask_model, options, session)


def ask_model(options: ModelEvidence, session: Session, todo: Sequence[ToJudge]) -> Verdicts:
    """Verdicts of ``todo``, each kept in the session's folder. Raises DryRunError in a dry run."""
    judges = options.judges()

    async def work(client: Client, one: ToJudge) -> Any:
        tile = await asyncio.to_thread(_shown, one)
        look = await judges[one.item.modality].look(client, one.query, one.question.answers, tile)
        return look.verdict.value

    found = session.process("judge evidence", todo, lambda one: one.key, work, max_error_share=1.0)
    return {key: Verdict(value) for key, value in found.items()}


def _shown(one: ToJudge) -> Tile:
    """What a reader would be given of the item. Raises ItemError for a picture that can't be decoded."""
    if one.question.picture:
        raise ItemError("a question about a picture of its own isn't judged: the judge is shown the item alone")
    if one.item.picture is None:
        return _as_tile(one.item, f"{one.item.title}\n{one.item.text}")
    try:
        return _as_tile(one.item, image=png_of(one.item.picture.shown()))
    except InputError as error:
        raise ItemError(f"{one.item.item_id}: {error}") from error


def _by_rules(workshop: Workshop) -> Callable[[Sequence[ToJudge]], Verdicts]:
    judge, light = GroundedJudge(), functools.cache(workshop.store.light)

    def ask(todo: Sequence[ToJudge]) -> Verdicts:
        tiles = (light(one.item.item_id) if one.item.source == "tile" else _as_tile(one.item) for one in todo)
        return {
            one.key: judge.judge(one.query, one.question.answers, tile) for one, tile in zip(todo, tiles, strict=True)
        }

    return ask


def _as_tile(item: Item, text: str = "", image: bytes = b"") -> Tile:
    """The item in the form that judges take."""
    evidence = dict.fromkeys(EVIDENCE_KINDS, 0)
    text = text or item.text
    return Tile(item.item_id, item.page_id, "", item.title, 0, 0, 0, 0, 0, 0, image, item.digest, text, evidence)


def dry(options: EvidenceJudge) -> EvidenceJudge:
    """The same, asking no model."""
    return (
        options if isinstance(options, GroundedEvidence) else replace(options, llm=replace(options.llm, dry_run=True))
    )
